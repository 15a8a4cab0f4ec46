//! Revocation, release, drain: sentences P73 to P80, P126, P130.

use std::time::Duration;

use super::scene::*;
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
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=3);
    t.fetch("a", 0, 2);
    t.drains(30);
    t.passes(Duration::from_secs(30));
    assert_eq!(
        (t.last_beat().state, t.released()),
        (MemberState::Left, vec![(0, 1, false)])
    );
    assert_eq!(t.member.given_back(), (0, 1));
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
