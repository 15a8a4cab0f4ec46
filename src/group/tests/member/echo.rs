//! The lease and its echo: sentences P30, P33, P90 to P95.

use std::time::Duration;

use super::scene::*;
use crate::group::member::{Effect, Event, MemberEvent, Written};
use crate::group::*;

#[test]
fn nothing_is_acted_on_before_the_first_echo() {
    // P30
    let mut t = Scene::started(1);
    t.heartbeats = Answers::No;
    t.sees_meta();
    t.gives(0, 1);
    t.sees_document();
    assert_eq!((t.beats.len(), t.holds()), (1, vec![]));
    assert_eq!(t.last_beat().state, MemberState::Joining);
    // Its own put comes back: now the document that has been waiting is followed.
    t.echo_of(1);
    assert_eq!(t.holds(), [0]);
    assert_eq!(t.last_beat().state, MemberState::Active);
}

#[test]
fn the_lease_runs_from_the_sending_of_the_newest_heartbeat_that_came_back() {
    // P90
    let mut t = Scene::started(1);
    t.heartbeats = Answers::No;
    t.sees_meta();
    let sent = t.now;
    t.passes(Duration::from_secs(2));
    assert_eq!(t.member.lease_until(), None);
    t.echo_of(1);
    assert_eq!(t.member.lease_until(), Some(sent.after(S * 3 / 4)));
    // An older echo that comes late takes nothing away, and adds nothing.
    let (until, beat) = (t.member.lease_until(), t.last_beat().beat.0);
    t.echo_of(beat);
    let renewed = t.member.lease_until();
    assert!(renewed > until);
    t.echo_of(1);
    assert_eq!(t.member.lease_until(), renewed);
}

#[test]
fn an_acknowledgement_of_a_heartbeat_does_not_renew_the_lease() {
    // P90: only the echo does; the put may go through where the watch is stale.
    let mut t = Scene::owning(&[0]);
    let until = t.member.lease_until();
    t.heartbeats = Answers::No;
    for _ in 0..10 {
        t.passes(Duration::from_secs(3));
        let (beat, revision) = (t.last_beat().beat, t.next_revision());
        t.happens(Event::PutStored { beat, revision });
    }
    assert_eq!(t.member.lease_until(), until);
    assert_eq!(t.state(0), Some(HoldState::Suspended));
}

#[test]
fn heartbeats_do_not_wait_for_each_other() {
    // P82, P90
    let mut t = Scene::owning(&[0]);
    t.heartbeats = Answers::No;
    t.clear();
    t.passes(Duration::from_secs(31));
    assert_eq!(t.beats.len(), 10);
    // At most a quarter of the session timeout apart.
    t.clear();
    t.changes(|meta| meta.membership.session_timeout = Duration::from_secs(4));
    t.clear();
    t.passes(Duration::from_secs(10));
    assert_eq!(t.beats.len(), 10);
}

#[test]
fn past_the_lease_nothing_is_handed_over_or_committed_and_nothing_is_released() {
    // P91, P92
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=20);
    t.fetch("a", 0, 2);
    t.heartbeats = Answers::No;
    t.passes(S * 3 / 4 - Duration::from_millis(1));
    assert_eq!(t.is_pushed("a", 0).len(), 8);
    t.clear();
    t.passes(Duration::from_millis(1));
    assert!(t.told().contains(&&MemberEvent::Suspended));
    assert_eq!(t.fetches("a", 0), [0; 0]);
    t.acks("a", 0, 2);
    t.passes(Duration::from_secs(100));
    assert_eq!((t.writes(), t.committed(0)), (0, 1));
    assert_eq!((t.holds(), t.released()), (vec![0], vec![]));
}

#[test]
fn a_step_at_the_very_end_of_the_lease_commits_nothing() {
    // P91: the driver may be late; the check is by the time of the step, not of the deadline.
    let mut t = Scene::owning(&[0]);
    t.reads(0, [1]);
    t.fetches("a", 0);
    t.heartbeats = Answers::No;
    t.now = t.now.after(S); // asleep
    t.acks("a", 0, 1);
    assert_eq!((t.writes(), t.committed(0)), (0, 1));
}

#[test]
fn a_hand_over_past_the_lease_is_refused_although_nothing_was_stepped_since() {
    // P91: checked at each hand-over, not when the deadline is noticed.
    let mut t = Scene::owning(&[0]);
    t.reads(0, [1]);
    t.heartbeats = Answers::No;
    t.now = t.now.after(S); // asleep
    assert_eq!(t.fetches("a", 0), [0; 0]);
}

#[test]
fn a_claim_waits_for_the_lease() {
    // P91
    let mut t = Scene::joined(1);
    t.heartbeats = Answers::No;
    t.passes(S);
    t.gives(0, 1);
    t.sees_document();
    assert_eq!((t.writes(), t.opened().len()), (0, 0));
    t.comes_back();
    assert_eq!((t.writes(), t.opened().len()), (1, 1));
}

