//! The servers' side: one with R1, or three with R3.

use std::time::Duration;

use lockstep::group::{BucketId, Epoch, Incarnation, Partition, Revision, Sequence};
use lockstep::nats::{
    Bucket, BucketSettings, CasOutcome, Connection, ConsumerName, KeyFilter, Options,
    PartitionReader, PutOutcome, ReadEvent, ReadPlan, Role, WatchEvent, streams,
};
use lockstep::wire::keys::Key;
use lockstep_e2e::{NatsCluster, NatsServer, until};
use serde_json::{Value, json};

use super::script::{Deed, Found, Seen, Step};
use super::simulated::one_of_two;

const SOON: Duration = Duration::from_secs(30);
const BUCKET: &str = "lockstep_default_model";
const STREAM: &str = "MODEL";

pub(crate) struct Servers {
    pub(crate) cluster: NatsCluster,
    connection: Connection,
    bucket: Bucket,
    replicas: u32,
    /// Names consumers apart.
    readers: u64,
}

impl Servers {
    pub(crate) async fn start(replicas: u32) -> Self {
        let cluster = if replicas == 1 {
            NatsCluster::of(NatsServer::start().await.unwrap())
        } else {
            NatsCluster::start(3).await.unwrap()
        };
        let options = Options::for_url(cluster.url());
        let connection = Connection::connect(&options, &Role::Coordinator, "model");
        let connection = connection.await.unwrap();
        tokio::time::timeout(SOON, connection.up()).await.unwrap();
        let settings = BucketSettings {
            replicas,
            id: BucketId::new("b"),
            group_uid: String::new(),
            history: 1,
        };
        let made = until("the bucket", SOON, async || {
            Bucket::create(&connection, BUCKET, &settings).await
        });
        let (bucket, _) = made.await.unwrap();
        let servers = Self {
            cluster,
            connection,
            bucket,
            replicas,
            readers: 0,
        };
        servers.make_stream().await;
        servers
    }

    async fn make_stream(&self) {
        let plan = streams::StreamPlan {
            replicas: self.replicas,
            ..streams::StreamPlan::plain(STREAM, vec!["model.>".to_owned()])
        };
        let made = until("the stream", SOON, async || {
            streams::create(&self.connection, &plan).await
        });
        made.await.unwrap();
        if self.replicas > 1 {
            self.cluster.leader_of(STREAM).await.unwrap();
            self.cluster
                .leader_of(&format!("KV_{BUCKET}"))
                .await
                .unwrap();
        }
    }

    pub(crate) async fn step(&self, step: Step) -> Seen {
        let bucket = &self.bucket;
        match step {
            Step::Put(key) => match bucket.put(&name(key), "v".into(), None).await {
                PutOutcome::Stored(revision) => Seen::Stored(revision.0),
                PutOutcome::Unknown { .. } => Seen::Unknown,
                refused @ PutOutcome::Refused { .. } => panic!("{refused:?}"),
            },
            Step::Replace(key, expected) => self.replace(key, expected).await,
            Step::Twice(key, expected) => {
                let both = tokio::join!(self.replace(key, expected), self.replace(key, expected));
                one_of_two(&[both.0, both.1])
            }
            Step::Get(key) => {
                let found = bucket.get(&name(key)).await.unwrap();
                Seen::Value(found.map(|entry| entry.revision.0))
            }
            Step::Watch => self.watch().await,
        }
    }

    async fn replace(&self, key: u8, expected: u64) -> Seen {
        let (key, expected) = (name(key), Revision(expected));
        match self.bucket.replace(&key, "v".into(), expected).await {
            CasOutcome::Stored(revision) => Seen::Stored(revision.0),
            CasOutcome::Conflict {
                stands_at: Some(at),
            } => Seen::StandsAt(at.0),
            CasOutcome::Busy | CasOutcome::Unknown { .. } => Seen::Unknown,
            other => panic!("{other:?}"),
        }
    }

