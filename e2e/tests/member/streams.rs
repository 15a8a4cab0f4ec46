//! Streams that are not what they were; and the open stream of an application.

use std::time::Duration;

use lockstep::group::{OnTruncation, Partition, PartitionSource, Sequence, Source, StopReason};
use lockstep::nats::streams;
use lockstep::worker::{
    AckMode, AckStatus, AckWait, CallError, ConsumeFrame, Consuming, Credit, Delivered,
    FetchOptions, MemberEvent, PartitionState, Position, Publish, PublishTo, SessionId,
};

use super::group::*;

#[tokio::test]
async fn a_stream_made_anew_stops_its_partition_by_default() {
    let mut group = Group::start(1).await;
    let a = group.owner("a").await;
    group.publish(0, 1..=3).await;
    a.fetch("default", 3).await;
    a.ack("default", at(0, 1, 3), AckWait::Committed).await;
    group.remake_stream(0).await;
    group.publish(0, 1..=5).await;
    let status = a
        .is("has stopped", |s| {
            s.partitions[0].state == PartitionState::Stopped
        })
        .await;
    let stopped = status.partitions[0].stopped.clone().unwrap();
    assert_eq!(stopped.reason, StopReason::StreamRecreated);
    assert!(a.fetch_now("default").await.messages.is_empty());
}

#[tokio::test]
async fn a_stream_made_anew_is_read_from_its_beginning_if_the_policy_says_so() {
    let mut group = Group::with(1, |meta| meta.on_truncation = OnTruncation::Earliest).await;
    group.publish(0, 1..=3).await;
    let a = group.owner("a").await;
    a.fetch("default", 3).await;
    a.ack("default", at(0, 1, 3), AckWait::Committed).await;
    a.handle.drain(SOON).await.unwrap();
    a.tasks.stop().await;
    group.remake_stream(0).await;
    group.publish(0, 11..=12).await;

    let b = group.member("b").await;
    let mut events = b.handle.events();
    group.give_all(&b, 2).await;
    let got = b.fetch("default", 3).await;
    assert_eq!(
        (sequences(&got), got.messages[0].payload.clone()),
        (vec![1, 2], "11".into())
    );
    b.ack("default", at(0, 2, 2), AckWait::Committed).await;
    let record = group.offset(0).await.1;
    let facts = streams::info(&group.connection, "S-0").await.unwrap();
    assert_eq!(
        (record.next_seq, record.stream_created),
        (Sequence(3), facts.created)
    );
    let mut moved = false;
    while let Ok(Some(Ok(event))) = tokio::time::timeout(Duration::ZERO, events.next()).await {
        moved |= matches!(event, MemberEvent::PositionMoved { .. });
    }
    assert!(moved);
}

#[tokio::test]
async fn what_retention_removed_before_it_was_read_is_named() {
    let mut group = Group::start(1).await;
    group.publish(0, 1..=10).await;
    group.purge(0, 6).await;
    let a = group.member("a").await;
    let mut events = a.handle.events();
    group.give_all(&a, 1).await;
    assert_eq!(
        sequences(&a.fetch("default", 5).await),
        (6..=10).collect::<Vec<_>>()
    );
    let lost = MemberEvent::MessagesLost {
        partition: Partition(0),
        from: Sequence(1),
        to: Sequence(6),
    };
    while let Some(Ok(event)) = events.next().await {
        if event == lost {
            return;
        }
    }
    panic!("nobody said that messages were lost");
}

