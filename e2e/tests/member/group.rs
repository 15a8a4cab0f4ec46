//! A group whose coordinator is the test.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use lockstep::group::{
    Assignment, AssignorSetting, BucketId, Delivery, Epoch, GroupDocument, GroupEpoch, GroupRef,
    GroupState, Incarnation, MemberDocument, MemberEntry, MemberId, Membership, Meta,
    MetaGeneration, OffsetRecord, OnFailure, OnGap, OnTruncation, Partition, Pause, Retry,
    Revision, Sequence, Source, Standing, StartFrom, StreamIdentity, Term, Unknown,
};
use lockstep::nats::{
    Bucket, BucketSettings, CasOutcome, Connection, EntryValue, KeyFilter, Options, Outgoing,
    PublishOutcome, PutOutcome, Role, streams,
};
use lockstep::tasks::Tasks;
use lockstep::wire;
use lockstep::wire::keys::Key;
use lockstep::worker::{
    AckMode, AckResult, AckWait, Engine, FetchOptions, Fetched, MemberHandle, PartitionState,
    Position, SessionId, Status, WorkerSettings,
};
use lockstep_e2e::{NatsServer, until};

/// Longer than anything that should happen takes.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// The session timeout of these groups.
pub(crate) const SESSION: Duration = Duration::from_secs(4);

/// A group, its server and its documents.
pub(crate) struct Group {
    pub(crate) server: NatsServer,
    pub(crate) connection: Connection,
    pub(crate) bucket: Bucket,
    pub(crate) meta: Meta,
    pub(crate) document: GroupDocument,
}

/// A member that runs in this process.
pub(crate) struct Running {
    pub(crate) handle: MemberHandle,
    pub(crate) tasks: Tasks,
    pub(crate) id: String,
}

impl Group {
    /// A group of this many partitions, seeded, without members; a stream for each partition.
    pub(crate) async fn start(partitions: u32) -> Self {
        Self::start_on(NatsServer::start().await.unwrap(), partitions, |_| {}).await
    }

    /// The same with settings of its own.
    pub(crate) async fn with(partitions: u32, set: impl FnOnce(&mut Meta)) -> Self {
        Self::start_on(NatsServer::start().await.unwrap(), partitions, set).await
    }

    pub(crate) async fn start_on(
        server: NatsServer,
        partitions: u32,
        set: impl FnOnce(&mut Meta),
    ) -> Self {
        let options = Options::for_url(server.url());
        let connection = Connection::connect(&options, &Role::Cli, "test")
            .await
            .unwrap();
        let bucket = create_bucket(&connection, "b1").await;
        let mut meta = meta(partitions);
        set(&mut meta);
        let mut group = Self {
            server,
            connection,
            bucket,
            meta,
            document: GroupDocument {
                term: Term(1),
                epoch: GroupEpoch(1),
                meta_generation: MetaGeneration(1),
                seeded: true,
                partitions: vec![Assignment::default(); partitions as usize],
                ..GroupDocument::default()
            },
        };
        for p in 0..partitions {
            group.create_stream(p).await;
        }
        group.fill().await;
        group
    }

    async fn create_stream(&mut self, p: u32) {
        let name = format!("S-{p}");
        let plan = streams::StreamPlan::plain(&name, vec![format!("S.{p}.>")]);
        let facts = streams::create(&self.connection, &plan).await.unwrap();
        let identity = StreamIdentity {
            created: facts.created,
            taken_from: None,
        };
        self.meta.streams.insert(name, identity);
    }

    /// Writes every document of the group.
    pub(crate) async fn fill(&mut self) {
        for p in 0..self.meta.partitions() {
            let record = self.seed(p);
            self.write_offset(p, &record, Revision(0)).await;
        }
        self.write_meta().await;
        self.write_document().await;
    }

    fn seed(&self, p: u32) -> OffsetRecord {
        let stream = format!("S-{p}");
        OffsetRecord {
            epoch: Epoch(0),
            owner: None,
            next_seq: Sequence(1),
            mark: None,
            stream_created: self.meta.streams[&stream].created,
            stream,
            head: None,
            stopped: None,
            unknown: Unknown::new(),
        }
    }

    pub(crate) async fn write_meta(&self) {
        let bytes = wire::meta::encode(&self.meta).unwrap();
        self.put(&Key::Meta, bytes).await;
    }

    /// Writes `meta` as its next generation, and a document that follows it.
    pub(crate) async fn change(&mut self, change: impl FnOnce(&mut Meta)) {
        self.meta.generation = MetaGeneration(self.meta.generation.0 + 1);
        change(&mut self.meta);
        self.write_meta().await;
        self.document.meta_generation = self.meta.generation;
        self.write_document().await;
    }

