//! What the tests of coordinators have in common: a server, coordinators in this process, members
//! that are nothing but their heartbeats.

use std::collections::BTreeMap;
use std::time::Duration;

use lockstep::coordinator::provision::{Missing, ProvisionError, Terms};
use lockstep::coordinator::{Coordinator, CoordinatorError, GroupStatus, Settings};
use lockstep::crd::{self, ValidGroup};
use lockstep::group::decide::{Aspect, Trouble};
use lockstep::group::{
    App, Beat, BucketId, Formats, GroupDocument, GroupEpoch, Incarnation, MemberDocument, MemberId,
    MemberState, Meta, OffsetRecord, Partition, Unknown,
};
use lockstep::metrics::{CoordinatorMetrics, Metrics};
use lockstep::nats::{Bucket, Connection, EntryValue, Options, PutOutcome, Role};
use lockstep::tasks::Tasks;
use lockstep::wire::{self, keys::Key};
use lockstep_e2e::{NatsServer, until};

/// Longer than anything here takes.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// The coordinators' session timeout.
pub(crate) const SESSION: Duration = Duration::from_secs(2);

/// A group of this name; its stream has the same name.
pub(crate) fn manifest(name: &str) -> String {
    with(name, "")
}

/// The same, with more lines in its `spec`.
pub(crate) fn with(name: &str, more: &str) -> String {
    format!(
        r#"apiVersion: lockstep.dev/v1alpha1
kind: ConsumerGroup
metadata:
  name: {name}
spec:
  source:
    stream:
      name: {name}
      create:
        subjects: ["{name}.*"]
  partitioning:
    partitions: 4
    keyTokens: [1]
  membership:
    heartbeatInterval: 500ms
    sessionTimeout: 6s
    rebalanceTimeout: 5s
    initialRebalanceDelay: 500ms
    rebalanceDelay: 200ms
{more}"#
    )
}

pub(crate) fn group(yaml: &str) -> ValidGroup {
    crd::read_groups("test.yaml", yaml).unwrap().remove(0)
}

pub(crate) async fn connect(url: &str, role: &Role) -> Connection {
    let options = Options::for_url(url);
    let connection = Connection::connect(&options, role, "test").await.unwrap();
    tokio::time::timeout(SOON, connection.up()).await.unwrap();
    connection
}

pub(crate) fn settings(id: &str, missing: Missing) -> Settings {
    Settings {
        id: id.to_owned(),
        priority: 0,
        session_timeout: SESSION,
        terms: Terms::standalone("lockstep", missing),
        elected: false,
    }
}

/// A server, and how the test looks into it.
pub(crate) struct Stage {
    pub(crate) server: NatsServer,
    pub(crate) connection: Connection,
}

/// A coordinator in this process.
pub(crate) struct Running {
    pub(crate) coordinator: Coordinator,
    pub(crate) metrics: Metrics,
    tasks: Tasks,
    ended: tokio::sync::oneshot::Receiver<Result<(), CoordinatorError>>,
}

// === impl Stage ===

impl Stage {
    pub(crate) async fn new() -> Self {
        let server = NatsServer::start().await.unwrap();
        let connection = connect(&server.url(), &Role::Cli).await;
        Self { server, connection }
    }

    /// Starts a coordinator of these groups.
    pub(crate) async fn start(&self, id: &str, missing: Missing, groups: &[ValidGroup]) -> Running {
        self.start_through(&self.server.url(), id, missing, groups)
            .await
    }

    /// The same, through a proxy.
    pub(crate) async fn start_through(
        &self,
        url: &str,
        id: &str,
        missing: Missing,
        groups: &[ValidGroup],
    ) -> Running {
        self.start_as(url, settings(id, missing), groups).await
    }

    /// The same, with these settings.
    pub(crate) async fn start_as(
        &self,
        url: &str,
        settings: Settings,
        groups: &[ValidGroup],
    ) -> Running {
        let id = settings.id.clone();
        let options = Options::for_url(url);
        let connection = Connection::connect(&options, &Role::Coordinator, &id);
        let metrics = Metrics::new();
        let shown = CoordinatorMetrics::register_with_partitions(&metrics, 64);
        let coordinator = Coordinator::new(settings, connection.await.unwrap(), groups, shown);
        let tasks = Tasks::new();
        let (sender, ended) = tokio::sync::oneshot::channel();
        let (it, groups) = (coordinator.clone(), groups.to_vec());
        tasks.spawn("coordinator", |stop| async move {
            drop(sender.send(it.run(&groups, stop).await));
        });
        Running {
            coordinator,
            metrics,
            tasks,
            ended,
        }
    }

