//! One group's coordinator: the loop that observes, decides, writes and adopts.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::feed::{self, Shows};
use super::heart::{Heart, Highest, Replaced};
use super::pace::Pace;
use super::probe::{Findings, Probe, Question};
use super::report::{Phase, Rebalance, Report};
use super::run::Settings;
use super::single::Knowledge;
use super::start;
use super::write::{self, Written};
use crate::group::assignor::Assignor;
use crate::group::decide::{
    Aspect, Condition, Decision, Identity, Observed, Slot, Trouble, decide, summary,
};
use crate::group::lag::Reported;
use crate::group::{BucketId, GroupRef, Partition, ServerTime, Timestamp};
use crate::nats::{Bucket, BucketError, Connection, KeyFilter, Watch, WatchEvent};
use crate::tasks::Tasks;
use crate::{chance, clock};

/// Events that are taken in together before a decision is made.
const TOGETHER: usize = 512;

/// Commit records that are read at once.
const READS_AT_ONCE: usize = 32;

/// How often damaged commit records are looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// How often a missing bucket is looked for again.
const LOOK_FOR_THE_BUCKET: Duration = Duration::from_secs(2);

/// The wait before everything is read anew.
const BETWEEN_LIVES: Duration = Duration::from_millis(500);

/// The wait before a step that failed is tried again.
const AFTER_A_FAILURE: Duration = Duration::from_secs(1);

/// A group's coordinator.
#[derive(Debug)]
pub(super) struct GroupTask {
    pub(super) settings: Settings,
    pub(super) group: GroupRef,
    pub(super) connection: Connection,
    pub(super) bucket: Bucket,
    pub(super) id: BucketId,
    pub(super) created: ServerTime,
    pub(super) report: Report,
    pub(super) assignor: Option<Arc<dyn Assignor>>,
    pub(super) knowledge: watch::Receiver<Knowledge>,
}

/// One life of the coordinator in one bucket.
struct Life {
    seen: Observed,
    watch: Watch,
    highest: Highest,
    replaced: Replaced,
    pace: Pace,
    not_before: Option<Timestamp>,
    look_again: Timestamp,
    loaded: bool,
    rebalancing: Option<Rebalancing>,
    /// Time between beats.
    pace_of_heart: watch::Sender<Duration>,
    question: watch::Sender<Question>,
    findings: watch::Sender<Findings>,
}

/// Partitions are changing hands.
struct Rebalancing {
    since: Timestamp,
    at: ServerTime,
    reason: String,
}

/// Why a life ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The process stops.
    Stopping,
    /// What was seen and what is there do not fit together: everything is read anew.
    BeginAnew(&'static str),
    /// The connection is closed.
    Closed,
}

// === impl GroupTask ===

impl GroupTask {
    /// Coordinates the group until told to stop.
    pub(super) async fn run(self, stopping: CancellationToken) {
        loop {
            if !self.bucket_is_the_same(&stopping).await {
                return;
            }
            match self.live(&stopping).await {
                End::Stopping | End::Closed => return,
                End::BeginAnew(why) => {
                    tracing::warn!(group = %self.group, why, "the coordinator begins anew");
                    tokio::select! {
                        () = stopping.cancelled() => return,
                        () = tokio::time::sleep(BETWEEN_LIVES) => {}
                    }
                }
            }
        }
    }

    /// One life under one incarnation: watch and heart, from loading to the end.
    async fn live(&self, stopping: &CancellationToken) -> End {
        let hearts = Tasks::new();
        let mut life = Life::new(self);
        let heart = life.heart(self);
        hearts.spawn_vital("heart", |stop| heart.beat_until(stop));
        let probe = life.probe(self);
        hearts.spawn("probe", |stop| probe.run(stop));
        let mut findings = life.findings.subscribe();
        let stopped_beating = hearts.stopping();
        let mut knowledge = self.knowledge.clone();
        let end = loop {
            life.learn(&knowledge.borrow_and_update());
            life.pace_the_heart(&self.settings);
            tokio::select! {
                () = stopping.cancelled() => break End::Stopping,
                event = life.watch.next() => {
                    let Some(event) = event else { break End::Closed };
                    if let Some(end) = life.take_in(self, event) {
                        break end;
                    }
                }
                () = clock::until(life.not_before) => {}
                Ok(()) = knowledge.changed() => continue,
                Ok(()) = findings.changed() => {}
                () = stopped_beating.cancelled() => break End::BeginAnew("the heart has stopped"),
            }
            if life.replaced.is_set() {
                break End::BeginAnew("an acknowledgement is below what was seen before");
            }
            if let Some(end) = life.turn(self).await {
                break end;
            }
        };
        self.report.coordinates(&self.group, false);
        hearts.stop().await;
        end
    }

