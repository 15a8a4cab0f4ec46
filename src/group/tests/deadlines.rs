//! A decision says when to look again: a driver that sleeps until then misses nothing.

use std::time::Duration;

use super::scene::Scene;
use crate::group::Standing;

/// Waits until this holds: in the step in which it comes about, the deadline that this coordinator
/// named before must have come.
fn comes_at_its_deadline(t: &mut Scene, name: &str, holds: impl Fn(&Scene) -> bool) {
    assert!(!holds(t), "it has come about already");
    for _ in 0..1200 {
        let deadline = t.decision(name).next_deadline;
        t.step();
        if holds(t) {
            let deadline = deadline.expect("nobody would have looked");
            assert!(
                deadline <= t.now,
                "looked for at {deadline:?}, came {:?}",
                t.now
            );
            return;
        }
    }
    panic!("it does not come about: {:#?}", t.document());
}

#[test]
fn a_candidate_looks_again_when_the_holder_has_been_silent_for_its_time() {
    // P35
    let mut t = Scene::with_partitions(2);
    t.coordinator("c2", 0);
    t.passes(Duration::from_secs(5));
    t.crashes("c1");
    comes_at_its_deadline(&mut t, "c2", |t| t.holder() == Some("c2"));
}

#[test]
fn a_coordinator_looks_again_when_a_member_has_been_silent_for_its_time() {
    // P45
    let mut t = Scene::with_partitions(2);
    t.joins("a");
    t.joins("b");
    t.everybody_lets_go();
    t.falls_silent("b");
    comes_at_its_deadline(&mut t, "c1", |t| t.standing("b").is_none());
}

#[test]
fn a_coordinator_looks_again_when_an_owner_had_its_time_to_let_go() {
    // P77
    let mut t = Scene::with_partitions(2);
    t.joins("a");
    t.joins("b");
    assert_eq!(t.owned_by("b"), [0; 0]);
    comes_at_its_deadline(&mut t, "c1", |t| t.owned_by("b").len() == 1);
}

#[test]
fn a_coordinator_looks_again_when_joiners_have_waited() {
    // P60 P61
    let mut t = Scene::with_partitions(2);
    t.starts("a");
    t.settle();
    comes_at_its_deadline(&mut t, "c1", |t| t.standing("a") == Some(Standing::Active));
    t.passes(Duration::from_secs(5));
    t.starts("b");
    t.settle();
    comes_at_its_deadline(&mut t, "c1", |t| t.standing("b") == Some(Standing::Active));
}

#[test]
fn a_coordinator_looks_again_when_balance_may_move_partitions() {
    // P62
    let mut t = Scene::with_partitions(3);
    t.joins("a");
    t.joins("b");
    t.everybody_lets_go();
    t.joins("c");
    assert_eq!(t.targeted_at("c"), [0; 0]);
    comes_at_its_deadline(&mut t, "c1", |t| t.targeted_at("c").len() == 1);
}

#[test]
fn a_coordinator_looks_again_when_what_was_refused_may_be_granted() {
    // P80
    let mut t = Scene::with_partitions(1);
    t.joins("a");
    t.releases_as("a", &[0], false);
    assert_eq!(t.owned_by("a"), [0; 0]);
    comes_at_its_deadline(&mut t, "c1", |t| t.owned_by("a") == [0]);
}

#[test]
fn a_coordinator_looks_again_when_a_member_has_stopped_flapping() {
    // P63
    let mut t = Scene::with_partitions(2);
    t.joins("a");
    for life in ["b1", "b2"] {
        t.starts_as(life, "b");
        t.until(|t| t.standing(life) == Some(Standing::Active));
        t.falls_silent(life);
        t.until(|t| t.standing(life).is_none());
    }
    t.starts_as("b3", "b");
    t.until(|t| t.standing("b3") == Some(Standing::Active));
    assert_eq!(t.targeted_at("b3"), [0; 0]);
    comes_at_its_deadline(&mut t, "c1", |t| t.targeted_at("b3").len() == 1);
}

#[test]
fn a_coordinator_looks_again_when_it_has_not_heard_itself_for_twice_its_time() {
    // P40
    let mut t = Scene::with_partitions(1);
    t.joins("a");
    t.leaves("a");
    t.passes(Duration::from_secs(1));
    let last_echo = t.now;
    let deadline = t.decision("c1").next_deadline;
    let cut_off = last_echo.after(Duration::from_secs(30));
    assert_eq!(
        deadline,
        Some(cut_off),
        "the group is empty: nothing else is due"
    );
    let c1 = &t.coordinators["c1"].seen;
    assert!(c1.is_cut_off(cut_off));
    let before = last_echo.after(Duration::from_millis(29_999));
    assert!(!c1.is_cut_off(before));
}
