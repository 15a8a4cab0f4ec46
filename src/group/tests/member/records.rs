//! How writes of commit records end, and commits: P22 to P27, P122 to P125.

use super::answers::*;
use super::scene::*;
use crate::group::member::{Accepted, AckKind, Found, MemberEvent, Written};
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
fn a_stored_write_is_what_the_next_one_replaces() {
    // P22
    let mut t = fed();
    t.acks("a", 0, 1);
    t.lands(0);
    let stored = t.offsets[&0].0;
    t.acks("a", 0, 2);
    t.passes(MILLIS(100));
    assert_eq!(t.last_write(0).1, stored);
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
fn a_conflict_with_another_owner_is_the_end() {
    // P23, P125
    let mut t = fed();
    t.acks("a", 0, 4);
    t.is_claimed_by_another(0, 2);
    let (stands_at, _) = t.offsets[&0];
    t.ends(0, Written::Conflict(Some(stands_at)));
    t.passes(MILLIS(100));
    t.finds_what_is_there(0);
    let (partition, epoch) = (p(0), Epoch(1));
    assert!(
        t.told()
            .contains(&&MemberEvent::Fenced { partition, epoch })
    );
    assert_eq!((t.holds(), t.released()), (vec![], vec![(0, 1, false)]));
    let late = t.ack("a", (0, Epoch(1), 5), AckKind::UpTo);
    assert_eq!(late, Accepted::NotOwned);
    assert_eq!(t.committed(0), 1);
}

#[test]
fn a_server_that_cannot_judge_yet_is_asked_the_same_again() {
    // P24
    let mut t = fed();
    t.acks("a", 0, 4);
    let before = t.last_write(0);
    t.clear();
    t.ends(0, Written::Busy);
    t.passes(MILLIS(9));
    assert_eq!(t.writes(), 0);
    t.passes(MILLIS(41));
    assert_eq!((t.writes(), t.lookups()), (1, 0));
    assert_eq!(t.last_write(0), before);
    assert_eq!(t.holds(), [0], "it is no fence");
}

#[test]
fn an_unknown_end_is_looked_up_whether_it_landed_or_not() {
    // P25
    for landed in [true, false] {
        let mut t = fed();
        t.acks("a", 0, 4);
        if landed {
            t.lands_unheard(0);
        }
        t.ends(0, Written::Unknown("no answer".to_owned()));
        assert_eq!(
            t.view(0).unwrap().committed,
            Sequence(1),
            "nothing is assumed"
        );
        t.records = Answers::Yes;
        t.passes(SECS(1));
        assert_eq!((t.committed(0), t.holds()), (5, vec![0]));
    }
}

#[test]
fn an_unknown_write_that_lands_late_is_adopted() {
    // P25
    let mut t = fed();
    t.acks("a", 0, 4);
    let (record, expected) = t.last_write(0);
    t.ends(0, Written::Unknown("no answer".to_owned()));
    t.passes(MILLIS(100));
    t.finds_what_is_there(0);
    // It seems not to have landed: the same is written again, and the first one arrives before it.
    t.passes(MILLIS(100));
    t.replace(0, &record, expected);
    let outcome = t.lands_unheard(0);
    assert!(matches!(outcome, Written::Conflict(_)), "{outcome:?}");
    t.records = Answers::Yes;
    t.ends(0, outcome);
    t.passes(SECS(1));
    assert_eq!(
        (t.holds(), t.view(0).unwrap().committed),
        (vec![0], Sequence(5))
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
fn a_record_that_vanished_is_damage() {
    // P27
    let mut t = fed();
    t.acks("a", 0, 4);
    t.clear();
    t.ends(0, Written::Conflict(Some(Revision(0))));
    assert!(
        t.told()
            .iter()
            .any(|e| matches!(e, MemberEvent::OffsetLost { .. }))
    );
    t.passes(SECS(30));
    assert_eq!((t.writes(), t.state(0)), (0, Some(HoldState::Stopped)));
}

#[test]
fn one_commit_is_in_flight_and_what_comes_meanwhile_is_joined() {
    // P122
    let mut t = fed();
    for sequence in 1..=5 {
        t.acks("a", 0, sequence);
        t.passes(MILLIS(200));
    }
    assert_eq!((t.writes(), t.last_write(0).0.next_seq), (1, Sequence(2)));
    t.lands(0);
    assert_eq!((t.writes(), t.last_write(0).0.next_seq), (2, Sequence(6)));
    let (record, _) = t.last_write(0);
    assert_eq!((record.epoch, record.owner), (Epoch(1), Some(me())));
}

#[test]
fn a_commit_waits_for_its_interval() {
    // P123
    let mut t = fed();
    t.records = Answers::Yes;
    t.acks("a", 0, 1);
    assert_eq!(t.committed(0), 2, "the first does not wait");
    t.acks("a", 0, 2);
    t.passes(MILLIS(99));
    assert_eq!(t.committed(0), 2);
    t.passes(MILLIS(1));
    assert_eq!(t.committed(0), 3);
}

#[test]
fn many_partitions_commit_less_often() {
    // P123
    let mut t = Scene::owning(&[299]);
    t.reads(299, 1..=2);
    t.fetches("a", 299);
    t.acks("a", 299, 1);
    t.acks("a", 299, 2);
    t.passes(MILLIS(299));
    assert_eq!(t.committed(299), 2);
    t.passes(MILLIS(1));
    assert_eq!(t.committed(299), 3);
}

#[test]
fn a_commit_does_not_wait_after_a_thousand_messages_nor_when_somebody_waits_for_it() {
    // P123
    let mut t = Scene::joined(1);
    t.meta.delivery.max_in_flight = 5000;
    t.meta.delivery.max_uncommitted = 5000;
    t.sees_meta();
    t.gives(0, 1);
    t.sees_document();
    t.reads(0, 1..=3000);
    t.fetch("a", 0, 3000);
    t.acks("a", 0, 1);
    t.acks("a", 0, 1000);
    assert_eq!(t.committed(0), 2);
    t.acks("a", 0, 1001);
    assert_eq!(t.committed(0), 1002);
    t.acks("a", 0, 1002);
    assert_eq!(t.committed(0), 1002);
    t.member.hurry(p(0), t.now);
    t.happens(crate::group::member::Event::Deadline);
    assert_eq!(t.committed(0), 1003);
}

#[test]
fn too_many_uncommitted_messages_stop_the_feeding() {
    // P124
    let mut t = Scene::owning(&[0]);
    t.meta.delivery.max_uncommitted = 3;
    t.sees_meta();
    t.records = Answers::No;
    t.reads(0, 1..=20);
    assert_eq!(t.fetch("a", 0, 5).len(), 5);
    t.acks("a", 0, 3);
    assert_eq!(t.is_pushed("a", 0), [0; 0]);
    t.lands(0);
    assert_eq!(t.is_pushed("a", 0).first(), Some(&6));
}
