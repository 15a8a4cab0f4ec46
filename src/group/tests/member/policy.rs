//! Readers that end, idle partitions, the processing timer: P83, P107, P112, P113.

use super::answers::*;
use super::scene::*;
use crate::group::member::Event;
use crate::group::*;

/// A member that was given a partition whose record stands at 5.
fn at_five() -> Scene {
    let mut t = Scene::joined(1);
    t.offsets
        .insert(0, (Revision(5), record(3, Some("old"), 5)));
    t.gives(0, 4);
    t.sees_document();
    t.clear();
    t
}

#[test]
fn an_error_moves_no_position() {
    // P112
    let mut t = at_five();
    t.meta.on_truncation = OnTruncation::Latest;
    t.sees_meta();
    for _ in 0..5 {
        let (partition, epoch, unreadable) = (p(0), t.epoch(0), None);
        t.happens(Event::ReaderEnded {
            partition,
            epoch,
            unreadable,
        });
        t.passes(SECS(1));
    }
    assert_eq!((t.committed(0), t.writes()), (5, 0));
    assert!(t.opened().iter().all(|o| *o == (0, 5)), "{:?}", t.opened());
}

#[test]
fn a_message_that_cannot_be_read_stops_its_partition_by_name() {
    // P107
    let mut t = at_five();
    let unreadable = Some((Sequence(5), "message 5 has 9 MiB".to_owned()));
    let (partition, epoch) = (p(0), t.epoch(0));
    t.happens(Event::ReaderEnded {
        partition,
        epoch,
        unreadable,
    });
    t.passes(SECS(1));
    let stopped = t.offsets[&0].1.stopped.clone().unwrap();
    assert_eq!(
        (stopped.seq, stopped.reason),
        (Sequence(5), StopReason::MessageStuck)
    );
    assert_eq!(stopped.detail, "message 5 has 9 MiB");
}

#[test]
fn a_partition_with_messages_does_not_move_by_itself() {
    // P113
    let mut t = at_five();
    t.reads(0, [7]);
    t.fetches("a", 0);
    t.passes(SECS(70));
    assert!(
        !t.member
            .wants_to_move((p(0), Epoch(4)), Sequence(90), t.now)
    );
    let (partition, epoch, next) = (p(0), Epoch(4), Sequence(90));
    t.happens(Event::Scanned {
        partition,
        epoch,
        next,
        mark: None,
    });
    assert_eq!(t.committed(0), 5);
}

#[test]
fn an_acknowledgement_starts_the_timer_anew() {
    // P83
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=9);
    for sequence in 1..=9 {
        t.fetch("a", 0, 1);
        t.passes(SECS(299));
        t.acks("a", 0, sequence);
    }
    assert_eq!((t.holds(), t.committed(0)), (vec![0], 10));
}