    /// A coordinator of one new group, which holds its office.
    pub(crate) async fn with_group(&self, id: &str, yaml: &str) -> Running {
        let running = self.start(id, Missing::Make, &[group(yaml)]).await;
        running.ready().await;
        running.coordinates("default/orders").await;
        running
    }

    pub(crate) async fn bucket(&self, name: &str) -> Bucket {
        let name = format!("lockstep_default_{name}");
        Bucket::open(&self.connection, &name).await.unwrap().0
    }

    /// The group document.
    pub(crate) async fn document(&self, name: &str) -> GroupDocument {
        let bytes = self.value(name, &Key::Group).await;
        wire::group::decode(&bytes).unwrap()
    }

    pub(crate) async fn meta(&self, name: &str) -> Meta {
        wire::meta::decode(&self.value(name, &Key::Meta).await).unwrap()
    }

    pub(crate) async fn offset(&self, name: &str, partition: u32) -> OffsetRecord {
        let key = Key::Offset(Partition(partition));
        wire::offset::decode(&self.value(name, &key).await).unwrap()
    }

    pub(crate) async fn value(&self, name: &str, key: &Key) -> Vec<u8> {
        let entry = self.bucket(name).await.get(key).await.unwrap();
        match entry.unwrap_or_else(|| panic!("no {key}")).value {
            EntryValue::Put(bytes) => bytes.to_vec(),
            EntryValue::Marker => panic!("{key} is deleted"),
        }
    }

    /// Waits until the group document is as it should be.
    pub(crate) async fn sees(
        &self,
        name: &str,
        what: &str,
        holds: impl Fn(&GroupDocument) -> bool,
    ) -> GroupDocument {
        let bucket = self.bucket(name).await;
        let seen = until(what, SOON, async || {
            let entry = bucket.get(&Key::Group).await.map_err(|e| e.to_string())?;
            let Some(EntryValue::Put(bytes)) = entry.map(|e| e.value) else {
                return Err("no document".to_owned());
            };
            let document = wire::group::decode(&bytes).map_err(|e| e.to_string())?;
            if holds(&document) {
                Ok(document)
            } else {
                Err(format!("{document:?}"))
            }
        });
        seen.await.unwrap()
    }

    /// Publishes messages of one key.
    pub(crate) async fn publish(&self, subject: &str, count: usize) {
        let client = self.server.connect().await.unwrap();
        let context = async_nats::jetstream::new(client);
        for _ in 0..count {
            let sent = context
                .publish(subject.to_owned(), "x".into())
                .await
                .unwrap();
            sent.await.unwrap();
        }
    }
}

// === impl Running ===

impl Running {
    pub(crate) async fn ready(&self) {
        tokio::time::timeout(SOON, self.coordinator.ready())
            .await
            .unwrap();
    }

    pub(crate) fn status(&self, group: &str) -> GroupStatus {
        self.coordinator.statuses()[&group.parse().unwrap()].clone()
    }

    pub(crate) fn trouble(&self, group: &str, aspect: Aspect) -> Option<Trouble> {
        let status = self.status(group);
        status.conditions.get(&aspect).and_then(|c| c.trouble)
    }

    pub(crate) async fn coordinates(&self, group: &str) {
        let seen = until("a coordinator", SOON, async || {
            let status = self.status(group);
            if status.coordinates {
                Ok(())
            } else {
                Err(format!("{status:?}"))
            }
        });
        seen.await.unwrap();
    }

    pub(crate) async fn has_trouble(&self, group: &str, aspect: Aspect, trouble: Trouble) {
        let seen = until(format!("{trouble}"), SOON, async || {
            let status = self.status(group);
            let found = status.conditions.get(&aspect).and_then(|c| c.trouble);
            if found == Some(trouble) {
                Ok(())
            } else {
                Err(format!("{status:?}"))
            }
        });
        seen.await.unwrap();
    }

    /// Tells it to stop and waits for its end.
    pub(crate) async fn stop(self) -> Result<(), CoordinatorError> {
        self.tasks.begin_to_stop();
        self.end().await
    }

    /// How it ends.
    pub(crate) async fn end(self) -> Result<(), CoordinatorError> {
        tokio::time::timeout(SOON, self.ended)
            .await
            .unwrap()
            .unwrap()
    }

    /// The reason for which it refuses to start.
    pub(crate) async fn refusal(self) -> ProvisionError {
        match self.end().await {
            Err(CoordinatorError::Provision(error)) => error,
            other => panic!("it did not refuse: {other:?}"),
        }
    }
}