#[test]
fn when_the_echo_returns_what_is_still_ours_goes_on_after_one_verifying_write() {
    // P93
    let mut t = Scene::owning(&[0, 1]);
    t.reads(0, 1..=3);
    t.fetch("a", 0, 2);
    t.heartbeats = Answers::No;
    t.passes(S);
    // Meanwhile 1 was granted to another member.
    t.assigns(1, Some("other"), 2, Some("other"));
    t.records = Answers::No;
    t.clear();
    t.comes_back();
    t.sees_document();
    assert_eq!(t.holds(), [0]);
    // Not before the write is stored.
    assert_eq!(t.fetches("a", 0), [0; 0]);
    assert_eq!(t.state(0), Some(HoldState::Suspended));
    let wrote = t.writes_of(0);
    assert_eq!(wrote.len(), 1);
    t.answers_write(0);
    assert_eq!(t.state(0), Some(HoldState::Feeding));
    // What was not acknowledged comes first, in order.
    assert_eq!(t.fetches("a", 0), [1, 2, 3]);
    assert!(t.told().contains(&&MemberEvent::Resumed));
}

#[test]
fn a_member_that_was_fenced_while_it_slept_hands_over_nothing_when_it_wakes() {
    // P93, P125
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=3);
    t.heartbeats = Answers::No;
    t.passes(S);
    // A new owner has claimed; the document has not come through to us.
    let revision = t.next_revision();
    t.offsets.insert(0, (revision, record(2, Some("other"), 1)));
    t.clear();
    t.comes_back();
    t.passes(Duration::from_millis(100));
    assert_eq!(t.holds(), [0; 0]);
    assert_eq!(t.fetches("a", 0), [0; 0]);
    assert_eq!(t.released(), [(0, 1, false)]);
}

#[test]
fn after_a_reconnect_commits_wait_for_the_echo_of_a_new_heartbeat() {
    // P94
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=3);
    t.fetches("a", 0);
    t.heartbeats = Answers::No;
    t.clear();
    t.happens(Event::Connected);
    assert_eq!(t.beats.len(), 1, "the first write is a heartbeat");
    t.acks("a", 0, 3);
    t.passes(Duration::from_secs(1));
    assert_eq!(t.writes(), 0);
    // An echo of an earlier one is not enough.
    let beat = t.last_beat().beat.0;
    t.echo_of(beat - 1);
    assert_eq!(t.writes(), 0);
    t.echo_of(beat);
    assert_eq!((t.writes(), t.committed(0)), (1, 4));
}

#[test]
fn a_replaced_bucket_ends_this_life_at_once() {
    // P33
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=3);
    t.fetches("a", 0);
    t.clear();
    t.meta.bucket = BucketId::new("b2");
    t.sees_meta();
    assert!(t.log.contains(&Effect::Reincarnate));
    assert_eq!((t.holds(), t.closed()), (vec![], vec![0]));
    t.acks("a", 0, 3);
    t.passes(S * 3);
    assert_eq!((t.writes(), t.beats.len()), (0, 0));
}

#[test]
fn an_acknowledgement_that_is_not_above_all_seen_before_means_another_bucket() {
    // P33: the watch may be healthy and hear nothing for ever.
    let mut t = Scene::owning(&[0]);
    t.heartbeats = Answers::No;
    t.passes(Duration::from_secs(3));
    let beat = t.last_beat().beat;
    t.clear();
    t.happens(Event::PutStored {
        beat,
        revision: Revision(3),
    });
    assert!(t.log.contains(&Effect::Reincarnate));
}

#[test]
fn overlapping_heartbeats_that_are_answered_out_of_order_mean_nothing() {
    // P33
    let mut t = Scene::owning(&[0]);
    t.heartbeats = Answers::No;
    t.clear();
    t.passes(Duration::from_secs(6));
    let beats: Vec<Beat> = t.beats.iter().map(|b| b.beat).collect();
    let (first, second) = (t.next_revision(), t.next_revision());
    for (beat, revision) in [(beats[1], second), (beats[0], first)] {
        t.happens(Event::PutStored { beat, revision });
    }
    assert!(!t.log.contains(&Effect::Reincarnate));
}

#[test]
fn a_write_answered_after_the_lease_is_taken_in_but_nothing_follows_from_it() {
    // P91
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=3);
    t.fetches("a", 0);
    t.records = Answers::No;
    t.acks("a", 0, 1);
    t.heartbeats = Answers::No;
    t.passes(S);
    t.acks("a", 0, 3);
    t.clear();
    let written = t.next_revision();
    t.happens(Event::Written {
        partition: p(0),
        epoch: Epoch(1),
        outcome: Written::Stored(written),
    });
    assert_eq!((t.writes(), t.view(0).unwrap().committed), (0, Sequence(2)));
}
