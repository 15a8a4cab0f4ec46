//! Commits that cannot be stored: feeding stops at its bound, and goes on without a restart.

use std::time::Duration;

use lockstep::group::{MetaGeneration, Partition, StopReason};
use lockstep::worker::{AckStatus, AckWait, PartitionState, SessionId};
use lockstep_e2e::until;

use super::group::*;

#[tokio::test]
async fn a_bucket_that_takes_no_writes_stops_the_window_and_not_the_member() {
    let mut group = Group::with(1, |meta| {
        meta.delivery.max_uncommitted = 5;
        meta.delivery.max_in_flight = 5;
        // Heartbeats are refused as well: the lease must not end the test.
        meta.membership.session_timeout = Duration::from_secs(600);
        meta.membership.heartbeat_interval = Duration::from_millis(500);
    })
    .await;
    let a = group.owner("a").await;
    group.publish(0, 1..=30).await;
    group.limit_bucket(1).await;
    let mut given = 0;
    for _ in 0..20 {
        let got = a.fetch_now("default").await;
        given += got.messages.len();
        if let Some(last) = got.messages.last() {
            a.ack("default", position(last), AckWait::Accepted).await;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(
        (5..=10).contains(&given),
        "{given} were handed over without a commit"
    );
    let status = a.handle.status().await.unwrap();
    assert!(
        status.problems.iter().any(|p| p.contains("refuse")),
        "{status:?}"
    );
    assert_eq!(group.offset(0).await.1.next_seq.0, 1);

    group.limit_bucket(-1).await;
    until("all of them", SOON, async || {
        let got = a.fetch_now("default").await;
        if let Some(last) = got.messages.last() {
            a.ack("default", position(last), AckWait::Accepted).await;
        }
        let next = group.offset(0).await.1.next_seq.0;
        if next == 31 {
            Ok(())
        } else {
            Err(format!("committed to {next}"))
        }
    })
    .await
    .unwrap();
}

#[expect(clippy::too_many_lines, reason = "one story")]
#[tokio::test]
async fn a_message_that_fails_for_good_stops_its_partition_until_it_is_resumed() {
    let mut group = Group::start(2).await;
    let a = group.owner("a").await;
    group.publish(0, 1..=3).await;
    group.publish(1, 1..=3).await;
    for attempt in 1..=3 {
        let got = until("the message again", SOON, async || {
            let got = a.fetch_of("default", 0).await;
            if got.messages.is_empty() {
                Err("nothing")
            } else {
                Ok(got)
            }
        })
        .await
        .unwrap();
        assert_eq!(
            (got.messages[0].sequence.0, got.messages[0].attempt),
            (1, attempt)
        );
        let nacked = vec![at(0, 1, 1)];
        let session = SessionId::default();
        let error = format!("broken {attempt}");
        a.handle.nack(&session, nacked, error, None).await.unwrap();
        // The rest of what was given goes back as well.
        a.handle.close_session(&session).await.unwrap();
    }
    let status = a
        .is("has stopped", |s| {
            s.partitions[0].state == PartitionState::Stopped
        })
        .await;
    let stopped = status.partitions[0].stopped.clone().unwrap();
    assert_eq!(
        (stopped.seq.0, stopped.reason),
        (1, StopReason::MessageStuck)
    );
    assert!(stopped.detail.contains("broken 3"), "{stopped:?}");
    until("the stop on record", SOON, async || {
        let record = group.offset(0).await.1;
        record
            .stopped
            .as_ref()
            .map(|_| ())
            .ok_or(format!("{record:?}"))
    })
    .await
    .unwrap();
    // The other partition goes on.
    assert_eq!(
        a.fetch("default", 3).await.messages[0].partition,
        Partition(1)
    );
    a.ack("default", at(1, 1, 3), AckWait::Committed).await;

    group
        .change(|meta| {
            meta.resumed.insert(Partition(0), MetaGeneration(2));
        })
        .await;
    let got = a.fetch("default", 3).await;
    assert_eq!(
        (sequences(&got), got.messages[0].attempt),
        (vec![1, 2, 3], 1)
    );
    let result = a.ack("default", at(0, 1, 3), AckWait::Committed).await;
    assert_eq!(result.status, AckStatus::Committed);
    assert_eq!(group.offset(0).await.1.stopped, None);
}

#[tokio::test]
async fn a_message_larger_than_the_buffers_share_passes_without_a_wedge() {
    let mut group = Group::with(1, |meta| {
        meta.delivery.buffer_bytes = 20_000;
    })
    .await;
    let a = group.owner("a").await;
    group.publish(0, [1]).await;
    group.publish_bytes(0, vec![b'x'; 600_000]).await;
    group.publish(0, [3]).await;
    let mut got = Vec::new();
    while got.len() < 3 {
        for message in a.fetch("default", 3).await.messages {
            a.ack("default", position(&message), AckWait::Accepted)
                .await;
            got.push((message.sequence.0, message.payload.len()));
        }
    }
    assert_eq!(got, [(1, 1), (2, 600_000), (3, 1)]);
}
