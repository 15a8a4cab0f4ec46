//! A worker: the product's `Member`, driven as the real pump drives it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lockstep::group::ledger::{Ask as LedgerAsk, Budget, HandOver, SessionEnd};
use lockstep::group::member::{Accepted, Effect, Event, Found, Identity, Member, MemberEvent};
use lockstep::group::{
    Epoch, Formats, Incarnation, MemberDocument, MemberId, Partition, Revision, SessionId,
    Timestamp,
};
use lockstep::wire::keys::Key;

use crate::checker::Checker;
use crate::guard::Guard;
use crate::message::{Ask, Call, Filter, For, Got, Msg, News};
use crate::model::data::Data;
use crate::model::{Doc, Entry};
use crate::net::{Net, Who};
use crate::reader::Readers;
use crate::time::Clock;
use crate::watching::{Alarm, Watching};

/// Heartbeats that may wait for their answers.
const BEATS: u32 = 8;

/// What the lease's guard is switched off with.
const A_YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// A message as an application is given it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given {
    /// Its partition.
    pub partition: Partition,
    /// The epoch of the ownership: the fencing token.
    pub epoch: Epoch,
    /// The message.
    pub message: Msg,
    /// Which attempt.
    pub attempt: u32,
    /// Whether the session has it already.
    pub again: bool,
}

/// What a worker says to its application.
#[derive(Clone, Debug)]
pub enum ToApplication {
    /// Messages.
    Batch(SessionId, Vec<Given>),
    /// The worker leaves: nothing more comes.
    Draining(SessionId),
}

/// What everything that runs works with.
pub struct Around<'a> {
    /// The world between processes.
    pub net: &'a mut Net,
    /// The judge.
    pub checker: &'a mut Checker,
    /// The streams, for the judge alone.
    pub data: &'a Data,
}

/// One process.
#[derive(Debug)]
pub struct Worker {
    /// Which process.
    pub who: Who,
    /// Which of the plan's members it is a life of.
    pub slot: usize,
    /// Its machine's clock.
    pub clock: Clock,
    /// The core.
    pub member: Member<Msg>,
    /// It has ended.
    pub over: bool,
    /// After so many more effects it dies.
    pub dies_after: Option<u32>,
    /// What the application is to be told.
    pub to_app: Vec<ToApplication>,
    /// The formats that it reads.
    formats: Formats,
    /// Its clock was stopped: it cannot know how late it is.
    pub was_suspended: bool,
    beats: u32,
    watching: Watching,
    readers: Readers,
    sessions: BTreeMap<SessionId, Option<u64>>,
    cursor: usize,
    alarm: Alarm,
    real_session: Duration,
}

// === impl Worker ===

impl Worker {
    /// A process that starts.
    pub fn start(
        around: &mut Around<'_>,
        (who, slot): (Who, usize),
        clock: Clock,
        formats: Formats,
    ) -> Self {
        let now = clock.reads(around.net.now);
        let mut worker = Self {
            who,
            slot,
            clock,
            member: Member::new(identity(around.net, slot), now),
            over: false,
            dies_after: None,
            to_app: Vec::new(),
            formats,
            was_suspended: false,
            beats: 0,
            watching: Watching::default(),
            readers: Readers::new(who),
            sessions: BTreeMap::new(),
            cursor: 0,
            alarm: Alarm::default(),
            real_session: Duration::from_secs(12),
        };
        let me = worker.me().clone();
        around.net.say(|| format!("{who} starts as {me}"));
        worker.begin_to_watch(around.net);
        worker
    }

    /// Its incarnation.
    pub fn me(&self) -> &Incarnation {
        &self.member.identity().incarnation
    }

    /// Whether it is of a version that reads no format in use.
    pub fn is_outdated(&self) -> bool {
        self.formats != Formats::CURRENT
    }

    fn now(&self, net: &Net) -> Timestamp {
        self.clock.reads(net.now)
    }

    fn begin_to_watch(&mut self, net: &mut Net) {
        let filter = Filter::Member(self.me().clone());
        self.watching.begin(net, self.who, filter);
    }

