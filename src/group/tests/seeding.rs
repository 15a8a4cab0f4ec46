//! Where a group begins.

use std::time::Duration;

use super::scene::Scene;
use crate::group::decide::{Aspect, OffsetFact, Trouble, seed};
use crate::group::{Epoch, GroupDocument, Partition, Sequence, ServerTime};

fn claimed(epoch: u64) -> OffsetFact {
    OffsetFact::Present {
        epoch: Epoch(epoch),
        stopped: None,
    }
}

#[test]
fn every_record_is_seeded_before_the_document_says_so() {
    // P86
    let mut t = Scene::empty(3);
    t.coordinator("c1", 0);
    t.passes(Duration::from_secs(1));
    assert!(t.document().seeded);
    assert!(t.offsets.values().all(|fact| *fact == claimed(0)));
}

#[test]
fn nothing_is_granted_before_the_document_says_seeded() {
    // P87
    let mut t = Scene::empty(3);
    t.starts("a");
    t.offsets
        .insert(Partition(1), OffsetFact::Damaged("not JSON".to_owned()));
    t.coordinator("c1", 0);
    t.passes(Duration::from_secs(20));
    let first = t
        .history
        .iter()
        .position(|d| d.seeded)
        .expect("it is seeded");
    let granted = t
        .history
        .iter()
        .position(GroupDocument::has_owners)
        .expect("it is granted");
    assert!(first <= granted);
    // P14: what is damaged is neither overwritten nor granted, and the others are.
    assert_eq!(t.owned_by("a"), [0, 2]);
    assert_eq!(
        t.offsets[&Partition(1)],
        OffsetFact::Damaged("not JSON".to_owned())
    );
    assert_eq!(t.trouble(Aspect::OffsetsValid), Some(Trouble::OffsetLost));
}

#[test]
fn seeding_that_was_interrupted_is_finished_and_keeps_what_is_there() {
    // P86 P89
    let mut t = Scene::empty(3);
    t.offsets.insert(Partition(2), claimed(7));
    t.coordinator("c1", 0);
    t.passes(Duration::from_secs(1));
    assert_eq!(t.offsets[&Partition(2)], claimed(7));
    assert_eq!(t.offsets[&Partition(0)], claimed(0));
    assert!(t.document().seeded);
}

#[test]
fn nothing_is_granted_while_any_record_is_missing() {
    // P87
    let mut t = Scene::empty(3);
    t.offsets.insert(Partition(1), claimed(0));
    t.streams_answer = false;
    t.coordinator("c1", 0);
    t.starts("a");
    t.passes(Duration::from_secs(20));
    assert!(!t.document().seeded);
    assert!(!t.document().has_owners(), "{:?}", t.document());
    t.streams_answer = true;
    t.until(|t| t.owned_by("a") == [0, 1, 2]);
}

#[test]
fn a_seeded_record_is_nobodys_and_says_where_and_in_which_stream_to_begin() {
    // P86
    let t = Scene::empty(3);
    let record = seed(&t.meta, Partition(2), Sequence(7), ServerTime(5)).expect("a record");
    assert_eq!((record.epoch, record.owner), (Epoch(0), None));
    assert_eq!(record.next_seq, Sequence(7));
    assert_eq!(
        (record.stream.as_str(), record.stream_created),
        ("ORDERS", ServerTime(5))
    );
    assert_eq!(
        (record.mark, record.head, record.stopped),
        (None, None, None)
    );
    assert_eq!(
        seed(&t.meta, Partition(3), Sequence(7), ServerTime(5)),
        None
    );
}
