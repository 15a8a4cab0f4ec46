//! The claim, fence first: P96 to P100.

use super::answers::*;
use super::scene::*;
use crate::group::member::{Found, MemberEvent, Written};
use crate::group::*;

/// A member that was just given partition 0 at epoch 4, and whose bucket is slow.
fn granted(record: OffsetRecord) -> Scene {
    let mut t = Scene::joined(1);
    t.offsets.insert(0, (Revision(5), record));
    t.records = Answers::No;
    t.clear();
    t.gives(0, 4);
    t.sees_document();
    t
}

#[test]
fn a_claim_writes_epoch_and_owner_and_leaves_the_position_alone() {
    // P96
    let mut t = granted(record(3, Some("old"), 42));
    assert_eq!(t.state(0), Some(HoldState::Claiming));
    t.finds_what_is_there(0);
    let (claim, expected) = t.last_write(0);
    assert_eq!((claim.epoch, claim.owner), (Epoch(4), Some(me())));
    assert_eq!((claim.next_seq, expected), (Sequence(42), Revision(5)));
    assert_eq!(t.opened(), [], "nothing is read before the claim is stored");
    t.lands(0);
    assert_eq!(
        (t.opened(), t.state(0)),
        (vec![(0, 42)], Some(HoldState::Feeding))
    );
}

#[test]
fn a_record_that_is_claimed_already_is_adopted() {
    // P97
    let mut t = granted(record(4, Some(ME), 42));
    t.finds_what_is_there(0);
    assert_eq!((t.writes(), t.opened()), (0, vec![(0, 42)]));
}

#[test]
fn a_record_of_a_later_epoch_or_of_another_owner_is_a_fence() {
    // P97, P80
    for (epoch, owner) in [(5, "other"), (4, "other"), (5, ME)] {
        let mut t = granted(record(epoch, Some(owner), 42));
        t.finds_what_is_there(0);
        let (partition, epoch) = (p(0), Epoch(4));
        assert!(
            t.told()
                .contains(&&MemberEvent::Fenced { partition, epoch })
        );
        assert_eq!((t.holds(), t.released()), (vec![], vec![(0, 4, false)]));
        assert_eq!((t.writes(), t.opened()), (0, vec![]));
    }
}

#[test]
fn attempts_of_a_claim_are_a_little_apart() {
    // P98
    let mut t = granted(record(3, Some("old"), 42));
    for _ in 0..5 {
        let before = t.lookups();
        t.finds_what_is_there(0);
        // The former owner has committed meanwhile.
        t.revision += 1;
        let stands_at = Revision(t.revision);
        t.offsets.get_mut(&0).unwrap().0 = stands_at;
        t.ends(0, Written::Conflict(Some(stands_at)));
        t.passes(MILLIS(4));
        assert_eq!(t.lookups(), before);
        t.passes(MILLIS(96));
        assert_eq!(t.lookups(), before + 1);
    }
}

#[test]
fn a_claim_is_not_tried_again_once_the_document_gives_the_partition_to_another() {
    // P98
    let mut t = granted(record(3, Some("old"), 42));
    t.finds_what_is_there(0);
    t.ends(0, Written::Conflict(Some(Revision(99))));
    t.assigns(0, Some("other"), 5, Some("other"));
    t.sees_document();
    t.clear();
    t.passes(SECS(10));
    assert_eq!((t.lookups(), t.writes()), (0, 0));
}

#[test]
fn sixteen_claims_run_at_once() {
    // P98
    let mut t = Scene::joined(40);
    t.records = Answers::No;
    t.clear();
    for p in 0..40 {
        t.gives(p, 1);
    }
    t.sees_document();
    assert_eq!(t.lookups(), 16);
    t.finds_what_is_there(0);
    t.lands(0);
    assert_eq!(t.lookups(), 17);
    t.records = Answers::Yes;
    for p in 1..16 {
        t.finds_what_is_there(p);
    }
    t.finds_what_is_there(16);
    t.passes(SECS(1));
    assert_eq!(t.opened().len(), 40);
}

#[test]
fn an_unclean_grant_is_one_more_attempt_of_the_head() {
    // P99
    let mut t = Scene::joined(2);
    t.records = Answers::No;
    let mut tried = record(3, Some("old"), 42);
    tried.head = Some(Head {
        seq: Sequence(42),
        attempts: 1,
        last_error: "no".to_owned(),
    });
    t.offsets.insert(0, (Revision(5), tried));
    t.offsets
        .insert(1, (Revision(6), record(3, Some("old"), 7)));
    for p in 0..2 {
        t.gives(p, 4);
        t.document.partitions[p as usize].unclean = true;
    }
    t.sees_document();
    t.finds_what_is_there(0);
    t.finds_what_is_there(1);
    let head = |t: &Scene, p| t.last_write(p).0.head.map(|h| (h.seq.0, h.attempts));
    assert_eq!(head(&t, 0), Some((42, 2)));
    assert_eq!(head(&t, 1), Some((7, 1)));
    // And the application is told.
    t.lands(0);
    t.reads(0, [42]);
    assert_eq!(t.fetch("a", 0, 1)[0].1.attempt, 3);
}

#[test]
fn a_clean_grant_counts_nothing() {
    // P99
    let mut t = granted(record(3, Some("old"), 42));
    t.finds_what_is_there(0);
    assert_eq!(t.last_write(0).0.head, None);
}

#[test]
fn a_record_that_is_lost_or_damaged_stops_its_partition_and_no_other() {
    // P100, P13, P14
    for found in [Found::Absent, Found::Damaged("a delete marker".to_owned())] {
        let mut t = Scene::joined(2);
        t.records = Answers::No;
        t.clear();
        t.gives(0, 1);
        t.gives(1, 1);
        t.sees_document();
        t.finds(0, found);
        assert!(
            t.told()
                .iter()
                .any(|e| matches!(e, MemberEvent::OffsetLost { .. }))
        );
        assert_eq!(t.state(0), Some(HoldState::Stopped));
        t.finds_what_is_there(1);
        t.lands(1);
        assert_eq!(t.opened(), [(1, 1)]);
        // It is looked at again, and never written.
        t.passes(SECS(60));
        assert_eq!((t.writes(), t.holds()), (1, vec![0, 1]));
    }
}

#[test]
fn a_record_that_was_mended_is_claimed() {
    // P100
    let mut t = granted(record(3, Some("old"), 42));
    t.finds(0, Found::Damaged("not JSON".to_owned()));
    t.records = Answers::Yes;
    t.passes(SECS(6));
    assert_eq!(t.opened(), [(0, 42)]);
}

#[test]
fn who_cannot_claim_for_a_session_gives_the_partition_back() {
    // P80
    let mut t = granted(record(3, Some("old"), 42));
    for _ in 0..100 {
        t.finds(0, Found::Unanswered("no answer".to_owned()));
        t.passes(SECS(2));
    }
    assert_eq!((t.holds(), t.released()), (vec![], vec![(0, 4, false)]));
}
