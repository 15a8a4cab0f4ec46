//! Election and take-over.

use std::time::Duration;

use super::scene::{STEP, Scene, term, trouble};
use crate::group::decide::{Aspect, Slot, Trouble};
use crate::group::{GroupDocument, Standing, Term};

#[test]
fn a_group_without_a_document_has_its_coordinator_at_once() {
    // P35 P37
    let mut t = Scene::empty(3);
    t.coordinator("c1", 0);
    t.step();
    assert_eq!(t.holder(), Some("c1"));
    assert_eq!(term(&t), Term(1));
    let first = &t.history[0];
    assert_eq!(first.meta_generation, t.meta.generation);
    assert_eq!(first.reason, "the group begins");
}

#[test]
fn nothing_is_done_before_the_first_echo() {
    // P30
    let mut t = Scene::empty(3);
    t.coordinator("c1", 0);
    assert!(!t.turn("c1"));
    assert_eq!(t.group, Slot::Absent);
}

#[test]
fn a_live_holder_is_never_preempted() {
    // P35
    let mut t = Scene::with_partitions(3);
    t.coordinator("c2", 100);
    t.passes(Duration::from_secs(60));
    assert_eq!((t.holder(), term(&t)), (Some("c1"), Term(1)));
}

#[test]
fn a_silent_holder_is_succeeded_after_the_session_timeout() {
    // P35 P37
    let mut t = Scene::with_partitions(3);
    t.joins("a");
    t.coordinator("c2", 0);
    t.passes(Duration::from_secs(5));
    let before = t.document().clone();
    t.crashes("c1");
    let wait = t.time_until(|t| t.holder() == Some("c2"));
    assert!((14..=17).contains(&wait.as_secs()), "{wait:?}");
    // P37: otherwise unchanged. P41: and nothing is written after it.
    t.passes(Duration::from_secs(60));
    let expected = GroupDocument {
        term: Term(2),
        holder: t.document().holder.clone(),
        ..before
    };
    assert_eq!(*t.document(), expected);
}

#[test]
fn a_candidate_that_comes_later_waits_as_long_as_any_other() {
    // P35: not seen to rise is not the same as not there.
    let mut t = Scene::with_partitions(3);
    t.crashes("c1");
    t.coordinator("c2", 0);
    t.passes(Duration::from_secs(13));
    assert_eq!(t.holder(), Some("c1"));
    t.until(|t| t.holder() == Some("c2"));
}

#[test]
fn the_highest_candidate_tries() {
    // P36
    let mut t = Scene::with_partitions(3);
    t.coordinator("c3", 1);
    t.coordinator("c2", 1);
    t.coordinator("c4", 0);
    t.passes(Duration::from_secs(3));
    t.crashes("c1");
    t.passes(Duration::from_secs(20));
    assert_eq!(t.holder(), Some("c3"));
    assert_eq!(term(&t), Term(2));
}

#[test]
fn a_dead_candidate_is_not_waited_for() {
    // P36
    let mut t = Scene::with_partitions(3);
    t.coordinator("c9", 9);
    t.coordinator("c2", 0);
    t.passes(Duration::from_secs(3));
    t.crashes("c9");
    t.crashes("c1");
    t.until(|t| t.holder() == Some("c2"));
}

#[test]
fn who_steps_down_is_succeeded_at_once() {
    // P43
    let mut t = Scene::with_partitions(3);
    t.coordinator("c2", 0);
    t.passes(Duration::from_secs(3));
    t.steps_down("c1");
    t.step();
    assert_eq!(t.holder(), Some("c2"));
}

#[test]
fn another_managers_group_is_left_alone() {
    // P34
    let mut t = Scene::empty(3);
    t.meta.manager = "kubernetes/1234".to_owned();
    t.coordinator("c1", 0);
    t.passes(Duration::from_secs(60));
    assert_eq!(t.group, Slot::Absent);
    let trouble = trouble(t.decision("c1"), Aspect::CoordinatorReady);
    assert_eq!(trouble, Some(Trouble::OwnershipConflict));
}

#[test]
fn nothing_is_planned_before_the_watch_has_delivered_the_take_over() {
    // P38
    let mut t = Scene::with_partitions(3);
    t.joins("a");
    t.coordinator("c2", 0);
    t.passes(Duration::from_secs(2));
    t.crashes("c1");
    t.leaves("a"); // there is something to plan
    t.passes(Duration::from_secs(14));
    let it = t.coordinators.get_mut("c2").unwrap();
    let later = t.now.after(Duration::from_secs(1));
    let beat = it.says.beat.next();
    it.says.beat = beat;
    let (me, says) = (it.me.clone(), it.says.clone());
    it.seen.see_candidate(&me, says, later);
    let decision = crate::group::decide::decide(&it.seen, later);
    let document = decision.document.expect("it takes over");
    assert_eq!(document.term, Term(2));
    let revision = crate::group::Revision(it.seen.revision().0 + 100);
    it.seen.adopt(document.clone(), revision, later);
    assert_eq!(crate::group::decide::decide(&it.seen, later).document, None);
    it.seen.see_group(revision, Slot::Known(document), later);
    assert!(it.seen.is_coordinating());
    assert!(
        crate::group::decide::decide(&it.seen, later)
            .document
            .is_some()
    );
}

