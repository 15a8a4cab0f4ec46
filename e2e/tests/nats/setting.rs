//! What the tests of the adapters have in common.

use std::collections::BTreeMap;
use std::time::Duration;

use lockstep::group::validity::{Believed, Validity};
use lockstep::group::{BucketId, Epoch, Mark, Partition, Sequence};
use lockstep::nats::{
    Bucket, BucketSettings, Connection, ConsumerName, GateClosed, Options, PartitionReader,
    ReadEvent, ReadPlan, Role, StreamMessage, streams,
};
use lockstep_e2e::{NatsCluster, until};
use serde_json::{Value, json};

/// Longer than any rule of the reader needs to notice anything.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// One server, or three where the matrix asks for them.
pub(crate) async fn servers() -> NatsCluster {
    NatsCluster::usual().await.unwrap()
}

pub(crate) async fn connect(servers: &NatsCluster) -> Connection {
    connect_to(&servers.url()).await
}

pub(crate) async fn connect_to(url: &str) -> Connection {
    let options = Options::for_url(url);
    let connection = Connection::connect(&options, &Role::Coordinator, "test")
        .await
        .unwrap();
    tokio::time::timeout(SOON, connection.up()).await.unwrap();
    connection
}

pub(crate) fn settings(replicas: u32) -> BucketSettings {
    BucketSettings {
        replicas,
        id: BucketId::new("b1"),
        group_uid: "u1".to_owned(),
        history: 1,
    }
}

pub(crate) async fn bucket(servers: &NatsCluster, connection: &Connection) -> Bucket {
    let settings = settings(servers.replicas());
    let made = until("the bucket", SOON, async || {
        Bucket::create(connection, "lockstep_default_orders", &settings).await
    });
    let (bucket, _) = made.await.unwrap();
    led(servers, &format!("KV_{}", bucket.name())).await;
    bucket
}

/// With several servers a new stream is first to choose its leader.
async fn led(servers: &NatsCluster, stream: &str) {
    if servers.replicas() > 1 {
        servers.leader_of(stream).await.unwrap();
    }
}

/// A stream `orders` with the subjects `orders.>` and this many messages on `orders.0.k`.
pub(crate) async fn orders(servers: &NatsCluster, connection: &Connection, messages: u64) {
    let plan = streams::StreamPlan {
        replicas: servers.replicas(),
        ..streams::StreamPlan::plain("orders", vec!["orders.>".to_owned()])
    };
    let made = until("the stream", SOON, async || {
        streams::create(connection, &plan).await
    });
    made.await.unwrap();
    led(servers, "orders").await;
    publish(connection, "orders.0.k", 1..=messages).await;
}

/// Publishes these numbers as payloads, in order.
pub(crate) async fn publish(
    connection: &Connection,
    subject: &str,
    numbers: impl IntoIterator<Item = u64>,
) {
    for number in numbers {
        publish_bytes(connection, subject, number.to_string().into_bytes()).await;
    }
}

pub(crate) async fn publish_bytes(connection: &Connection, subject: &str, payload: Vec<u8>) {
    let message = lockstep::nats::Outgoing {
        subject: subject.to_owned(),
        headers: Vec::new(),
        payload: payload.into(),
        id: None,
    };
    let outcome = lockstep::nats::publish(connection, message).await;
    assert!(
        matches!(outcome, lockstep::nats::PublishOutcome::Stored { .. }),
        "{outcome:?}"
    );
}

pub(crate) fn plan(from: u64) -> ReadPlan {
    ReadPlan {
        stream: "orders".to_owned(),
        filter: Some("orders.0.>".to_owned()),
        from: Sequence(from),
        name: ConsumerName {
            bucket: "lockstep_default_orders".to_owned(),
            bucket_id: BucketId::new("b1"),
            partition: Partition(0),
            epoch: Epoch(1),
            incarnation: "reader1".parse().unwrap(),
        },
        window_messages: 1000,
        window_bytes: 16 << 20,
        metadata: BTreeMap::new(),
    }
}

/// A reader whose gate is always open.
pub(crate) fn open(connection: &Connection, plan: ReadPlan) -> PartitionReader {
    PartitionReader::open(connection, plan, |_| async { Ok(()) })
}

/// A reader whose gate compares with a stream as it is now and a committed position.
pub(crate) async fn open_checked(
    connection: &Connection,
    plan: ReadPlan,
    mark: Option<Mark>,
) -> PartitionReader {
    let facts = streams::info(connection, &plan.stream).await.unwrap();
    let (stream, next) = (plan.stream.clone(), plan.from);
    let through = connection.clone();
    PartitionReader::open(connection, plan, move |delivered| {
        let believed = Believed {
            created: facts.created,
            next,
            mark,
            delivered,
        };
        let (through, stream) = (through.clone(), stream.clone());
        async move {
            match lockstep::nats::validity(&through, &stream, &believed).await {
                Ok((Validity::Valid | Validity::Uncheckable, _)) => Ok(()),
                Ok((validity, _)) => Err(GateClosed::Invalid(validity)),
                Err(error) => Err(GateClosed::Unknown(error.to_string())),
            }
        }
    })
}

/// The next event, which has to come soon.
pub(crate) async fn next(reader: &mut PartitionReader) -> ReadEvent {
    let next = tokio::time::timeout(SOON, reader.next()).await;
    next.expect("nothing came from the reader")
        .expect("the reader ended")
}

/// The next event that says how the reader stands, other than messages, idleness and counts.
pub(crate) async fn news(reader: &mut PartitionReader, seen: &mut Vec<u64>) -> ReadEvent {
    let news = async {
        loop {
            match next(reader).await {
                ReadEvent::Messages(messages) => {
                    for message in &messages {
                        reader.grant(1, message.size);
                        seen.push(message.sequence.0);
                    }
                }
                ReadEvent::Idle { .. } | ReadEvent::Pending(_) => {}
                event @ (ReadEvent::Restarted { .. }
                | ReadEvent::Waiting { .. }
                | ReadEvent::Stopped { .. }) => return event,
            }
        }
    };
    let news = tokio::time::timeout(SOON, news).await;
    news.expect("the reader has nothing to say but messages and idleness")
}

/// Reads until this many messages have come, giving room back at once.
pub(crate) async fn read(reader: &mut PartitionReader, count: usize) -> Vec<StreamMessage> {
    let mut read = Vec::new();
    let all = async {
        while read.len() < count {
            if let ReadEvent::Messages(messages) = next(reader).await {
                for message in &messages {
                    reader.grant(1, message.size);
                }
                read.extend(messages);
            }
        }
    };
    let all = tokio::time::timeout(SOON, all).await;
    assert!(
        all.is_ok(),
        "{count} messages wanted: {:?}",
        sequences(&read)
    );
    read
}

pub(crate) fn sequences(messages: &[StreamMessage]) -> Vec<u64> {
    messages.iter().map(|message| message.sequence.0).collect()
}

/// The names of the consumers that a stream has.
pub(crate) async fn consumers(url: &str, stream: &str) -> Vec<String> {
    let answer = api(url, &format!("CONSUMER.NAMES.{stream}"), &json!(null)).await;
    serde_json::from_value(answer["consumers"].clone()).unwrap_or_default()
}

/// A call of the JetStream API that is not ours.
pub(crate) async fn api(url: &str, call: &str, body: &Value) -> Value {
    let urls: Vec<&str> = url.split(',').collect();
    let client = async_nats::connect(urls).await.unwrap();
    let payload = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let answer = client
        .request(format!("$JS.API.{call}"), payload.into())
        .await
        .unwrap();
    serde_json::from_slice(&answer.payload).unwrap()
}
