//! A coordinator with very many members: their heartbeats are simulated, all else is real.

use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::{self, stream};
use lockstep::group::{
    App, Beat, BucketId, Epoch, Formats, GroupEpoch, Held, HoldState, Incarnation, MemberDocument,
    MemberId, MemberState, Partition, Sequence, Unknown,
};
use lockstep::wire;
use lockstep_e2e::children::Child;
use lockstep_e2e::console::say;
use lockstep_e2e::figures::{Figures, Reach, load_average, rounded};
use lockstep_e2e::scene::{Outcome, SceneError};
use lockstep_e2e::usage::Usage;
use tokio::time::MissedTickBehavior;

use crate::ground::{Cell, Ground, Layout};
use crate::group::{Terms, start_coordinator, write_manifest};
use crate::task::Task;

/// The default of `heartbeatInterval`.
const HEARTBEAT: Duration = Duration::from_secs(3);
/// How long everything may take to be made and assigned.
const PATIENCE: Duration = Duration::from_secs(180);
/// Half a core.
const MOST_CORES: f64 = 0.5;

/// How many of each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) groups: usize,
    pub(crate) partitions: u32,
    pub(crate) members: usize,
}

/// A member that only says that it is there.
struct Simulated {
    subject: String,
    incarnation: Incarnation,
    document: MemberDocument,
}