// P110
#[tokio::test]
async fn what_is_removed_under_a_running_member_that_lags_is_named() {
    let mut group = Group::with(1, |meta| meta.delivery.buffer_messages = 10).await;
    let a = group.owner("a").await;
    let mut events = a.handle.events();
    group.publish(0, 1..=60).await;
    let mut seen = sequences(&a.fetch("default", 1).await);
    group.purge(0, 50).await;
    while seen.last() != Some(&60) {
        let newest = seen.last().copied().unwrap_or_default();
        a.ack("default", at(0, 1, newest), AckWait::Accepted).await;
        seen.extend(sequences(&a.fetch("default", 1).await));
    }
    let read_before = seen.iter().filter(|sequence| **sequence < 50).count() as u64;
    assert!(read_before < 49, "nothing was lost: the test shows nothing");
    let expected: Vec<u64> = (1..=read_before).chain(50..=60).collect();
    assert_eq!(seen, expected);
    let lost = MemberEvent::MessagesLost {
        partition: Partition(0),
        from: Sequence(read_before + 1),
        to: Sequence(50),
    };
    let named = async {
        while let Some(event) = events.next().await {
            if event.as_ref().is_ok_and(|event| *event == lost) {
                return true;
            }
        }
        false
    };
    assert!(tokio::time::timeout(SOON, named).await.unwrap_or(false));
}

#[tokio::test]
async fn a_stream_is_pushed_as_far_as_its_credit_goes() {
    let mut group = Group::start(1).await;
    let a = group.owner("a").await;
    group.publish(0, 1..=10).await;
    let session = SessionId::new("s");
    let credit = |messages| Credit {
        messages,
        bytes: 1 << 20,
    };
    let mut stream = a.handle.consume(session.clone(), credit(3)).await.unwrap();
    assert_eq!(pushed(&mut stream, 3).await, [1, 2, 3]);
    stream.add_credit(credit(2)).await.unwrap();
    assert_eq!(pushed(&mut stream, 2).await, [4, 5]);
    // Its session is its own.
    let other = a.handle.fetch(&session, FetchOptions::default()).await;
    assert!(
        matches!(other, Err(CallError::SessionConflict { .. })),
        "{other:?}"
    );
    assert!(a.fetch_now("default").await.messages.is_empty());

    let acked = a.handle.ack(
        &session,
        vec![at(0, 1, 3)],
        AckMode::UpTo,
        AckWait::Committed,
    );
    assert_eq!(acked.await.unwrap()[0].status, AckStatus::Committed);
    // What it had goes back when it ends; the oldest counts as an attempt.
    drop(stream);
    let got = a.fetch("default", 10).await;
    assert_eq!(sequences(&got), (4..=10).collect::<Vec<_>>());
    assert_eq!((got.messages[0].attempt, got.messages[2].attempt), (2, 1));
}

#[tokio::test]
async fn a_stream_is_told_what_happens_to_its_partitions() {
    let mut group = Group::start(1).await;
    let a = group.owner("a").await;
    let b = group.member("b").await;
    let second = group.takes_in(&b).await;
    group.publish(0, 1..=2).await;
    let credit = Credit {
        messages: 10,
        bytes: 1 << 20,
    };
    let session = SessionId::new("s");
    let mut stream = a.handle.consume(session, credit).await.unwrap();
    let first = frame(&mut stream).await;
    assert!(
        matches!(first, ConsumeFrame::Assigned(ref all) if all.len() == 1),
        "{first:?}"
    );
    assert_eq!(pushed(&mut stream, 2).await, [1, 2]);
    group.wants(0, Some(&second));
    group.write_document().await;
    let frame_of = frame(&mut stream).await;
    let ConsumeFrame::Revoking {
        partition, epoch, ..
    } = frame_of
    else {
        panic!("{frame_of:?}");
    };
    // The application lets go of what it has not finished.
    stream.released(partition, epoch).await.unwrap();
    let gone = frame(&mut stream).await;
    assert!(matches!(gone, ConsumeFrame::Revoked { .. }), "{gone:?}");
    let (_, said) = group
        .says("a", "a release", |d| !d.released.is_empty())
        .await;
    assert!(said.released[0].clean);
}

