//! The witnesses whose histories the checker judges: are they right, and do they miss nothing?

use std::time::Duration;

use async_nats::jetstream;
use lockstep_e2e::auditor::{Auditor, keep_history};
use lockstep_e2e::history::{self, Record};
use lockstep_e2e::publisher::{Load, Publisher, partition_of};
use lockstep_e2e::until::until_sync;
use lockstep_e2e::{NatsServer, until};

const SOON: Duration = Duration::from_secs(20);

fn transformed(partitions: u32) -> jetstream::stream::Config {
    jetstream::stream::Config {
        name: "ORDERS".to_owned(),
        subjects: vec!["orders.*".to_owned()],
        subject_transform: Some(jetstream::stream::SubjectTransform {
            source: "orders.*".to_owned(),
            destination: format!("orders.{{{{partition({partitions},1)}}}}.{{{{wildcard(1)}}}}"),
        }),
        ..Default::default()
    }
}

#[tokio::test]
async fn the_publisher_notes_what_the_server_stored_even_if_it_was_killed_meanwhile() {
    let mut server = NatsServer::start().await.unwrap();
    let client = server.connect().await.unwrap();
    let context = jetstream::new(client.clone());
    context.create_stream(transformed(5)).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("published.jsonl");
    let load = Load {
        stream: "ORDERS".to_owned(),
        subject: "orders".to_owned(),
        partitions: 5,
        keys: (0..7).map(|key| format!("größe-{key}")).collect(),
        rate: 500,
    };
    let publisher = Publisher::start(client, load, &log).unwrap();
    publisher.reached(100).await;
    server.kill().unwrap();
    server.restart().await.unwrap();
    publisher.reached(200).await;
    let count = publisher.stop().await.unwrap();

    let records = history::read(&log).unwrap();
    assert_eq!(records.len() as u64, count);
    let mut stream = context.get_stream("ORDERS").await.unwrap();
    let stored = stream.info().await.unwrap().state.messages;
    assert!(stored - count <= 1, "{stored} stored, {count} noted");
    for record in records {
        let Record::Published {
            sequence,
            partition,
            key,
            n,
            ..
        } = record
        else {
            panic!()
        };
        let message = stream.get_raw_message(sequence).await.unwrap();
        assert_eq!(
            message.subject.as_str(),
            format!("orders.{partition}.{key}")
        );
        let payload: serde_json::Value = serde_json::from_slice(&message.payload).unwrap();
        assert_eq!(payload, serde_json::json!({ "key": key, "n": n }));
        assert_eq!(partition, partition_of(&key, 5));
    }
}

#[tokio::test]
async fn the_auditor_misses_no_revision_of_a_busy_key() {
    const COMMITS: u64 = 500;
    let server = NatsServer::start().await.unwrap();
    let client = server.connect().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("bucket.jsonl");
    let auditor = Auditor::start(client.clone(), "b", &log).unwrap();
    let context = jetstream::new(client.clone());
    let bucket = jetstream::stream::Config {
        name: "KV_b".to_owned(),
        subjects: vec!["$KV.b.>".to_owned()],
        max_messages_per_subject: 1,
        ..Default::default()
    };
    context.create_stream(bucket).await.unwrap();
    keep_history(&client, "b", 64).await.unwrap();
    for next_seq in 1..=COMMITS {
        let record = serde_json::json!({
            "format": 1, "epoch": 3, "owner": "m1", "next_seq": next_seq, "mark": null,
            "stream": "S", "stream_created": 1,
        });
        let sent = context
            .publish("$KV.b.offset.4", record.to_string().into())
            .await
            .unwrap();
        sent.await.unwrap();
    }
    let seen = until_sync("last commit", SOON, || {
        let progress = auditor.progress();
        if progress.revision == COMMITS {
            Ok(progress)
        } else {
            Err(format!("{progress:?}"))
        }
    });
    let progress = seen.await.unwrap();
    assert_eq!((progress.missed, progress.odd), (0, Vec::new()));
    let records = history::read(&log).unwrap();
    let positions = records.iter().map(|record| {
        let Record::Commit {
            partition: 4,
            epoch: 3,
            next_seq,
            ..
        } = record
        else {
            panic!()
        };
        *next_seq
    });
    assert_eq!(
        positions.collect::<Vec<_>>(),
        (1..=COMMITS).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn the_auditor_names_what_it_cannot_read() {
    let server = NatsServer::start().await.unwrap();
    let client = server.connect().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let auditor = Auditor::start(client.clone(), "b", &folder.path().join("b.jsonl")).unwrap();
    let bucket = jetstream::stream::Config {
        name: "KV_b".to_owned(),
        subjects: vec!["$KV.b.>".to_owned()],
        ..Default::default()
    };
    jetstream::new(client.clone())
        .create_stream(bucket)
        .await
        .unwrap();
    client.publish("$KV.b.offset.0", "{}".into()).await.unwrap();
    let seen = until("complaint", SOON, async || {
        let odd = auditor.progress().odd;
        if odd.is_empty() { Err("none") } else { Ok(odd) }
    });
    assert!(seen.await.unwrap()[0].contains("offset"));
}
