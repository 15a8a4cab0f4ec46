//! A coordinator: the product's `decide` over `Observed`, driven as the real task drives it: observe,
//! decide, write, adopt. What the real one awaits is a state here.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use lockstep::group::decide::{Decision, Identity, Observed, OffsetFact, Slot, decide, seed};
use lockstep::group::member::Written;
use lockstep::group::start::{self, Answer, StreamEnds};
use lockstep::group::{
    Beat, BucketId, CandidateDocument, Formats, GroupDocument, Incarnation, MemberDocument,
    Partition, Released, Revision, Sequence, ServerTime, StartFrom, Timestamp, Unknown,
};
use lockstep::wire::keys::Key;

use crate::guard::Guard;
use crate::message::{Ask, Filter, For, Got, News};
use crate::model::{Doc, Entry};
use crate::net::{Net, Who};
use crate::time::{At, Clock};
use crate::watching::{Alarm, Watching};
use crate::worker::{Around, incarnation};

/// Silence of a holder after which another takes over, and the time between two beats.
const SESSION: Duration = Duration::from_secs(15);
const INTERVAL: Duration = Duration::from_millis(1875);

/// Beats on their way.
const ON_THEIR_WAY: u32 = 8;

/// Least time between two documents.
const PACE: Duration = Duration::from_millis(20);

/// The wait before a step that failed is tried again.
const AFTER_A_FAILURE: Duration = Duration::from_secs(1);

/// How often damaged commit records are looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// Reads of `group` until it shows the revision that a conflict has named, and the time between two.
const LOOKS: u32 = 25;
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// One process.
#[derive(Debug)]
pub struct Coordinator {
    /// Which process.
    pub who: Who,
    /// Which of the plan's coordinators it is a life of.
    pub slot: usize,
    /// Its machine's clock.
    pub clock: Clock,
    /// What it has seen.
    pub seen: Observed,
    /// It has ended, and begins anew if it is not dead.
    pub over: bool,
    bucket: BucketId,
    inbox: VecDeque<News>,
    busy: Busy,
    watching: Watching,
    beat: Beat,
    next_beat: Timestamp,
    on_their_way: BTreeMap<Beat, Revision>,
    highest: Revision,
    not_before: Option<Timestamp>,
    look_again: Timestamp,
    pace: Timestamp,
    alarm: Alarm,
    /// Of the guard of healthy time: when a beat was last made up.
    made_up: Option<Timestamp>,
}

/// What it waits for.
#[derive(Debug)]
enum Busy {
    No,
    /// Commit records.
    Reading(Waits),
    /// Commit records that are there, to see where an interrupted seeding began.
    Siblings(Waits, BTreeMap<String, Sequence>, BTreeSet<Partition>),
    /// Where the streams begin and end.
    Ends(BTreeMap<String, Sequence>, BTreeSet<Partition>),
    /// Commit records that are written.
    Seeding(Waits),
    /// The group document.
    Writing(Box<GroupDocument>, Revision),
    /// What stands at `group`.
    LookingUp(Option<Revision>, u32, Option<At>),
}

/// Answers that are waited for.
#[derive(Debug)]
struct Waits {
    left: usize,
    failed: bool,
}

// === impl Coordinator ===

impl Coordinator {
    /// A process that starts.
    pub fn start(
        around: &mut Around<'_>,
        (who, slot): (Who, usize),
        clock: Clock,
        bucket: BucketId,
    ) -> Self {
        let now = clock.reads(around.net.now);
        let me = Identity {
            incarnation: incarnation(around.net, &format!("c{slot}")),
            id: format!("coordinator-{slot}"),
            priority: 0,
            manager: "standalone".to_owned(),
            session_timeout: SESSION,
            heartbeat_interval: INTERVAL,
            unix_seconds: around.net.now.unix_seconds(),
            elected: false,
        };
        around
            .net
            .say(|| format!("{who} starts as {}", me.incarnation));
        let mut coordinator = Self {
            who,
            slot,
            clock,
            seen: Observed::new(me),
            over: false,
            bucket,
            inbox: VecDeque::new(),
            busy: Busy::No,
            watching: Watching::default(),
            beat: Beat(0),
            next_beat: now,
            on_their_way: BTreeMap::new(),
            highest: Revision(0),
            not_before: None,
            look_again: now,
            pace: now,
            alarm: Alarm::default(),
            made_up: None,
        };
        coordinator.begin_to_watch(around.net);
        coordinator.note_wake(around.net);
        coordinator
    }

