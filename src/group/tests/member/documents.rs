//! What `meta` and `group` say, and what a member does: P31, P32, P33, P78, P91, P95.

use super::answers::*;
use super::scene::*;
use crate::group::member::{Effect, Event};
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
fn another_id_in_meta_means_another_bucket() {
    // P33
    let mut t = Scene::owning(&[0]);
    t.meta.bucket = BucketId::new("b2");
    t.sees_meta();
    assert!(t.log.contains(&Effect::Reincarnate));
    assert_eq!(t.holds(), [0; 0]);
}
