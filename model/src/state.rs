//! A state of the whole group, and what can happen to it.

use lockstep::group::member::Written;
use lockstep::group::{Incarnation, Meta, Partition, Revision, Sequence, Timestamp};

use crate::bounds::{Bounds, Budget, Sabotage, spend};
use crate::bucket::{Bucket, Key, Write};
use crate::coordinator::Coordinator;
use crate::fingerprint::Hashed;
use crate::history::{History, Rule};
use crate::settings::{self, BEGINNING};
use crate::worker::{Answer, Said, Worker};

/// Everything there is.
#[derive(Clone, Debug, Hash, PartialEq)]
pub struct State {
    pub(crate) now: Timestamp,
    pub(crate) bucket: Bucket,
    pub(crate) coordinators: Vec<Hashed<Coordinator>>,
    pub(crate) workers: Vec<Hashed<Worker>>,
    pub(crate) budget: Budget,
    pub(crate) history: Hashed<History>,
}

/// Something that happens. Members and coordinators are named by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A coordinator's watch delivers a value.
    CoordinatorSees(usize),
    /// A coordinator's write is judged and answered.
    CoordinatorWrites(usize),
    /// A member's watch delivers a value.
    MemberSees(usize),
    /// A member's request is judged and answered; which, of those under way.
    MemberIsAnswered(usize, usize),
    /// An application takes a message.
    Takes(usize, Partition),
    /// An application is done with a message; which, of those in its hands.
    Acknowledges(usize, usize),
    /// A member starts.
    Starts(usize),
    /// A member is asked to end.
    Drains(usize),
    /// A member ends without a word.
    MemberCrashes(usize),
    /// A coordinator ends without a word.
    CoordinatorCrashes(usize),
    /// A member is not told how its write ended, which may land later; which, of those under way.
    WriteIsLost(usize, usize),
    /// A coordinator is not told how its write ended, which may land later.
    DocumentIsLost(usize),
    /// A write lands whose sender has given it up.
    StrayLands(usize),
    /// A session timeout passes.
    TimePasses(Cut),
}

/// Who is cut off while time passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Nobody.
    Nobody,
    /// This member.
    Member(usize),
    /// This coordinator.
    Coordinator(usize),
}

/// What never changes.
#[derive(Clone, Debug)]
pub(crate) struct Constants {
    pub(crate) meta: Meta,
    pub(crate) members: Vec<Incarnation>,
    pub(crate) sabotage: Sabotage,
}

// === impl Constants ===

impl Constants {
    pub(crate) fn new(bounds: Bounds, sabotage: Sabotage) -> Self {
        Self {
            meta: settings::meta(bounds.partitions),
            members: incarnations('m', bounds.members),
            sabotage,
        }
    }
}

fn incarnations(letter: char, count: usize) -> Vec<Incarnation> {
    let name = |number| format!("{letter}{number}").parse().ok();
    (0..count).filter_map(name).collect()
}

/// A commit as a member would write it that keeps a rule badly. The first claim stays as it is.
fn sabotaged(write: &Write, sabotage: Sabotage) -> Write {
    let mut write = write.clone();
    if let Write::Offset(_, record, expected) = &mut write {
        let is_claim = expected.0 == 1;
        match sabotage {
            Sabotage::CommitsAhead if !is_claim => record.next_seq = record.next_seq.next(),
            Sabotage::CommitsBack if record.next_seq.0 > 2 => record.next_seq = Sequence::FIRST,
            Sabotage::None
            | Sabotage::OffsetsWithoutCas
            | Sabotage::GroupWithoutCas
            | Sabotage::GrantsWithoutRelease
            | Sabotage::EpochsStay
            | Sabotage::ClocksStandStill
            | Sabotage::CommitsAhead
            | Sabotage::CommitsBack
            | Sabotage::WatchesAreDead => {}
        }
    }
    write
}

// === impl State ===

impl State {
    /// An empty bucket, coordinators that have loaded it, members that have not started.
    pub(crate) fn empty(bounds: Bounds, constants: &Constants) -> Self {
        let coordinators: Vec<Coordinator> = incarnations('c', bounds.coordinators)
            .into_iter()
            .enumerate()
            .map(|(number, me)| Coordinator::new(number, me, &constants.meta, BEGINNING))
            .collect();
        let candidates = coordinators.iter().map(Coordinator::heartbeat);
        let unborn = |me: &Incarnation| Worker::unborn(me.clone(), bounds.messages, BEGINNING);
        let mut state = Self {
            now: BEGINNING,
            bucket: Bucket {
                group: None,
                members: vec![None; bounds.members],
                candidates: candidates.map(Hashed::new).collect(),
                offsets: vec![None; bounds.partitions as usize],
                stray: Vec::new(),
            },
            coordinators: coordinators.into_iter().map(Hashed::new).collect(),
            workers: constants
                .members
                .iter()
                .map(unborn)
                .map(Hashed::new)
                .collect(),
            budget: bounds.budget,
            history: Hashed::new(History::default()),
        };
        for number in 0..bounds.coordinators {
            state.announce(Key::Candidate(number));
        }
        for number in 0..bounds.coordinators {
            state.coordinator_sees_all(number, constants);
        }
        state
    }