    pub(crate) async fn write_document(&mut self) {
        self.document.epoch = self.document.epoch.next();
        let bytes = wire::group::encode(&self.document).unwrap();
        self.put(&Key::Group, bytes).await;
    }

    async fn put(&self, key: &Key, bytes: Vec<u8>) {
        let outcome = self.bucket.put(key, Bytes::from(bytes), None).await;
        assert!(matches!(outcome, PutOutcome::Stored(_)), "{outcome:?}");
    }

    pub(crate) async fn write_offset(
        &self,
        p: u32,
        record: &OffsetRecord,
        expected: Revision,
    ) -> Revision {
        let bytes = wire::offset::encode(record).unwrap();
        let key = Key::Offset(Partition(p));
        match self
            .bucket
            .replace(&key, Bytes::from(bytes), expected)
            .await
        {
            CasOutcome::Stored(revision) => revision,
            outcome @ (CasOutcome::Conflict { .. }
            | CasOutcome::Busy
            | CasOutcome::Unknown { .. }
            | CasOutcome::Refused { .. }) => panic!("{outcome:?}"),
        }
    }

    /// Starts a member; it has an application from the first fetch on.
    pub(crate) async fn member(&self, id: &str) -> Running {
        self.member_through(id, &self.server.url()).await
    }

    pub(crate) async fn member_through(&self, id: &str, url: &str) -> Running {
        let group: GroupRef = "orders".parse().unwrap();
        let options = Options::for_url(url);
        let settings = WorkerSettings::new(options, group, MemberId::new(id));
        let tasks = Tasks::new();
        let handle = Engine::start(settings, &tasks).await.unwrap();
        Running {
            handle,
            tasks,
            id: id.to_owned(),
        }
    }

    /// The newest document of the member with this label, once there is one that will do.
    pub(crate) async fn says(
        &self,
        id: &str,
        what: &str,
        will_do: impl Fn(&MemberDocument) -> bool,
    ) -> (Incarnation, MemberDocument) {
        until(format!("{what} of {id}"), SOON, async || {
            let entries = self.bucket.list(&KeyFilter::AllMembers).await;
            let entries = entries.map_err(|error| error.to_string())?;
            let mut seen = Vec::new();
            for entry in entries {
                let (Key::Member(incarnation), EntryValue::Put(bytes)) = (entry.key, entry.value)
                else {
                    continue;
                };
                let document = wire::member::decode(&bytes).map_err(|e| e.to_string())?;
                if document.id.as_str() == id && will_do(&document) {
                    return Ok((incarnation, document));
                }
                seen.push(document);
            }
            Err(format!("{seen:?}"))
        })
        .await
        .unwrap()
    }

    /// The next document counts this member in.
    pub(crate) async fn takes_in(&mut self, running: &Running) -> Incarnation {
        // A beat that was meant for another bucket can have landed in this one. P51
        let bucket = self.meta.bucket.clone();
        let (incarnation, _) = self
            .says(&running.id, "a heartbeat", |d| {
                d.beat.0 > 1 && d.bucket == bucket
            })
            .await;
        self.document.members.insert(
            incarnation.clone(),
            MemberEntry {
                id: MemberId::new(running.id.as_str()),
                zone: None,
                standing: Standing::Active,
            },
        );
        incarnation
    }

    /// The next document gives the partition to this member at this epoch.
    pub(crate) fn gives(&mut self, p: u32, to: &Incarnation, epoch: u64) {
        self.document.partitions[p as usize] = Assignment {
            owner: Some(to.clone()),
            epoch: Epoch(epoch),
            target: Some(to.clone()),
            unclean: false,
        };
    }

    /// The next document wants the partition back for somebody else.
    pub(crate) fn wants(&mut self, p: u32, target: Option<&Incarnation>) {
        self.document.partitions[p as usize].target = target.cloned();
    }

    /// A member that owns all partitions at epoch 1.
    pub(crate) async fn owner(&mut self, id: &str) -> Running {
        let running = self.member(id).await;
        self.give_all(&running, 1).await;
        running
    }

    pub(crate) async fn give_all(&mut self, running: &Running, epoch: u64) -> Incarnation {
        let incarnation = self.takes_in(running).await;
        for p in 0..self.meta.partitions() {
            self.gives(p, &incarnation, epoch);
        }
        self.write_document().await;
        running
            .is("owns everything", |status| {
                let count = status.partitions.len() as u64;
                count == u64::from(self.meta.partitions())
                    && status
                        .partitions
                        .iter()
                        .all(|p| p.epoch == Epoch(epoch) && p.state != PartitionState::Claiming)
            })
            .await;
        incarnation
    }

