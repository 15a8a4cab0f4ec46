//! Heartbeats, their echo, and the lease that only an echo renews: P17, P30, P33, P90 to P94.

use super::answers::*;
use super::scene::*;
use crate::group::member::{Effect, Event, MemberEvent};
use crate::group::*;

#[test]
fn a_heartbeat_is_the_full_state_and_its_beat_rises() {
    // P17
    let mut t = Scene::owning(&[0, 2]);
    t.passes(SECS(3));
    let first = t.last_beat().clone();
    t.passes(SECS(3));
    let second = t.last_beat();
    assert!(second.beat > first.beat);
    let held: Vec<u32> = second.held.iter().map(|h| h.partition.0).collect();
    assert_eq!(held, [0, 2], "nothing has changed, and it is said again");
    assert_eq!(second.bucket, t.meta.bucket);
    assert_eq!(second.session_timeout, S);
}

#[test]
fn nothing_is_done_before_the_first_echo() {
    // P30
    let mut t = Scene::started(1);
    t.heartbeats = Answers::No;
    t.sees_meta();
    t.gives(0, 1);
    t.sees_document();
    assert_eq!(t.holds(), [0; 0]);
    assert_eq!(t.last_beat().state, MemberState::Joining);
    t.echoes();
    assert_eq!(t.holds(), [0]);
}

#[test]
fn the_lease_runs_from_the_sending_of_the_newest_heartbeat_that_came_back() {
    // P90
    let mut t = Scene::owning(&[0]);
    let before = t.member.lease_until();
    t.heartbeats = Answers::No;
    t.passes(SECS(3));
    let (sent, beat) = (t.now, t.last_beat().beat);
    t.passes(SECS(1));
    // That it is stored proves nothing of what this member can see.
    t.happens(Event::PutStored {
        beat,
        revision: Revision(500),
    });
    assert_eq!(t.member.lease_until(), before);
    t.happens(Event::Echo {
        revision: Revision(500),
        beat,
    });
    assert_eq!(t.member.lease_until(), Some(sent.after(S * 3 / 4)));
}

#[test]
fn an_echo_that_comes_late_does_not_shorten_the_lease() {
    // P90
    let mut t = Scene::owning(&[0]);
    t.heartbeats = Answers::No;
    t.passes(SECS(3));
    let first = t.last_beat().beat;
    // The second does not wait for the first.
    t.passes(SECS(3));
    t.echoes();
    let lease = t.member.lease_until();
    assert_eq!(lease, Some(t.now.after(S * 3 / 4)));
    t.happens(Event::Echo {
        revision: Revision(501),
        beat: first,
    });
    assert_eq!(t.member.lease_until(), lease);
}

#[test]
fn past_its_lease_a_member_hands_out_nothing_commits_nothing_and_releases_nothing() {
    // P91, P92
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=3);
    assert_eq!(t.fetches("a", 0), [1, 2, 3]);
    t.heartbeats = Answers::No;
    t.passes(SECS(16));
    assert!(t.told().contains(&&MemberEvent::Suspended));
    assert_eq!(t.state(0), Some(HoldState::Suspended));
    assert_eq!(t.fetches("a", 0), [0; 0]);
    t.acks("a", 0, 2);
    t.passes(SECS(10));
    assert_eq!((t.writes(), t.committed(0)), (0, 1));
    assert_eq!((t.holds(), t.released()), (vec![0], vec![]));
}

#[test]
fn no_consumer_is_made_past_the_lease() {
    // P91
    let mut t = Scene::owning(&[0]);
    t.heartbeats = Answers::No;
    t.passes(SECS(16));
    t.clear();
    let (partition, epoch, unreadable) = (p(0), t.epoch(0), None);
    t.happens(Event::ReaderEnded {
        partition,
        epoch,
        unreadable,
    });
    t.passes(SECS(10));
    assert_eq!(t.opened(), []);
    t.heartbeats = Answers::Yes;
    t.passes(SECS(4));
    assert_eq!(t.opened(), [(0, 1)]);
}