    /// What happens, with what follows from it at once. Answers whether it could.
    pub(crate) fn happen(&mut self, action: Action, constants: &Constants) -> bool {
        match action {
            Action::CoordinatorSees(c) => self.coordinator_sees(c, constants),
            Action::CoordinatorWrites(c) => self.coordinator_writes(c, constants),
            Action::MemberSees(m) => self.member_sees(m, constants),
            Action::MemberIsAnswered(m, which) => self.answer(m, which, constants),
            Action::Takes(m, partition) => self.with_worker(m, |worker| worker.take(partition)),
            Action::Acknowledges(m, which) => self.acknowledge(m, which),
            Action::Starts(m) => {
                let meta = constants.meta.clone();
                self.with_worker(m, |worker| worker.start(&meta));
            }
            Action::Drains(m) => {
                self.with_worker(m, Worker::drain);
                return spend(&mut self.budget.drains);
            }
            Action::MemberCrashes(m) => {
                let bucket = &mut self.bucket;
                if let Some(worker) = self.workers.get_mut(m) {
                    worker.change(|worker| worker.crash(bucket));
                }
                return spend(&mut self.budget.member_crashes);
            }
            Action::CoordinatorCrashes(c) => {
                self.coordinator_ends(c);
                return spend(&mut self.budget.coordinator_crashes);
            }
            Action::WriteIsLost(m, which) => {
                self.leave_unanswered(m, which);
                return spend(&mut self.budget.unknowns);
            }
            Action::DocumentIsLost(c) => {
                self.give_up_document(c);
                self.coordinator_looks_up(c, constants);
                return spend(&mut self.budget.unknowns);
            }
            Action::StrayLands(which) => self.stray_lands(which, constants),
            Action::TimePasses(cut) => {
                self.pass(cut, constants);
                return match cut {
                    Cut::Nobody => spend(&mut self.budget.passes),
                    Cut::Member(_) | Cut::Coordinator(_) => spend(&mut self.budget.cuts),
                };
            }
        }
        true
    }

    // --- the bucket and its watches

    /// A key was written: whoever watches it will see it.
    pub(crate) fn announce(&mut self, key: Key) {
        for coordinator in self.coordinators.iter_mut().filter(|c| c.runs) {
            coordinator.change(|c| c.watch.note(key));
        }
        for (number, worker) in self.workers.iter_mut().enumerate() {
            let own = key == Key::Member(number);
            if worker.runs() && (own || key == Key::Group) {
                worker.change(|w| w.watch.note(key));
            }
        }
    }

    /// Judges a write; the new revision if it is stored.
    fn judge(&mut self, write: &Write, constants: &Constants) -> Option<Revision> {
        let bucket = &mut self.bucket;
        let mut history = (*self.history).clone();
        let stored = bucket.replace(write, &mut history, constants.sabotage);
        if history != *self.history {
            self.history = Hashed::new(history);
        }
        if stored.is_some() && matches!(write, Write::Group(..)) {
            self.announce(Key::Group);
        }
        stored
    }

    fn stray_lands(&mut self, which: usize, constants: &Constants) {
        let write = self.bucket.stray.remove(which);
        self.judge(&write, constants);
    }

    pub(crate) fn break_rule(&mut self, rule: Rule) {
        self.history.change(|history| history.must(rule, false));
    }

    // --- members

    /// Something happens to a member; its heartbeats are stored and will come back to it.
    pub(crate) fn with_worker(&mut self, m: usize, what: impl FnOnce(&mut Worker) -> Said) {
        let Some(worker) = self.workers.get_mut(m) else {
            return;
        };
        let said = worker.change(what);
        self.hear(m, said);
    }

    pub(crate) fn has_news(&self, m: usize) -> bool {
        self.workers
            .get(m)
            .is_some_and(|w| w.runs() && !w.watch.is_empty())
    }

    /// A member's watch delivers its next value.
    pub(crate) fn member_sees(&mut self, m: usize, constants: &Constants) {
        let bucket = self.bucket.clone();
        let deaf = constants.sabotage == Sabotage::WatchesAreDead;
        self.with_worker(m, |worker| worker.see_next(&bucket, m, deaf));
    }

    fn hear(&mut self, m: usize, mut said: Said) {
        let mut confused = said.confused;
        while !said.heartbeats.is_empty() {
            let mut more = Said::default();
            for document in said.heartbeats {
                let beat = document.beat;
                if let Some(place) = self.bucket.members.get_mut(m) {
                    *place = Some(Hashed::new(document));
                }
                self.announce(Key::Member(m));
                if let Some(worker) = self.workers.get_mut(m) {
                    let next = worker.change(|worker| worker.stored(beat));
                    confused |= next.confused;
                    more.heartbeats.extend(next.heartbeats);
                }
            }
            said = more;
        }
        if confused {
            self.break_rule(Rule::NobodyIsConfused);
        }
    }