#[test]
fn who_has_seen_a_higher_term_never_writes_under_its_own_again() {
    // P39
    let mut t = Scene::with_partitions(3);
    t.joins("a");
    let mut theirs = t.document().clone();
    theirs.term = Term(7);
    theirs.holder = Some("somebodyelse".parse().unwrap());
    t.write(&theirs, None);
    t.leaves("a");
    t.passes(Duration::from_secs(10));
    assert_eq!(term(&t), Term(7));
    assert_eq!(t.standing("a"), Some(Standing::Active));
    // The new holder stays silent: its office is vacant after a session timeout.
    t.until(|t| t.holder() == Some("c1"));
    assert_eq!(term(&t), Term(8));
}

#[test]
fn the_same_term_under_another_holder_ends_it_as_well() {
    // P39
    let mut t = Scene::with_partitions(3);
    t.joins("a");
    let mut theirs = t.document().clone();
    theirs.holder = Some("somebodyelse".parse().unwrap());
    t.write(&theirs, None);
    t.leaves("a");
    t.passes(Duration::from_secs(10));
    assert_eq!(t.standing("a"), Some(Standing::Active));
}

#[test]
fn who_was_cut_off_stops_and_takes_over_anew() {
    // P40
    let mut t = Scene::with_partitions(3);
    t.joins("a");
    t.is_cut_off("c1");
    t.passes(Duration::from_secs(31));
    let now = t.now;
    let it = &t.coordinators["c1"];
    assert!(it.seen.is_cut_off(now));
    assert_eq!(crate::group::decide::decide(&it.seen, now).document, None);
    t.coordinators.get_mut("c1").unwrap().seen.step_down();
    t.is_back("c1");
    t.passes(STEP * 4);
    assert_eq!((t.holder(), term(&t)), (Some("c1"), Term(2)));
    t.passes(Duration::from_secs(5));
    assert_eq!(t.owned_by("a"), [0, 1, 2], "nobody was evicted");
}

#[test]
fn who_is_back_takes_over_anew_although_others_wait_for_it() {
    // P40: the others see its beats, and for them it is a live holder.
    let mut t = Scene::with_partitions(3);
    t.is_cut_off("c1");
    t.passes(Duration::from_secs(20));
    t.coordinator("c2", 9);
    t.passes(Duration::from_secs(11));
    t.coordinators.get_mut("c1").unwrap().seen.step_down();
    t.is_back("c1");
    t.passes(Duration::from_secs(20));
    t.joins("a");
    assert_eq!(t.owned_by("a"), [0, 1, 2]);
}

#[test]
fn a_successor_gives_everybody_the_full_time() {
    // P41
    let mut t = Scene::with_partitions(4);
    t.joins("a");
    t.joins("b"); // two revocations are under way
    t.coordinator("c2", 0);
    t.passes(Duration::from_secs(30));
    t.falls_silent("b");
    t.crashes("c1");
    t.until(|t| t.holder() == Some("c2"));
    t.passes(Duration::from_secs(18));
    assert_eq!(
        t.standing("b"),
        Some(Standing::Active),
        "a full session timeout"
    );
    t.speaks_again("b");
    t.passes(Duration::from_secs(38));
    assert_eq!(t.owned_by("b"), [0; 0], "a full rebalance timeout");
    t.passes(Duration::from_secs(6));
    assert_eq!(t.owned_by("b").len(), 2);
}

#[test]
fn two_take_overs_within_a_session_timeout_are_reported() {
    // P42
    let mut t = Scene::with_partitions(3);
    t.coordinator("c2", 1);
    t.coordinator("c3", 0);
    t.passes(Duration::from_secs(20));
    t.steps_down("c1");
    t.passes(Duration::from_secs(2));
    assert_eq!(t.trouble(Aspect::CoordinatorReady), None);
    t.steps_down("c2");
    t.passes(Duration::from_secs(2));
    assert_eq!(
        t.trouble(Aspect::CoordinatorReady),
        Some(Trouble::CoordinatorFlapping)
    );
    t.passes(Duration::from_secs(20));
    assert_eq!(t.trouble(Aspect::CoordinatorReady), None);
}

#[test]
fn a_damaged_document_stops_the_group_and_is_never_overwritten() {
    // P14
    let mut t = Scene::with_partitions(3);
    t.joins("a");
    let now = t.now;
    let it = t.coordinators.get_mut("c1").unwrap();
    let revision = crate::group::Revision(it.seen.revision().0 + 1);
    it.seen
        .see_group(revision, Slot::Damaged("not JSON".to_owned()), now);
    let decision = crate::group::decide::decide(&it.seen, now);
    assert_eq!(decision.document, None);
    assert_eq!(
        trouble(&decision, Aspect::CoordinatorReady),
        Some(Trouble::StateDamaged)
    );
}

#[test]
fn who_was_elected_elsewhere_takes_over_at_once_and_only_once() {
    // P36a
    let mut t = Scene::with_partitions(3);
    t.joins("a");
    t.elected("c2");
    let wait = t.time_until(|t| t.holder() == Some("c2"));
    assert!(wait < Duration::from_secs(3), "{wait:?}");
    t.passes(Duration::from_secs(5));
    t.elected("c3");
    t.until(|t| t.holder() == Some("c3"));
    let term = term(&t);
    t.passes(Duration::from_secs(60));
    assert_eq!(
        t.holder(),
        Some("c3"),
        "c2 does not take it back from a live holder"
    );
    assert_eq!(self::term(&t), term);
}