    fn me(&self) -> &Incarnation {
        &self.seen.identity().incarnation
    }

    fn now(&self, net: &Net) -> Timestamp {
        self.clock.reads(net.now)
    }

    fn begin_to_watch(&mut self, net: &mut Net) {
        self.watching.begin(net, self.who, Filter::Coordinator);
    }

    fn watch_again_later(&mut self, net: &mut Net) {
        self.seen.reloading();
        self.watching.broke(net);
    }

    /// It begins anew: says that this life has ended.
    fn begin_anew(&mut self, around: &mut Around<'_>, why: &str) {
        let who = self.who;
        around.net.say(|| format!("{who} begins anew: {why}"));
        self.put_beat(around.net, true);
        self.over = true;
    }

    // --- the heart

    fn put_beat(&mut self, net: &mut Net, left: bool) {
        self.beat = self.beat.next();
        let document = CandidateDocument {
            id: self.seen.identity().id.clone(),
            priority: 0,
            beat: self.beat,
            formats: Formats::CURRENT,
            left,
            unknown: Unknown::default(),
        };
        self.on_their_way.insert(self.beat, self.highest);
        let key = Key::Candidate(self.me().clone());
        net.ask(
            self.who,
            Ask::Put(key, Doc::Candidate(Arc::new(document)), self.beat),
        );
    }

    fn beat_if_due(&mut self, net: &mut Net) {
        let now = self.now(net);
        let room = u32::try_from(self.on_their_way.len()).unwrap_or(u32::MAX) < ON_THEIR_WAY;
        if self.next_beat <= now && room {
            self.put_beat(net, false);
            self.next_beat = now.after(INTERVAL);
        }
    }

    // --- what comes

    /// The timer has come.
    pub fn wake(&mut self, around: &mut Around<'_>) {
        self.alarm.rang(around.net.now);
        self.go_on(around);
    }

    /// Something has come.
    pub fn hear(&mut self, around: &mut Around<'_>, news: News) {
        match news {
            News::Put(beat, stored) => {
                let before = self.on_their_way.remove(&beat);
                if let (Some(before), Some(revision)) = (before, stored) {
                    if revision <= before {
                        return self
                            .begin_anew(around, "an acknowledgement is below what was seen");
                    }
                    self.highest = self.highest.max(revision);
                }
            }
            News::Entry(..) | News::Loaded(_) | News::WatchBroken(_) => self.inbox.push_back(news),
            News::Connected => self
                .inbox
                .push_back(News::WatchBroken(self.watching.number())),
            News::Got(what, got) => self.got(around, what, got),
            News::Replaced(what, outcome) => self.replaced(around, what, &outcome),
            News::Ends(ends) => self.ends(around, ends),
            News::Opened(_)
            | News::Looked(..)
            | News::Messages(..)
            | News::ReaderBroken(_)
            | News::Idle(..)
            | News::Scanned(..)
            | News::Call(_) => {}
        }
        self.go_on(around);
    }

    fn go_on(&mut self, around: &mut Around<'_>) {
        if self.over {
            return;
        }
        self.beat_if_due(around.net);
        if self.watching.is_due(around.net.now) {
            self.begin_to_watch(around.net);
        }
        if let Busy::LookingUp(_, _, at @ Some(_)) = &mut self.busy
            && at.is_some_and(|at| at <= around.net.now)
        {
            *at = None;
            around.net.ask(self.who, Ask::Get(Key::Group, For::Group));
        }
        let mut due = self.not_before.is_some_and(|at| at <= self.now(around.net));
        while matches!(self.busy, Busy::No) && (due || !self.inbox.is_empty()) {
            due = false;
            if !self.take_in(around) {
                return;
            }
            self.turn(around);
        }
        self.note_wake(around.net);
    }

    /// Takes in what has come; answers whether the life goes on.
    fn take_in(&mut self, around: &mut Around<'_>) -> bool {
        while let Some(news) = self.inbox.pop_front() {
            let now = self.now(around.net);
            match news {
                News::Entry(number, entry) if number == self.watching.number() => {
                    self.highest = self.highest.max(Revision(entry.revision));
                    if !self.take_entry(around.net, entry, now) {
                        self.begin_anew(around, "meta names another bucket");
                        return false;
                    }
                }
                News::Loaded(number) if number == self.watching.number() => {
                    self.watching.loaded();
                    self.seen.loaded(now);
                }
                News::WatchBroken(number) if number == self.watching.number() => {
                    self.watch_again_later(around.net);
                }
                _ => {}
            }
        }
        true
    }

