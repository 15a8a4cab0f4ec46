//! Revocation, release, drain: sentences P73 to P80, P126, P130.

use std::time::Duration;

use super::scene::*;
use crate::group::ledger::Ask;
use crate::group::member::{Effect, Event, MemberEvent};
use crate::group::*;

#[test]
fn a_revoked_partition_is_not_fed_any_more_and_is_released_once_all_is_committed() {
    // P73, P74
    let mut t = Scene::owning(&[0, 1]);
    t.reads(0, 1..=5);
    t.fetch("a", 0, 2);
    t.revokes(0);
    t.clear();
    t.sees_document();
    assert!(
        t.told()
            .iter()
            .any(|e| matches!(e, MemberEvent::Revoking { .. }))
    );
    assert_eq!(t.closed(), [0]);
    assert_eq!(t.is_pushed("a", 0), [0; 0]);
    // What it has may be finished; a fetch gives it again.
    assert_eq!(t.fetches("a", 0), [1, 2]);
    t.acks("a", 0, 1);
    assert_eq!(t.holds(), [0, 1]);
    t.clear();
    t.acks("a", 0, 2);
    assert_eq!((t.committed(0), t.holds()), (3, vec![1]));
    assert_eq!(
        t.released(),
        [(0, 1, true)],
        "in a put that is sent at once"
    );
}

#[test]
fn the_last_commit_is_stored_before_the_release_is_said() {
    // P74, P126
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=5);
    t.fetch("a", 0, 2);
    t.revokes(0);
    t.sees_document();
    t.records = Answers::No;
    t.clear();
    t.acks("a", 0, 2);
    t.passes(Duration::from_secs(3));
    assert_eq!((t.holds(), t.released()), (vec![0], vec![]));
    t.answers_write(0);
    assert_eq!((t.holds(), t.released()), (vec![], vec![(0, 1, true)]));
}

#[test]
fn an_owner_that_holds_nothing_of_it_releases_at_once() {
    // P78
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=5);
    t.revokes(0);
    t.clear();
    t.sees_document();
    assert_eq!((t.holds(), t.released()), (vec![], vec![(0, 1, true)]));
    // Also one that has not claimed it yet, or is asked to give up what it never had.
    let mut t = Scene::joined(1);
    t.assigns(0, Some(ME), 7, Some("other"));
    t.sees_document();
    assert_eq!((t.writes(), t.released()), (0, vec![(0, 7, true)]));
}

#[test]
fn a_release_is_repeated_in_each_beat_until_the_epoch_is_higher() {
    // P75
    let mut t = Scene::owning(&[0]);
    t.revokes(0);
    t.sees_document();
    t.clear();
    t.passes(Duration::from_secs(7));
    assert_eq!(t.beats.len(), 2);
    assert!(t.beats.iter().all(|b| b.released.len() == 1));
    // A document that has not heard of it gives nothing back.
    t.gives(0, 1);
    t.sees_document();
    assert_eq!(t.holds(), [0; 0]);
    t.assigns(0, Some("other"), 2, Some("other"));
    t.sees_document();
    t.passes(Duration::from_secs(3));
    assert_eq!(t.released(), []);
    // The same partition may come back at a higher epoch.
    t.gives(0, 3);
    t.sees_document();
    assert_eq!((t.holds(), t.epoch(0)), (vec![0], Epoch(3)));
}

#[test]
fn after_its_release_an_owner_neither_feeds_nor_commits() {
    // P75
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=5);
    t.fetch("a", 0, 2);
    t.revokes(0);
    t.sees_document();
    t.passes(Duration::from_secs(60));
    assert_eq!(t.released(), [(0, 1, false)]);
    t.clear();
    t.acks("a", 0, 2);
    t.passes(Duration::from_secs(1));
    assert_eq!(
        (t.writes(), t.committed(0), t.fetches("a", 0)),
        (0, 1, vec![])
    );
}

#[test]
fn what_is_not_finished_two_heartbeats_before_the_rebalance_timeout_is_released_unclean() {
    // P77
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=5);
    t.fetch("a", 0, 2);
    t.revokes(0);
    t.sees_document();
    t.passes(Duration::from_secs(54) - Duration::from_millis(1));
    assert_eq!(t.holds(), [0]);
    t.passes(Duration::from_millis(1));
    assert_eq!((t.holds(), t.released()), (vec![], vec![(0, 1, false)]));
}

#[test]
fn a_document_that_still_wants_it_back_does_not_prolong_the_time() {
    // P77: once per (p, epoch), from the first document.
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=5);
    t.fetch("a", 0, 2);
    t.revokes(0);
    t.sees_document();
    t.passes(Duration::from_secs(50));
    t.sees_document();
    t.passes(Duration::from_secs(4));
    assert_eq!(t.holds(), [0; 0]);
}

