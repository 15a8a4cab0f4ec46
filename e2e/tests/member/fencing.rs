//! Two who believe that they own the same partition: the bucket decides.

use std::time::Duration;

use lockstep::group::{Epoch, Incarnation, MemberState, Revision, Sequence, SessionId};
use lockstep::nats::KeyFilter;
use lockstep::worker::{AckStatus, AckWait, CallError, FetchOptions, MemberEvent, PartitionState};

use super::group::*;

#[tokio::test]
async fn a_later_owner_fences_a_former_one_whatever_that_one_has_heard() {
    let mut group = Group::start(1).await;
    let a = group.owner("a").await;
    group.publish(0, 1..=10).await;
    a.fetch("default", 10).await;
    a.ack("default", at(0, 1, 3), AckWait::Committed).await;

    // Another member claims at the next epoch; no document tells the first one.
    let (revision, mut record) = group.offset(0).await;
    record.epoch = Epoch(2);
    record.owner = Some("other".parse::<Incarnation>().unwrap());
    group.write_offset(0, &record, revision).await;

    // Its commit is refused, and it says so.
    let mut events = a.handle.events();
    let result = a.ack("default", at(0, 1, 7), AckWait::Committed).await;
    assert_eq!(result.status, AckStatus::NotOwned);
    assert_eq!(group.offset(0).await.1.next_seq, Sequence(4));
    let mut fenced = false;
    while let Ok(Some(Ok(event))) = tokio::time::timeout(SOON, events.next()).await {
        fenced |= matches!(event, MemberEvent::Fenced { .. });
        if matches!(event, MemberEvent::Revoked { clean: false, .. }) {
            break;
        }
    }
    assert!(fenced);
    let (_, said) = group
        .says("a", "a release", |d| !d.released.is_empty())
        .await;
    assert!(!said.released[0].clean && said.released[0].epoch == Epoch(1));
}

#[tokio::test]
async fn a_partition_changes_hands_cleanly_and_nothing_is_seen_twice() {
    let mut group = Group::start(1).await;
    let a = group.owner("a").await;
    let b = group.member("b").await;
    let second = group.takes_in(&b).await;
    group.publish(0, 1..=10).await;
    a.fetch("default", 4).await;

    group.wants(0, Some(&second));
    group.write_document().await;
    a.is("is revoking", |s| {
        s.partitions[0].state == PartitionState::Revoking
    })
    .await;
    // It may finish what it has, and is given nothing more.
    a.ack("default", at(0, 1, 4), AckWait::Committed).await;
    let (_, said) = group
        .says("a", "a release", |d| !d.released.is_empty())
        .await;
    assert!(said.released[0].clean);
    assert_eq!(group.offset(0).await.1.next_seq, Sequence(5));

    group.gives(0, &second, 2);
    group.write_document().await;
    b.is("owns it", |s| s.partitions.len() == 1).await;
    let got = b.fetch("default", 10).await;
    assert_eq!(sequences(&got), (5..=10).collect::<Vec<_>>());
    assert!(
        got.messages
            .iter()
            .all(|m| m.epoch == Epoch(2) && m.attempt == 1)
    );
    // The former owner's token is worth nothing.
    let late = a.ack("default", at(0, 1, 4), AckWait::Accepted).await;
    assert_eq!(late.status, AckStatus::NotOwned);
}

#[tokio::test]
async fn a_drain_leaves_a_committed_position_no_consumer_and_the_word_left() {
    let mut group = Group::start(2).await;
    let a = group.owner("a").await;
    group.publish(0, 1..=3).await;
    group.publish(1, 1..=3).await;
    let got = a.fetch("default", 6).await;
    assert_eq!(got.messages.len(), 6);
    let handle = a.handle.clone();
    let drain = tokio::join!(async { handle.drain(SOON).await.unwrap() }, async {
        a.is("is draining", |s| {
            s.state == lockstep::worker::WorkerState::Draining
        })
        .await;
        a.ack("default", at(0, 1, 3), AckWait::Accepted).await;
        a.ack("default", at(1, 1, 3), AckWait::Accepted).await;
    });
    assert_eq!((drain.0.clean, drain.0.unclean), (2, 0));
    assert_eq!(group.offset(0).await.1.next_seq, Sequence(4));
    assert_eq!(group.offset(1).await.1.next_seq, Sequence(4));
    let (_, said) = group
        .says("a", "left", |d| d.state == MemberState::Left)
        .await;
    assert_eq!(said.released.len(), 2);
    a.tasks.stop().await;
    group.no_consumers("S-0").await;
    group.no_consumers("S-1").await;
}

