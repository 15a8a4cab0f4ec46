//! A group whose documents the test writes itself.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use lockstep::group::{
    App, Assignment, Beat, BucketId, CandidateDocument, Epoch, Formats, GroupDocument, GroupEpoch,
    GroupRef, Held, HoldState, Incarnation, MemberDocument, MemberEntry, MemberId, MemberState,
    Meta, MetaGeneration, OffsetRecord, Partition, Pause, Sequence, Source, Standing,
    StreamIdentity, Term, Transform, Unknown,
};
use lockstep::nats::{
    Bucket, BucketSettings, Connection, EntryValue, Options, PutOutcome, Role, streams,
};
use lockstep::wire::{self, keys::Key};
use lockstep_e2e::NatsServer;
use lockstep_e2e::process::{self, Finished};
use tokio::io::AsyncWriteExt;

/// How many partitions planted groups have.
pub(crate) const PARTITIONS: u32 = 4;
/// How long a command may take.
const COMMAND_WITHIN: Duration = Duration::from_secs(60);

/// A server with one group, `default/orders`: two members, two partitions each, nothing committed.
pub(crate) struct Plant {
    pub(crate) server: NatsServer,
    pub(crate) connection: Connection,
    pub(crate) bucket: Bucket,
}

pub(crate) fn inc(name: &str) -> Incarnation {
    name.parse().unwrap()
}

/// The stream `ORDERS`: `orders.<key>`, to which the server adds the partition.
pub(crate) fn orders() -> streams::StreamPlan {
    let destination = format!("orders.{{{{partition({PARTITIONS},1)}}}}.{{{{wildcard(1)}}}}");
    streams::StreamPlan {
        transform: Some(("orders.*".to_owned(), destination)),
        ..streams::StreamPlan::plain("ORDERS", vec!["orders.*".to_owned()])
    }
}

pub(crate) fn meta(stream: &streams::StreamFacts) -> Meta {
    let golden = include_bytes!("../../../src/wire/golden/meta.1.json");
    let identity = StreamIdentity {
        created: stream.created,
        taken_from: None,
    };
    Meta {
        source: Source::Stream {
            stream: "ORDERS".to_owned(),
            partitions: PARTITIONS,
            filter: "orders.{partition}.*".to_owned(),
            transform: Some(Transform {
                subjects: vec!["orders.*".to_owned()],
                key_tokens: vec![1],
                origin: None,
            }),
        },
        streams: BTreeMap::from([("ORDERS".to_owned(), identity)]),
        pause: Pause::default(),
        resumed: BTreeMap::new(),
        ..wire::meta::decode(golden).unwrap()
    }
}

pub(crate) fn document() -> GroupDocument {
    let owned = |(p, owner): (u64, &str)| Assignment {
        owner: Some(inc(owner)),
        epoch: Epoch(100 + p),
        target: Some(inc(owner)),
        unclean: false,
    };
    let entry = |id: &str| MemberEntry {
        id: MemberId::new(id),
        zone: None,
        standing: Standing::Active,
    };
    GroupDocument {
        term: Term(4),
        holder: Some(inc("c1")),
        epoch: GroupEpoch(7),
        meta_generation: MetaGeneration(3),
        seeded: true,
        members: BTreeMap::from([(inc("a1"), entry("pod-a")), (inc("b1"), entry("pod-b"))]),
        partitions: [(0, "a1"), (1, "a1"), (2, "b1"), (3, "b1")]
            .map(owned)
            .into(),
        reason: "pod-b joined".to_owned(),
        ..GroupDocument::default()
    }
}

pub(crate) fn record(
    p: u32,
    owner: &str,
    next: u64,
    stream: &streams::StreamFacts,
) -> OffsetRecord {
    OffsetRecord {
        epoch: Epoch(100 + u64::from(p)),
        owner: Some(inc(owner)),
        next_seq: Sequence(next),
        mark: None,
        stream: "ORDERS".to_owned(),
        stream_created: stream.created,
        head: None,
        stopped: None,
        unknown: Unknown::new(),
    }
}

