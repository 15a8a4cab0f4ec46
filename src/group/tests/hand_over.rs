//! Revoke, release, grant.

use std::time::Duration;

use super::scene::{Scene, held};
use crate::group::decide::{Aspect, Reason, Trouble};
use crate::group::{Epoch, MemberState, Partition, Released, Standing};

/// Two members; a has everything, and b is the target of two partitions, which are returned.
fn b_waits_for_two() -> (Scene, [u32; 2]) {
    let mut t = Scene::with_partitions(4);
    t.joins("a");
    t.joins("b");
    let wanted = t.targeted_at("b").try_into().expect("b is to have two");
    (t, wanted)
}

#[test]
fn a_partition_is_granted_only_after_its_owner_has_released_it() {
    let mut t = Scene::with_partitions(4);
    t.joins("a");
    assert_eq!(t.owned_by("a"), [0, 1, 2, 3]);
    let epochs = [0, 1, 2, 3].map(|p| t.epoch_of(p));
    // P72: b is the target of two, but a still owns them, at the same epochs.
    t.joins("b");
    assert_eq!(t.owned_by("a"), [0, 1, 2, 3]);
    assert_eq!(t.owned_by("b"), [0; 0]);
    assert_eq!([0, 1, 2, 3].map(|p| t.epoch_of(p)), epochs);
    assert_eq!(
        t.trouble(Aspect::PartitionsAssigned),
        Some(Trouble::Rebalancing)
    );
    let [first, second] = t.targeted_at("b")[..] else {
        panic!("b is to have two: {:?}", t.targeted_at("b"));
    };
    // P76: a has released one, and one alone; the edition that takes it back grants it.
    let editions = t.history.len();
    t.releases("a", &[second]);
    assert_eq!(t.history.len(), editions + 1);
    assert_eq!(t.owned_by("b"), [second]);
    assert!(t.owned_by("a").contains(&first));
    assert_eq!(t.epoch_of(second), epochs[second as usize] + 1);
    assert!(!t.is_unclean(second));
    t.releases("a", &[first]);
    assert_eq!(t.owned_by("b"), [first, second]);
    assert_eq!(t.trouble(Aspect::PartitionsAssigned), None);
}

#[test]
fn a_release_counts_only_for_its_member_partition_and_epoch() {
    // P76: exactly (incarnation, p, epoch).
    let (mut t, [wanted, _]) = b_waits_for_two();
    let epoch = t.document().assignment(Partition(wanted)).unwrap().epoch;
    let release = |epoch| Released {
        partition: Partition(wanted),
        epoch,
        clean: true,
    };
    t.says("b", |says| says.released.push(release(epoch))); // not b's to release
    assert_eq!(t.owned_by("b"), [0; 0]);
    let older = release(Epoch(epoch.0 - 1));
    t.says("a", |says| says.released.push(older));
    assert_eq!(t.owned_by("b"), [0; 0]);
    t.says("a", |says| says.released.push(release(epoch)));
    assert_eq!(t.owned_by("b"), [wanted]);
}

#[test]
fn what_a_member_no_longer_lists_as_held_is_not_released() {
    // P18
    let (mut t, _) = b_waits_for_two();
    t.says("a", |says| says.held.clear());
    t.passes(Duration::from_secs(30));
    assert_eq!(t.owned_by("a"), [0, 1, 2, 3]);
}

#[test]
fn an_unclean_release_is_granted_with_the_flag() {
    // P76
    let (mut t, [wanted, _]) = b_waits_for_two();
    t.releases_as("a", &[wanted], false);
    assert_eq!(t.owned_by("b"), [wanted]);
    assert!(t.is_unclean(wanted));
}

#[test]
fn who_does_not_let_go_in_time_loses_the_partition_unclean() {
    // P77
    let (mut t, wanted) = b_waits_for_two();
    let epoch = t.epoch_of(wanted[0]);
    t.passes(Duration::from_secs(58));
    assert_eq!(t.owned_by("b"), [0; 0]);
    t.passes(Duration::from_secs(3));
    assert_eq!(t.owned_by("b"), wanted);
    assert_eq!(t.epoch_of(wanted[0]), epoch + 1);
    assert!(t.is_unclean(wanted[0]));
    let overdue = |r: &Reason| matches!(r, Reason::RebalanceTimeout(p, _) if p.0 == wanted[0]);
    assert!(t.reasons.iter().any(overdue), "{:?}", t.reasons);
}

#[test]
fn another_target_does_not_give_the_owner_more_time() {
    // P77: once per (p, epoch), from the first document with owner != target.
    let (mut t, [wanted, _]) = b_waits_for_two();
    t.passes(Duration::from_secs(50));
    t.falls_silent("b");
    t.starts("c");
    t.passes(Duration::from_secs(9));
    t.leaves("b"); // its targets go to c at once
    assert!(t.targeted_at("c").contains(&wanted), "{:?}", t.document());
    assert!(t.owned_by("a").contains(&wanted));
    t.passes(Duration::from_secs(3));
    assert!(t.owned_by("c").contains(&wanted), "{:?}", t.document());
}

