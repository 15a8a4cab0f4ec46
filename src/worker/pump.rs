//! The pump: one loop that feeds the member one event after another and does what it says.
//!
//! Nothing in it waits for the server or for the application: what takes time runs in tasks of
//! its own and comes back as an event. So a slow application or a dead server never stops a
//! heartbeat.

use std::sync::Arc;

use tokio::sync::{Notify, broadcast, mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::chance;
use crate::clock;
use crate::group::member::{Effect, Event, Member, MemberEvent};
use crate::group::{Source, Timestamp};
use crate::nats::{Bucket, Connection, ConnectionEvent, StreamMessage};
use crate::tasks::Tasks;
use crate::wire::keys::Key;

use super::command::{Command, Reply};
use super::feed::{Presenter, Round, wall_clock};
use super::handle::{Drained, Health};
use super::inbox::{FromReader, Inbox, Incoming, Outlets};
use super::publishing::stream_names;
use super::readers::{LeaseGauge, Order, Readers, Share};
use super::records;
use super::sessions::Sessions;
use super::settings::WorkerSettings;
use super::waiters::Waiters;
use super::watcher;

/// Things taken out of each queue in one turn before anything is handed over.
const PER_TURN: usize = 64;

/// Heartbeats that may wait for their answers; while more do, the server does not answer.
const BEATS: u32 = 8;

/// The loop of one member and all it works with.
pub(super) struct Pump {
    pub(super) settings: WorkerSettings,
    pub(super) tasks: Tasks,
    pub(super) inbox: Inbox,
    pub(super) control: Connection,
    pub(super) data: Connection,
    pub(super) member: Member<StreamMessage>,
    pub(super) sessions: Sessions,
    pub(super) waiters: Waiters,
    pub(super) trouble: Option<String>,
    pub(super) events: broadcast::Sender<MemberEvent>,
    pub(super) room: Arc<Notify>,
    pub(super) drains: Vec<Reply<Drained>>,
    /// When drains are answered although `left` was not heard.
    pub(super) drained_by: Option<Timestamp>,
    pub(super) publishing: Arc<tokio::sync::Semaphore>,
    health: watch::Sender<Health>,
    bucket: Option<Bucket>,
    readers: Readers,
    lease: LeaseGauge,
    presenter: Presenter,
    beats: u32,
    watching: CancellationToken,
}

/// The ends of the queues that the pump listens to.
pub(super) struct Ears {
    pub(super) outlets: Outlets,
    pub(super) commands: mpsc::Receiver<Command>,
    pub(super) connection: broadcast::Receiver<ConnectionEvent>,
}

// === impl Pump ===

impl Pump {
    pub(super) fn new(
        settings: WorkerSettings,
        (control, data): (Connection, Connection),
        tasks: &Tasks,
        inbox: Inbox,
        (events, health): (broadcast::Sender<MemberEvent>, watch::Sender<Health>),
    ) -> Self {
        let lease = LeaseGauge::default();
        let readers = Readers::new(
            data.clone(),
            tasks.clone(),
            inbox.clone(),
            lease.clone(),
            (
                settings.group.clone(),
                settings.group.bucket_name(&settings.bucket_prefix),
            ),
        );
        let identity = settings.identity(chance::incarnation());
        Self {
            member: Member::new(identity, clock::now()),
            settings,
            tasks: tasks.clone(),
            inbox,
            control,
            data,
            sessions: Sessions::default(),
            waiters: Waiters::default(),
            trouble: Some("the group's bucket has not been found yet".to_owned()),
            events,
            room: Arc::new(Notify::new()),
            drains: Vec::new(),
            drained_by: None,
            publishing: Arc::new(tokio::sync::Semaphore::new(super::serve::PUBLISHES)),
            health,
            bucket: None,
            readers,
            lease,
            presenter: Presenter {
                source: Arc::new(Source::List(Vec::new())),
                streams: Vec::new(),
            },
            beats: 0,
            watching: CancellationToken::new(),
        }
    }

    /// Runs until told to stop.
    pub(super) async fn run(mut self, mut ears: Ears, stopping: CancellationToken) {
        self.begin_to_watch();
        let room = Arc::clone(&self.room);
        let mut last_words = None;
        loop {
            let deadline = self.deadline().into_iter().chain(last_words).min();
            tokio::select! {
                biased;
                Some(said) = ears.outlets.answers.recv() => self.hear(said),
                () = clock::until(deadline) => {}
                Some(command) = ears.commands.recv() => self.serve(command),
                event = ears.connection.recv() => self.hear_of_connection(&event),
                Some(news) = ears.outlets.batches.recv() => self.read(news),
                () = room.notified() => {}
                () = stopping.cancelled(), if last_words.is_none() => {
                    last_words = Some(self.say_goodbye());
                }
            }
            self.take_what_else_is_there(&mut ears);
            self.turn();
            let late = last_words.is_some_and(|at| at <= clock::now());
            if last_words.is_some() && self.member.is_over() || late {
                break;
            }
        }
        self.readers.close_all();
        self.watching.cancel();
        self.data.close().await; // readers delete their consumers
        self.control.close().await;
    }

    fn take_what_else_is_there(&mut self, ears: &mut Ears) {
        for _ in 0..PER_TURN {
            let mut nothing = true;
            if let Ok(said) = ears.outlets.answers.try_recv() {
                self.hear(said);
                nothing = false;
            }
            if let Ok(command) = ears.commands.try_recv() {
                self.serve(command);
                nothing = false;
            }
            if let Ok(news) = ears.outlets.batches.try_recv() {
                self.read(news);
                nothing = false;
            }
            if nothing {
                break;
            }
        }
    }

    fn deadline(&self) -> Option<Timestamp> {
        [
            self.member.deadline(),
            self.sessions.deadline(),
            self.waiters.deadline(),
            self.drained_by.filter(|_| !self.drains.is_empty()),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// The process stops without having drained: says what can be said in a moment.
    fn say_goodbye(&mut self) -> Timestamp {
        let now = clock::now();
        if !self.member.is_over() {
            let timeout = std::time::Duration::ZERO;
            self.step(Event::Drain { timeout }, now);
        }
        now.after(super::engine::LAST_WORDS)
    }

    fn begin_to_watch(&mut self) {
        self.watching.cancel();
        self.watching = self.tasks.stopping().child_token();
        let watching = self.watching.clone();
        let bucket = self
            .settings
            .group
            .bucket_name(&self.settings.bucket_prefix);
        let me = self.member.identity().incarnation.clone();
        let (control, inbox) = (self.control.clone(), self.inbox.clone());
        self.tasks.spawn("watch", |_| {
            watcher::watch_over(control, bucket, me, inbox, watching)
        });
    }

    fn hear(&mut self, said: Incoming) {
        match &said {
            Incoming::Bucket(bucket) => self.bucket = Some((**bucket).clone()),
            Incoming::Trouble(trouble) => self.trouble.clone_from(trouble),
            Incoming::Put(_, stored) => {
                self.beats = self.beats.saturating_sub(1);
                if stored.is_some() {
                    self.trouble = None; // the bucket is there, and takes what is written
                }
            }
            Incoming::Meta(_, meta) => self.present_by(&meta.source),
            Incoming::Written(_, _, _, took) => {
                self.settings
                    .metrics
                    .commit_seconds
                    .observe(took.as_secs_f64());
            }
            Incoming::ReaderEnded(partition, epoch, _) | Incoming::Invalid(partition, epoch, _) => {
                self.readers.ended(*partition, *epoch);
            }
            Incoming::Group(..)
            | Incoming::Damaged(..)
            | Incoming::Echo(..)
            | Incoming::Offset(..)
            | Incoming::Scanned(..)
            | Incoming::Looked(..) => {}
        }
        if let Incoming::Looked(order, source) = said {
            self.looked(*order, source);
        } else if let Some(event) = said.into_event() {
            self.step(event, clock::now());
        }
    }

    fn present_by(&mut self, source: &Source) {
        if *self.presenter.source != *source {
            self.presenter = Presenter {
                source: Arc::new(source.clone()),
                streams: stream_names(source),
            };
        }
    }

    fn hear_of_connection(&mut self, event: &Result<ConnectionEvent, broadcast::error::RecvError>) {
        match event {
            Ok(ConnectionEvent::Connected) => self.step(Event::Connected, clock::now()),
            Ok(ConnectionEvent::Disconnected) => tracing::warn!("the connection to NATS is lost"),
            Ok(ConnectionEvent::SlowConsumer) => {
                tracing::warn!("the client dropped messages of a subscription");
            }
            Ok(ConnectionEvent::Complaint(text)) => tracing::debug!(text, "NATS"),
            Err(_) => {}
        }
    }

    fn read(&mut self, news: FromReader) {
        let now = clock::now();
        match news {
            FromReader::Messages(partition, epoch, batch) => {
                let pending = batch.last().map(|message| message.pending);
                let event = Event::Read {
                    partition,
                    epoch,
                    batch,
                };
                self.step(event, now);
                if let Some(pending) = pending {
                    self.step(
                        Event::Pending {
                            partition,
                            epoch,
                            pending,
                        },
                        now,
                    );
                }
            }
            FromReader::Pending(partition, epoch, pending) => {
                self.step(
                    Event::Pending {
                        partition,
                        epoch,
                        pending,
                    },
                    now,
                );
            }
            FromReader::Idle(partition, epoch, scanned_to) => {
                if self
                    .member
                    .wants_to_move((partition, epoch), scanned_to.next(), now)
                {
                    self.look_at_idle((partition, epoch), scanned_to);
                }
            }
        }
    }

    fn look_at_idle(
        &self,
        (partition, epoch): (crate::group::Partition, crate::group::Epoch),
        scanned_to: crate::group::Sequence,
    ) {
        let Some(source) = self.presenter.source.of(partition) else {
            return;
        };
        let (data, inbox) = (self.data.clone(), self.inbox.clone());
        self.tasks.spawn("idle position", |_| async move {
            match crate::nats::mark_of_idle_position(&data, &source.stream, scanned_to).await {
                Ok(Some(mark)) => {
                    let next = mark.seq.next();
                    inbox
                        .say(Incoming::Scanned(partition, epoch, next, Some(mark)))
                        .await;
                }
                Ok(None) => {}
                Err(error) => tracing::debug!(%error, %partition, "an idle position stays"),
            }
        });
    }

    /// One event into the member, and what it wants done.
    pub(super) fn step(&mut self, event: Event<StreamMessage>, now: Timestamp) {
        let effects = self.member.step(event, now);
        self.lease.set(self.member.lease_until());
        for effect in effects {
            self.perform(effect);
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Heartbeat(document) => self.send_heartbeat(document),
            Effect::ReadOffset { partition, epoch } => {
                if let Some(bucket) = self.bucket.clone() {
                    let inbox = self.inbox.clone();
                    self.tasks
                        .spawn("read", |_| records::read(bucket, partition, epoch, inbox));
                }
            }
            Effect::WriteOffset {
                partition,
                epoch,
                record,
                expected,
            } => {
                if let Some(bucket) = self.bucket.clone() {
                    let inbox = self.inbox.clone();
                    self.tasks.spawn("commit", |_| {
                        records::write(bucket, (partition, epoch), record, expected, inbox)
                    });
                }
            }
            Effect::Open {
                partition,
                epoch,
                from,
                record,
                last,
            } => self.open_reader(Order {
                partition,
                epoch,
                from,
                record,
                last,
            }),
            Effect::Close { partition, epoch } => self.readers.close(partition, epoch),
            Effect::Tell(event) => self.tell(event),
            Effect::Reincarnate => self.be_born_again(),
            Effect::Over => self.answer_drains(),
        }
    }

    fn send_heartbeat(&mut self, document: Box<crate::group::MemberDocument>) {
        let Some(bucket) = self.bucket.clone() else {
            return;
        };
        if self.beats >= BEATS || !self.control.is_up() {
            return; // the client would send it later, when it says nothing any more
        }
        self.beats += 1;
        self.count_what_is_held(&document);
        let key = Key::Member(self.member.identity().incarnation.clone());
        let inbox = self.inbox.clone();
        self.tasks
            .spawn("heartbeat", |_| records::beat(bucket, key, document, inbox));
    }

    /// As often as a heartbeat is sent: a sum over all partitions.
    fn count_what_is_held(&self, document: &crate::group::MemberDocument) {
        let metrics = &self.settings.metrics;
        let gauge = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let in_flight: i64 = document.held.iter().map(|h| i64::from(h.in_flight)).sum();
        let buffered: u64 = self
            .member
            .held()
            .filter_map(|held| self.member.buffered(held))
            .map(|(messages, _)| messages)
            .sum();
        metrics.partitions.set(gauge(document.held.len()));
        metrics.in_flight.set(in_flight);
        metrics
            .buffered
            .set(i64::try_from(buffered).unwrap_or(i64::MAX));
    }

    fn open_reader(&mut self, order: Order) {
        let held = self.member.held().count();
        let me = self.member.identity().incarnation.clone();
        if let Some(meta) = self.member.meta() {
            self.readers.order(order, (&me, meta), held);
        }
    }

    fn looked(&mut self, order: Order, source: crate::group::PartitionSource) {
        let held = self.member.held().count();
        let me = self.member.identity().incarnation.clone();
        if let Some(meta) = self.member.meta() {
            self.readers.looked((order, source), (&me, meta), held);
        }
    }

    fn be_born_again(&mut self) {
        tracing::warn!("the bucket was replaced; starting again as a new member");
        self.readers.close_all();
        self.sessions
            .turn_away("the group's bucket was replaced; the member joins anew");
        self.bucket = None;
        self.beats = 0;
        let identity = self.settings.identity(chance::incarnation());
        self.member = Member::new(identity, clock::now());
        self.lease.set(None);
        self.begin_to_watch();
        self.say_whether_connected();
    }

    /// The application is there as long as it has a session; to a member that leaves, as long as
    /// it has one from which something may come. P126a
    pub(super) fn say_whether_connected(&mut self) {
        let connected = if self.member.is_leaving() {
            self.sessions.is_any_in_use(|id| self.member.is_holding(id))
        } else {
            self.sessions.is_connected()
        };
        if self.member.application().0 != connected {
            self.step(Event::Application { connected }, clock::now());
        }
    }

    /// Sessions that have ended without a word: what they had is tried again.
    pub(super) fn end_lost_sessions(&mut self, now: Timestamp) {
        for id in self.sessions.lost(now) {
            tracing::info!(session = %id, "a session of the application has ended");
            self.sessions.close(&id);
            let how = crate::group::ledger::SessionEnd::Lost;
            self.member.session_ended(&id, how, now);
        }
    }

    /// What follows from everything that was heard.
    fn turn(&mut self) {
        let now = clock::now();
        self.end_lost_sessions(now);
        self.say_whether_connected();
        if self.member.deadline().is_some_and(|at| at <= now) {
            self.step(Event::Deadline, now);
        }
        self.hand_over(now);
        if self.member.deadline().is_some_and(|at| at <= now) {
            self.step(Event::Deadline, now);
        }
        self.waiters.expire(now);
        self.answer_late_drains(now);
        self.say_how_it_is(now);
    }

    fn hand_over(&mut self, now: Timestamp) {
        let Some(meta) = self.member.meta() else {
            return;
        };
        let held: Vec<_> = self.member.held().collect();
        let share = Share::of(meta, held.len());
        let mut round = Round {
            member: &mut self.member,
            readers: &mut self.readers,
            presenter: &self.presenter,
            metrics: &self.settings.metrics,
            share,
            held,
            now,
            wall: wall_clock(),
        };
        round.run(&mut self.sessions);
    }

    fn say_how_it_is(&mut self, now: Timestamp) {
        let metrics = &self.settings.metrics;
        let health = Health {
            listening: true,
            joined: self.member.standing().is_some(),
            alive: true,
        };
        self.health.send_if_modified(|before| {
            let changed = *before != health;
            *before = health;
            changed
        });
        let lease = self
            .member
            .lease_until()
            .map_or(0.0, |until| until.remaining(now).as_secs_f64());
        metrics.lease_remaining_seconds.set(lease);
        metrics.nats_connected.set(i64::from(self.control.is_up()));
        metrics
            .app_connected
            .set(i64::from(self.sessions.is_connected()));
    }
}