    /// The process is to end, within this time.
    pub fn drain(&mut self, around: &mut Around<'_>, timeout: Duration) {
        let who = self.who;
        around
            .net
            .say(|| format!("{who} is to leave within {timeout:?}"));
        self.step(around, Event::Drain { timeout });
        self.turn(around);
    }

    /// The timer has come.
    pub fn wake(&mut self, around: &mut Around<'_>) {
        self.alarm.rang(around.net.now);
        self.turn(around);
    }

    /// Something has come.
    pub fn hear(&mut self, around: &mut Around<'_>, news: News) {
        match news {
            News::Entry(number, entry) if number == self.watching.number() => {
                self.take_entry(around, entry);
            }
            News::Loaded(number) if number == self.watching.number() => self.watching.loaded(),
            News::WatchBroken(number) if number == self.watching.number() => {
                self.watching.broke(around.net);
            }
            News::Entry(..) | News::Loaded(_) | News::WatchBroken(_) => {}
            News::Put(beat, stored) => {
                self.beats = self.beats.saturating_sub(1);
                if let Some(revision) = stored {
                    if around.net.is_off(Guard::Echo) {
                        self.step(around, Event::Echo { revision, beat });
                    }
                    self.step(around, Event::PutStored { beat, revision });
                }
            }
            News::Replaced(For::Hold(partition, epoch), outcome) => {
                let event = Event::Written {
                    partition,
                    epoch,
                    outcome,
                };
                self.step(around, event);
            }
            News::Got(For::Hold(partition, epoch), got) => {
                self.take_record(around, (partition, epoch), got);
            }
            News::Connected => {
                self.watching.broke(around.net);
                self.readers.all_broken(around.net);
                self.step(around, Event::Connected);
            }
            News::Call(call) => self.serve(around, call),
            other => self.hear_reader(around, other),
        }
        self.turn(around);
    }

    fn hear_reader(&mut self, around: &mut Around<'_>, news: News) {
        let now = self.now(around.net);
        let event = self.readers.hear(around.net, (&self.member, now), news);
        if let Some(event) = event {
            self.step(around, event);
        }
    }

    fn take_entry(&mut self, around: &mut Around<'_>, entry: Entry) {
        let revision = Revision(entry.revision);
        let event = match entry.doc {
            Doc::Meta(meta) => {
                let mut meta = Box::new((*meta).clone());
                self.real_session = meta.membership.session_timeout;
                if around.net.is_off(Guard::Lease) {
                    meta.membership.session_timeout = A_YEAR;
                }
                Event::Meta { revision, meta }
            }
            Doc::Group(document) => Event::Group {
                revision,
                document: Box::new((*document).clone()),
            },
            Doc::Member(says) => Event::Echo {
                revision,
                beat: says.beat,
            },
            Doc::Candidate(_) | Doc::Offset(_) => return,
        };
        self.step(around, event);
    }

    fn take_record(&mut self, around: &mut Around<'_>, at: (Partition, Epoch), got: Got) {
        let (partition, epoch) = at;
        let found = got.found();
        if found == Found::Absent && around.net.is_off(Guard::Seeding) {
            return around.net.ask(self.who, Ask::LateSeed(partition, epoch));
        }
        let event = Event::Offset {
            partition,
            epoch,
            found,
        };
        self.step(around, event);
    }

    /// One event into the core, and what it wants done.
    fn step(&mut self, around: &mut Around<'_>, event: Event<Msg>) {
        if self.over {
            return;
        }
        let now = self.now(around.net);
        for effect in self.member.step(event, now) {
            if let Some(left) = &mut self.dies_after {
                if *left == 0 {
                    let who = self.who;
                    around.net.say(|| format!("{who} dies between two steps"));
                    self.over = true;
                    return;
                }
                *left -= 1;
            }
            self.perform(around, effect);
        }
    }

