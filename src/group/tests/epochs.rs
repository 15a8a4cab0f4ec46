//! Epochs: above all evidence, and never twice.

use std::time::Duration;

use super::scene::{Scene, UNIX_SECONDS, held};
use crate::group::decide::{Aspect, OffsetFact, Reason, Slot, Trouble};
use crate::group::{Epoch, GroupEpoch, Partition};

#[test]
fn a_document_made_from_nothing_starts_at_the_time() {
    // P70
    let mut t = Scene::with_partitions(2);
    assert_eq!(t.history[0].epoch, GroupEpoch(UNIX_SECONDS));
    t.joins("a");
    assert_eq!(t.epoch_of(0), UNIX_SECONDS + 1);
}

#[test]
fn every_grant_raises_the_epoch_also_to_the_same_owner() {
    // P68
    let mut t = Scene::with_partitions(1);
    t.joins("a");
    let epoch = t.epoch_of(0);
    t.releases_as("a", &[0], false);
    t.until(|t| t.owned_by("a") == [0]);
    assert_eq!(t.epoch_of(0), epoch + 1);
}

#[test]
fn the_group_epoch_rises_by_one_with_each_edition() {
    // P67
    let mut t = Scene::with_partitions(4);
    t.joins("a");
    t.joins("b");
    t.everybody_lets_go();
    let epochs: Vec<u64> = t.history.iter().map(|d| d.epoch.0).collect();
    let last = t.history.len() as u64 - 1;
    assert_eq!(
        epochs,
        (UNIX_SECONDS..=UNIX_SECONDS + last).collect::<Vec<_>>()
    );
}

#[test]
fn a_commit_record_above_the_document_is_a_rollback() {
    // P71
    let mut t = Scene::with_partitions(2);
    t.joins("a");
    let epoch = t.epoch_of(0);
    let ahead = OffsetFact::Present {
        epoch: Epoch(epoch + 50),
        stopped: None,
    };
    t.offsets.insert(Partition(0), ahead);
    t.crashes("c1");
    t.coordinator("c2", 0);
    t.until(|t| t.holder() == Some("c2"));
    t.passes(Duration::from_secs(2));
    assert_eq!(t.owned_by("a"), [0, 1]);
    assert_eq!(t.epoch_of(0), epoch + 51);
    assert_eq!(t.epoch_of(1), epoch);
    assert_eq!(
        t.trouble(Aspect::OffsetsValid),
        Some(Trouble::StateRolledBack)
    );
}

#[test]
fn what_a_live_member_holds_is_evidence() {
    // P71
    let mut t = Scene::with_partitions(2);
    t.joins("a");
    let epoch = t.epoch_of(1);
    t.says("a", |says| says.held = vec![held(1, Epoch(epoch + 3))]);
    assert_eq!(t.epoch_of(1), epoch + 4);
    assert!(
        t.reasons
            .contains(&Reason::RolledBack(Partition(1), Epoch(epoch + 3)))
    );
}

#[test]
fn a_group_epoch_that_a_member_has_seen_is_passed() {
    // P71
    let mut t = Scene::with_partitions(2);
    t.joins("a");
    let ahead = GroupEpoch(t.document().epoch.0 + 40);
    let now = t.now;
    let actor = t.members.get_mut("a").unwrap();
    actor.says.beat = actor.says.beat.next();
    actor.says.seen_epoch = ahead;
    let (incarnation, says) = (actor.incarnation.clone(), actor.says.clone());
    let it = t.coordinators.get_mut("c1").unwrap();
    it.seen.see_member(&incarnation, says, now);
    t.settle();
    assert_eq!(t.document().epoch, ahead.next());
}

#[test]
fn a_document_below_an_edition_known_from_outside_was_rolled_back() {
    // P71a
    let mut t = Scene::empty(1);
    t.coordinator("c1", 0);
    let known = GroupEpoch(UNIX_SECONDS + 1_000_000);
    t.coordinators.get_mut("c1").unwrap().seen.know_epoch(known);
    t.passes(Duration::from_secs(1));
    t.joins("a");
    assert_eq!(t.epoch_of(0), known.0 + 1);
    assert!(t.document().epoch > known);
}

#[test]
fn an_edition_known_from_outside_that_the_document_has_passed_says_nothing() {
    // P71a
    let mut t = Scene::with_partitions(2);
    t.joins("a");
    let (epoch, partition) = (t.document().epoch, t.epoch_of(0));
    assert!(epoch.0 > partition, "editions pass by more than grants");
    t.crashes("c1");
    t.coordinator("c2", 0);
    t.coordinators.get_mut("c2").unwrap().seen.know_epoch(epoch);
    t.until(|t| t.holder() == Some("c2"));
    t.passes(Duration::from_secs(2));
    assert_eq!(t.epoch_of(0), partition, "nothing was granted anew");
    assert_eq!(t.owned_by("a"), [0, 1]);
    assert_eq!(t.trouble(Aspect::OffsetsValid), None);
}

#[test]
fn an_absent_record_of_a_seeded_group_is_damage() {
    // P13
    let mut t = Scene::with_partitions(2);
    t.joins("a");
    t.offsets.insert(Partition(1), OffsetFact::Absent);
    t.crashes("c1");
    t.coordinator("c2", 0);
    t.until(|t| t.holder() == Some("c2"));
    t.passes(Duration::from_secs(2));
    assert_eq!(
        t.offsets[&Partition(1)],
        OffsetFact::Absent,
        "it is never made anew"
    );
    assert_eq!(t.trouble(Aspect::OffsetsValid), Some(Trouble::OffsetLost));
    // P14: the others run on.
    t.leaves("a");
    t.joins("b");
    assert_eq!(t.owned_by("b"), [0]);
}

#[test]
fn an_old_read_of_the_document_changes_nothing() {
    // P26
    let mut t = Scene::with_partitions(2);
    let old = (t.coordinators["c1"].seen.revision(), t.document().clone());
    t.joins("a");
    let now = t.now;
    let it = t.coordinators.get_mut("c1").unwrap();
    it.seen.see_group(old.0, Slot::Known(old.1), now);
    assert_eq!(it.seen.document().known(), t.group.known());
}
