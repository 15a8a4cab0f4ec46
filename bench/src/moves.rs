//! Hand-over: a member joins, one leaves, one is killed, under load and at rest.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lockstep::wire::proto::consume_response::Frame as Hear;
use lockstep_e2e::children::Child;
use lockstep_e2e::console::say;
use lockstep_e2e::figures::{Figures, Reach, load_average, milliseconds, rounded};
use lockstep_e2e::scene::{Outcome, SceneError};
use lockstep_e2e::until::until_sync;
use lockstep_e2e::usage::Usage;

use crate::clock::monotonic_ns;
use crate::ground::{Cell, Ground, Layout};
use crate::group::{Group, Terms, Worker};
use crate::grpc::Consume;
use crate::kafka::{self, Kafka};
use crate::load::{Load, Stamp};
use crate::pauses::{Pauses, Receipt};
use crate::task::Task;

const PART: &str = "moves";
const RATE: u32 = 1000;
const SESSION: Duration = Duration::from_secs(6);
const HEARTBEAT: Duration = Duration::from_millis(500);
const MEMBERSHIP: &str = "  membership:\n    sessionTimeout: 6s\n    heartbeatInterval: 500ms\n    \
                          initialRebalanceDelay: 1s\n    rebalanceDelay: 200ms\n";
/// How long is looked at after an event, beside a session timeout where one is waited for.
const AFTER: Duration = Duration::from_secs(4);
/// How long a change may take.
const PATIENCE: Duration = Duration::from_secs(60);

const CELL: Cell = Cell {
    layout: Layout::Filters,
    partitions: 8,
    size: 128,
    replicas: 1,
    messages: 0,
};

/// Whatever is measured here: members that come and go, and what they received.
trait Members {
    /// Starts one more.
    async fn join(&mut self) -> Outcome<()>;
    /// The newest is asked to go.
    async fn leave(&mut self) -> Outcome<()>;
    /// The newest is killed.
    fn kill(&mut self) -> Outcome<()>;
    fn receipts(&self) -> Outcome<Vec<Receipt>>;
}

/// The pauses of the three events.
#[derive(Clone, Copy, Debug)]
struct Seen {
    join: Pauses,
    leave: Pauses,
    kill: Pauses,
}

/// Measures Lockstep, and Kafka where it is.
pub(crate) async fn measure(figures: &mut Figures) -> Outcome<()> {
    say(&format!(
        "hand-over, 8 partitions, {RATE} messages per second, session timeout 6 s (load average {})",
        load_average()
    ));
    idle(figures).await?;
    let ground = Ground::empty(CELL).await?;
    let mut ours = Ours::start(&ground)?;
    let load = Load::start(ground.servers.connect().await?, CELL, RATE);
    let our_pauses = events(&mut ours).await?;
    let our_memory = ours.memory()?;
    drop(load);
    note(figures, "lockstep", our_pauses);
    figures.note(PART, "lockstep_worker_mib", rounded(our_memory, 1));
    let taken_over = our_pauses.kill.of_moved.as_secs_f64();
    let most = Reach::AtMost(SESSION.as_secs_f64() + 1.0);
    figures.ratio("take-over after kill -9, s", taken_over, most);
    if !kafka::is_here() {
        return Ok(());
    }
    let kafka = Kafka::start(SESSION, HEARTBEAT).await?;
    let mut theirs = Theirs::start(kafka).await?;
    let their_pauses = events(&mut theirs).await?;
    let their_memory = theirs.memory()?;
    note(figures, "kafka", their_pauses);
    figures.note(PART, "kafka_client_mib", rounded(their_memory, 1));
    figures.ratio(
        "memory under load: worker / kafka client",
        our_memory / their_memory,
        Reach::AtMost(0.1),
    );
    compare(figures, our_pauses, their_pauses);
    Ok(())
}

fn note(figures: &mut Figures, who: &str, seen: Seen) {
    for (event, pauses) in [
        ("join", seen.join),
        ("leave", seen.leave),
        ("kill", seen.kill),
    ] {
        let value = serde_json::json!({
            "moved": pauses.moved, "longest_of_moved_ms": milliseconds(pauses.of_moved, 3),
            "kept": pauses.kept, "longest_of_kept_ms": milliseconds(pauses.of_kept, 3),
        });
        figures.note(PART, &format!("{who}_{event}"), value);
    }
}