    fn take_entry(&mut self, net: &mut Net, entry: Entry, now: Timestamp) -> bool {
        match (entry.key, entry.doc) {
            (_, Doc::Meta(meta)) => {
                if meta.bucket != self.bucket {
                    return false;
                }
                self.seen.see_meta(Slot::Known((*meta).clone()));
            }
            (_, Doc::Group(document)) => {
                let group = Slot::Known((*document).clone());
                self.seen.see_group(Revision(entry.revision), group, now);
            }
            (Key::Member(member), Doc::Member(says)) => {
                let mut says = (*says).clone();
                if net.is_off(Guard::Release) {
                    self.release_for(&member, &mut says);
                }
                self.seen.see_member(&member, says, now);
            }
            (Key::Candidate(candidate), Doc::Candidate(says)) => {
                if candidate == *self.me() && net.is_off(Guard::HealthyTime) {
                    self.made_up = self.made_up.or(Some(now));
                    return true;
                }
                self.seen.see_candidate(&candidate, (*says).clone(), now);
            }
            _ => {}
        }
        true
    }

    /// Without the guard of releases: whatever is asked back counts as given back.
    fn release_for(&self, member: &Incarnation, says: &mut MemberDocument) {
        let Slot::Known(document) = self.seen.document() else {
            return;
        };
        for (partition, a) in document.owned_by(member) {
            if a.is_being_revoked() {
                says.released.push(Released {
                    partition,
                    epoch: a.epoch,
                    clean: true,
                });
            }
        }
    }

    /// Without the guard of healthy time: all time counts as healthy.
    fn make_beats_up(&mut self, now: Timestamp) {
        let Some(mut at) = self.made_up else {
            return;
        };
        while at < now {
            at = at.after(INTERVAL).min(now);
            let says = CandidateDocument {
                id: self.seen.identity().id.clone(),
                priority: 0,
                beat: Beat(u64::try_from(at.0.as_nanos()).unwrap_or(u64::MAX)),
                formats: Formats::CURRENT,
                left: false,
                unknown: Unknown::default(),
            };
            let me = self.me().clone();
            self.seen.see_candidate(&me, says, at);
        }
        self.made_up = Some(at);
    }

    // --- decide and do

    fn turn(&mut self, around: &mut Around<'_>) {
        let now = self.now(around.net);
        if around.net.is_off(Guard::HealthyTime) {
            self.make_beats_up(now);
        }
        if self.seen.is_coordinating() && self.seen.is_cut_off(now) {
            let who = self.who;
            around
                .net
                .say(|| format!("{who} is cut off and steps down"));
            self.seen.step_down(); // P40
        }
        if now >= self.look_again {
            self.look_again = now.after(LOOK_AGAIN);
            self.seen.offsets_mut().suspect_the_damaged();
            self.seen.forget_the_long_gone(now);
        }
        let decision = decide(&self.seen, now);
        self.not_before = decision.next_deadline;
        if !decision.read_offsets.is_empty() {
            for partition in &decision.read_offsets {
                let ask = Ask::Get(Key::Offset(*partition), For::Look(*partition));
                around.net.ask(self.who, ask);
            }
            self.busy = Busy::Reading(Waits::of(decision.read_offsets.len()));
        } else if !decision.seed.is_empty() {
            self.begin_to_seed(around, decision.seed);
        } else if decision.document.is_none() {
        } else if self.pace > now {
            self.not_before = Some(self.not_before.map_or(self.pace, |d| d.min(self.pace)));
        } else {
            self.write(around, decision);
        }
    }

    fn write(&mut self, around: &mut Around<'_>, decision: Decision) {
        let Some(document) = decision.document else {
            return;
        };
        let before = self.seen.document().known();
        around
            .checker
            .decided(around.net.now, before, (&document, &decision.reasons));
        let expected = self.seen.revision();
        let doc = Doc::Group(Arc::new(document.clone()));
        around.net.ask(
            self.who,
            Ask::Replace(Key::Group, doc, expected, For::Group),
        );
        self.busy = Busy::Writing(Box::new(document), self.highest);
    }

    fn try_again_in(&mut self, net: &Net, wait: Duration) {
        let later = self.now(net).after(wait);
        self.not_before = Some(self.not_before.map_or(later, |d| d.min(later)));
    }

    // --- answers

