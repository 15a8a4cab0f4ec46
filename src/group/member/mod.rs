//! One member of a group: its lease, what it holds, and what it lets go.
//!
//! [`Member::step`] takes one event and answers with what is to be done; it neither waits nor
//! reads a clock. What is true of every step: nothing is handed over or committed past the lease;
//! nothing is committed at an epoch that was fenced; a release that was said is never taken back.
//! Per partition the work is level-triggered: `tend` looks at what is so and does the next thing.

mod claim;
mod documents;
mod effect;
mod event;
mod feeding;
mod hold;
mod lease;
mod leave;
mod news;
mod policy;
mod record;
mod report;
mod tend;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::ledger::{Message, Rules};
use super::{
    Beat, BucketId, GroupDocument, GroupEpoch, Incarnation, MemberId, Meta, Partition, Pod,
    Released, Revision, Standing, Term, Timestamp,
};

pub use effect::Effect;
pub use event::{Event, Finding, Found, Written};
pub use feeding::{Accepted, AckKind};
pub use hold::HoldView;
pub use news::MemberEvent;

use hold::Hold;
use lease::Sent;

/// Who a member says it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Identity {
    /// This life of the process.
    pub incarnation: Incarnation,
    /// Its label.
    pub id: MemberId,
    /// Its zone, if it knows one.
    pub zone: Option<String>,
    /// Its pod, where there is one.
    pub pod: Option<Pod>,
    /// The program's version.
    pub version: String,
}

/// Where a member is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    /// Takes part.
    Here,
    /// Gives back what it has, at the latest at this moment.
    Leaving(Timestamp),
    /// Has given everything back; `left` waits for its acknowledgement.
    Left,
    /// Nothing more is to be done.
    Over,
}

/// One member of a group. `M` is what a message is to the driver.
#[derive(Clone, Debug)]
pub struct Member<M> {
    identity: Identity,
    life: Life,
    meta: Option<(Revision, Meta)>,
    /// The newest group document; in force once its `meta` and the first echo have been seen.
    document: Option<GroupDocument>,
    seen: (Term, GroupEpoch),
    seen_epoch: GroupEpoch,
    standing: Option<Standing>,
    /// What keeps documents from being followed, in sentences.
    damage: BTreeMap<&'static str, String>,
    beat: Beat,
    sent: BTreeMap<Beat, Sent>,
    last_sent: Option<Timestamp>,
    speak: bool,
    echoed: Option<Beat>,
    lease_until: Option<Timestamp>,
    suspended: bool,
    /// Nothing is written into commit records before this heartbeat has come back. P94
    commits_after: Option<Beat>,
    highest: Revision,
    app: Application,
    holds: BTreeMap<Partition, Hold<M>>,
    claiming: BTreeSet<Partition>,
    wakes: BTreeSet<(Timestamp, Partition)>,
    released: BTreeMap<Partition, Released>,
    given_back: (u32, u32),
    paused_here: PausedHere,
    dice: u64,
    effects: Vec<Effect>,
}

/// What the application paused on this member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct PausedHere {
    all: bool,
    partitions: BTreeSet<Partition>,
}

/// The application as its member sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Application {
    connected: bool,
    seen: bool,
    since: Timestamp,
}

// === impl Member ===

impl<M: Message> Member<M> {
    /// A member that has just started.
    pub fn new(identity: Identity, now: Timestamp) -> Self {
        let dice = identity
            .incarnation
            .as_str()
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |h, b| {
                (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
            });
        Self {
            identity,
            life: Life::Here,
            meta: None,
            document: None,
            seen: (Term(0), GroupEpoch(0)),
            seen_epoch: GroupEpoch(0),
            standing: None,
            damage: BTreeMap::new(),
            beat: Beat(0),
            sent: BTreeMap::new(),
            last_sent: None,
            speak: false,
            echoed: None,
            lease_until: None,
            suspended: false,
            commits_after: None,
            highest: Revision(0),
            app: Application {
                since: now,
                ..Application::default()
            },
            holds: BTreeMap::new(),
            claiming: BTreeSet::new(),
            wakes: BTreeSet::new(),
            released: BTreeMap::new(),
            given_back: (0, 0),
            paused_here: PausedHere::default(),
            dice,
            effects: Vec::new(),
        }
    }