fn compare(figures: &mut Figures, ours: Seen, theirs: Seen) {
    let events = [
        ("join", ours.join, theirs.join),
        ("leave", ours.leave, theirs.leave),
        ("kill", ours.kill, theirs.kill),
    ];
    for (event, ours, theirs) in events {
        for (which, ours, theirs) in [
            ("moved", ours.of_moved, theirs.of_moved),
            ("untouched", ours.of_kept, theirs.of_kept),
        ] {
            let ratio = ours.as_secs_f64() / theirs.as_secs_f64().max(f64::EPSILON);
            let name = format!("pause of {which} at a {event}: lockstep / kafka");
            figures.ratio(&name, ratio, Reach::AtMost(0.2));
        }
    }
}

/// Two members; a third joins and leaves, joins again and is killed.
async fn events(members: &mut impl Members) -> Outcome<Seen> {
    members.join().await?;
    members.join().await?;
    settled(members, &[0, 1]).await?;
    tokio::time::sleep(AFTER).await;
    let from = monotonic_ns();
    members.join().await?;
    settled(members, &[0, 1, 2]).await?;
    let join = looked_at(members, from).await?;
    let from = monotonic_ns();
    members.leave().await?;
    settled(members, &[0, 1]).await?;
    let leave = looked_at(members, from).await?;
    members.join().await?;
    settled(members, &[0, 1, 3]).await?;
    tokio::time::sleep(AFTER).await;
    let from = monotonic_ns();
    members.kill()?;
    settled(members, &[0, 1]).await?;
    let kill = looked_at(members, from).await?;
    Ok(Seen { join, leave, kill })
}

async fn looked_at(members: &impl Members, from: u64) -> Outcome<Pauses> {
    tokio::time::sleep(AFTER).await;
    Ok(Pauses::around(&members.receipts()?, (from, monotonic_ns())))
}

/// Waits until exactly these members receive messages, of all partitions.
async fn settled(members: &impl Members, wanted: &[usize]) -> Outcome<()> {
    const RECENT_NS: u64 = 500_000_000;
    let seen = until_sync(format!("messages for {wanted:?}"), PATIENCE, || {
        let receipts = members.receipts().map_err(|error| error.to_string())?;
        let since = monotonic_ns().saturating_sub(RECENT_NS);
        let mut recent = BTreeMap::new();
        for receipt in receipts.iter().filter(|r| r.received_ns >= since) {
            recent.insert(receipt.partition, receipt.member);
        }
        let mut owners: Vec<usize> = recent.values().copied().collect();
        owners.sort_unstable();
        owners.dedup();
        let all = recent.len() == CELL.partitions as usize;
        (all && owners == wanted)
            .then_some(())
            .ok_or_else(|| format!("{recent:?}"))
    });
    Ok(seen.await?)
}

/// Members of a Lockstep group, their applications in this process.
struct Ours {
    group: Group,
    members: Vec<(Worker, Task<()>)>,
    receipts: Arc<Mutex<Vec<Receipt>>>,
    joined: usize,
}

// === impl Ours ===

impl Ours {
    fn start(ground: &Ground) -> Outcome<Self> {
        let terms = Terms {
            window: 100,
            membership: MEMBERSHIP,
        };
        Ok(Self {
            group: Group::start(ground, terms)?,
            members: Vec::new(),
            receipts: Arc::default(),
            joined: 0,
        })
    }

    /// The largest worker's.
    fn memory(&self) -> Outcome<f64> {
        let mut most: f64 = 0.0;
        for (worker, _) in &self.members {
            most = most.max(Usage::of(worker.process.pid())?.resident_mib);
        }
        Ok(most)
    }
}

impl Members for Ours {
    async fn join(&mut self) -> Outcome<()> {
        let worker = self.group.worker(&format!("m{}", self.joined)).await?;
        let consume = Consume::open(&worker.socket, 8000).await?;
        let reading = receive(consume, self.joined, Arc::clone(&self.receipts));
        self.members.push((worker, Task::start(reading)));
        self.joined += 1;
        Ok(())
    }

    async fn leave(&mut self) -> Outcome<()> {
        if let Some((mut worker, _application)) = self.members.pop() {
            worker.process.terminate(PATIENCE).await?;
        }
        Ok(())
    }

    fn kill(&mut self) -> Outcome<()> {
        if let Some((mut worker, _application)) = self.members.pop() {
            worker.process.kill()?;
        }
        Ok(())
    }

    fn receipts(&self) -> Outcome<Vec<Receipt>> {
        Ok(self
            .receipts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone())
    }
}