#[tokio::test]
async fn a_bucket_replaced_under_a_running_member_makes_it_a_new_member_with_nothing() {
    let mut group = Group::start(1).await;
    let a = group.owner("a").await;
    let first = a.handle.status().await.unwrap().incarnation;
    group.publish(0, 1..=10).await;
    a.fetch("default", 10).await;

    group.bucket.delete().await.unwrap();
    group.bucket = create_bucket(&group.connection, "b2").await;
    group.meta.bucket = lockstep::group::BucketId::new("b2");
    group.document.members.clear();
    group.document.partitions[0] = lockstep::group::Assignment::default();
    group.fill().await;

    a.is("is another incarnation", |s| s.incarnation != first)
        .await;
    // What it had of the old one is not committed into the new one.
    let result = a.ack("default", at(0, 1, 10), AckWait::Accepted).await;
    assert_eq!(result.status, AckStatus::NotOwned);
    let (_, record) = group.offset(0).await;
    assert_eq!((record.epoch, record.next_seq), (Epoch(0), Sequence(1)));
    // It joins anew, and works.
    group.give_all(&a, 5).await;
    let got = a.fetch("default", 10).await;
    assert_eq!((got.messages.len(), got.messages[0].epoch), (10, Epoch(5)));
    let members = group.bucket.list(&KeyFilter::AllMembers).await.unwrap();
    assert_eq!(members.len(), 1);
}

#[tokio::test]
async fn a_fetch_that_waits_when_the_bucket_is_replaced_is_turned_away_and_holds_nobody_up() {
    let mut group = Group::start(1).await;
    let a = group.owner("a").await;
    let patient = FetchOptions {
        max_wait: Some(Duration::from_secs(60)),
        ..FetchOptions::default()
    };
    let replaced = async {
        group.bucket.delete().await.unwrap();
        // Nobody has described the group in the new one yet.
        group.bucket = create_bucket(&group.connection, "b2").await;
    };
    let session = SessionId::new("default");
    let fetch = tokio::time::timeout(SOON, a.handle.fetch(&session, patient));
    let (fetched, ()) = tokio::join!(fetch, replaced);
    let fetched = fetched.expect("the fetch was never answered");
    assert!(
        matches!(fetched, Err(CallError::Unavailable { .. })),
        "{fetched:?}"
    );
    group.meta.bucket = lockstep::group::BucketId::new("b2");
    group.document.members.clear();
    group.document.partitions[0] = lockstep::group::Assignment::default();
    group.fill().await;
    group.give_all(&a, 5).await;
    group.publish(0, 1..=3).await;
    assert_eq!(a.fetch("default", 3).await.messages.len(), 3);
}

#[tokio::test]
async fn a_damaged_commit_record_stops_its_partition_and_no_other() {
    let mut group = Group::start(2).await;
    let (revision, _) = group.offset(0).await;
    group.write_raw_offset(0, b"{nonsense", revision).await;
    let a = group.member("a").await;
    let incarnation = group.takes_in(&a).await;
    group.gives(0, &incarnation, 1);
    group.gives(1, &incarnation, 1);
    group.write_document().await;
    let status = a
        .is("feeds one of two", |s| {
            s.partitions.len() == 2
                && s.partitions[0].state == PartitionState::Stopped
                && s.partitions[1].state == PartitionState::Feeding
        })
        .await;
    assert!(
        status.problems.iter().any(|p| p.contains("damaged")),
        "{status:?}"
    );
    group.publish(1, 1..=3).await;
    assert_eq!(a.fetch("default", 3).await.messages.len(), 3);
    // Nothing was overwritten.
    let entry = group.raw_offset(0).await;
    assert_eq!(entry, &b"{nonsense"[..]);
    assert!(revision > Revision(0));
}