    /// Waits until the bucket is there, and whether it is the one that was there before. A missing
    /// or other one is never made anew. // P129
    async fn bucket_is_the_same(&self, stopping: &CancellationToken) -> bool {
        loop {
            let lost = match self.bucket.look().await {
                Ok(facts) if facts.id.as_ref() == Some(&self.id) => {
                    let same = facts.created == self.created;
                    let condition = Condition::well(Aspect::Provisioned);
                    self.report.conditions(&self.group, vec![condition]);
                    if !same {
                        tracing::warn!(group = %self.group, "the bucket was restored");
                    }
                    return true;
                }
                Ok(_) => Some("another bucket stands in its place"),
                Err(BucketError::Missing { .. }) => Some("the bucket is missing"),
                Err(error @ (BucketError::Taken { .. } | BucketError::Api { .. })) => {
                    let error = &error as &(dyn std::error::Error + 'static);
                    tracing::debug!(error, "the bucket cannot be looked at");
                    None
                }
            };
            if let Some(what) = lost {
                let detail = format!(
                    "{what}: the group's state is lost; nothing is made anew until a coordinator is \
                     started with --accept-state-loss"
                );
                let lost = Condition::trouble(Aspect::Provisioned, Trouble::StateLost, detail);
                self.report.conditions(&self.group, vec![lost]);
                self.report.phase(&self.group, Phase::Stopped);
            }
            tokio::select! {
                () = stopping.cancelled() => return false,
                () = tokio::time::sleep(LOOK_FOR_THE_BUCKET) => {}
            }
        }
    }
}

// === impl Life ===

impl Life {
    fn new(task: &GroupTask) -> Self {
        let settings = &task.settings;
        let unix = u64::try_from(clock::unix_now().0).unwrap_or_default() / 1_000_000_000;
        let me = Identity {
            incarnation: chance::incarnation(),
            id: settings.id.clone(),
            priority: settings.priority,
            manager: settings.terms.manager.clone(),
            session_timeout: settings.session_timeout,
            heartbeat_interval: settings.heartbeat_interval(),
            unix_seconds: unix,
            elected: settings.elected,
        };
        let mut seen = Observed::new(me);
        if let Some(assignor) = &task.assignor {
            seen.use_assignor(Arc::clone(assignor));
        }
        Self {
            seen,
            watch: task.bucket.watch(&KeyFilter::of_a_coordinator()),
            highest: Highest::default(),
            replaced: Replaced::default(),
            pace: Pace::default(),
            not_before: None,
            look_again: clock::now(),
            loaded: false,
            rebalancing: None,
            pace_of_heart: watch::Sender::new(settings.heartbeat_interval()),
            question: watch::Sender::new(Question::default()),
            findings: watch::Sender::new(Findings::default()),
        }
    }

    fn probe(&self, task: &GroupTask) -> Probe {
        Probe {
            connection: task.connection.clone(),
            bucket: task.bucket.clone(),
            question: self.question.subscribe(),
            findings: self.findings.clone(),
        }
    }

    /// What the probe is to look at, besides what the owners say.
    fn ask(&self, reported: &[Reported]) {
        let meta = self
            .seen
            .meta()
            .known()
            .filter(|_| self.seen.is_coordinating());
        self.question.send_if_modified(|question| {
            let same = question.group.as_deref() == meta;
            if same && question.partitions == reported {
                return false;
            }
            if !same {
                question.group = meta.cloned().map(Arc::new);
            }
            reported.clone_into(&mut question.partitions);
            true
        });
    }

