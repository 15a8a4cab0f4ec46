//! Commits and their outcomes: sentences P22 to P27 and P118 to P125.

use std::time::Duration;

use super::scene::*;
use crate::group::member::{Accepted, Effect, Found, MemberEvent, Written};
use crate::group::*;

#[test]
fn a_stored_commit_gives_the_revision_for_the_next() {
    // P22, P122
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=3);
    t.fetches("a", 0);
    t.acks("a", 0, 1);
    let (first, _) = t.offsets[&0].clone();
    t.passes(Duration::from_millis(100));
    t.acks("a", 0, 2);
    let wrote = t.writes_of(0);
    assert_eq!(wrote[1].1, first);
    assert_eq!(wrote[1].0.next_seq, Sequence(3));
    assert_eq!(
        wrote[1].0.mark.unwrap(),
        Mark {
            seq: Sequence(2),
            ts: ServerTime(20)
        }
    );
    assert_eq!(
        (wrote[1].0.epoch, wrote[1].0.owner.clone()),
        (Epoch(1), Some(me()))
    );
}

#[test]
fn one_commit_is_in_flight_and_what_comes_meanwhile_is_joined_to_the_next() {
    // P122
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=9);
    t.fetches("a", 0);
    t.records = Answers::No;
    (1..=5).for_each(|s| {
        t.acks("a", 0, s);
    });
    t.passes(Duration::from_secs(1));
    assert_eq!(t.writes(), 1);
    t.answers_write(0);
    let wrote = t.writes_of(0);
    assert_eq!((wrote.len(), wrote[1].0.next_seq), (2, Sequence(6)));
}

#[test]
fn commits_are_paced_by_the_interval() {
    // P123
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=9);
    t.fetches("a", 0);
    (1..=3).for_each(|s| {
        t.acks("a", 0, s);
    });
    assert_eq!(t.writes(), 1, "the first at once");
    t.passes(Duration::from_millis(99));
    assert_eq!(t.writes(), 1);
    t.passes(Duration::from_millis(1));
    assert_eq!((t.writes(), t.committed(0)), (2, 4));
    // A settled partition writes nothing.
    t.passes(Duration::from_secs(10));
    assert_eq!(t.writes(), 2);
}

#[test]
fn many_partitions_commit_less_often() {
    // P123
    let mut t = Scene::owning(&[299]);
    t.reads(299, 1..=9);
    t.fetches("a", 299);
    (1..=3).for_each(|s| {
        t.acks("a", 299, s);
    });
    t.passes(Duration::from_millis(299));
    assert_eq!(t.writes(), 1);
    t.passes(Duration::from_millis(1));
    assert_eq!(t.writes(), 2);
}

#[test]
fn a_thousand_messages_or_somebody_who_waits_are_committed_at_once() {
    // P123
    let mut t = Scene::owning(&[0]);
    t.changes(|meta| meta.delivery.max_in_flight = 2000);
    t.reads(0, 1..=2000);
    t.fetch("a", 0, 2000);
    t.acks("a", 0, 1);
    t.acks("a", 0, 1000);
    assert_eq!(t.committed(0), 2);
    t.acks("a", 0, 1001);
    assert_eq!(t.committed(0), 1002);
    t.acks("a", 0, 1002);
    assert_eq!(t.committed(0), 1002);
    t.hurries(0);
    assert_eq!(t.committed(0), 1003);
}

#[test]
fn feeding_stops_when_too_much_is_acknowledged_and_not_committed() {
    // P124, P25
    let mut t = Scene::owning(&[0]);
    t.changes(|meta| meta.delivery.max_uncommitted = 4);
    t.reads(0, 1..=30);
    t.records = Answers::No;
    let mut given = 0;
    for _ in 0..10 {
        let got = t.is_pushed("a", 0);
        given += got.len();
        if let Some(last) = got.last() {
            t.acks("a", 0, *last);
        }
    }
    assert_eq!(given, 10, "one window, and no further");
    t.passes(Duration::from_secs(5));
    assert_eq!(t.is_pushed("a", 0), [0; 0]);
    t.answers_write(0);
    t.records = Answers::Yes;
    t.answers_write(0);
    assert!(!t.is_pushed("a", 0).is_empty());
}