#[test]
fn a_revocation_that_is_withdrawn_lets_the_owner_feed_on_at_the_same_epoch() {
    // P79
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=12);
    t.fetch("a", 0, 2);
    t.revokes(0);
    t.sees_document();
    t.gives(0, 1);
    t.clear();
    t.sees_document();
    assert!(
        t.told()
            .iter()
            .any(|e| matches!(e, MemberEvent::Kept { .. }))
    );
    assert_eq!(t.is_pushed("a", 0), (3..=10).collect::<Vec<_>>());
    // It reads on after the last message read.
    assert_eq!((t.opened(), t.epoch(0)), (vec![(0, 13)], Epoch(1)));
}

#[test]
fn a_message_that_waits_for_its_retry_does_not_hold_a_release_up() {
    // P126
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=5);
    t.fetch("a", 0, 1);
    t.nacks("a", 0, 1);
    t.revokes(0);
    t.clear();
    t.sees_document();
    t.passes(Duration::from_millis(100));
    assert_eq!(t.released(), [(0, 1, true)]);
    assert_eq!(t.offsets[&0].1.head.clone().unwrap().attempts, 1);
}

#[test]
fn a_release_with_acknowledged_messages_behind_one_that_is_not_is_unclean() {
    // P74
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=3);
    t.fetches("a", 0);
    t.acks_each("a", 0, 3);
    t.nacks("a", 0, 1);
    t.nacks("a", 0, 2);
    t.revokes(0);
    t.sees_document();
    t.passes(Duration::from_millis(100));
    assert_eq!((t.released(), t.committed(0)), (vec![(0, 1, false)], 1));
}

#[test]
fn a_drain_gives_everything_back_and_then_says_left() {
    // P126
    let mut t = Scene::owning(&[0, 1]);
    t.reads(0, 1..=3);
    t.fetch("a", 0, 2);
    t.clear();
    t.drains(30);
    assert_eq!(t.last_beat().state, MemberState::Draining);
    assert_eq!((t.holds(), t.released()), (vec![0], vec![(1, 1, true)]));
    assert_eq!(t.fetches("a", 0), [1, 2]);
    assert_eq!(t.is_pushed("a", 0), [0; 0]);
    t.acks("a", 0, 2);
    assert_eq!(t.last_beat().state, MemberState::Left);
    assert_eq!(t.released(), [(0, 1, true), (1, 1, true)]);
    assert_eq!(t.log.last(), Some(&Effect::Over));
    assert_eq!(t.member.given_back(), (2, 0));
}

#[test]
fn a_drain_that_takes_too_long_gives_back_what_there_is() {
    // P126
    let mut t = draining();
    t.passes(Duration::from_secs(30) - Duration::from_millis(1));
    assert_eq!(t.holds(), [0]);
    t.passes(Duration::from_millis(1));
    assert_eq!(
        (t.last_beat().state, t.released()),
        (MemberState::Left, vec![(0, 1, false)])
    );
    assert_eq!(t.member.given_back(), (0, 1));
}

/// A member that leaves within 30 s, with messages 1 and 2 in the hands of session "a".
fn draining() -> Scene {
    let mut t = Scene::owning(&[0]);
    t.happens(Event::Application { connected: true });
    t.reads(0, 1..=3);
    t.fetch("a", 0, 2);
    t.drains(30);
    t
}

#[test]
fn nobody_is_waited_for_once_every_session_has_been_closed_for_a_second() {
    // P126a
    let mut t = draining();
    t.loses("a");
    t.happens(Event::Application { connected: false });
    t.passes(Duration::from_millis(999));
    assert_eq!(t.holds(), [0]);
    t.passes(Duration::from_millis(1));
    assert_eq!(
        (t.last_beat().state, t.released()),
        (MemberState::Left, vec![(0, 1, false)])
    );
    assert_eq!(t.log.last(), Some(&Effect::Over));
    // P99: its attempt is counted once, by the next owner's claim.
    let head = t.offsets[&0].1.head.clone().expect("a head");
    assert_eq!((head.seq, head.attempts), (Sequence(1), 0));
    assert!(head.last_error.contains("session ended"), "{head:?}");
}

#[test]
fn a_session_that_is_open_is_waited_for_although_another_has_ended() {
    // P126a
    let mut t = draining();
    t.loses("a");
    t.passes(Duration::from_secs(29));
    assert_eq!(t.holds(), [0]);
    t.passes(Duration::from_secs(1));
    assert_eq!(t.released(), [(0, 1, false)]);
}

#[test]
fn a_session_that_is_opened_while_its_member_leaves_is_given_what_another_had() {
    // P126a
    let mut t = draining();
    t.loses("a");
    t.happens(Event::Application { connected: false });
    t.passes(Duration::from_millis(900));
    t.happens(Event::Application { connected: true });
    t.passes(Duration::from_secs(5));
    let again = t.fetch("b", 0, 100);
    let again: Vec<_> = again.iter().map(|(s, how)| (*s, how.attempt)).collect();
    assert_eq!(again, [(1, 2), (2, 2)], "and nothing new");
    t.acks("b", 0, 2);
    assert_eq!(
        (t.last_beat().state, t.released(), t.committed(0)),
        (MemberState::Left, vec![(0, 1, true)], 3)
    );
    assert_eq!(t.offsets[&0].1.head, None);
}