    /// Takes in what is known from outside the bucket.
    fn learn(&mut self, known: &Knowledge) {
        self.seen.see_pods_gone(&known.gone_pods);
        self.seen.declare_replicas(known.declared_replicas);
        self.seen.know_epoch(known.known_epoch);
        self.seen.ask_to_leave(&known.asked_to_leave);
    }

    /// Has the heart beat less often while there is nobody whose time it counts.
    fn pace_the_heart(&self, settings: &Settings) {
        let wanted = if self.seen.is_deserted() {
            settings.idle_interval()
        } else {
            settings.heartbeat_interval()
        };
        self.pace_of_heart.send_if_modified(|interval| {
            let before = std::mem::replace(interval, wanted);
            before != wanted
        });
    }

    fn heart(&self, task: &GroupTask) -> Heart {
        Heart {
            bucket: task.bucket.clone(),
            me: self.seen.identity().incarnation.clone(),
            id: task.settings.id.clone(),
            priority: task.settings.priority,
            interval: self.pace_of_heart.subscribe(),
            highest: self.highest.clone(),
            replaced: self.replaced.clone(),
        }
    }

    /// Takes in an event and those that wait behind it.
    fn take_in(&mut self, task: &GroupTask, first: WatchEvent) -> Option<End> {
        let mut next = Some(first);
        for _ in 0..TOGETHER {
            let Some(event) = next else { break };
            let now = clock::now();
            match event {
                WatchEvent::Entry(entry) => {
                    self.highest.saw(entry.revision);
                    let shows = feed::take_in(&mut self.seen, &entry, &task.id, now);
                    if shows == Shows::AnotherBucket {
                        return Some(End::BeginAnew("meta names another bucket"));
                    }
                }
                WatchEvent::Loaded => {
                    self.seen.loaded(now);
                    self.loaded = true;
                }
                WatchEvent::Restarted { why } => {
                    tracing::debug!(why, "watch made anew");
                    self.seen.reloading();
                }
                WatchEvent::Gone { why } => {
                    tracing::warn!(why, "the bucket is not there");
                    return Some(End::BeginAnew("the bucket is not there"));
                }
            }
            next = self.watch.next_now();
        }
        None
    }

    /// Decides, and does what was decided.
    async fn turn(&mut self, task: &GroupTask) -> Option<End> {
        loop {
            let now = clock::now();
            if self.seen.is_coordinating() && self.seen.is_cut_off(now) {
                tracing::warn!("no own beat has come back for twice the session timeout");
                self.seen.step_down(); // P40
            }
            if now >= self.look_again {
                self.look_again = now.after(LOOK_AGAIN);
                self.seen.offsets_mut().suspect_the_damaged();
                self.seen.forget_the_long_gone(now);
            }
            let mut decision = decide(&self.seen, now);
            self.show(task, &mut decision);
            self.not_before = decision.next_deadline;
            if !decision.read_offsets.is_empty() {
                if !self.read_offsets(task, &decision).await {
                    self.try_again_in(AFTER_A_FAILURE);
                    return None;
                }
            } else if !decision.seed.is_empty() {
                if !self.seed(task, &decision).await {
                    self.try_again_in(AFTER_A_FAILURE);
                    return None;
                }
            } else if decision.document.is_none() {
                return None;
            } else if let Some(later) = self.pace.wait_until(now) {
                self.not_before = Some(self.not_before.map_or(later, |d| d.min(later)));
                return None;
            } else if let Some(outcome) = self.write(task, decision).await {
                return outcome;
            }
        }
    }

