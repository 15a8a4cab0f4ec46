//! Two incarnations of one id.

use std::time::Duration;

use super::scene::Scene;
use crate::group::decide::{Aspect, Reason, Trouble};
use crate::group::{MemberId, StandbyReason, Standing};

#[test]
fn a_second_live_incarnation_of_an_id_stands_by() {
    // P53
    let mut t = Scene::with_partitions(2);
    t.joins("a");
    let before = t.document().partitions.clone();
    t.starts_as("a2", "a");
    t.passes(Duration::from_secs(60));
    assert!(t.stands_by("a2", StandbyReason::DuplicateMember));
    assert_eq!(
        t.trouble(Aspect::PartitionsAssigned),
        Some(Trouble::DuplicateMember)
    );
    assert_eq!(t.document().partitions, before, "the first is undisturbed");
}

#[test]
fn of_two_that_start_together_the_first_joins() {
    // P53
    let mut t = Scene::with_partitions(2);
    t.starts("a");
    t.step();
    t.starts_as("a2", "a");
    t.passes(Duration::from_secs(10));
    assert_eq!(t.owned_by("a"), [0, 1]);
    assert!(t.stands_by("a2", StandbyReason::DuplicateMember));
}

#[test]
fn the_second_takes_over_in_the_edition_in_which_the_first_is_dead() {
    // P52 P49
    let mut t = Scene::with_partitions(4);
    t.starts("a");
    t.starts("b");
    t.until(|t| t.owned_by("b").len() == 2);
    let had = t.owned_by("a");
    let epoch = t.epoch_of(had[0]);
    t.falls_silent("a");
    t.starts_as("a2", "a");
    t.until(|t| t.standing("a").is_none());
    assert_eq!(t.owned_by("a2"), had);
    assert_eq!(t.epoch_of(had[0]), epoch + 1);
    assert_eq!(t.owned_by("b").len(), 2, "b is not disturbed");
    // P54: the first comes back, and is never admitted again, not even when the second is gone.
    t.speaks_again("a");
    t.passes(Duration::from_secs(5));
    assert!(t.stands_by("a", StandbyReason::Replaced));
    t.leaves("a2");
    t.passes(Duration::from_secs(60));
    assert!(t.stands_by("a", StandbyReason::Replaced));
    assert_eq!(t.owned_by("b"), [0, 1, 2, 3]);
}

#[test]
fn a_restarted_container_replaces_its_predecessor_at_once() {
    // P52: both run in the same pod.
    let mut t = Scene::with_partitions(4);
    t.starts("a").in_pod("pod-1");
    t.until(|t| t.owned_by("a").len() == 4);
    let epoch = t.epoch_of(0);
    t.falls_silent("a");
    t.starts_as("a2", "a").in_pod("pod-1");
    t.step();
    t.step();
    assert_eq!(t.owned_by("a2"), [0, 1, 2, 3], "{:?}", t.document());
    assert_eq!(t.epoch_of(0), epoch + 1);
    assert!(t.is_unclean(0));
    t.passes(Duration::from_secs(60));
    assert_eq!(t.standing("a2"), Some(Standing::Active));
    assert_eq!(t.standing("a"), None);
}

#[test]
fn a_replaced_incarnation_that_still_beats_stays_out_under_the_next_coordinator() {
    // P54
    let mut t = Scene::with_partitions(2);
    t.starts("a").in_pod("pod-1");
    t.until(|t| t.owned_by("a").len() == 2);
    t.starts_as("a2", "a").in_pod("pod-1");
    t.until(|t| t.owned_by("a2").len() == 2);
    t.crashes("c1");
    t.coordinator("c2", 0);
    t.until(|t| t.holder() == Some("c2"));
    t.passes(Duration::from_secs(60));
    assert_eq!(t.owned_by("a2"), [0, 1]);
    assert!(t.stands_by("a", StandbyReason::Replaced));
}

#[test]
fn another_pod_of_the_same_id_waits_until_the_first_was_seen_to_go() {
    // P52 P48
    let mut t = Scene::with_partitions(2);
    t.starts("a").in_pod("pod-1");
    t.until(|t| t.owned_by("a").len() == 2);
    t.falls_silent("a");
    t.starts_as("a2", "a").in_pod("pod-2");
    t.passes(Duration::from_secs(2));
    assert!(t.stands_by("a2", StandbyReason::DuplicateMember));
    t.coordinators
        .get_mut("c1")
        .unwrap()
        .seen
        .see_pods_gone(&["pod-1".to_owned()].into());
    t.step();
    assert_eq!(t.owned_by("a2"), [0, 1]);
}

#[test]
fn who_waits_under_another_id_is_nobodys_heir() {
    // P52
    let mut t = Scene::with_partitions(2);
    t.joins("a");
    t.starts("b");
    assert_eq!(t.standing("b"), None, "it waits for others that join");
    let before = t.reasons.len();
    t.leaves("a");
    let reasons = &t.reasons[before..];
    assert!(
        reasons.contains(&Reason::Left(MemberId::new("a"))),
        "{reasons:?}"
    );
    let replaced = reasons.iter().any(|r| matches!(r, Reason::Replaced(..)));
    assert!(!replaced, "{reasons:?}");
}

#[test]
fn who_was_replaced_is_nobodys_heir() {
    // P54: not even when the one that replaced it is gone.
    let mut t = Scene::with_partitions(2);
    t.joins("a");
    t.falls_silent("a");
    t.starts_as("a2", "a");
    t.until(|t| t.standing("a").is_none());
    t.speaks_again("a");
    t.passes(Duration::from_secs(2));
    let before = t.reasons.len();
    t.leaves("a2");
    let reasons = &t.reasons[before..];
    assert!(
        reasons.contains(&Reason::Left(MemberId::new("a"))),
        "{reasons:?}"
    );
}

#[test]
fn two_that_restart_at_once_have_what_their_former_lives_had() {
    // P52
    let mut t = Scene::with_partitions(6);
    t.starts("b").in_pod("pod-b");
    t.until(|t| t.owned_by("b").len() == 6);
    t.starts("a").in_pod("pod-a");
    t.until(|t| t.standing("a") == Some(Standing::Active));
    t.everybody_lets_go();
    let had = ["a", "b"].map(|m| t.owned_by(m));
    t.falls_silent("a");
    t.falls_silent("b");
    t.starts_as("b2", "b").in_pod("pod-b");
    t.starts_as("a2", "a").in_pod("pod-a");
    t.step();
    t.step();
    assert_eq!(["a2", "b2"].map(|m| t.owned_by(m)), had);
}