pub(crate) fn heartbeat(id: &str, partitions: &[u32], pending: u64) -> MemberDocument {
    let held = |p: &u32| Held {
        partition: Partition(*p),
        epoch: Epoch(100 + u64::from(*p)),
        state: HoldState::Feeding,
        position: Sequence(1),
        committed: Sequence(1),
        in_flight: 1,
        pending: Some(pending),
        head_attempts: 0,
    };
    MemberDocument {
        bucket: BucketId::new("b0c4e7"),
        id: MemberId::new(id),
        beat: Beat(9),
        session_timeout: Duration::from_secs(20),
        formats: Formats::CURRENT,
        state: MemberState::Active,
        pod: None,
        zone: Some("zone-1".to_owned()),
        version: "0.1.0".to_owned(),
        app: App {
            connected: true,
            seen: true,
            since_ms: 5,
        },
        seen_epoch: GroupEpoch(7),
        held: partitions.iter().map(held).collect(),
        released: Vec::new(),
        unknown: Unknown::new(),
    }
}

fn candidate() -> CandidateDocument {
    CandidateDocument {
        id: "host-1".to_owned(),
        priority: 0,
        beat: Beat(3),
        formats: Formats::CURRENT,
        left: false,
        unknown: Unknown::new(),
    }
}

// === impl Plant ===

impl Plant {
    pub(crate) async fn new() -> Self {
        Self::on(NatsServer::start().await.unwrap(), |url| {
            Options::for_url(url)
        })
        .await
    }

    /// Plants on this server, through a connection that may do everything.
    pub(crate) async fn on(server: NatsServer, options: impl Fn(String) -> Options) -> Self {
        let options = options(server.url());
        let connection = Connection::connect(&options, &Role::Coordinator, "test")
            .await
            .unwrap();
        connection.up().await;
        let stream = streams::create(&connection, &orders()).await.unwrap();
        let bucket = empty_group(&connection, "default/orders", &meta(&stream)).await;
        let plant = Self {
            server,
            connection,
            bucket,
        };
        plant
            .put(&Key::Group, wire::group::encode(&document()).unwrap())
            .await;
        for (p, owner) in [(0, "a1"), (1, "a1"), (2, "b1"), (3, "b1")] {
            plant.put_record(p, &record(p, owner, 1, &stream)).await;
        }
        plant
            .put_member("a1", &heartbeat("pod-a", &[0, 1], 2))
            .await;
        plant
            .put_member("b1", &heartbeat("pod-b", &[2, 3], 4))
            .await;
        let candidate = wire::candidate::encode(&candidate()).unwrap();
        plant.put(&Key::Candidate(inc("c1")), candidate).await;
        plant
    }

    pub(crate) async fn put(&self, key: &Key, bytes: impl Into<bytes::Bytes>) {
        let outcome = self.bucket.put(key, bytes.into(), None).await;
        assert!(
            matches!(outcome, PutOutcome::Stored(_)),
            "{key}: {outcome:?}"
        );
    }

    pub(crate) async fn put_record(&self, p: u32, record: &OffsetRecord) {
        let bytes = wire::offset::encode(record).unwrap();
        self.put(&Key::Offset(Partition(p)), bytes).await;
    }

    pub(crate) async fn put_member(&self, incarnation: &str, document: &MemberDocument) {
        let bytes = wire::member::encode(document).unwrap();
        self.put(&Key::Member(inc(incarnation)), bytes).await;
    }

    pub(crate) async fn put_meta(&self, meta: &Meta) {
        self.put(&Key::Meta, wire::meta::encode(meta).unwrap())
            .await;
    }

    /// Deletes a key as a client would that knows nothing of us.
    pub(crate) async fn delete_key(&self, key: &Key) {
        let client = self.server.connect().await.unwrap();
        let mut headers = async_nats::HeaderMap::new();
        headers.insert("KV-Operation", "DEL");
        let subject = format!("$KV.{}.{key}", self.bucket.name());
        let context = async_nats::jetstream::new(client);
        let sent = context
            .publish_with_headers(subject, headers, bytes::Bytes::new())
            .await;
        sent.unwrap().await.unwrap();
    }