async fn receive(
    mut consume: Consume,
    member: usize,
    receipts: Arc<Mutex<Vec<Receipt>>>,
) -> Outcome<()> {
    let mut last = BTreeMap::new();
    while let Some(frame) = consume.next().await? {
        let Hear::Batch(batch) = frame else { continue };
        let received_ns = monotonic_ns();
        let stamps = batch.messages.iter().filter_map(|message| {
            let stamp = Stamp::read(&message.payload)?;
            Some(Receipt {
                partition: message.partition,
                member,
                published_ns: stamp.at_ns,
                received_ns,
            })
        });
        receipts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(stamps);
        consume.done_with(&batch.messages, &mut last).await?;
    }
    Ok(())
}

/// Members of a Kafka group, each a Java process.
struct Theirs {
    kafka: Kafka,
    _producer: Child,
    members: Vec<Child>,
    joined: usize,
}

// === impl Theirs ===

impl Theirs {
    async fn start(kafka: Kafka) -> Outcome<Self> {
        kafka.fill(PART, &CELL).await?;
        Ok(Self {
            _producer: kafka.produce(PART, &CELL, RATE)?,
            kafka,
            members: Vec::new(),
            joined: 0,
        })
    }

    /// The smallest client's: to its advantage.
    fn memory(&self) -> Outcome<f64> {
        let mut least = f64::MAX;
        for member in &self.members {
            least = least.min(Usage::of(member.pid())?.resident_mib);
        }
        Ok(least)
    }

    fn output(&self, member: usize) -> std::path::PathBuf {
        self.kafka.folder.path().join(format!("member-{member}"))
    }
}

impl Members for Theirs {
    async fn join(&mut self) -> Outcome<()> {
        let output = self.output(self.joined);
        self.members.push(self.kafka.member(PART, PART, &output)?);
        self.joined += 1;
        Ok(())
    }

    async fn leave(&mut self) -> Outcome<()> {
        if let Some(mut member) = self.members.pop() {
            member.terminate(PATIENCE).await?;
        }
        Ok(())
    }

    fn kill(&mut self) -> Outcome<()> {
        if let Some(mut member) = self.members.pop() {
            member.kill()?;
        }
        Ok(())
    }

    fn receipts(&self) -> Outcome<Vec<Receipt>> {
        let mut all = Vec::new();
        for member in 0..self.joined {
            let text = std::fs::read_to_string(self.output(member)).unwrap_or_default();
            all.extend(text.lines().filter_map(|line| receipt(member, line)));
        }
        Ok(all)
    }
}

/// `partition published received`; any other line is none.
fn receipt(member: usize, line: &str) -> Option<Receipt> {
    let mut words = line.split(' ');
    Some(Receipt {
        member,
        partition: words.next()?.parse().ok()?,
        published_ns: words.next()?.parse().ok()?,
        received_ns: words.next()?.parse().ok()?,
    })
}

/// When partitions without traffic are let go and when they are taken, by the frames of both sides.
pub(crate) async fn idle(figures: &mut Figures) -> Outcome<()> {
    let ground = Ground::empty(CELL).await?;
    let terms = Terms {
        window: 100,
        membership: MEMBERSHIP,
    };
    let group = Group::start(&ground, terms)?;
    let first = group.worker("first").await?;
    let mut owner = Consume::open(&first.socket, 100).await?;
    crate::latency::assigned(&mut owner).await?;
    let second = group.worker("second").await?;
    let mut newcomer = Consume::open(&second.socket, 100).await?;
    let asked = Task::start(async move {
        while let Some(frame) = owner.next().await? {
            if let Hear::Revoking(_) = frame {
                return Ok((monotonic_ns(), owner));
            }
        }
        Err(SceneError::new("nothing was revoked"))
    });
    let mut taken = 0;
    while taken < CELL.partitions as usize / 2 {
        let Some(frame) = newcomer.next().await? else {
            return Err(SceneError::new("the newcomer's stream ended"));
        };
        if let Hear::Assigned(assigned) = frame {
            taken += assigned.partitions.len();
        }
    }
    let until = monotonic_ns();
    let (from, _owner) = asked.end().await?;
    let pause = milliseconds(Duration::from_nanos(until.saturating_sub(from)), 3);
    figures.ratio(
        "hand-over of 4 idle partitions, ms",
        pause,
        Reach::AtMost(100.0),
    );
    Ok(())
}