    /// Takes in one event; says what is to be done, in order.
    #[must_use = "effects that are not performed never happen"]
    pub fn step(&mut self, event: Event<M>, now: Timestamp) -> Vec<Effect> {
        if self.life != Life::Over {
            self.look_at_the_lease(now);
            self.take_in(event, now);
            self.tend_what_is_due(now);
            self.leave_if_done(now);
            self.send_a_heartbeat_if_due(now);
        }
        std::mem::take(&mut self.effects)
    }

    /// When to look again although nothing happens.
    pub fn deadline(&self) -> Option<Timestamp> {
        if self.life == Life::Over {
            return None;
        }
        let lease = self.lease_until.filter(|_| !self.suspended);
        let leaving = match self.life {
            Life::Leaving(at) if !self.holds.is_empty() => Some(at),
            Life::Here | Life::Leaving(_) | Life::Left | Life::Over => None,
        };
        let wake = self.wakes.first().map(|(at, _)| *at);
        [self.next_beat_at(), lease, leaving, wake]
            .into_iter()
            .flatten()
            .min()
    }

    fn take_in(&mut self, event: Event<M>, now: Timestamp) {
        match event {
            Event::Meta { revision, meta } => self.take_meta(revision, meta, now),
            Event::Group { revision, document } => self.take_group(revision, *document, now),
            Event::Damaged { key, problem } => {
                self.damage.insert(key, problem);
            }
            Event::Echo { revision, beat } => self.take_echo(revision, beat, now),
            Event::PutStored { beat, revision } => self.take_put(beat, revision),
            Event::Connected => self.take_connected(),
            Event::Offset {
                partition,
                epoch,
                found,
            } => self.take_offset((partition, epoch), found, now),
            Event::Written {
                partition,
                epoch,
                outcome,
            } => self.take_written((partition, epoch), outcome, now),
            Event::Read {
                partition,
                epoch,
                batch,
            } => self.take_batch((partition, epoch), batch, now),
            Event::Pending {
                partition,
                epoch,
                pending,
            } => self.take_pending((partition, epoch), pending),
            Event::Scanned {
                partition,
                epoch,
                next,
                mark,
            } => self.take_scanned((partition, epoch), next, mark, now),
            Event::Invalid {
                partition,
                epoch,
                finding,
            } => self.take_finding((partition, epoch), &finding, now),
            Event::ReaderEnded {
                partition,
                epoch,
                unreadable,
            } => self.take_reader_end((partition, epoch), unreadable, now),
            Event::Application { connected } => self.take_application(connected, now),
            Event::Pause { partitions } => self.pause_here(partitions, now),
            Event::Resume { partitions } => self.resume_here(partitions, now),
            Event::Drain { timeout } => self.drain(timeout, now),
            Event::Deadline => {}
        }
    }

    fn take_application(&mut self, connected: bool, now: Timestamp) {
        if self.app.connected != connected {
            self.app = Application {
                connected,
                seen: self.app.seen || connected,
                since: now,
            };
            self.speak = true;
            self.tell(MemberEvent::Application { connected });
            self.tend_all(now); // P126a
        }
    }

    fn tell(&mut self, event: MemberEvent) {
        self.effects.push(Effect::Tell(event));
    }

    fn rules(&self) -> Option<Rules> {
        self.meta.as_ref().map(|(_, meta)| Rules::of(meta))
    }

    fn bucket(&self) -> Option<&BucketId> {
        self.meta.as_ref().map(|(_, meta)| &meta.bucket)
    }

    /// A wait within these bounds, spread so that members do not act in step.
    fn spread(&mut self, least: Duration, most: Duration) -> Duration {
        self.dice = self
            .dice
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let span = u64::try_from(most.saturating_sub(least).as_micros()).unwrap_or(u64::MAX);
        least + Duration::from_micros((self.dice >> 33) % span.max(1))
    }

    /// Another bucket stands under the name: nothing that is held means anything any more. P33
    fn be_born_again(&mut self) {
        let held: Vec<Partition> = self.holds.keys().copied().collect();
        for partition in held {
            self.forget(partition);
        }
        self.life = Life::Over;
        self.tell(MemberEvent::BucketReplaced);
        self.effects.push(Effect::Reincarnate);
    }
}
