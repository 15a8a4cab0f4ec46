//! A member that is cut off from its server stops, and goes on where it was.

use std::time::Duration;

use lockstep::worker::{AckStatus, AckWait, PartitionState, WorkerState};
use lockstep_e2e::proxy::{Mode, Proxy};

use super::group::*;

#[tokio::test]
async fn a_member_cut_off_suspends_hands_out_nothing_and_resumes_where_it_was() {
    let mut group = Group::start(1).await;
    let proxy = Proxy::before(&group.server).await.unwrap();
    let a = group.member_through("a", &proxy.url()).await;
    group.give_all(&a, 1).await;
    group.publish(0, 1..=10).await;
    let got = a.fetch("default", 4).await;
    assert_eq!(sequences(&got), [1, 2, 3, 4]);

    proxy.set(Mode::Freeze);
    a.is("is suspended", |s| s.state == WorkerState::Suspended)
        .await;
    assert_eq!(a.fetch_now("default").await.messages.len(), 0);
    let result = a.ack("default", at(0, 1, 2), AckWait::Accepted).await;
    assert_eq!(
        result.status,
        AckStatus::Accepted,
        "it is taken, and committed later"
    );
    assert_eq!(group.offset(0).await.1.next_seq.0, 1);

    proxy.set(Mode::Pass);
    a.is("is active", |s| {
        s.state == WorkerState::Active && s.partitions[0].state == PartitionState::Feeding
    })
    .await;
    group.commits(0, 3).await;
    // The same epoch; what was not acknowledged comes first.
    let again = a.fetch("default", 10).await;
    assert_eq!(sequences(&again), (3..=10).collect::<Vec<_>>());
    assert!(again.messages.iter().all(|m| m.epoch.0 == 1));
    assert_eq!(again.redelivered, 2);
}

#[tokio::test]
async fn a_member_that_was_replaced_while_it_was_cut_off_drops_what_it_had() {
    let mut group = Group::start(1).await;
    let proxy = Proxy::before(&group.server).await.unwrap();
    let a = group.member_through("a", &proxy.url()).await;
    group.give_all(&a, 1).await;
    group.publish(0, 1..=10).await;
    a.fetch("default", 4).await;
    proxy.set(Mode::Freeze);
    a.is("is suspended", |s| s.state == WorkerState::Suspended)
        .await;

    let b = group.member("b").await;
    group.give_all(&b, 2).await;
    let got = b.fetch("default", 10).await;
    assert_eq!(got.messages.len(), 10);
    b.ack("default", at(0, 2, 10), AckWait::Committed).await;

    proxy.set(Mode::Pass);
    a.is("holds nothing", |s| s.partitions.is_empty()).await;
    let result = a.ack("default", at(0, 1, 4), AckWait::Committed).await;
    assert_eq!(result.status, AckStatus::NotOwned);
    assert_eq!(group.offset(0).await.1.next_seq.0, 11);
}

#[tokio::test]
async fn a_server_that_restarts_stops_nothing_for_longer_than_it_is_away() {
    let mut group = Group::start(1).await;
    let a = group.owner("a").await;
    group.publish(0, 1..=5).await;
    a.fetch("default", 5).await;
    group.server.restart().await.unwrap();
    let result = a.ack("default", at(0, 1, 5), AckWait::Committed).await;
    assert_eq!(result.status, AckStatus::Committed);
    group.publish(0, 6..=9).await;
    let got = a.fetch("default", 4).await;
    assert_eq!(sequences(&got), [6, 7, 8, 9]);
}

#[tokio::test]
async fn a_member_started_before_its_server_and_its_group_joins_when_they_come() {
    let mut group = Group::start(1).await;
    group.bucket.delete().await.unwrap();
    let a = group.member("a").await;
    let status = a
        .is("waits", |s| {
            s.problems.iter().any(|p| p.contains("--create"))
        })
        .await;
    assert_eq!(status.state, WorkerState::Joining);
    group.bucket = create_bucket(&group.connection, "b1").await;
    group.fill().await;
    group.give_all(&a, 1).await;
    group.publish(0, [1]).await;
    assert_eq!(sequences(&a.fetch("default", 1).await), [1]);
    tokio::time::timeout(Duration::from_secs(5), a.handle.joined())
        .await
        .unwrap()
        .unwrap();
}
