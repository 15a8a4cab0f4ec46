//! Leaving: P126, P130, and what a release is.

use super::answers::*;
use super::scene::*;
use crate::group::member::{Effect, Event};
use crate::group::*;

#[test]
fn a_process_that_ends_finishes_commits_releases_and_leaves_in_that_order() {
    // P126
    let mut t = Scene::owning(&[0, 1]);
    t.reads(0, 1..=2);
    t.fetches("a", 0);
    t.happens(Event::Drain { timeout: SECS(30) });
    assert_eq!(t.last_beat().state, MemberState::Draining);
    assert_eq!((t.holds(), t.released()), (vec![0], vec![(1, 1, true)]));
    t.clear();
    t.acks("a", 0, 2);
    let steps: Vec<&str> = t.log.iter().filter_map(step).collect();
    assert_eq!(steps, ["commit", "left", "over"]);
    assert_eq!(t.committed(0), 3);
    assert!(t.released().contains(&(0, 1, true)));
}

fn step(effect: &Effect) -> Option<&'static str> {
    match effect {
        Effect::WriteOffset { .. } => Some("commit"),
        Effect::Heartbeat(document) if document.state == MemberState::Left => Some("left"),
        Effect::Heartbeat(_) => Some("beat"),
        Effect::Over => Some("over"),
        _ => None,
    }
}

#[test]
fn a_process_that_ends_waits_no_longer_than_it_was_told() {
    // P126
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=2);
    t.fetches("a", 0);
    t.acks("a", 0, 1);
    t.happens(Event::Drain { timeout: SECS(30) });
    t.passes(SECS(29));
    assert_eq!(t.holds(), [0]);
    t.passes(SECS(1));
    assert_eq!(t.last_beat().state, MemberState::Left);
    assert_eq!((t.released(), t.committed(0)), (vec![(0, 1, false)], 2));
}

#[test]
fn a_message_that_waits_for_its_retry_does_not_hold_a_drain_up() {
    // P126
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=2);
    t.fetches("a", 0);
    t.happens(Event::Drain { timeout: SECS(30) });
    t.acks_each("a", 0, 2);
    t.nacks("a", 0, 1);
    assert_eq!(t.last_beat().state, MemberState::Left);
    // The second was acknowledged and cannot be committed past the first.
    assert_eq!((t.released(), t.committed(0)), (vec![(0, 1, false)], 1));
}

#[test]
fn the_consumer_goes_with_the_partition() {
    // P126
    let mut t = Scene::owning(&[0]);
    t.happens(Event::Drain { timeout: SECS(30) });
    assert_eq!(t.closed(), [0]);
}

#[test]
fn a_deleted_group_is_drained_and_waited_for() {
    // P130
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=2);
    t.fetches("a", 0);
    t.meta.state = GroupState::Deleted;
    t.sees_meta();
    t.sees_document();
    assert_eq!(t.is_pushed("a", 0), [0; 0]);
    t.acks("a", 0, 2);
    assert_eq!((t.released(), t.committed(0)), (vec![(0, 1, true)], 3));
    assert!(!t.log.contains(&Effect::Over), "the process goes on");
    t.meta.state = GroupState::Active;
    t.sees_meta();
    t.gives(0, 2);
    t.sees_document();
    assert_eq!(t.holds(), [0]);
}