    /// Publishes numbered messages into a partition.
    pub(crate) async fn publish(&self, p: u32, numbers: impl IntoIterator<Item = u64>) {
        for number in numbers {
            self.publish_bytes(p, number.to_string().into_bytes()).await;
        }
    }

    pub(crate) async fn publish_bytes(&self, p: u32, payload: Vec<u8>) {
        let message = Outgoing {
            subject: format!("S.{p}.k"),
            headers: Vec::new(),
            payload: payload.into(),
            id: None,
        };
        let outcome = lockstep::nats::publish(&self.connection, message).await;
        assert!(
            matches!(outcome, PublishOutcome::Stored { .. }),
            "{outcome:?}"
        );
    }

    pub(crate) async fn offset(&self, p: u32) -> (Revision, OffsetRecord) {
        let entry = self.bucket.get(&Key::Offset(Partition(p))).await;
        let entry = entry.unwrap().expect("a commit record");
        match entry.value {
            EntryValue::Put(bytes) => (entry.revision, wire::offset::decode(&bytes).unwrap()),
            EntryValue::Marker => panic!("a marker"),
        }
    }

    pub(crate) async fn raw_offset(&self, p: u32) -> Bytes {
        let entry = self.bucket.get(&Key::Offset(Partition(p))).await;
        match entry.unwrap().expect("a commit record").value {
            EntryValue::Put(bytes) => bytes,
            EntryValue::Marker => panic!("a marker"),
        }
    }

    pub(crate) async fn write_raw_offset(&self, p: u32, bytes: &[u8], expected: Revision) {
        let key = Key::Offset(Partition(p));
        let value = Bytes::copy_from_slice(bytes);
        let outcome = self.bucket.replace(&key, value, expected).await;
        assert!(matches!(outcome, CasOutcome::Stored(_)), "{outcome:?}");
    }

    /// Waits until the stream has no consumer.
    pub(crate) async fn no_consumers(&self, stream: &str) {
        until(format!("end of {stream}'s consumers"), SOON, async || {
            let facts = streams::info(&self.connection, stream).await;
            match facts.map_err(|e| e.to_string())?.consumers {
                0 => Ok(()),
                count => Err(format!("{count} consumers")),
            }
        })
        .await
        .unwrap();
    }

    /// Deletes a partition's stream and makes it anew.
    pub(crate) async fn remake_stream(&mut self, p: u32) {
        let name = format!("S-{p}");
        streams::delete(&self.connection, &name).await.unwrap();
        let plan = streams::StreamPlan::plain(&name, vec![format!("S.{p}.>")]);
        streams::create(&self.connection, &plan).await.unwrap();
    }

    /// The filter of each consumer of a stream.
    pub(crate) async fn filters_of_consumers(&self, stream: &str) -> Vec<Option<String>> {
        let call = format!("CONSUMER.LIST.{stream}");
        let list = self.request(&call, &serde_json::json!({})).await;
        let consumers = list["consumers"].as_array().unwrap();
        let filter =
            |c: &serde_json::Value| c["config"]["filter_subject"].as_str().map(str::to_owned);
        consumers.iter().map(filter).collect()
    }

    /// Removes everything below `first`, as retention does.
    pub(crate) async fn purge(&self, p: u32, first: u64) {
        let request = serde_json::json!({ "seq": first });
        self.request(&format!("STREAM.PURGE.S-{p}"), &request).await;
    }

    /// Lets the bucket hold this many bytes; -1: any number.
    pub(crate) async fn limit_bucket(&self, bytes: i64) {
        let name = "KV_lockstep_default_orders";
        let info = self
            .request(&format!("STREAM.INFO.{name}"), &serde_json::Value::Null)
            .await;
        let mut config = info["config"].clone();
        config["max_bytes"] = bytes.into();
        self.request(&format!("STREAM.UPDATE.{name}"), &config)
            .await;
    }

    async fn request(&self, call: &str, body: &serde_json::Value) -> serde_json::Value {
        let client = self.server.connect().await.unwrap();
        let body = if body.is_null() {
            Vec::new()
        } else {
            serde_json::to_vec(body).unwrap()
        };
        let answer = client
            .request(format!("$JS.API.{call}"), body.into())
            .await
            .unwrap();
        let answer: serde_json::Value = serde_json::from_slice(&answer.payload).unwrap();
        assert!(answer.get("error").is_none(), "{call}: {answer}");
        answer
    }

    pub(crate) async fn commits(&self, p: u32, next: u64) {
        until(format!("commit of {p} at {next}"), SOON, async || {
            let (_, record) = self.offset(p).await;
            if record.next_seq == Sequence(next) {
                Ok(())
            } else {
                Err(format!("{record:?}"))
            }
        })
        .await
        .unwrap();
    }
}