#[test]
fn a_revocation_whose_target_comes_back_is_withdrawn() {
    // P79
    let (mut t, _) = b_waits_for_two();
    let epochs = [0, 1, 2, 3].map(|p| t.epoch_of(p));
    t.leaves("b");
    assert_eq!(t.targeted_at("a"), [0, 1, 2, 3]);
    assert_eq!(t.owned_by("a"), [0, 1, 2, 3]);
    assert_eq!([0, 1, 2, 3].map(|p| t.epoch_of(p)), epochs);
    // A later revocation has its full time.
    t.passes(Duration::from_secs(90));
    t.joins("c");
    t.passes(Duration::from_secs(50));
    assert_eq!(t.owned_by("a"), [0, 1, 2, 3]);
}

#[test]
fn a_partition_that_is_given_back_goes_to_another_member_after_a_second() {
    // P80
    let mut t = Scene::with_partitions(4);
    t.starts("a");
    t.starts("b");
    t.until(|t| t.owned_by("b").len() == 2);
    let [back, _] = t.owned_by("a")[..] else {
        panic!()
    };
    let epoch = t.epoch_of(back);
    t.releases_as("a", &[back], false);
    assert_eq!(
        t.document().assignment(Partition(back)).unwrap().owner,
        None
    );
    assert_eq!(t.epoch_of(back), epoch, "nothing was granted yet");
    let wait = t.time_until(|t| t.owned_by("b").contains(&back));
    assert!((1..=2).contains(&wait.as_secs()), "{wait:?}");
    assert_eq!(t.epoch_of(back), epoch + 1);
    assert!(t.is_unclean(back));
}

#[test]
fn a_partition_that_nobody_can_hold_is_granted_ever_more_slowly() {
    // P80: 1 s, doubling to 30 s.
    let mut t = Scene::with_partitions(1);
    t.joins("a");
    let mut waits = Vec::new();
    for _ in 0..8 {
        t.releases_as("a", &[0], false);
        waits.push(t.time_until(|t| t.owned_by("a") == [0]).as_secs());
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30, 30]);
}

#[test]
fn a_member_that_drains_keeps_what_it_has_not_released() {
    // P126 P72
    let (mut t, _) = b_waits_for_two();
    t.everybody_lets_go();
    let had = t.owned_by("a");
    t.says("a", |says| says.state = MemberState::Draining);
    assert_eq!(t.standing("a"), Some(Standing::Draining));
    assert_eq!(t.owned_by("a"), had);
    assert_eq!(t.targeted_at("b"), [0, 1, 2, 3]);
    t.releases("a", &had);
    assert_eq!(t.owned_by("b"), [0, 1, 2, 3]);
    t.leaves("a");
    assert_eq!(t.standing("a"), None);
}

#[test]
fn what_is_granted_to_a_member_in_the_instant_in_which_it_leaves_stays_as_it_was() {
    // P76a: a released it clean, b never had it.
    let (mut t, [wanted, other]) = b_waits_for_two();
    t.releases("a", &[wanted]);
    t.releases_as("a", &[other], false);
    assert_eq!(t.owned_by("b"), [wanted, other]);
    let epoch = t.epoch_of(wanted);
    t.leaves("b");
    assert_eq!(t.owned_by("a"), [0, 1, 2, 3]);
    assert_eq!(t.epoch_of(wanted), epoch + 1);
    assert!(!t.is_unclean(wanted), "nobody has touched it");
    assert!(t.is_unclean(other), "it was unclean before");
}

#[test]
fn what_a_member_holds_as_it_leaves_is_unclean() {
    // P76a
    let (mut t, [wanted, _]) = b_waits_for_two();
    t.releases("a", &[wanted]);
    let epoch = t.epoch_of(wanted);
    t.says("b", |says| says.held.push(held(wanted, Epoch(epoch))));
    t.leaves("b");
    assert!(t.owned_by("a").contains(&wanted) && t.is_unclean(wanted));
}

#[test]
fn what_is_granted_to_a_member_that_falls_silent_is_unclean() {
    // P76a: it may hold what it had no time to say.
    let (mut t, [wanted, _]) = b_waits_for_two();
    t.falls_silent("b");
    t.releases("a", &[wanted]);
    assert_eq!(t.owned_by("b"), [wanted]);
    t.until(|t| t.owned_by("a").contains(&wanted));
    assert!(t.is_unclean(wanted));
}

#[test]
fn pausing_moves_nothing() {
    // P127
    let mut t = Scene::with_partitions(2);
    t.joins("a");
    let before = t.document().partitions.clone();
    t.set(|meta| meta.pause.all = true);
    t.passes(Duration::from_secs(30));
    assert_eq!(t.document().partitions, before);
    assert_eq!(t.document().meta_generation, t.meta.generation);
}