#[test]
fn who_comes_back_verifies_its_record_and_hands_over_again_what_was_not_acknowledged() {
    // P93
    let mut t = Scene::owning(&[0, 1]);
    t.reads(0, 1..=4);
    assert_eq!(t.fetches("a", 0), [1, 2, 3, 4]);
    t.acks("a", 0, 1);
    t.heartbeats = Answers::No;
    t.passes(SECS(16));
    // Meanwhile partition 1 was given to somebody else.
    t.assigns(1, Some("other"), 2, Some("other"));
    t.sees_document();
    assert_eq!(t.holds(), [0]);
    t.clear();
    (t.heartbeats, t.records) = (Answers::Yes, Answers::No);
    t.passes(SECS(3));
    assert!(t.told().contains(&&MemberEvent::Resumed));
    assert_eq!(
        t.fetches("a", 0),
        [0; 0],
        "not before the record is known to be ours"
    );
    let (record, _) = t.last_write(0);
    assert_eq!((record.epoch, record.owner), (Epoch(1), Some(me())));
    t.lands(0);
    assert_eq!(t.fetches("a", 0), [2, 3, 4]);
}

#[test]
fn who_comes_back_too_late_finds_another_on_record() {
    // P93
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=3);
    t.fetches("a", 0);
    t.heartbeats = Answers::No;
    t.passes(SECS(16));
    // The document that says so has not arrived yet.
    t.is_claimed_by_another(0, 2);
    t.heartbeats = Answers::Yes;
    t.passes(SECS(4));
    assert_eq!(t.fetches("a", 0), [0; 0]);
    assert_eq!((t.holds(), t.released()), (vec![], vec![(0, 1, false)]));
}

#[test]
fn after_a_reconnect_commits_wait_for_the_echo_of_a_heartbeat() {
    // P94
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=3);
    t.fetches("a", 0);
    t.heartbeats = Answers::No;
    t.clear();
    t.happens(Event::Connected);
    assert!(matches!(t.log.first(), Some(Effect::Heartbeat(_))));
    t.acks("a", 0, 3);
    t.passes(SECS(1));
    assert_eq!(t.writes(), 0);
    t.echoes();
    assert_eq!(t.committed(0), 4);
}

#[test]
fn an_acknowledgement_below_what_was_seen_means_another_bucket() {
    // P33
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=3);
    t.fetches("a", 0);
    t.heartbeats = Answers::No;
    t.passes(SECS(3));
    let beat = t.last_beat().beat;
    t.happens(Event::PutStored {
        beat,
        revision: Revision(3),
    });
    assert!(t.log.contains(&Effect::Reincarnate));
    assert_eq!((t.holds(), t.closed()), (vec![], vec![0]));
    // This incarnation is over: it neither beats nor commits again.
    t.clear();
    t.passes(SECS(60));
    assert_eq!(t.log, []);
}

#[test]
fn acknowledgements_that_overtake_each_other_mean_nothing() {
    // P33
    let mut t = Scene::owning(&[0]);
    t.heartbeats = Answers::No;
    t.passes(SECS(3));
    let first = t.last_beat().beat;
    t.passes(SECS(3));
    let second = t.last_beat().beat;
    t.happens(Event::PutStored {
        beat: second,
        revision: Revision(702),
    });
    t.happens(Event::PutStored {
        beat: first,
        revision: Revision(701),
    });
    assert_eq!(t.holds(), [0]);
    assert!(!t.log.contains(&Effect::Reincarnate));
}

#[test]
fn another_id_in_meta_means_another_bucket() {
    // P33
    let mut t = Scene::owning(&[0]);
    t.meta.bucket = BucketId::new("b2");
    t.sees_meta();
    assert!(t.log.contains(&Effect::Reincarnate));
    assert_eq!(t.holds(), [0; 0]);
}