impl Running {
    /// Waits until the status will do.
    pub(crate) async fn is(&self, what: &str, will_do: impl Fn(&Status) -> bool) -> Status {
        until(format!("member that {what}"), SOON, async || {
            let status = self.handle.status().await.map_err(|e| e.to_string())?;
            if will_do(&status) {
                Ok(status)
            } else {
                Err(format!("{status:?}"))
            }
        })
        .await
        .unwrap()
    }

    pub(crate) async fn fetch(&self, session: &str, most: u32) -> Fetched {
        let options = FetchOptions {
            max_messages: Some(most),
            max_wait: Some(SOON),
            batch_wait: Some(Duration::from_millis(50)),
            ..FetchOptions::default()
        };
        let session = SessionId::new(session);
        self.handle.fetch(&session, options).await.unwrap()
    }

    /// What is there now; does not wait.
    pub(crate) async fn fetch_now(&self, session: &str) -> Fetched {
        let options = FetchOptions {
            max_wait: Some(Duration::ZERO),
            ..FetchOptions::default()
        };
        let session = SessionId::new(session);
        self.handle.fetch(&session, options).await.unwrap()
    }

    /// What is there now of one partition; does not wait.
    pub(crate) async fn fetch_of(&self, session: &str, p: u32) -> Fetched {
        let options = FetchOptions {
            max_messages: Some(1),
            max_wait: Some(Duration::ZERO),
            partitions: Some([Partition(p)].into()),
            ..FetchOptions::default()
        };
        let session = SessionId::new(session);
        self.handle.fetch(&session, options).await.unwrap()
    }

    pub(crate) async fn ack(&self, session: &str, position: Position, wait: AckWait) -> AckResult {
        let session = SessionId::new(session);
        let results = self
            .handle
            .ack(&session, vec![position], AckMode::UpTo, wait)
            .await
            .unwrap();
        results[0]
    }
}

/// The position of a message.
pub(crate) fn position(message: &lockstep::worker::Delivered) -> Position {
    Position {
        partition: message.partition,
        epoch: message.epoch,
        sequence: message.sequence,
    }
}

/// A position written out.
pub(crate) fn at(p: u32, epoch: u64, sequence: u64) -> Position {
    Position {
        partition: Partition(p),
        epoch: Epoch(epoch),
        sequence: Sequence(sequence),
    }
}

pub(crate) fn sequences(fetched: &Fetched) -> Vec<u64> {
    fetched.messages.iter().map(|m| m.sequence.0).collect()
}

pub(crate) async fn create_bucket(connection: &Connection, id: &str) -> Bucket {
    let settings = BucketSettings {
        replicas: 1,
        id: BucketId::new(id),
        group_uid: String::new(),
        history: 64,
    };
    let made = Bucket::create(connection, "lockstep_default_orders", &settings).await;
    made.unwrap().0
}

fn meta(partitions: u32) -> Meta {
    Meta {
        bucket: BucketId::new("b1"),
        manager: "standalone".to_owned(),
        generation: MetaGeneration(1),
        group_uid: String::new(),
        state: GroupState::Active,
        source: Source::Streams {
            pattern: "S-{partition}".to_owned(),
            partitions,
            subjects: "S.{partition}.>".to_owned(),
        },
        streams: BTreeMap::new(),
        start_from: StartFrom::Earliest,
        delivery: Delivery {
            max_in_flight: 100,
            batch: 100,
            fetch_wait: Duration::from_secs(5),
            batch_wait: Duration::from_millis(5),
            buffer_messages: 5000,
            buffer_bytes: 1 << 24,
            retry: Retry {
                max_attempts: 3,
                initial: Duration::from_millis(20),
                max: Duration::from_millis(200),
                factor: 2.0,
            },
            on_failure: OnFailure::Block,
            commit_interval: Duration::from_millis(50),
            max_uncommitted: 1000,
        },
        membership: Membership {
            assignor: AssignorSetting::Sticky,
            heartbeat_interval: Duration::from_millis(500),
            session_timeout: SESSION,
            rebalance_timeout: Duration::from_secs(20),
            processing_timeout: Duration::from_secs(60),
            initial_rebalance_delay: Duration::from_millis(100),
            rebalance_delay: Duration::from_millis(100),
            balance_interval: Duration::from_millis(100),
            max_members: 64,
        },
        on_truncation: OnTruncation::Stop,
        on_gap: OnGap::Earliest,
        pause: Pause::default(),
        resumed: BTreeMap::new(),
        unknown: Unknown::new(),
    }
}
