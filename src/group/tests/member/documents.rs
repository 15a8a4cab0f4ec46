//! What `meta` and `group` say, and what a member does: P31, P32, P72 to P79, P95.

use super::answers::*;
use super::scene::*;
use crate::group::member::{Effect, MemberEvent};
use crate::group::*;

#[test]
fn a_document_waits_for_the_meta_that_it_follows() {
    // P31
    let mut t = Scene::joined(1);
    t.document.meta_generation = MetaGeneration(2);
    t.gives(0, 1);
    t.sees_document();
    assert_eq!(t.holds(), [0; 0]);
    t.meta.generation = MetaGeneration(2);
    t.sees_meta();
    assert_eq!(t.holds(), [0]);
}

#[test]
fn an_old_document_is_ignored() {
    // P32
    let mut t = Scene::owning(&[0]);
    let newest = t.document.clone();
    // An edition from before the partition was given, delivered late.
    t.assigns(0, None, 0, None);
    t.document.epoch = GroupEpoch(newest.epoch.0 - 2);
    t.sees_document();
    assert_eq!(t.holds(), [0]);
    // A higher edition of a lower term is as old.
    t.document.term = Term(0);
    t.document.epoch = GroupEpoch(newest.epoch.0 + 5);
    t.sees_document();
    assert_eq!(t.holds(), [0]);
    t.document.term = newest.term;
    t.sees_document();
    assert_eq!(t.holds(), [0; 0]);
}

#[test]
fn a_partition_that_has_to_go_is_finished_committed_and_released_at_once() {
    // P73, P74, P126
    let mut t = Scene::owning(&[0, 1]);
    t.reads(0, 1..=3);
    assert_eq!(t.fetches("a", 0), [1, 2, 3]);
    t.reads(0, 4..=6);
    t.reads(1, 1..=2);
    t.revokes(0);
    t.sees_document();
    assert_eq!(t.is_pushed("a", 0), [0; 0], "nothing more comes");
    assert_eq!(t.fetches("a", 1), [1, 2], "the other goes on");
    t.acks("a", 0, 2);
    assert_eq!(t.holds(), [0, 1]);
    t.clear();
    t.acks("a", 0, 3);
    assert_eq!(t.committed(0), 4);
    assert_eq!((t.holds(), t.released()), (vec![1], vec![(0, 1, true)]));
    let write = t
        .log
        .iter()
        .position(|e| matches!(e, Effect::WriteOffset { .. }));
    let beat = t.log.iter().position(|e| matches!(e, Effect::Heartbeat(_)));
    assert!(
        write < beat,
        "released before it was committed: {:?}",
        t.log
    );
}

#[test]
fn a_release_with_messages_in_flight_is_not_clean() {
    // P74, P77: the owner's own deadline is two heartbeats before the coordinator's.
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=3);
    t.fetches("a", 0);
    t.acks("a", 0, 1);
    t.revokes(0);
    t.sees_document();
    t.passes(SECS(53));
    assert_eq!(t.holds(), [0]);
    t.passes(SECS(1));
    assert_eq!((t.holds(), t.released()), (vec![], vec![(0, 1, false)]));
    assert_eq!(t.committed(0), 2);
}

#[test]
fn a_release_with_an_acknowledgement_behind_a_gap_is_not_clean() {
    // P74
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=2);
    t.fetches("a", 0);
    t.acks_each("a", 0, 2);
    t.revokes(0);
    t.sees_document();
    // The first one is refused: it waits for its retry, and is not in flight any more.
    t.nacks("a", 0, 1);
    t.passes(SECS(1));
    assert_eq!((t.committed(0), t.released()), (1, vec![(0, 1, false)]));
}

#[test]
fn a_release_is_final_and_repeated_until_the_epoch_has_moved_on() {
    // P75
    let mut t = Scene::owning(&[0]);
    t.heartbeats = Answers::No;
    t.revokes(0);
    t.sees_document();
    assert_eq!(t.released(), [(0, 1, true)], "sent, and perhaps lost");
    // The revocation is withdrawn: too late.
    t.gives(0, 1);
    t.sees_document();
    assert_eq!(t.holds(), [0; 0]);
    t.passes(SECS(3));
    assert_eq!(t.released(), [(0, 1, true)]);
    t.heartbeats = Answers::Yes;
    t.gives(0, 2);
    t.sees_document();
    t.passes(SECS(3));
    assert_eq!((t.holds(), t.released()), (vec![0], vec![]));
}

#[test]
fn what_was_never_begun_is_released_at_once() {
    // P78
    let mut t = Scene::joined(1);
    t.clear();
    t.assigns(0, Some(ME), 1, Some("other"));
    t.sees_document();
    assert_eq!((t.released(), t.lookups()), (vec![(0, 1, true)], 0));
}

#[test]
fn a_claim_that_is_under_way_ends_with_a_revocation() {
    // P78
    let mut t = Scene::joined(1);
    t.records = Answers::No;
    t.gives(0, 1);
    t.sees_document();
    t.revokes(0);
    t.sees_document();
    assert_eq!((t.holds(), t.released()), (vec![], vec![(0, 1, true)]));
}

#[test]
fn a_revocation_that_is_withdrawn_in_time_leaves_everything_as_it_was() {
    // P79
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=2);
    t.fetches("a", 0);
    t.revokes(0);
    t.sees_document();
    t.gives(0, 1);
    t.sees_document();
    let (partition, epoch) = (p(0), Epoch(1));
    assert!(t.told().contains(&&MemberEvent::Kept { partition, epoch }));
    t.reads(0, 3..=4);
    assert_eq!(t.is_pushed("a", 0), [3, 4]);
    t.acks("a", 0, 4);
    t.passes(SECS(1));
    assert_eq!((t.epoch(0), t.committed(0)), (Epoch(1), 5));
}

#[test]
fn who_is_not_listed_any_more_drops_everything_and_joins_again() {
    // P95
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=3);
    t.fetches("a", 0);
    t.assigns(0, None, 1, None);
    t.document.members.clear();
    t.sees_document();
    assert_eq!((t.holds(), t.closed()), (vec![], vec![0]));
    t.passes(SECS(3));
    let beat = t.last_beat();
    assert_eq!(
        (beat.state, beat.held.len(), beat.released.len()),
        (MemberState::Active, 0, 0)
    );
    assert!(
        !t.log.contains(&Effect::Reincarnate),
        "the same incarnation goes on"
    );
    t.gives(0, 2);
    t.sees_document();
    assert_eq!(t.holds(), [0]);
}