#[test]
fn a_lost_commit_is_a_fence() {
    // P23, P125
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=3);
    t.fetches("a", 0);
    let revision = t.next_revision();
    t.offsets.insert(0, (revision, record(2, Some("other"), 1)));
    t.acks("a", 0, 3);
    t.passes(Duration::from_millis(100));
    assert_eq!((t.holds(), t.released()), (vec![], vec![(0, 1, false)]));
    assert_eq!((t.acks("a", 0, 3), t.committed(0)), (Accepted::NotOwned, 1));
    assert_eq!(t.closed(), [0]);
}

#[test]
fn an_unknown_commit_is_looked_up_and_adopted_if_it_landed() {
    // P25
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=9);
    t.fetches("a", 0);
    t.records = Answers::No;
    t.acks("a", 0, 2);
    let (landed, _) = t.writes_of(0)[0].clone();
    t.writes_end(0, Written::Unknown("no answer".to_owned()));
    let revision = t.next_revision();
    t.offsets.insert(0, (revision, landed));
    t.records = Answers::Yes;
    t.acks("a", 0, 5);
    t.passes(Duration::from_secs(1));
    assert_eq!((t.committed(0), t.holds()), (6, vec![0]));
}

#[test]
fn an_unknown_commit_that_did_not_land_is_sent_again_and_may_land_late() {
    // P25
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=9);
    t.fetches("a", 0);
    t.records = Answers::No;
    t.acks("a", 0, 2);
    let (late, expected) = t.writes_of(0)[0].clone();
    t.writes_end(0, Written::Unknown("no answer".to_owned()));
    t.acks("a", 0, 5);
    t.passes(Duration::from_millis(100));
    t.answers_read(0);
    // It lands now, before the next one arrives.
    let outcome = t.replace(0, &late, expected);
    assert!(matches!(outcome, Written::Stored(_)));
    t.passes(Duration::from_secs(1));
    t.answers_write(0);
    t.records = Answers::Yes;
    t.passes(Duration::from_secs(1));
    assert_eq!((t.committed(0), t.holds()), (6, vec![0]));
}

#[test]
fn a_commit_record_that_vanished_is_damage() {
    // P27
    let mut t = Scene::owning(&[0, 1]);
    t.reads(0, 1..=3);
    t.fetches("a", 0);
    t.offsets.remove(&0);
    t.acks("a", 0, 3);
    assert_eq!(
        (t.state(0), t.state(1)),
        (Some(HoldState::Stopped), Some(HoldState::Feeding))
    );
    assert!(
        t.told()
            .iter()
            .any(|e| matches!(e, MemberEvent::OffsetLost { .. }))
    );
    t.passes(Duration::from_secs(30));
    assert!(!t.offsets.contains_key(&0), "it is not made anew");
}

#[test]
fn a_record_that_somebody_moved_back_is_damage() {
    // P122, P134
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=9);
    t.fetches("a", 0);
    t.acks("a", 0, 5);
    t.passes(Duration::from_millis(100));
    let revision = t.next_revision();
    t.offsets.insert(0, (revision, record(1, Some(ME), 2)));
    t.acks("a", 0, 6);
    t.passes(Duration::from_secs(1));
    assert_eq!((t.state(0), t.committed(0)), (Some(HoldState::Stopped), 2));
}

#[test]
fn fields_of_a_newer_version_are_kept() {
    // P11
    let mut t = Scene::joined(1);
    let later = ("shape".to_owned(), Json::Text("round".to_owned()));
    t.offsets.get_mut(&0).unwrap().1.unknown = [later.clone()].into();
    t.gives(0, 1);
    t.sees_document();
    t.reads(0, [1]);
    t.fetches("a", 0);
    t.acks("a", 0, 1);
    assert_eq!(t.offsets[&0].1.unknown, [later].into());
    assert_eq!(t.committed(0), 2);
}