#[tokio::test]
async fn a_second_fetch_of_a_session_waits_for_the_first() {
    let mut group = Group::start(1).await;
    let a = group.owner("a").await;
    let session = SessionId::new("s");
    let options = || FetchOptions {
        max_messages: Some(1),
        max_wait: Some(SOON),
        batch_wait: Some(Duration::ZERO),
        ..FetchOptions::default()
    };
    let first = a.handle.fetch(&session, options());
    let second = a.handle.fetch(&session, options());
    let publish = async {
        a.is("has a session", |s| s.app.sessions == 1).await;
        group.publish(0, 1..=2).await;
    };
    let (first, second, ()) = tokio::join!(first, second, publish);
    assert_eq!(
        (sequences(&first.unwrap()), sequences(&second.unwrap())),
        (vec![1], vec![1])
    );
}

#[tokio::test]
async fn what_is_published_by_key_comes_back_in_its_partition_and_once() {
    let mut group = Group::start(4).await;
    let a = group.owner("a").await;
    let message = || Publish {
        to: PublishTo::Key("customer-42".to_owned()),
        payload: "hello".into(),
        headers: vec![("x".to_owned(), vec!["1".to_owned(), "2".to_owned()])],
        id: None,
        derived_from: Some(Position {
            partition: Partition(0),
            epoch: lockstep::group::Epoch(1),
            sequence: Sequence(7),
        }),
    };
    let first = a.handle.publish(message()).await.unwrap();
    let second = a.handle.publish(message()).await.unwrap();
    assert!(!first.duplicate && second.duplicate);
    assert_eq!(
        (first.sequence, first.partition),
        (second.sequence, second.partition)
    );
    let got: Vec<Delivered> = a.fetch("default", 1).await.messages;
    assert_eq!(Some(got[0].partition), first.partition);
    assert_eq!(
        (got[0].key(), got[0].payload.clone()),
        ("customer-42".to_owned(), "hello".into())
    );
    let header = got[0].headers.iter().find(|(name, _)| name == "x").unwrap();
    assert_eq!(header.1, ["1", "2"]);

    let wrong = Publish {
        to: PublishTo::Key("a b".to_owned()),
        ..message()
    };
    let refused = a.handle.publish(wrong).await;
    assert!(
        matches!(refused, Err(CallError::BadRequest { field: "key", .. })),
        "{refused:?}"
    );
    let nowhere = Publish {
        to: PublishTo::Subject("nobody.takes".to_owned()),
        ..message()
    };
    assert!(matches!(
        a.handle.publish(nowhere).await,
        Err(CallError::Unavailable { .. })
    ));
    let huge = Publish {
        payload: vec![0; 2 << 20].into(),
        ..message()
    };
    assert!(matches!(
        a.handle.publish(huge).await,
        Err(CallError::TooLarge { .. })
    ));
}

async fn frame(stream: &mut Consuming) -> ConsumeFrame {
    let frame = tokio::time::timeout(SOON, stream.next()).await;
    frame.expect("a frame in time").expect("an open stream")
}

/// The next messages that are pushed; other frames are passed over.
async fn pushed(stream: &mut Consuming, count: usize) -> Vec<u64> {
    let mut got = Vec::new();
    while got.len() < count {
        if let ConsumeFrame::Batch(batch) = frame(stream).await {
            got.extend(batch.iter().map(|m| m.sequence.0));
        }
    }
    got
}

#[tokio::test]
async fn a_stream_that_holds_one_partition_is_read_without_a_filter() {
    let source = |p: u32, filter: &str| PartitionSource {
        stream: format!("S-{p}"),
        filter: Some(filter.to_owned()),
    };
    let list = vec![source(0, "S.0.>"), source(1, "S.1.k")];
    let mut group = Group::with(2, |meta| meta.source = Source::List(list)).await;
    let a = group.owner("a").await;
    group.publish(0, [1]).await;
    group.publish(1, [1]).await;
    for _ in 0..2 {
        let got = a.fetch("default", 1).await;
        a.ack("default", position(&got.messages[0]), AckWait::Accepted)
            .await;
    }
    assert_eq!(group.filters_of_consumers("S-0").await, [None]);
    assert_eq!(
        group.filters_of_consumers("S-1").await,
        [Some("S.1.k".to_owned())]
    );
}