    pub(crate) async fn meta(&self) -> Meta {
        let entry = self.bucket.get(&Key::Meta).await.unwrap().unwrap();
        match entry.value {
            EntryValue::Put(bytes) => wire::meta::decode(&bytes).unwrap(),
            EntryValue::Marker => panic!("meta is deleted"),
        }
    }

    pub(crate) async fn stream(&self) -> streams::StreamFacts {
        streams::info(&self.connection, "ORDERS").await.unwrap()
    }

    /// Runs a command to its end, against this server.
    pub(crate) async fn run(&self, line: &str) -> Finished {
        self.run_with(line, "").await
    }

    /// The same, with this on standard input. Words of the line are parted by single spaces.
    pub(crate) async fn run_with(&self, line: &str, input: &str) -> Finished {
        let url = self.server.url();
        let words: Vec<&str> = line.split(' ').chain(["--nats-url", &url]).collect();
        run(&words, input, &[]).await
    }

    /// Runs a command that has to succeed; what it printed.
    pub(crate) async fn ok(&self, line: &str) -> String {
        let finished = self.run(line).await;
        assert_eq!(finished.code, Some(0), "{line}: {finished:?}");
        assert_eq!(finished.stderr, "", "{line}");
        finished.stdout
    }

    pub(crate) async fn json(&self, line: &str) -> serde_json::Value {
        serde_json::from_str(&self.ok(line).await).unwrap()
    }

    /// Runs a command that has to fail like this, with one line that holds each of these.
    pub(crate) async fn fails(&self, line: &str, code: i32, words: &[&str]) {
        refused(line, &self.run(line).await, code, words);
    }
}

/// A group that nobody has coordinated yet.
pub(crate) async fn empty_group(connection: &Connection, group: &str, meta: &Meta) -> Bucket {
    let group: GroupRef = group.parse().unwrap();
    let settings = BucketSettings {
        replicas: 1,
        id: meta.bucket.clone(),
        group_uid: String::new(),
        history: 1,
    };
    let name = group.bucket_name("lockstep");
    let (bucket, _) = Bucket::create(connection, &name, &settings).await.unwrap();
    let bytes = wire::meta::encode(meta).unwrap();
    let outcome = bucket.put(&Key::Meta, bytes.into(), None).await;
    assert!(matches!(outcome, PutOutcome::Stored(_)), "{outcome:?}");
    bucket
}

/// Runs `lockstep` to its end.
pub(crate) async fn run(words: &[&str], input: &str, variables: &[(&str, &str)]) -> Finished {
    let mut command = tokio::process::Command::new(process::lockstep().unwrap());
    let spawned = command
        .args(words)
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn();
    let mut child = spawned.unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let feed = async {
        // A command that does not read its input may have ended already.
        drop(stdin.write_all(input.as_bytes()).await);
        drop(stdin);
    };
    let ended = async { tokio::join!(feed, child.wait_with_output()).1 };
    let output = tokio::time::timeout(COMMAND_WITHIN, ended).await;
    let output = output
        .unwrap_or_else(|_| panic!("{words:?} did not end"))
        .unwrap();
    Finished {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A refusal is an exit code, nothing on standard output, and one line for people.
pub(crate) fn refused(line: &str, finished: &Finished, code: i32, words: &[&str]) {
    assert_eq!(finished.code, Some(code), "{line}: {finished:?}");
    assert_eq!(finished.stdout, "", "{line}");
    assert_eq!(
        finished.stderr.lines().count(),
        1,
        "{line}: {}",
        finished.stderr
    );
    for word in words {
        assert!(
            finished.stderr.contains(word),
            "{line}: no {word:?} in {}",
            finished.stderr
        );
    }
}