/// A member: a heartbeat every half second, until dropped or silenced.
pub(crate) struct Member {
    pub(crate) incarnation: Incarnation,
    says: tokio::sync::watch::Sender<MemberDocument>,
    _tasks: Tasks,
}

// === impl Member ===

impl Member {
    pub(crate) fn start(bucket: &Bucket, id: &BucketId, name: &str) -> Self {
        let incarnation: Incarnation = name.parse().unwrap();
        let says = tokio::sync::watch::Sender::new(says(id, name));
        let tasks = Tasks::new();
        let (bucket, key) = (bucket.clone(), Key::Member(incarnation.clone()));
        let mut what = says.subscribe();
        tasks.spawn("member", |stop| async move {
            let mut beat = Beat(0);
            while !stop.is_cancelled() {
                let mut document = what.borrow_and_update().clone();
                beat = beat.next();
                document.beat = beat;
                let bytes = wire::member::encode(&document).unwrap();
                let ttl = Some(Duration::from_secs(3600));
                match bucket.put(&key, bytes.into(), ttl).await {
                    PutOutcome::Stored(_) | PutOutcome::Unknown { .. } => {}
                    PutOutcome::Refused { text, .. } => panic!("{text}"),
                }
                tokio::select! {
                    () = stop.cancelled() => {}
                    changed = what.changed() => if changed.is_err() { return },
                    () = tokio::time::sleep(Duration::from_millis(500)) => {}
                }
            }
        });
        Self {
            incarnation,
            says,
            _tasks: tasks,
        }
    }

    /// Changes what it says, at once.
    pub(crate) fn says(&self, change: impl FnOnce(&mut MemberDocument)) {
        self.says.send_modify(change);
    }

    pub(crate) fn owns(&self, document: &GroupDocument) -> Vec<u32> {
        document
            .owned_by(&self.incarnation)
            .map(|(p, _)| p.0)
            .collect()
    }
}

/// The heartbeat of an idle member.
fn says(bucket: &BucketId, id: &str) -> MemberDocument {
    MemberDocument {
        bucket: bucket.clone(),
        id: MemberId::new(id),
        beat: Beat(0),
        session_timeout: Duration::from_secs(6),
        formats: Formats::CURRENT,
        state: MemberState::Active,
        pod: None,
        zone: None,
        version: "0.1.0".to_owned(),
        app: App {
            connected: true,
            seen: true,
            since_ms: 0,
        },
        seen_epoch: GroupEpoch(0),
        held: Vec::new(),
        released: Vec::new(),
        unknown: Unknown::default(),
    }
}

/// Every edition of the group document that the bucket still has, in order; the bucket has to keep
/// history.
pub(crate) async fn editions(stage: &Stage, name: &str) -> Vec<GroupDocument> {
    let client = stage.server.connect().await.unwrap();
    let context = async_nats::jetstream::new(client);
    let stream = format!("KV_lockstep_default_{name}");
    let mut stream = context.get_stream(stream).await.unwrap();
    let last = stream.info().await.unwrap().state.last_sequence;
    let subject = format!("$KV.lockstep_default_{name}.group");
    let mut found = Vec::new();
    for sequence in 1..=last {
        if let Ok(message) = stream.get_raw_message(sequence).await
            && message.subject.as_str() == subject
        {
            found.push(wire::group::decode(&message.payload).unwrap());
        }
    }
    found
}

/// From now on the bucket keeps every edition.
pub(crate) async fn keep_history(stage: &Stage, name: &str) {
    let client = stage.server.connect().await.unwrap();
    let context = async_nats::jetstream::new(client);
    let stream = format!("KV_lockstep_default_{name}");
    let mut stream = context.get_stream(stream).await.unwrap();
    let mut config = stream.info().await.unwrap().config.clone();
    config.max_messages_per_subject = 256;
    context.update_stream(config).await.unwrap();
}

/// The owner of each (partition, epoch) in these editions; more than one is a broken promise.
pub(crate) fn owners(editions: &[GroupDocument]) -> BTreeMap<(u32, u64), Vec<Incarnation>> {
    let mut owners: BTreeMap<(u32, u64), Vec<Incarnation>> = BTreeMap::new();
    for document in editions {
        for (partition, a) in Partition::all(u32::MAX).zip(&document.partitions) {
            if let Some(owner) = &a.owner {
                let known = owners.entry((partition.0, a.epoch.0)).or_default();
                if !known.contains(owner) {
                    known.push(owner.clone());
                }
            }
        }
    }
    owners
}