    fn got(&mut self, around: &mut Around<'_>, what: For, got: Got) {
        match what {
            For::Look(partition) | For::Seed(partition) => self.looked(around, partition, got),
            For::Group => self.looked_up(around, got),
            For::Hold(..) => {}
        }
    }

    fn looked(&mut self, around: &mut Around<'_>, partition: Partition, got: Got) {
        let lenient = around.net.is_off(Guard::Seeding);
        let fact = match got {
            Got::Value(_, Doc::Offset(record)) => {
                if let Busy::Siblings(_, found, _) = &mut self.busy
                    && record.owner.is_none()
                {
                    let entry = found
                        .entry(record.stream.clone())
                        .or_insert(record.next_seq);
                    *entry = record.next_seq.min(*entry);
                }
                Some(OffsetFact::from(&*record))
            }
            Got::Absent if lenient => Some(OffsetFact::Present {
                epoch: lockstep::group::Epoch(0),
                stopped: None,
            }),
            Got::Absent => Some(OffsetFact::Absent),
            Got::Value(..) | Got::Unanswered => None,
        };
        let failed = fact.is_none();
        let siblings = matches!(self.busy, Busy::Siblings(..));
        if let Some(fact) = fact.filter(|_| !siblings) {
            self.seen.offsets_mut().see(partition, fact);
        }
        self.one_less(around, failed);
    }

    fn one_less(&mut self, around: &mut Around<'_>, failed: bool) {
        let (Busy::Reading(waits) | Busy::Siblings(waits, ..) | Busy::Seeding(waits)) =
            &mut self.busy
        else {
            return;
        };
        waits.failed |= failed;
        waits.left = waits.left.saturating_sub(1);
        if waits.left > 0 {
            return;
        }
        let failed = waits.failed;
        let busy = std::mem::replace(&mut self.busy, Busy::No);
        if failed {
            return self.fail(around.net);
        }
        if let Busy::Siblings(_, found, missing) = busy {
            around.net.ask(self.who, Ask::Ends);
            self.busy = Busy::Ends(found, missing);
        } else {
            self.turn(around);
        }
    }

    /// Decides again after a while, or when something comes.
    fn fail(&mut self, net: &Net) {
        self.busy = Busy::No;
        self.try_again_in(net, AFTER_A_FAILURE);
    }

    // --- seeding

    fn begin_to_seed(&mut self, around: &mut Around<'_>, missing: BTreeSet<Partition>) {
        let Some(meta) = self.seen.meta().known() else {
            return;
        };
        let moment = match meta.start_from {
            StartFrom::Latest | StartFrom::Duration { .. } => true,
            StartFrom::Earliest | StartFrom::Sequence { .. } | StartFrom::Time { .. } => false,
        };
        let all = Partition::all(meta.partitions());
        let there: Vec<Partition> = all.filter(|p| moment && !missing.contains(p)).collect();
        for partition in &there {
            let ask = Ask::Get(Key::Offset(*partition), For::Look(*partition));
            around.net.ask(self.who, ask);
        }
        if there.is_empty() {
            around.net.ask(self.who, Ask::Ends);
            self.busy = Busy::Ends(BTreeMap::new(), missing);
        } else {
            self.busy = Busy::Siblings(Waits::of(there.len()), BTreeMap::new(), missing);
        }
    }

    fn ends(&mut self, around: &mut Around<'_>, ends: Option<Vec<(u64, u64, ServerTime)>>) {
        let Busy::Ends(siblings, missing) = std::mem::replace(&mut self.busy, Busy::No) else {
            return;
        };
        let (Some(ends), Some(meta)) = (ends, self.seen.meta().known().cloned()) else {
            return self.fail(around.net);
        };
        let streams = meta.source.streams();
        let mut answers = BTreeMap::new();
        let mut created = BTreeMap::new();
        for (stream, (first, end, made)) in streams.into_iter().zip(ends) {
            let (first, end) = (Sequence(first), Sequence(end));
            let answer = Answer {
                ends: StreamEnds { first, end },
                first_since: None,
            };
            answers.insert(stream.clone(), answer);
            created.insert(stream, made);
        }
        let Ok(positions) = start::positions(&meta.start_from, &meta.source, &answers) else {
            return self.fail(around.net);
        };
        let mut count = 0;
        for partition in missing {
            let record = meta.source.of(partition).and_then(|of| {
                let next = siblings
                    .get(&of.stream)
                    .or_else(|| positions.get(&partition));
                seed(&meta, partition, *next?, *created.get(&of.stream)?)
            });
            if let Some(record) = record {
                count += 1;
                let (key, what) = (Key::Offset(partition), For::Seed(partition));
                let doc = Doc::Offset(Arc::new(record));
                around
                    .net
                    .ask(self.who, Ask::Replace(key, doc, Revision(0), what));
            }
        }
        self.busy = Busy::Seeding(Waits::of(count));
    }