    /// Writes a document. None: decide again at once.
    async fn write(&mut self, task: &GroupTask, decision: Decision) -> Option<Option<End>> {
        let document = decision.document?;
        let (term, epoch, readers) = (document.term, document.epoch, document.members.len());
        let most = task
            .connection
            .server()
            .map_or(usize::MAX, |s| s.max_payload / 4 * 3); // P16
        match write::write(
            &task.bucket,
            &mut self.seen,
            &self.highest,
            (document, most),
        )
        .await
        {
            Written::Stored(size) => {
                self.pace.wrote(size, readers, clock::now());
                task.report.wrote(&task.group, &decision.reasons);
                let reason = summary(&decision.reasons);
                tracing::info!(%term, %epoch, reason, "group document written");
                tracing::debug!(reasons = ?decision.reasons);
                None
            }
            Written::Lost => {
                tracing::debug!(%term, %epoch, "document not written: another one stands there");
                None
            }
            Written::Later(wait) => {
                self.try_again_in(wait);
                Some(None)
            }
            Written::Below => Some(Some(End::BeginAnew(
                "group stands below what was seen before",
            ))),
            Written::Refused(why) => {
                tracing::error!(why, %term, %epoch, "the server does not take the document");
                self.try_again_in(LOOK_FOR_THE_BUCKET);
                Some(None)
            }
        }
    }

    async fn read_offsets(&mut self, task: &GroupTask, decision: &Decision) -> bool {
        let bucket = &task.bucket;
        let wanted: Vec<Partition> = decision.read_offsets.iter().copied().collect();
        let mut reads = stream::iter(wanted)
            .map(|partition| async move { (partition, start::read(bucket, partition).await) })
            .buffer_unordered(READS_AT_ONCE);
        while let Some((partition, read)) = reads.next().await {
            match read {
                Ok(record) => self.seen.offsets_mut().see(partition, record.fact()),
                Err(error) => {
                    let error = &error as &(dyn std::error::Error + 'static);
                    tracing::warn!(error, %partition, "a commit record cannot be read");
                    return false;
                }
            }
        }
        true
    }

    async fn seed(&mut self, task: &GroupTask, decision: &Decision) -> bool {
        let Some(meta) = self.seen.meta().known().cloned() else {
            return false;
        };
        let (connection, bucket) = (&task.connection, &task.bucket);
        match start::write_missing(connection, bucket, &meta, &decision.seed).await {
            Ok(facts) => {
                for (partition, fact) in facts {
                    self.seen.offsets_mut().see(partition, fact);
                }
                true
            }
            Err(error) => {
                let error = &error as &(dyn std::error::Error + 'static);
                tracing::warn!(error, "start positions are not written yet");
                false
            }
        }
    }

    fn try_again_in(&mut self, wait: Duration) {
        let later = clock::now().after(wait);
        self.not_before = Some(self.not_before.map_or(later, |d| d.min(later)));
    }

    /// Shows how the group is.
    fn show(&mut self, task: &GroupTask, decision: &mut Decision) {
        let conditions = std::mem::take(&mut decision.conditions);
        if self.loaded {
            let stopped = conditions
                .iter()
                .any(|c| c.trouble.is_some_and(stops_the_group));
            let phase = if stopped {
                Phase::Stopped
            } else {
                Phase::Watching
            };
            task.report.phase(&task.group, phase);
        }
        task.report.conditions(&task.group, conditions);
        task.report
            .coordinates(&task.group, self.seen.is_coordinating());
        task.report
            .echo_age(&task.group, self.seen.silence(clock::now()));
        let Slot::Known(document) = self.seen.document() else {
            return;
        };
        let reported = self.seen.reported();
        self.ask(&reported);
        let found = self.findings.borrow().clone();
        let known = (reported.as_slice(), &found);
        task.report
            .document(&task.group, document, &self.seen, known);
        let moving = document.is_rebalancing() && self.seen.is_coordinating();
        match (self.rebalancing.take(), moving) {
            (None, true) => {
                self.rebalancing = Some(Rebalancing {
                    since: clock::now(),
                    at: clock::unix_now(),
                    reason: document.reason.clone(),
                });
            }
            (Some(Rebalancing { since, at, reason }), false) => {
                let took = clock::now().since(since);
                let ended = Rebalance { reason, at, took };
                task.report.rebalanced(&task.group, ended);
            }
            (still, _) => self.rebalancing = still,
        }
    }
}

/// Whether only a person can mend it.
fn stops_the_group(trouble: Trouble) -> bool {
    matches!(trouble, Trouble::StateDamaged | Trouble::OwnershipConflict)
}
