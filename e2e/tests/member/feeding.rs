//! Messages reach the application in order and stay with it until they are acknowledged.

use lockstep::worker::{AckStatus, AckWait, CallError, FetchOptions, SessionId};

use super::group::*;

#[tokio::test]
async fn what_is_fetched_acknowledged_and_committed_is_not_given_again() {
    let mut group = Group::start(1).await;
    let a = group.owner("a").await;
    group.publish(0, 1..=10).await;

    let got = a.fetch("default", 10).await;
    assert_eq!(sequences(&got), (1..=10).collect::<Vec<_>>());
    assert_eq!(got.messages[4].payload, "5");
    assert_eq!(got.messages[4].key(), "k");
    // What was not acknowledged comes again, first.
    let again = a.fetch("default", 5).await;
    assert_eq!(
        (sequences(&again), again.redelivered),
        ((1..=5).collect(), 5)
    );

    let result = a.ack("default", at(0, 1, 10), AckWait::Committed).await;
    assert_eq!(
        (result.status, result.committed.0),
        (AckStatus::Committed, 11)
    );
    assert_eq!(group.offset(0).await.1.next_seq.0, 11);
    assert_eq!(sequences(&a.fetch_now("default").await), [0; 0]);
}

#[tokio::test]
async fn before_the_member_has_joined_a_fetch_is_refused_and_says_why() {
    let group = Group::start(1).await;
    let a = group.member("a").await;
    let session = SessionId::default();
    let refused = a.handle.fetch(&session, FetchOptions::default()).await;
    assert!(
        matches!(refused, Err(CallError::NotJoined { .. })),
        "{refused:?}"
    );
    // It tells the coordinator that its application is there.
    group.says("a", "an application", |d| d.app.connected).await;
}