    fn replaced(&mut self, around: &mut Around<'_>, what: For, outcome: &Written) {
        match what {
            For::Seed(partition) => match outcome {
                Written::Stored(_) => {
                    let fact = OffsetFact::Present {
                        epoch: lockstep::group::Epoch(0),
                        stopped: None,
                    };
                    self.seen.offsets_mut().see(partition, fact);
                    self.one_less(around, false);
                }
                Written::Conflict(_) => {
                    let ask = Ask::Get(Key::Offset(partition), For::Seed(partition));
                    around.net.ask(self.who, ask);
                }
                Written::Busy | Written::Unknown(_) => self.one_less(around, true),
            },
            For::Group => self.written(around, outcome),
            For::Hold(..) | For::Look(_) => {}
        }
    }

    // --- the document

    fn written(&mut self, around: &mut Around<'_>, outcome: &Written) {
        let Busy::Writing(document, before) = std::mem::replace(&mut self.busy, Busy::No) else {
            return;
        };
        let now = self.now(around.net);
        match outcome {
            Written::Stored(revision) if *revision <= before => {
                self.begin_anew(around, "group stands below what was seen before");
            }
            Written::Stored(revision) => {
                self.highest = self.highest.max(*revision);
                self.seen.adopt(*document, *revision, now);
                self.pace = now.after(PACE);
                self.turn(around);
            }
            Written::Conflict(stands_at) => self.look_up(around, *stands_at),
            Written::Busy => self.try_again_in(around.net, BETWEEN_LOOKS),
            Written::Unknown(_) => self.look_up(around, None),
        }
    }

    fn look_up(&mut self, around: &mut Around<'_>, stands_at: Option<Revision>) {
        if stands_at.is_some_and(|there| there < self.seen.revision()) {
            return self.begin_anew(around, "group stands below what was seen before");
        }
        around.net.ask(self.who, Ask::Get(Key::Group, For::Group));
        self.busy = Busy::LookingUp(stands_at, 0, None);
    }

    fn looked_up(&mut self, around: &mut Around<'_>, got: Got) {
        let Busy::LookingUp(stands_at, looks, _) = std::mem::replace(&mut self.busy, Busy::No)
        else {
            return;
        };
        let (expected, now) = (self.seen.revision(), self.now(around.net));
        match got {
            Got::Value(revision, Doc::Group(document))
                if Some(revision) >= stands_at && revision >= expected =>
            {
                if self.seen.is_mine(&document) && revision > expected {
                    self.seen.adopt((*document).clone(), revision, now);
                } else {
                    self.seen
                        .see_group(revision, Slot::Known((*document).clone()), now);
                }
                self.turn(around);
            }
            Got::Absent if stands_at.is_none() && expected == Revision(0) => self.turn(around),
            Got::Value(..) | Got::Absent if looks < LOOKS => {
                let at = around.net.now.after(BETWEEN_LOOKS);
                self.busy = Busy::LookingUp(stands_at, looks + 1, Some(at));
            }
            Got::Value(..) | Got::Absent | Got::Unanswered => {
                self.try_again_in(around.net, AFTER_A_FAILURE);
            }
        }
    }

    fn note_wake(&mut self, net: &mut Net) {
        let beats = u32::try_from(self.on_their_way.len()).unwrap_or(u32::MAX) < ON_THEIR_WAY;
        let idle = matches!(self.busy, Busy::No);
        let looks = match self.busy {
            Busy::LookingUp(_, _, at) => at,
            _ => None,
        };
        let own = [
            Some(self.next_beat).filter(|_| beats),
            self.not_before.filter(|_| idle),
        ];
        let own = own.into_iter().flatten().map(|at| self.clock.shows(at));
        if let Some(next) = own.chain(self.watching.again_at()).chain(looks).min() {
            self.alarm.set(net, self.who, next);
        }
    }
}

// === impl Waits ===

impl Waits {
    fn of(left: usize) -> Self {
        Self {
            left,
            failed: false,
        }
    }
}