    async fn watch(&self) -> Seen {
        let mut watch = self.bucket.watch(&[KeyFilter::AllCandidates]);
        let mut seen = Vec::new();
        loop {
            let event = tokio::time::timeout(SOON, watch.next()).await.unwrap();
            match event.unwrap() {
                WatchEvent::Entry(entry) => seen.push((number(&entry.key), entry.revision.0)),
                WatchEvent::Loaded => return Seen::Watched(seen),
                WatchEvent::Restarted { .. } => seen.clear(),
                gone @ WatchEvent::Gone { .. } => panic!("{gone:?}"),
            }
        }
    }

    pub(crate) async fn deed(&mut self, deed: Deed) -> Found {
        match deed {
            Deed::Publish(p) => Found::At(self.publish(p).await),
            Deed::Read(p, from, count) => self.read(p, from, count).await,
            Deed::Ends => {
                let facts = streams::info(&self.connection, STREAM).await.unwrap();
                Found::Between(facts.first.0.max(1), facts.last.0)
            }
            Deed::Purge(first) => {
                self.api(&format!("STREAM.PURGE.{STREAM}"), &json!({"seq": first}))
                    .await;
                Found::Done
            }
            Deed::Remove(seq) => {
                self.api(&format!("STREAM.MSG.DELETE.{STREAM}"), &json!({"seq": seq}))
                    .await;
                Found::Done
            }
            Deed::Recreate => {
                let before = streams::info(&self.connection, STREAM)
                    .await
                    .unwrap()
                    .created;
                streams::delete(&self.connection, STREAM).await.unwrap();
                self.make_stream().await;
                let after = streams::info(&self.connection, STREAM)
                    .await
                    .unwrap()
                    .created;
                Found::Anew(before != after)
            }
        }
    }

    async fn publish(&self, partition: u32) -> u64 {
        let client = self.cluster.connect().await.unwrap();
        let jetstream = async_nats::jetstream::new(client);
        let ack = jetstream.publish(format!("model.{partition}.k"), "v".into());
        ack.await.unwrap().await.unwrap().sequence
    }

    async fn api(&self, call: &str, body: &Value) {
        let client = self.cluster.connect().await.unwrap();
        let payload = body.to_string();
        let answer = client
            .request(format!("$JS.API.{call}"), payload.into())
            .await
            .unwrap();
        let answer: Value = serde_json::from_slice(&answer.payload).unwrap();
        assert_eq!(answer["success"], true, "{answer}");
    }

    async fn read(&mut self, partition: u32, from: u64, count: usize) -> Found {
        self.readers += 1;
        let plan = ReadPlan {
            stream: STREAM.to_owned(),
            filter: Some(format!("model.{partition}.*")),
            from: Sequence(from),
            name: ConsumerName {
                bucket: BUCKET.to_owned(),
                bucket_id: BucketId::new("b"),
                partition: Partition(partition),
                epoch: Epoch(self.readers),
                incarnation: "reader1".parse().unwrap(),
            },
            window_messages: 100,
            window_bytes: 1 << 20,
            metadata: std::collections::BTreeMap::new(),
        };
        let mut reader = PartitionReader::open(&self.connection, plan, |_| async { Ok(()) });
        let mut delivered = Vec::new();
        let reading = async {
            while delivered.len() < count {
                match reader.next().await.expect("the reader ended") {
                    ReadEvent::Messages(batch) => {
                        delivered.extend(batch.iter().map(|m| m.sequence.0));
                    }
                    stopped @ ReadEvent::Stopped { .. } => panic!("{stopped:?}"),
                    _ => {}
                }
            }
        };
        tokio::time::timeout(SOON, reading).await.unwrap();
        reader.close().await;
        Found::Delivered(delivered)
    }
}

fn name(key: u8) -> Key {
    let incarnation: Incarnation = format!("k{key}").parse().unwrap();
    Key::Candidate(incarnation)
}

fn number(key: &Key) -> u8 {
    match key {
        Key::Candidate(name) => name.as_str()[1..].parse().unwrap(),
        other => panic!("{other}"),
    }
}