    fn perform(&mut self, around: &mut Around<'_>, effect: Effect) {
        let who = self.who;
        match effect {
            Effect::Heartbeat(document) => self.beat(around.net, *document),
            Effect::ReadOffset { partition, epoch } => {
                let ask = Ask::Get(Key::Offset(partition), For::Hold(partition, epoch));
                around.net.ask(who, ask);
            }
            Effect::WriteOffset {
                partition,
                epoch,
                record,
                expected,
            } => {
                let (key, what) = (Key::Offset(partition), For::Hold(partition, epoch));
                let doc = Doc::Offset(Arc::new(*record));
                around.net.ask(who, Ask::Replace(key, doc, expected, what));
            }
            Effect::Open {
                partition,
                epoch,
                from,
                record,
                last,
            } => {
                let room = self.member.meta().map_or(1, |m| m.delivery.buffer_messages);
                let plan = (from.0, record, last, u64::from(room));
                self.readers.open(around.net, (partition, epoch), plan);
            }
            Effect::Close { partition, epoch } => {
                self.readers.close(around.net, partition, epoch);
            }
            Effect::Tell(event) => self.tell(around, &event),
            Effect::Reincarnate => self.be_born_again(around),
            Effect::Over => self.over = true,
        }
    }

    fn beat(&mut self, net: &mut Net, mut document: MemberDocument) {
        if self.beats >= BEATS || !net.is_up(self.who) {
            return;
        }
        self.beats += 1;
        document.formats = self.formats;
        if net.is_off(Guard::Lease) {
            document.session_timeout = self.real_session;
        }
        let (key, beat) = (Key::Member(self.me().clone()), document.beat);
        net.ask(
            self.who,
            Ask::Put(key, Doc::Member(Arc::new(document)), beat),
        );
    }

    fn tell(&mut self, around: &mut Around<'_>, event: &MemberEvent) {
        let who = self.who;
        around.net.say(|| format!("{who}: {event:?}"));
        around.checker.told(around.net.now, self.me(), event);
    }

    fn be_born_again(&mut self, around: &mut Around<'_>) {
        self.readers.close_all(around.net);
        self.beats = 0;
        let now = self.now(around.net);
        self.member = Member::new(identity(around.net, self.slot), now);
        let (who, me) = (self.who, self.me().clone());
        around.net.say(|| format!("{who} is born again as {me}"));
        self.watching.loaded();
        self.begin_to_watch(around.net);
        self.say_whether_connected(around);
    }

    // --- the application

    fn serve(&mut self, around: &mut Around<'_>, call: Call) {
        let now = self.now(around.net);
        match call {
            Call::Fetch(session, most) => {
                self.sessions.insert(session, Some(most));
            }
            Call::Ack(session, (partition, epoch, sequence), kind) => {
                let held = self.member.held().find(|(p, _)| *p == partition);
                let epoch = if around.net.is_off(Guard::AckEpoch) {
                    held.map_or(epoch, |(_, epoch)| epoch)
                } else {
                    epoch
                };
                let at = (partition, epoch, sequence);
                let accepted = self.member.ack(&session, at, kind, now);
                let counts = matches!(accepted, Accepted::Yes { .. });
                let who = self.who;
                let line = || {
                    format!(
                        "{who}: {session} acks {partition}/{sequence}@{epoch} {kind:?}: {counts}"
                    )
                };
                around.net.say(line);
                if counts {
                    around.checker.acked(&session, at, kind);
                }
            }
            Call::Nack(session, at) => {
                let accepted = self.member.nack(&session, at, ("refused", None), now);
                if matches!(accepted, Accepted::Yes { .. }) {
                    around.checker.nacked(at);
                }
            }
            Call::Lost(session) => self.end_session(around, &session, SessionEnd::Lost),
            Call::Closed(session) => self.end_session(around, &session, SessionEnd::Closed),
        }
    }

    fn end_session(&mut self, around: &mut Around<'_>, session: &SessionId, how: SessionEnd) {
        let now = self.now(around.net);
        self.sessions.remove(session);
        self.member.session_ended(session, how, now);
        around.checker.session_ended(self.me(), session);
    }

    fn say_whether_connected(&mut self, around: &mut Around<'_>) {
        let connected = if self.member.is_leaving() {
            let mut all = self.sessions.iter();
            all.any(|(id, waits)| waits.is_some() || self.member.is_holding(id))
        } else {
            !self.sessions.is_empty()
        };
        if self.member.application().0 != connected {
            self.step(around, Event::Application { connected });
        }
    }

