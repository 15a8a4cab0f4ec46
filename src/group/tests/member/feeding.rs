//! Sessions, waits, and what the record says afterwards: P23, P26, P115 to P119, P127.

use super::answers::*;
use super::scene::*;
use crate::group::member::{Accepted, Found, Written};
use crate::group::*;

/// A member with messages 1 to 9 in the application's hands, and a bucket that is slow.
fn fed() -> Scene {
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=9);
    t.fetches("a", 0);
    t.records = Answers::No;
    t
}

#[test]
fn a_partition_is_in_one_sessions_hands() {
    // P115
    let mut t = Scene::owning(&[0, 1]);
    t.reads(0, 1..=5);
    t.reads(1, 1..=5);
    assert_eq!(t.fetch("a", 0, 2).len(), 2);
    assert_eq!(t.fetches("b", 0), [0; 0]);
    assert_eq!(
        t.fetches("b", 1),
        [1, 2, 3, 4, 5],
        "the other partition is free"
    );
    t.acks("a", 0, 1);
    assert_eq!(t.fetches("b", 0), [0; 0]);
    t.acks("a", 0, 2);
    assert_eq!(t.fetches("b", 0), [3, 4, 5]);
}

#[test]
fn a_cumulative_acknowledgement_does_not_cover_what_another_session_has() {
    // P117
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=3);
    t.fetches("a", 0);
    assert_eq!(t.acks("b", 0, 3), Accepted::NotOwned);
    assert_eq!(t.committed(0), 1);
}

#[test]
fn a_commit_names_the_last_message_by_which_the_stream_is_recognised() {
    // P118, P109
    let mut t = Scene::owning(&[0]);
    t.reads(0, [5, 9, 12]);
    t.fetches("a", 0);
    t.acks("a", 0, 9);
    let (_, record) = &t.offsets[&0];
    assert_eq!(record.next_seq, Sequence(10));
    assert_eq!(
        record.mark,
        Some(Mark {
            seq: Sequence(9),
            ts: ServerTime(90)
        })
    );
}

#[test]
fn a_pause_outlives_a_hand_over() {
    // P127
    let mut t = Scene::started(1);
    t.meta.pause.all = true;
    t.sees_meta();
    t.gives(0, 1);
    t.sees_document();
    t.reads(0, 1..=2);
    assert_eq!((t.holds(), t.fetches("a", 0)), (vec![0], vec![]));
}

#[test]
fn a_conflict_with_an_earlier_attempt_of_ones_own_is_adopted() {
    // P23
    let mut t = fed();
    t.acks("a", 0, 4);
    let stored = t.lands_unheard(0);
    let Written::Stored(revision) = stored else {
        panic!("{stored:?}")
    };
    t.ends(0, Written::Conflict(Some(revision)));
    t.passes(MILLIS(100));
    // A read that does not reach that revision shows the past.
    t.finds(
        0,
        Found::Record(Revision(revision.0 - 1), Box::new(record(1, Some(ME), 1))),
    );
    t.passes(MILLIS(100));
    assert_eq!(t.view(0).unwrap().committed, Sequence(1));
    t.finds_what_is_there(0);
    assert_eq!(t.view(0).unwrap().committed, Sequence(5));
    t.acks("a", 0, 5);
    t.passes(MILLIS(200));
    assert_eq!(
        (t.last_write(0).0.next_seq, t.last_write(0).1),
        (Sequence(6), revision)
    );
}

#[test]
fn an_old_read_is_read_again_and_a_higher_epoch_is_final() {
    // P26
    let mut t = fed();
    t.acks("a", 0, 4);
    t.ends(0, Written::Unknown("no answer".to_owned()));
    t.passes(MILLIS(100));
    // A lower epoch can only be the past.
    t.finds(0, Found::Record(Revision(1), Box::new(record(0, None, 1))));
    assert_eq!(t.holds(), [0]);
    t.passes(MILLIS(200));
    let lookups = t.lookups();
    assert!(lookups >= 2, "{lookups}");
    // A higher one is final, however old the read looks.
    t.finds(
        0,
        Found::Record(Revision(1), Box::new(record(2, Some("other"), 1))),
    );
    assert_eq!((t.holds(), t.released()), (vec![], vec![(0, 1, false)]));
}

#[test]
fn the_wait_doubles_up_to_its_limit() {
    // P119
    let mut t = Scene::owning(&[0]);
    t.meta.delivery.retry.max_attempts = 100;
    t.sees_meta();
    t.reads(0, [1]);
    for wait in [
        200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000,
    ] {
        assert_eq!(t.fetches("a", 0), [1]);
        t.nacks("a", 0, 1);
        t.passes(MILLIS(wait - 1));
        assert_eq!(t.fetches("a", 0), [0; 0], "before {wait} ms");
        t.passes(MILLIS(1));
    }
}

#[test]
fn a_refusal_may_say_how_long_to_wait() {
    // P119
    let mut t = Scene::owning(&[0]);
    t.reads(0, [1]);
    t.fetches("a", 0);
    let position = (p(0), Epoch(1), Sequence(1));
    let said = ("later", Some(SECS(7)));
    t.member.nack(&SessionId::new("a"), position, said, t.now);
    t.passes(MILLIS(6999));
    assert_eq!(t.fetches("a", 0), [0; 0]);
    t.passes(MILLIS(1));
    assert_eq!(t.fetches("a", 0), [1]);
}
