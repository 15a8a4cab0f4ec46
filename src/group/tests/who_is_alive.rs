//! Healthy time and liveness.

use std::time::Duration;

use super::scene::{STEP, Scene};
use crate::group::{Beat, BucketId, Standing, Timestamp};

#[test]
fn a_silent_member_is_removed_after_its_session_timeout() {
    // P45 P49
    let mut t = Scene::with_partitions(2);
    t.joins("a");
    let epoch = t.epoch_of(0);
    t.falls_silent("a");
    let wait = t.time_until(|t| t.standing("a").is_none());
    assert!((19..=21).contains(&wait.as_secs()), "{wait:?}");
    assert!(!t.document().has_owners());
    assert_eq!(t.epoch_of(0), epoch, "an end is not a grant");
}

#[test]
fn a_member_may_ask_for_more_patience_than_the_group_has() {
    // P45: the larger of the two.
    let mut t = Scene::with_partitions(2);
    t.joins("a");
    t.says("a", |says| says.session_timeout = Duration::from_secs(40));
    t.falls_silent("a");
    t.passes(Duration::from_secs(38));
    assert_eq!(t.standing("a"), Some(Standing::Active));
    t.passes(Duration::from_secs(4));
    assert_eq!(t.standing("a"), None);
}

#[test]
fn a_member_may_not_ask_for_less_patience_than_the_group_has() {
    // P45
    let mut t = Scene::with_partitions(2);
    t.joins("a");
    t.says("a", |says| says.session_timeout = Duration::from_secs(1));
    t.falls_silent("a");
    t.passes(Duration::from_secs(18));
    assert_eq!(t.standing("a"), Some(Standing::Active));
}

#[test]
fn a_beat_that_does_not_rise_is_no_sign_of_life() {
    // P46
    let mut t = Scene::with_partitions(2);
    t.joins("a");
    let beat = t.members["a"].says.beat;
    t.falls_silent("a");
    for late in [beat.0, beat.0 - 1] {
        t.passes(Duration::from_secs(9));
        let actor = t.members.get_mut("a").unwrap();
        actor.says.beat = Beat(late - 1); // the next put carries an old number
        t.beat("a");
    }
    t.passes(Duration::from_secs(3));
    assert_eq!(t.standing("a"), None);
}

#[test]
fn a_late_old_document_undoes_nothing() {
    // P46
    let mut t = Scene::with_partitions(2);
    t.joins("a");
    t.joins("b");
    let before = t.members["a"].says.clone();
    let wanted = t.targeted_at("b");
    t.releases("a", &wanted);
    t.passes(Duration::from_secs(5));
    let editions = t.history.len();
    let incarnation = t.members["a"].incarnation.clone();
    let now = t.now;
    let it = t.coordinators.get_mut("c1").unwrap();
    it.seen.see_member(&incarnation, before, now);
    t.settle();
    assert_eq!(t.history.len(), editions);
}

#[test]
fn what_was_there_at_the_load_is_no_sign_of_life() {
    // P47
    let mut t = Scene::empty(2);
    t.starts("ghost");
    t.falls_silent("ghost");
    t.coordinator("c1", 0);
    t.passes(Duration::from_secs(30));
    assert!(t.document().members.is_empty(), "{:?}", t.document());
    let listed = t.history.iter().any(|d| !d.members.is_empty());
    assert!(!listed, "it was taken for alive");
    t.speaks_again("ghost");
    t.until(|t| t.owned_by("ghost") == [0, 1]);
}

#[test]
fn a_member_that_was_never_heard_is_forgotten_like_any_other() {
    // P47: a coordinator that runs for months does not grow.
    let mut t = Scene::empty(2);
    t.starts("ghost");
    t.falls_silent("ghost");
    t.coordinator("c1", 0);
    let ghost = t.members["ghost"].incarnation.clone();
    let forget = |t: &mut Scene| {
        let now = t.now;
        let seen = &mut t.coordinators.get_mut("c1").unwrap().seen;
        seen.forget_the_long_gone(now);
        seen.heartbeat(&ghost).is_some()
    };
    t.passes_quickly(Duration::from_secs(60 * 60));
    assert!(forget(&mut t), "its key may still be there");
    t.passes_quickly(Duration::from_secs(61 * 60));
    assert!(!forget(&mut t));
}