    // --- what follows

    fn turn(&mut self, around: &mut Around<'_>) {
        if self.over {
            return;
        }
        if self.watching.is_due(around.net.now) {
            self.begin_to_watch(around.net);
        }
        self.readers.retry(around.net);
        self.say_whether_connected(around);
        self.deadline(around);
        self.hand_over(around);
        self.deadline(around);
        self.note_wake(around.net);
    }

    fn deadline(&mut self, around: &mut Around<'_>) {
        let now = self.now(around.net);
        if self.member.deadline().is_some_and(|at| at <= now) {
            self.step(around, Event::Deadline);
        }
    }

    fn note_wake(&mut self, net: &mut Net) {
        let core = self.member.deadline().map(|at| self.clock.shows(at));
        let own = [core, self.watching.again_at(), self.readers.next_retry()];
        if let Some(next) = own.into_iter().flatten().min() {
            self.alarm.set(net, self.who, next);
        }
    }

    fn hand_over(&mut self, around: &mut Around<'_>) {
        let now = self.now(around.net);
        let waiting: Vec<(SessionId, u64)> = self
            .sessions
            .iter()
            .filter_map(|(id, most)| Some((id.clone(), (*most)?)))
            .collect();
        for (session, most) in waiting {
            let batch = self.give(around, &session, most, now);
            let said = if !batch.is_empty() {
                ToApplication::Batch(session.clone(), batch)
            } else if self.member.is_leaving() {
                ToApplication::Draining(session.clone())
            } else {
                continue;
            };
            self.sessions.insert(session, None);
            self.to_app.push(said);
        }
    }

    fn give(
        &mut self,
        around: &mut Around<'_>,
        session: &SessionId,
        most: u64,
        now: Timestamp,
    ) -> Vec<Given> {
        let mut batch = Vec::new();
        let mut held: Vec<(Partition, Epoch)> = self.member.held().collect();
        if !held.is_empty() {
            self.cursor = (self.cursor + 1) % held.len();
            held.rotate_left(self.cursor);
        }
        let mut budget = Budget::new(most, u64::MAX);
        for at in held {
            let (partition, ask) = (at.0, LedgerAsk::FromItsFirst);
            if budget.messages == 0 || !self.member.has_for(session, (partition, ask), now) {
                continue;
            }
            let before = self.member.buffered(at).map_or(0, |(messages, _)| messages);
            let to = |epoch, message: &Msg, how: HandOver| {
                batch.push(Given {
                    partition,
                    epoch,
                    message: *message,
                    attempt: how.attempt,
                    again: how.again,
                });
            };
            self.member
                .hand_over(session, (partition, ask), &mut budget, now, to);
            let after = self.member.buffered(at).map_or(0, |(messages, _)| messages);
            self.readers
                .taken(around.net, partition, before.saturating_sub(after));
        }
        for given in &batch {
            let me = self.me().clone();
            let line = || {
                format!(
                    "{me} hands over {}/{}@{} (message {}) attempt {}{}",
                    given.partition,
                    given.message.seq,
                    given.epoch,
                    given.message.id,
                    given.attempt,
                    if given.again { " again" } else { "" }
                )
            };
            around.net.say(line);
            around.checker.judge_gap(&me, given, around.data);
            let zombie = self.was_suspended;
            around.checker.handed((&me, session), given, zombie);
        }
        batch
    }
}

fn identity(net: &mut Net, slot: usize) -> Identity {
    let id = format!("host-{slot}");
    Identity {
        incarnation: incarnation(net, &format!("m{slot}")),
        id: MemberId::new(id),
        zone: None,
        pod: None,
        version: "0".to_owned(),
    }
}

/// A name that was never used before.
pub fn incarnation(net: &mut Net, prefix: &str) -> Incarnation {
    loop {
        let name = format!("{prefix}x{:08x}", net.chance.number() >> 32);
        if let Ok(incarnation) = name.parse() {
            return incarnation;
        }
    }
}