#[test]
fn a_stream_that_is_opened_while_its_member_leaves_is_pushed_what_another_had() {
    // P126a
    let mut t = draining();
    t.nacks("a", 0, 2);
    t.loses("a");
    let (id, asks) = (SessionId::new("b"), (p(0), Ask::OnlyNew));
    assert!(t.member.has_for(&id, asks, t.now));
    assert_eq!(t.is_pushed("b", 0), [1]);
    // What was refused stays here.
    t.passes(Duration::from_secs(5));
    assert!(!t.member.has_for(&id, asks, t.now));
    assert_eq!(t.is_pushed("b", 0), [0; 0]);
    t.acks("b", 0, 1);
    assert_eq!((t.released(), t.committed(0)), (vec![(0, 1, true)], 2));
}

#[test]
fn an_acknowledgement_that_comes_after_its_session_ended_counts_until_the_release() {
    // P126a
    let mut t = draining();
    t.loses("a");
    t.happens(Event::Application { connected: false });
    t.passes(Duration::from_millis(500));
    t.acks("a", 0, 2);
    assert_eq!((t.released(), t.committed(0)), (vec![(0, 1, true)], 3));
}

#[test]
fn the_second_without_a_session_begins_with_the_last_that_ends() {
    // P126a
    let mut t = draining();
    t.heartbeats = Answers::No; // its own clock is enough
    t.loses("a");
    for connected in [false, true, false] {
        t.happens(Event::Application { connected });
        t.passes(Duration::from_millis(600));
    }
    assert_eq!(t.holds(), [0]);
    t.passes(Duration::from_millis(400));
    assert_eq!(t.released(), [(0, 1, false)]);
}

#[test]
fn what_was_acknowledged_is_committed_although_nobody_is_waited_for() {
    // P126a
    let mut t = draining();
    t.records = Answers::No;
    t.acks("a", 0, 1);
    t.loses("a");
    t.happens(Event::Application { connected: false });
    t.passes(Duration::from_secs(3));
    assert_eq!(t.holds(), [0]);
    t.answers_write(0);
    t.answers_write(0);
    assert_eq!((t.holds(), t.committed(0)), (vec![], 2));
    assert_eq!(t.released(), [(0, 1, false)]);
    // Also one that waits for the first heartbeat of a new connection. P94
    let mut t = draining();
    t.heartbeats = Answers::No;
    t.happens(Event::Connected);
    t.acks("a", 0, 1);
    t.loses("a");
    t.happens(Event::Application { connected: false });
    t.passes(Duration::from_secs(2));
    assert_eq!((t.holds(), t.committed(0)), (vec![0], 1));
    t.heartbeats = Answers::Yes;
    t.passes(Duration::from_secs(3));
    assert_eq!((t.holds(), t.committed(0)), (vec![], 2));
    assert_eq!(t.released(), [(0, 1, false)]);
}

#[test]
fn left_is_said_until_it_is_heard() {
    // P126
    let mut t = Scene::owning(&[0]);
    t.heartbeats = Answers::No;
    t.drains(30);
    t.passes(Duration::from_secs(9));
    assert!(!t.log.contains(&Effect::Over));
    assert!(
        t.beats
            .iter()
            .filter(|b| b.state == MemberState::Left)
            .count()
            > 2
    );
    t.heartbeats = Answers::Yes;
    t.passes(Duration::from_secs(3));
    assert_eq!(t.log.last(), Some(&Effect::Over));
}

#[test]
fn a_grant_to_a_member_that_leaves_is_given_back_untouched() {
    // P78, P126
    let mut t = Scene::owning(&[0, 1]);
    t.reads(0, [1]);
    t.fetches("a", 0);
    t.drains(30);
    t.clear();
    t.gives(1, 2);
    t.sees_document();
    assert_eq!((t.writes(), t.released()), (0, vec![(1, 2, true)]));
}

#[test]
fn a_member_that_nobody_has_heard_of_just_ends() {
    // P126
    let mut t = Scene::started(1);
    t.drains(30);
    assert_eq!(t.log.last(), Some(&Effect::Over));
}

#[test]
fn members_of_a_deleted_group_drain_stand_by_and_come_back() {
    // P130
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=3);
    t.fetches("a", 0);
    t.changes(|meta| meta.state = GroupState::Deleted);
    assert_eq!((t.holds(), t.is_pushed("a", 0)), (vec![0], vec![]));
    t.acks("a", 0, 3);
    assert_eq!((t.holds(), t.released()), (vec![], vec![(0, 1, true)]));
    assert!(!t.member.is_over());
    // Made again.
    t.changes(|meta| meta.state = GroupState::Active);
    t.gives(0, 2);
    t.sees_document();
    assert_eq!((t.state(0), t.committed(0)), (Some(HoldState::Feeding), 4));
}

#[test]
fn events_after_the_end_are_nobodys() {
    let mut t = Scene::owning(&[0]);
    t.drains(0);
    t.clear();
    t.gives(0, 2);
    t.sees_document();
    t.passes(S);
    t.happens(Event::Connected);
    assert_eq!(t.log, []);
}