/// Heartbeats until it is dropped.
struct Beating(#[expect(dead_code, reason = "held for its end")] Task<()>);

/// One group as the bucket has it.
struct Bucket {
    name: String,
    stream: stream::Stream<()>,
}

/// Many groups: what their coordinator and the server have to do.
pub(crate) async fn measure(figures: &mut Figures, size: Size, seconds: u64) -> Outcome<()> {
    let Size {
        groups,
        partitions,
        members,
    } = size;
    let part =
        format!("coordinator, {groups} groups x {partitions} partitions x {members} members");
    say(&format!("{part} (load average {})", load_average()));
    let crowd = Crowd::gather(size).await?;
    let before = (Usage::of(crowd.coordinator.pid())?, crowd.traffic().await?);
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let after = (Usage::of(crowd.coordinator.pid())?, crowd.traffic().await?);
    let cores = after.0.cores_since(&before.0);
    let per_second = |from: u64, to: u64| (to.saturating_sub(from)) / seconds.max(1);
    figures.note(&part, "coordinator_mib", rounded(after.0.resident_mib, 1));
    for (index, name) in Crowd::TRAFFIC.iter().enumerate() {
        let rate = per_second(before.1[index], after.1[index]);
        figures.note(&part, &format!("nats_{name}_per_second"), rate);
    }
    figures.ratio(&format!("{part}: cores"), cores, Reach::AtMost(MOST_CORES));
    let sizes = crowd.document_sizes().await?;
    for (name, bytes) in sizes {
        figures.note(&part, &format!("{name}_bytes"), bytes);
    }
    Ok(())
}

/// Groups with members that beat, and a coordinator that has given them all partitions.
struct Crowd {
    ground: Ground,
    coordinator: Child,
    buckets: Vec<Bucket>,
    _beating: Beating,
}

// === impl Crowd ===

impl Crowd {
    const TRAFFIC: [&'static str; 4] = ["in_msgs", "out_msgs", "in_bytes", "out_bytes"];

    async fn gather(size: Size) -> Outcome<Self> {
        let cell = Cell {
            layout: Layout::Filters,
            partitions: size.partitions,
            size: 128,
            replicas: 1,
            messages: 0,
        };
        let ground = Ground::empty(cell).await?;
        let terms = Terms {
            window: 1,
            membership: "",
        };
        let names: Vec<String> = (0..size.groups).map(|g| format!("crowd-{g}")).collect();
        let manifests: Result<Vec<String>, _> = names
            .iter()
            .map(|name| write_manifest(&ground, name, terms))
            .collect();
        let coordinator = start_coordinator(&ground, "crowd", &manifests?)?;
        let client = ground.servers.connect().await?;
        let mut buckets = Vec::new();
        let mut members = Vec::new();
        for name in &names {
            let bucket = Bucket::find(&client, name).await?;
            let id = wire::meta::decode(&bucket.get("meta").await?)?.bucket;
            for number in 0..size.members {
                members.push(Simulated::new(&bucket.name, &id, number)?);
            }
            buckets.push(bucket);
        }
        let beating = Beating::start(client.clone(), members);
        let mut members = Vec::new();
        for bucket in &buckets {
            members.extend(bucket.members_with_what_they_own(size).await?);
        }
        drop(beating);
        Ok(Self {
            ground,
            coordinator,
            buckets,
            _beating: Beating::start(client, members),
        })
    }

    async fn traffic(&self) -> Outcome<[u64; 4]> {
        let nobody = || SceneError::new("no server");
        let server = self.ground.servers.servers.first().ok_or_else(nobody)?;
        let page = server.inspect("/varz").await?;
        Ok(Self::TRAFFIC.map(|name| page[name].as_u64().unwrap_or(0)))
    }

    async fn document_sizes(&self) -> Outcome<Vec<(String, usize)>> {
        let Some(bucket) = self.buckets.first() else {
            return Ok(Vec::new());
        };
        let mut sizes = Vec::new();
        for (name, key) in [
            ("meta", "meta".to_owned()),
            ("group", "group".to_owned()),
            ("member", format!("member.{}", incarnation(0)?)),
        ] {
            sizes.push((name.to_owned(), bucket.get(&key).await?.len()));
        }
        Ok(sizes)
    }
}

// === impl Bucket ===

impl Bucket {
    /// Waits until a group's bucket describes it.
    async fn find(client: &Client, group: &str) -> Outcome<Self> {
        let name = format!("lockstep_default_{group}");
        let context = jetstream::new(client.clone());
        let stream = context.get_stream_no_info(format!("KV_{name}")).await?;
        let bucket = Self { name, stream };
        lockstep_e2e::until(format!("group {group}"), PATIENCE, async || {
            let found = bucket.get("meta").await;
            found.map(drop).map_err(|error| error.to_string())
        })
        .await?;
        Ok(bucket)
    }

    async fn get(&self, key: &str) -> Outcome<Vec<u8>> {
        let subject = format!("$KV.{}.{key}", self.name);
        let stored = self
            .stream
            .get_last_raw_message_by_subject(&subject)
            .await?;
        Ok(stored.payload.to_vec())
    }

    /// Waits until every partition has an owner; then each member with what it owns.
    async fn members_with_what_they_own(&self, size: Size) -> Outcome<Vec<Simulated>> {
        let what = format!("owners in {}", self.name);
        let document = lockstep_e2e::until(what, PATIENCE, async || {
            let bytes = self.get("group").await.map_err(|error| error.to_string())?;
            let document = wire::group::decode(&bytes).map_err(|error| error.to_string())?;
            let owned = document.partitions.iter().all(|a| a.owner.is_some());
            if owned && document.members.len() == size.members {
                return Ok(document);
            }
            Err(document.reason)
        })
        .await?;
        let id = wire::meta::decode(&self.get("meta").await?)?.bucket;
        let mut members = Vec::new();
        for number in 0..size.members {
            let mut member = Simulated::new(&self.name, &id, number)?;
            member.document.beat = Beat(1_000_000);
            member.document.seen_epoch = document.epoch;
            let owned = document.owned_by(&member.incarnation);
            let held = owned.map(|(partition, assigned)| held(partition, assigned.epoch));
            member.document.held = held.collect();
            members.push(member);
        }
        Ok(members)
    }
}

fn held(partition: Partition, epoch: Epoch) -> Held {
    Held {
        partition,
        epoch,
        state: HoldState::Feeding,
        position: Sequence(1),
        committed: Sequence(1),
        in_flight: 0,
        pending: Some(0),
        head_attempts: 0,
    }
}

fn incarnation(number: usize) -> Outcome<Incarnation> {
    Ok(format!("sim{number:04}").parse()?)
}

// === impl Simulated ===

impl Simulated {
    fn new(bucket: &str, id: &BucketId, number: usize) -> Outcome<Self> {
        let incarnation = incarnation(number)?;
        Ok(Self {
            subject: format!("$KV.{bucket}.member.{incarnation}"),
            incarnation,
            document: MemberDocument {
                bucket: id.clone(),
                id: MemberId::new(format!("pod-{number}")),
                beat: Beat(0),
                session_timeout: Duration::from_secs(20),
                formats: Formats::CURRENT,
                state: MemberState::Active,
                pod: None,
                zone: None,
                version: env!("CARGO_PKG_VERSION").to_owned(),
                app: App {
                    connected: true,
                    seen: true,
                    since_ms: 0,
                },
                seen_epoch: GroupEpoch(0),
                held: Vec::new(),
                released: Vec::new(),
                unknown: Unknown::default(),
            },
        })
    }

    async fn beat(&mut self, client: &Client) -> Outcome<()> {
        self.document.beat = Beat(self.document.beat.0 + 1);
        let bytes = wire::member::encode(&self.document)?;
        client.publish(self.subject.clone(), bytes.into()).await?;
        Ok(())
    }
}

// === impl Beating ===

impl Beating {
    /// Each member beats every three seconds, spread evenly.
    fn start(client: Client, mut members: Vec<Simulated>) -> Self {
        /// Members that beat together.
        const SLICES: u32 = 300;
        Self(Task::start(async move {
            let mut pace = tokio::time::interval(HEARTBEAT / SLICES);
            pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
            let together = members.len().div_ceil(SLICES as usize).max(1);
            loop {
                for slice in members.chunks_mut(together) {
                    pace.tick().await;
                    for member in slice {
                        member.beat(&client).await?;
                    }
                }
                // Fewer members than slices have all beaten: the next round begins in its time.
                for _ in members.chunks(together).len()..SLICES as usize {
                    pace.tick().await;
                }
            }
        }))
    }
}