#[test]
fn a_busy_commit_is_sent_again_as_it_was() {
    // P24
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=9);
    t.fetches("a", 0);
    t.records = Answers::No;
    t.acks("a", 0, 1);
    t.writes_end(0, Written::Busy);
    t.acks("a", 0, 5);
    t.passes(Duration::from_millis(50));
    let wrote = t.writes_of(0);
    assert_eq!((wrote.len(), &wrote[0]), (2, &wrote[1]));
}

#[test]
fn a_higher_epoch_seen_once_is_final() {
    // P26
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=9);
    t.fetches("a", 0);
    t.records = Answers::No;
    t.acks("a", 0, 1);
    t.writes_end(0, Written::Unknown("no answer".to_owned()));
    t.passes(Duration::from_millis(100));
    // Even if it comes with a revision that looks old.
    t.finds(
        0,
        Found::Record(Revision(1), Box::new(record(2, Some("other"), 1))),
    );
    assert_eq!(t.holds(), [0; 0]);
    assert!(t.log.iter().any(|e| matches!(e, Effect::Close { .. })));
}

#[test]
fn a_record_that_the_server_rolled_back_is_given_back_and_the_next_epoch_begins_from_it() {
    // P27a
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=9);
    t.fetches("a", 0);
    let older = t.offsets[&0].clone();
    t.acks("a", 0, 3);
    assert_eq!(t.committed(0), 4);
    t.offsets.insert(0, older);
    t.acks("a", 0, 5);
    t.passes(Duration::from_millis(100));
    assert_eq!((t.holds(), t.released()), (vec![], vec![(0, 1, false)]));
    t.gives(0, 2);
    t.sees_document();
    assert_eq!((t.epoch(0), t.committed(0)), (Epoch(2), 1));
}

#[test]
fn reads_that_stay_too_old_make_the_write_be_sent_again_which_shows_a_rollback() {
    // P25, P27a
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=9);
    t.fetches("a", 0);
    let older = t.offsets[&0].clone();
    t.acks("a", 0, 3);
    t.records = Answers::No;
    t.passes(Duration::from_millis(100));
    t.acks("a", 0, 5);
    t.writes_end(0, Written::Unknown("no answer".to_owned()));
    t.offsets.insert(0, older);
    let (reads, writes) = (t.lookups(), t.writes());
    for _ in 0..3 {
        t.passes(Duration::from_secs(2));
        t.answers_read(0);
    }
    t.passes(Duration::from_secs(2));
    assert_eq!((t.lookups() - reads, t.writes() - writes), (3, 1));
    t.answers_write(0);
    assert_eq!((t.holds(), t.released()), (vec![], vec![(0, 1, false)]));
}

#[test]
fn a_read_that_does_not_show_what_was_written_is_old_and_no_loss() {
    // P26, P106, P133
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=9);
    t.fetches("a", 0);
    t.records = Answers::No;
    t.acks("a", 0, 5);
    t.writes_end(0, Written::Unknown("no answer".to_owned()));
    t.passes(Duration::from_secs(1));
    t.finds(0, Found::Absent);
    assert_eq!(t.state(0), Some(HoldState::Feeding));
    t.records = Answers::Yes;
    t.passes(Duration::from_secs(1));
    t.answers_read(0);
    t.passes(Duration::from_secs(1));
    assert_eq!((t.committed(0), t.holds()), (6, vec![0]));
}

#[test]
fn a_record_that_was_mended_is_begun_from_at_another_epoch() {
    // P100, P106: at this epoch messages were handed over that would be handed over again.
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=9);
    t.fetches("a", 0);
    let before = t.offsets.remove(&0).unwrap();
    t.acks("a", 0, 5);
    assert_eq!(t.state(0), Some(HoldState::Stopped));
    t.offsets.insert(0, before);
    t.passes(Duration::from_secs(10));
    assert_eq!((t.holds(), t.released()), (vec![], vec![(0, 1, false)]));
}