#[test]
fn who_leaves_is_gone_at_once() {
    // P48
    let mut t = Scene::with_partitions(2);
    t.joins("a");
    t.joins("b");
    t.everybody_lets_go();
    t.leaves("a");
    assert_eq!(t.standing("a"), None);
    assert_eq!(t.owned_by("b"), [0, 1]);
}

#[test]
fn a_release_in_the_last_heartbeat_counts_as_clean() {
    // P48 P76
    let mut t = Scene::with_partitions(2);
    t.joins("a");
    t.joins("b");
    t.everybody_lets_go();
    let had = t.owned_by("a")[0];
    let epoch = t
        .document()
        .assignment(crate::group::Partition(had))
        .unwrap()
        .epoch;
    t.says("a", |says| {
        says.state = crate::group::MemberState::Left;
        says.released.push(crate::group::Released {
            partition: crate::group::Partition(had),
            epoch,
            clean: true,
        });
    });
    assert_eq!(t.owned_by("b"), [0, 1]);
    assert!(!t.is_unclean(had));
}

#[test]
fn a_coordinator_that_slept_evicts_nobody_when_it_wakes() {
    // P44
    let mut t = Scene::with_partitions(2);
    t.joins("a");
    t.now = Timestamp(t.now.0 + Duration::from_secs(3600)); // nobody beats, nobody sees anything
    t.step();
    t.passes(Duration::from_secs(5));
    assert_eq!(t.owned_by("a"), [0, 1]);
    // It still evicts who stays silent.
    t.falls_silent("a");
    t.until(|t| t.standing("a").is_none());
}

#[test]
fn each_echo_adds_at_most_two_heartbeat_intervals() {
    // P44: the coordinator's beats are 1 s apart here; seven wakes of an hour add 14 s.
    let mut t = Scene::with_partitions(2);
    t.joins("a");
    t.falls_silent("a");
    for _ in 0..7 {
        t.now = Timestamp(t.now.0 + Duration::from_secs(20));
        t.step();
    }
    assert_eq!(t.standing("a"), Some(Standing::Active));
    t.passes(Duration::from_secs(10));
    assert_eq!(t.standing("a"), None);
}

#[test]
fn a_removed_member_that_is_heard_again_joins_as_any_other() {
    // P50
    let mut t = Scene::with_partitions(2);
    t.joins("a");
    let epoch = t.epoch_of(0);
    t.falls_silent("a");
    t.until(|t| t.standing("a").is_none());
    t.speaks_again("a");
    t.until(|t| t.owned_by("a") == [0, 1]);
    assert_eq!(t.epoch_of(0), epoch + 1, "its old grant is void");
    assert!(t.is_unclean(0));
}

#[test]
fn a_member_of_another_bucket_counts_for_nothing() {
    // P51
    let mut t = Scene::with_partitions(2);
    t.starts("a").says.bucket = BucketId::new("another");
    t.passes(STEP * 80);
    assert_eq!(t.standing("a"), None);
}

#[test]
fn a_group_is_deserted_while_there_is_nobody_whose_time_could_run_out() {
    // P44a
    let deserted = |t: &Scene| t.coordinators["c1"].seen.is_deserted();
    let mut t = Scene::with_partitions(2);
    assert!(deserted(&t));
    // Nobody is in the document yet, and the first assignment is waited for.
    t.starts("a");
    t.passes(STEP);
    assert_eq!(t.standing("a"), None);
    assert!(!deserted(&t));
    t.until(|t| t.owned_by("a").len() == 2);
    assert!(!deserted(&t));
    t.falls_silent("a");
    t.passes(Duration::from_secs(10));
    assert!(!deserted(&t));
    t.until(|t| t.standing("a").is_none());
    t.until(deserted);
    t.speaks_again("a");
    t.passes(STEP);
    assert!(!deserted(&t));
}
