//! Streams: made, looked at, and compared with what we compute ourselves.

use lockstep::group::partitioning;
use lockstep::group::{Sequence, ServerTime};
use lockstep::nats::{StreamError, streams};
use serde_json::json;

use super::setting::{api, connect, publish, servers};

const PARTITIONS: u32 = 12;

#[tokio::test]
async fn the_server_puts_every_key_into_the_partition_that_we_compute() {
    let server = servers().await;
    let connection = connect(&server).await;
    let plan = streams::StreamPlan {
        transform: Some((
            "orders.*.*".to_owned(),
            "orders.{{partition(12,1,2)}}.{{wildcard(1)}}.{{wildcard(2)}}".to_owned(),
        )),
        ..streams::StreamPlan::plain("orders", vec!["orders.*.*".to_owned()])
    };
    let facts = streams::create(&connection, &plan).await.unwrap();
    assert_eq!(facts.transform, plan.transform);
    let mut keys: Vec<(String, String)> = [
        ("a", "b"),
        ("ab", "c"),
        ("a", "bc"),
        ("customer-42", "order-7"),
        ("größe", "ü"),
    ]
    .map(|(one, two)| (one.to_owned(), two.to_owned()))
    .to_vec();
    keys.extend((0..300).map(|n| (format!("customer-{n}"), format!("{}", n * 7919))));
    for (one, two) in &keys {
        publish(&connection, &format!("orders.{one}.{two}"), [1]).await;
    }
    let stored = streams::subject_counts(&connection, "orders", "orders.>")
        .await
        .unwrap();
    assert_eq!(stored.len(), keys.len());
    for (one, two) in &keys {
        let ours = partitioning::hash([one.as_str(), two.as_str()]) % PARTITIONS;
        let subject = format!("orders.{ours}.{one}.{two}");
        assert!(
            stored.contains_key(&subject),
            "{subject} is not what the server made"
        );
    }
}

#[tokio::test]
async fn a_stream_that_a_group_cannot_read_is_refused_by_what_the_server_says_of_it() {
    let server = servers().await;
    let connection = connect(&server).await;
    for retention in ["interest", "workqueue"] {
        let config = json!({ "name": retention, "subjects": [retention], "retention": retention });
        api(
            &server.url(),
            &format!("STREAM.CREATE.{retention}"),
            &config,
        )
        .await;
        let facts = streams::info(&connection, retention).await.unwrap();
        assert!(facts.check().unwrap_err().to_string().contains(retention));
    }
    let config = json!({ "name": "closed", "subjects": ["closed"], "retention": "limits", "storage": "memory" });
    api(&server.url(), "STREAM.CREATE.closed", &config).await;
    let open = streams::info(&connection, "closed").await.unwrap();
    assert_eq!(open.check(), Ok(()));
    let warnings: Vec<String> = open.warnings().iter().map(ToString::to_string).collect();
    assert!(
        warnings.iter().any(|w| w.contains("memory")),
        "{warnings:?}"
    );
    let config = json!({ "name": "closed", "subjects": ["closed"], "retention": "limits", "storage": "memory", "sealed": true });
    api(&server.url(), "STREAM.UPDATE.closed", &config).await;
    let sealed = streams::info(&connection, "closed").await.unwrap();
    assert!(sealed.check().unwrap_err().to_string().contains("sealed"));
    let missing = streams::info(&connection, "nothing").await;
    assert!(
        matches!(missing, Err(StreamError::Missing { .. })),
        "{missing:?}"
    );
}

#[tokio::test]
async fn a_stream_that_we_make_is_one_that_a_group_can_read() {
    let server = servers().await;
    let connection = connect(&server).await;
    let plan = streams::StreamPlan::plain("orders-3", vec!["orders.3.>".to_owned()]);
    let made = streams::create(&connection, &plan).await.unwrap();
    assert_eq!(made.check(), Ok(()));
    assert!(made.max_consumers.is_some_and(|most| most > 1000));
    assert_eq!((made.first, made.last), (Sequence(1), Sequence(0)));
    // The same again changes nothing; others' subjects are not taken.
    let again = streams::create(&connection, &plan).await.unwrap();
    assert_eq!(again.created, made.created);
    let overlapping = streams::StreamPlan::plain("other", vec!["orders.>".to_owned()]);
    let taken = streams::create(&connection, &overlapping).await;
    assert!(matches!(taken, Err(StreamError::Taken { .. })), "{taken:?}");
}

#[tokio::test]
async fn messages_are_found_by_sequence_and_by_time() {
    let server = servers().await;
    let connection = connect(&server).await;
    let plan = streams::StreamPlan::plain("orders", vec!["orders.>".to_owned()]);
    streams::create(&connection, &plan).await.unwrap();
    publish(&connection, "orders.0.k", 1..=20).await;
    api(
        &server.url(),
        "STREAM.MSG.DELETE.orders",
        &json!({ "seq": 7 }),
    )
    .await;
    let at = async |sequence| {
        let message = streams::message_at(&connection, "orders", Sequence(sequence)).await;
        message.unwrap()
    };
    assert_eq!(at(0).await, None);
    assert_eq!(at(7).await, None);
    assert_eq!(at(21).await, None);
    let eighth = at(8).await.unwrap();
    assert_eq!(
        (eighth.sequence, eighth.subject.as_str()),
        (Sequence(8), "orders.0.k")
    );
    let since = async |time: ServerTime| {
        let found = streams::first_at_or_after(&connection, "orders", time).await;
        found.unwrap().map(|message| message.sequence.0)
    };
    for sequence in [1, 2, 6, 8, 9, 19, 20] {
        let time = at(sequence).await.unwrap().timestamp;
        assert_eq!(since(time).await, Some(sequence));
    }
    let sixth = at(6).await.unwrap().timestamp;
    assert_eq!(since(ServerTime(sixth.0 + 1)).await, Some(8));
    assert_eq!(since(ServerTime(0)).await, Some(1));
    let last = at(20).await.unwrap().timestamp;
    assert_eq!(since(ServerTime(last.0 + 1)).await, None);
    let counts = streams::subject_counts(&connection, "orders", "orders.>")
        .await
        .unwrap();
    assert_eq!(
        counts.into_iter().collect::<Vec<_>>(),
        [("orders.0.k".to_owned(), 19)]
    );
}