    /// A request of a member lands, and the answer comes.
    pub(crate) fn answer(&mut self, m: usize, which: usize, constants: &Constants) {
        let Some(worker) = self.workers.get_mut(m) else {
            return;
        };
        let request = worker.change(|worker| worker.requests.remove(which));
        let answer = match &request.write {
            None => Answer::of_read(self.bucket.offset(request.partition)),
            Some(write) => {
                let write = sabotaged(write, constants.sabotage);
                let stored = self.judge(&write, constants);
                let stands_at = self.bucket.offset(request.partition).map(|(r, _)| *r);
                Answer::Written(stored.map_or(Written::Conflict(stands_at), Written::Stored))
            }
        };
        self.with_worker(m, |worker| worker.answered(&request, answer));
    }

    /// A request of a member stays without an answer; a write may land later.
    pub(crate) fn leave_unanswered(&mut self, m: usize, which: usize) {
        let Some(worker) = self.workers.get_mut(m) else {
            return;
        };
        let request = worker.change(|worker| worker.requests.remove(which));
        if let Some(write) = request.write.clone() {
            self.bucket.give_up(write);
        }
        let answer = Answer::none_to(&request);
        self.with_worker(m, |worker| worker.answered(&request, answer));
    }

    fn acknowledge(&mut self, m: usize, which: usize) {
        let Some(worker) = self.workers.get_mut(m) else {
            return;
        };
        let (heard, said) = worker.change(|worker| worker.acknowledge(which));
        if let Some(done) = heard {
            self.history
                .change(|history| history.acknowledge(done.partition, done.sequence));
        }
        self.hear(m, said);
    }

    // --- coordinators

    fn coordinator_sees(&mut self, c: usize, constants: &Constants) {
        let (bucket, now) = (&self.bucket, self.now);
        if let Some(coordinator) = self.coordinators.get_mut(c) {
            coordinator.change(|it| it.see_next(bucket, &constants.members, now));
        }
        self.coordinator_turns(c, constants);
    }

    /// Everything that its watch has; it decides afterwards.
    pub(crate) fn coordinator_sees_all(&mut self, c: usize, constants: &Constants) {
        let (bucket, now) = (&self.bucket, self.now);
        if let Some(coordinator) = self.coordinators.get_mut(c) {
            coordinator.change(|it| it.see_all(bucket, &constants.members, now));
        }
        self.coordinator_turns(c, constants);
    }

    /// Who neither coordinates nor is about to sees everything at once: what it sees late, it would
    /// have to see before it plans anything. // P38
    pub(crate) fn bystanders_see(&mut self, constants: &Constants) {
        for c in 0..self.coordinators.len() {
            let stands_by = self.coordinators.get(c).is_some_and(|it| it.stands_by());
            if stands_by {
                self.coordinator_sees_all(c, constants);
            }
        }
    }

    /// A coordinator decides, if it may.
    pub(crate) fn coordinator_turns(&mut self, c: usize, constants: &Constants) {
        let (bucket, now) = (&mut self.bucket, self.now);
        let Some(coordinator) = self.coordinators.get_mut(c) else {
            return;
        };
        if !coordinator.change(|it| it.turn(bucket, constants.sabotage, now)) {
            self.break_rule(Rule::NobodyIsConfused);
        }
    }

    pub(crate) fn coordinator_writes(&mut self, c: usize, constants: &Constants) {
        let Some(coordinator) = self.coordinators.get_mut(c) else {
            return;
        };
        let Some(write) = coordinator.change(|it| it.writing.take()) else {
            return;
        };
        let stored = self.judge(&write, constants);
        let (bucket, now) = (&self.bucket, self.now);
        if let Some(coordinator) = self.coordinators.get_mut(c) {
            coordinator.change(|it| it.written(write, stored, bucket, now));
        }
        self.coordinator_turns(c, constants);
    }

    pub(crate) fn give_up_document(&mut self, c: usize) {
        if let Some(coordinator) = self.coordinators.get_mut(c)
            && let Some(write) = coordinator.change(|it| it.writing.take())
        {
            self.bucket.give_up(write);
        }
    }

    pub(crate) fn coordinator_looks_up(&mut self, c: usize, constants: &Constants) {
        let (bucket, now) = (&self.bucket, self.now);
        if let Some(coordinator) = self.coordinators.get_mut(c) {
            coordinator.change(|it| it.look_up(bucket, now));
        }
        self.coordinator_turns(c, constants);
    }

    fn coordinator_ends(&mut self, c: usize) {
        self.give_up_document(c);
        if let Some(coordinator) = self.coordinators.get_mut(c) {
            coordinator.change(|it| {
                it.runs = false;
                it.watch.clear();
            });
        }
    }

    // --- what is there to see

    /// Whether at most one member feeds each partition.
    pub(crate) fn one_feeds(&self) -> bool {
        let mut all: Vec<Partition> = self.workers.iter().flat_map(|w| w.feeding()).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        all.len() == count
    }

    pub(crate) fn is_broken(&self, rule: Rule) -> bool {
        self.history.broken.contains(&rule) || rule == Rule::OneFeeds && !self.one_feeds()
    }
}
