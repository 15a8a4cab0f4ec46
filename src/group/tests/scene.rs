//! A stage for transcripts: a bucket, members and coordinators, and a clock that the test moves.
//!
//! Members do nothing of themselves but beat: what they release, the transcript says. Time passes in
//! steps in which everybody beats who is neither silent nor gone.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::group::decide::{
    Aspect, Condition, Decision, Identity, Observed, OffsetFact, Reason, Slot, Trouble, decide,
};
use crate::group::{
    App, AssignorSetting, Beat, BucketId, CandidateDocument, Delivery, Epoch, Formats,
    GroupDocument, GroupEpoch, GroupState, Held, HoldState, Incarnation, MemberDocument, MemberId,
    MemberState, Membership, Meta, MetaGeneration, OnFailure, OnGap, OnTruncation, Partition,
    Pause, Pod, Released, Retry, Revision, Sequence, Source, StandbyReason, Standing, StartFrom,
    Term, Timestamp, Unknown,
};

/// What the wall clock says in every scene.
pub(super) const UNIX_SECONDS: u64 = 1_767_607_200;

/// A step of time; everybody beats once in it.
pub(super) const STEP: Duration = Duration::from_millis(250);

pub(super) struct Scene {
    pub(super) now: Timestamp,
    pub(super) meta: Meta,
    pub(super) members: BTreeMap<String, Actor>,
    pub(super) coordinators: BTreeMap<String, Coordinator>,
    pub(super) offsets: BTreeMap<Partition, OffsetFact>,
    pub(super) group: Slot<GroupDocument>,
    pub(super) history: Vec<GroupDocument>,
    pub(super) reasons: Vec<Reason>,
    /// Whether streams say where they begin.
    pub(super) streams_answer: bool,
    revision: u64,
    group_revision: u64,
    lives: u32,
}

pub(super) struct Actor {
    pub(super) incarnation: Incarnation,
    pub(super) says: MemberDocument,
    pub(super) beats: bool,
}

pub(super) struct Coordinator {
    pub(super) seen: Observed,
    pub(super) me: Incarnation,
    pub(super) says: CandidateDocument,
    /// Whether it runs, and whether it sees the bucket.
    pub(super) runs: bool,
    pub(super) connected: bool,
    pub(super) last: Decision,
}

// === impl Scene ===

impl Scene {
    /// One coordinator, nobody else, this many partitions, everything seeded.
    pub(super) fn with_partitions(count: u32) -> Self {
        let mut scene = Self::empty(count);
        scene.coordinator("c1", 0);
        scene.passes(STEP * 4);
        scene
    }

    /// A bucket that holds nothing but `meta`.
    pub(super) fn empty(count: u32) -> Self {
        let absent = Partition::all(count).map(|p| (p, OffsetFact::Absent));
        Self {
            now: Timestamp(Duration::from_secs(1000)),
            meta: meta(count),
            members: BTreeMap::new(),
            coordinators: BTreeMap::new(),
            offsets: absent.collect(),
            group: Slot::Absent,
            history: Vec::new(),
            reasons: Vec::new(),
            streams_answer: true,
            revision: 1,
            group_revision: 0,
            lives: 0,
        }
    }

    // --- coordinators

    /// A candidate starts and loads the bucket.
    pub(super) fn coordinator(&mut self, name: &str, priority: i32) {
        self.candidate(name, priority, false);
    }

    /// A candidate starts that an election outside the bucket has chosen.
    pub(super) fn elected(&mut self, name: &str) {
        self.candidate(name, 0, true);
    }

    /// Every coordinator is told that these members are to go.
    pub(super) fn ask_to_leave(&mut self, names: &[&str]) {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        for coordinator in self.coordinators.values_mut() {
            coordinator.seen.ask_to_leave(&names);
        }
    }

    fn candidate(&mut self, name: &str, priority: i32, elected: bool) {
        let me = self.incarnation(name);
        let identity = Identity {
            incarnation: me.clone(),
            id: name.to_owned(),
            priority,
            manager: "standalone".to_owned(),
            session_timeout: Duration::from_secs(15),
            heartbeat_interval: Duration::from_secs(1),
            unix_seconds: UNIX_SECONDS,
            elected,
        };
        let says = CandidateDocument {
            id: name.to_owned(),
            priority,
            beat: Beat(0),
            formats: Formats::CURRENT,
            left: false,
            unknown: Unknown::default(),
        };
        let mut seen = Observed::new(identity);
        self.load(&mut seen);
        self.coordinators.insert(
            name.to_owned(),
            Coordinator {
                seen,
                me,
                says,
                runs: true,
                connected: true,
                last: Decision::default(),
            },
        );
    }

    fn load(&self, seen: &mut Observed) {
        seen.reloading();
        seen.see_meta(Slot::Known(self.meta.clone()));
        for actor in self.members.values() {
            seen.see_member(&actor.incarnation, actor.says.clone(), self.now);
        }
        for other in self.coordinators.values() {
            seen.see_candidate(&other.me, other.says.clone(), self.now);
        }
        seen.see_group(Revision(self.group_revision), self.group.clone(), self.now);
        seen.loaded(self.now);
    }

    pub(super) fn crashes(&mut self, name: &str) {
        self.coordinators.get_mut(name).unwrap().runs = false;
    }

    /// It stops on purpose and says so.
    pub(super) fn steps_down(&mut self, name: &str) {
        let it = self.coordinators.get_mut(name).unwrap();
        it.runs = false;
        it.says.beat = it.says.beat.next();
        it.says.left = true;
        let (me, says) = (it.me.clone(), it.says.clone());
        for other in self.coordinators.values_mut().filter(|c| c.connected) {
            other.seen.see_candidate(&me, says.clone(), self.now);
        }
    }

    /// It sees nothing and nobody sees it.
    pub(super) fn is_cut_off(&mut self, name: &str) {
        self.coordinators.get_mut(name).unwrap().connected = false;
    }

    /// It sees the bucket again, through a watch that is made anew.
    pub(super) fn is_back(&mut self, name: &str) {
        let mut it = self.coordinators.remove(name).unwrap();
        it.connected = true;
        self.load(&mut it.seen);
        self.coordinators.insert(name.to_owned(), it);
    }

    pub(super) fn decision(&self, name: &str) -> &Decision {
        &self.coordinators[name].last
    }

    pub(super) fn holder(&self) -> Option<&str> {
        let holder = self.document().holder.clone();
        let found = self
            .coordinators
            .iter()
            .find(|(_, c)| Some(&c.me) == holder.as_ref());
        found.map(|(name, _)| name.as_str())
    }

    // --- members

    /// A member starts with this id, and its application is connected.
    pub(super) fn starts(&mut self, id: &str) -> &mut Actor {
        self.starts_as(id, id)
    }

    /// A member starts under this name of the stage, and states this id.
    pub(super) fn starts_as(&mut self, name: &str, id: &str) -> &mut Actor {
        let actor = Actor {
            incarnation: self.incarnation(name),
            says: member_document(&self.meta.bucket, id),
            beats: true,
        };
        let previous = self.members.insert(name.to_owned(), actor);
        assert!(previous.is_none(), "{name} is on the stage already");
        self.beat(name);
        self.members.get_mut(name).unwrap()
    }

    /// A member starts and is waited for until the document has it as active.
    pub(super) fn joins(&mut self, id: &str) {
        self.starts(id);
        self.until(|t| t.standing(id) == Some(Standing::Active));
    }

    pub(super) fn falls_silent(&mut self, name: &str) {
        self.members.get_mut(name).unwrap().beats = false;
    }

    pub(super) fn speaks_again(&mut self, name: &str) {
        self.members.get_mut(name).unwrap().beats = true;
    }

    /// The member changes what it says, and says it at once.
    pub(super) fn says(&mut self, name: &str, change: impl FnOnce(&mut MemberDocument)) {
        change(&mut self.members.get_mut(name).unwrap().says);
        self.beat(name);
        self.settle();
    }

    /// The member releases these partitions cleanly, at the epochs that the document has.
    pub(super) fn releases(&mut self, name: &str, partitions: &[u32]) {
        self.releases_as(name, partitions, true);
    }

    pub(super) fn releases_as(&mut self, name: &str, partitions: &[u32], clean: bool) {
        let document = self.document().clone();
        self.says(name, |says| {
            for p in partitions {
                let partition = Partition(*p);
                let epoch = document.assignment(partition).unwrap().epoch;
                says.released.push(Released {
                    partition,
                    epoch,
                    clean,
                });
            }
        });
    }

    pub(super) fn leaves(&mut self, name: &str) {
        self.says(name, |says| says.state = MemberState::Left);
        self.falls_silent(name);
    }

    /// What the member has is released cleanly as soon as it is asked for, until all is settled.
    pub(super) fn everybody_lets_go(&mut self) {
        for _ in 0..200 {
            let document = self.document().clone();
            let mut quiet = true;
            for (partition, a) in Partition::all(u32::MAX).zip(&document.partitions) {
                let owner = a.owner.clone().filter(|_| a.is_being_revoked());
                let name = owner.and_then(|o| self.name_of(&o));
                if let Some(name) = name.filter(|n| self.members[n].beats) {
                    let release = Released {
                        partition,
                        epoch: a.epoch,
                        clean: true,
                    };
                    let says = &mut self.members.get_mut(&name).unwrap().says;
                    if !says.released.contains(&release) {
                        says.released.push(release);
                        quiet = false;
                    }
                }
            }
            self.step();
            if quiet && self.document() == &document {
                return;
            }
        }
        panic!("it does not settle: {:?}", self.document());
    }

    // --- time

    /// Time passes; everybody beats once in each step.
    pub(super) fn passes(&mut self, time: Duration) {
        let end = self.now.after(time);
        while self.now < end {
            self.step();
        }
    }

    /// Time passes until this holds; at most a few minutes.
    pub(super) fn until(&mut self, holds: impl Fn(&Self) -> bool) {
        for _ in 0..1200 {
            if holds(self) {
                return;
            }
            self.step();
        }
        panic!("it does not come about: {:#?}", self.document());
    }

    /// How much time passes until this holds.
    pub(super) fn time_until(&mut self, holds: impl Fn(&Self) -> bool) -> Duration {
        let start = self.now;
        self.until(holds);
        self.now.since(start)
    }

    /// Time passes in steps of a second: as good, where nobody looks closely.
    pub(super) fn passes_quickly(&mut self, time: Duration) {
        let end = self.now.after(time);
        while self.now < end {
            self.step_of(Duration::from_secs(1));
        }
    }

    pub(super) fn step(&mut self) {
        self.step_of(STEP);
    }

    fn step_of(&mut self, step: Duration) {
        self.now = self.now.after(step);
        let beating: Vec<String> = self
            .members
            .iter()
            .filter(|(_, m)| m.beats)
            .map(|(name, _)| name.clone())
            .collect();
        for name in beating {
            self.beat(&name);
        }
        let running: Vec<String> = self
            .coordinators
            .iter()
            .filter(|(_, c)| c.runs && c.connected)
            .map(|(name, _)| name.clone())
            .collect();
        for name in running {
            let it = self.coordinators.get_mut(&name).unwrap();
            it.says.beat = it.says.beat.next();
            let (me, says) = (it.me.clone(), it.says.clone());
            for other in self.coordinators.values_mut().filter(|c| c.connected) {
                other.seen.see_candidate(&me, says.clone(), self.now);
            }
        }
        self.settle();
    }

    /// One heartbeat of this member, as everybody sees it.
    pub(super) fn beat(&mut self, name: &str) {
        let document = self.group.known().cloned().unwrap_or_default();
        let actor = self.members.get_mut(name).unwrap();
        actor.says.beat = actor.says.beat.next();
        actor.says.seen_epoch = document.epoch;
        let current = |r: &Released| {
            document
                .assignment(r.partition)
                .is_some_and(|a| a.epoch <= r.epoch)
        };
        actor.says.released.retain(current); // P75
        let (incarnation, says) = (actor.incarnation.clone(), actor.says.clone());
        for coordinator in self.coordinators.values_mut().filter(|c| c.connected) {
            coordinator
                .seen
                .see_member(&incarnation, says.clone(), self.now);
        }
    }

    /// All coordinators decide and write until there is nothing to add.
    pub(super) fn settle(&mut self) {
        let names: Vec<String> = self.coordinators.keys().cloned().collect();
        for _ in 0..50 {
            let mut quiet = true;
            for name in &names {
                quiet &= !self.turn(name);
            }
            if quiet {
                return;
            }
        }
        panic!(
            "the coordinators never stop writing: {:#?}",
            self.history.last_chunk::<3>()
        );
    }

    /// One turn of one coordinator; returns whether it did anything.
    pub(super) fn turn(&mut self, name: &str) -> bool {
        let now = self.now;
        let it = self.coordinators.get_mut(name).unwrap();
        if !it.runs || !it.connected {
            return false;
        }
        if it.seen.is_cut_off(now) {
            it.seen.step_down();
        }
        let decision = decide(&it.seen, now);
        assert_eq!(
            decision,
            decide(&it.seen, now),
            "it decides twice differently"
        );
        assert!(
            decision.next_deadline.is_none_or(|d| d > now),
            "a deadline in the past"
        );
        it.last = decision.clone();
        for partition in &decision.read_offsets {
            let fact = self.offsets[partition].clone();
            it.seen.offsets_mut().see(*partition, fact);
        }
        let seeded = decision.seed.iter().filter(|_| self.streams_answer);
        for partition in seeded.clone() {
            let seeded = OffsetFact::Present {
                epoch: Epoch(0),
                stopped: None,
            };
            self.offsets.insert(*partition, seeded.clone());
            it.seen.offsets_mut().see(*partition, seeded);
        }
        let did = !decision.read_offsets.is_empty() || seeded.count() > 0;
        let Some(document) = decision.document else {
            return did;
        };
        if it.seen.revision() != Revision(self.group_revision) {
            let (revision, group) = (Revision(self.group_revision), self.group.clone());
            it.seen.see_group(revision, group, now);
            return true; // it lost
        }
        self.reasons.extend(decision.reasons);
        self.write(&document, Some(name));
        true
    }

    /// A document is stored, and everybody sees it.
    pub(super) fn write(&mut self, document: &GroupDocument, by: Option<&str>) {
        self.revision += 1;
        self.group_revision = self.revision;
        self.group = Slot::Known(document.clone());
        self.history.push(document.clone());
        let (revision, now) = (Revision(self.revision), self.now);
        for (name, it) in self.coordinators.iter_mut().filter(|(_, c)| c.connected) {
            if Some(name.as_str()) == by {
                it.seen.adopt(document.clone(), revision, now);
            }
            it.seen
                .see_group(revision, Slot::Known(document.clone()), now);
        }
    }

    /// The group's settings change.
    pub(super) fn set(&mut self, change: impl FnOnce(&mut Meta)) {
        change(&mut self.meta);
        self.meta.generation = MetaGeneration(self.meta.generation.0 + 1);
        for it in self.coordinators.values_mut().filter(|c| c.connected) {
            it.seen.see_meta(Slot::Known(self.meta.clone()));
        }
    }

    // --- what is there to see

    pub(super) fn document(&self) -> &GroupDocument {
        self.group.known().expect("there is no group document")
    }

    pub(super) fn owned_by(&self, name: &str) -> Vec<u32> {
        let me = &self.members[name].incarnation;
        self.document().owned_by(me).map(|(p, _)| p.0).collect()
    }

    pub(super) fn targeted_at(&self, name: &str) -> Vec<u32> {
        let me = &self.members[name].incarnation;
        let all = Partition::all(u32::MAX).zip(&self.document().partitions);
        all.filter(|(_, a)| a.target.as_ref() == Some(me))
            .map(|(p, _)| p.0)
            .collect()
    }

    pub(super) fn epoch_of(&self, partition: u32) -> u64 {
        self.document()
            .assignment(Partition(partition))
            .unwrap()
            .epoch
            .0
    }

    pub(super) fn is_unclean(&self, partition: u32) -> bool {
        self.document()
            .assignment(Partition(partition))
            .unwrap()
            .unclean
    }

    pub(super) fn standing(&self, name: &str) -> Option<Standing> {
        let entry = self.document().members.get(&self.members[name].incarnation);
        entry.map(|e| e.standing)
    }

    pub(super) fn stands_by(&self, name: &str, reason: StandbyReason) -> bool {
        self.standing(name) == Some(Standing::Standby(reason))
    }

    pub(super) fn name_of(&self, incarnation: &Incarnation) -> Option<String> {
        let mut members = self.members.iter();
        let found = members.find(|(_, actor)| actor.incarnation == *incarnation);
        found.map(|(name, _)| name.clone())
    }

    pub(super) fn trouble(&self, aspect: Aspect) -> Option<Trouble> {
        let holder = self.holder().expect("nobody coordinates").to_owned();
        trouble(self.decision(&holder), aspect)
    }

    fn incarnation(&mut self, name: &str) -> Incarnation {
        self.lives += 1;
        format!("{name}x{}", self.lives).parse().unwrap()
    }
}

pub(super) fn trouble(decision: &Decision, aspect: Aspect) -> Option<Trouble> {
    let mut conditions = decision.conditions.iter();
    let found: Option<&Condition> = conditions.find(|c| c.aspect == aspect);
    found
        .unwrap_or_else(|| panic!("no condition {aspect}"))
        .trouble
}

// === impl Actor ===

impl Actor {
    pub(super) fn without_application(&mut self) -> &mut Self {
        self.says.app = App::default();
        self
    }

    pub(super) fn in_pod(&mut self, uid: &str) -> &mut Self {
        self.says.pod = Some(Pod {
            uid: uid.to_owned(),
            node: "node-1".to_owned(),
        });
        self
    }
}

pub(super) fn held(partition: u32, epoch: Epoch) -> Held {
    Held {
        partition: Partition(partition),
        epoch,
        state: HoldState::Feeding,
        position: Sequence(1),
        committed: Sequence(1),
        in_flight: 0,
        pending: Some(0),
        head_attempts: 0,
    }
}

fn member_document(bucket: &BucketId, id: &str) -> MemberDocument {
    MemberDocument {
        bucket: bucket.clone(),
        id: MemberId::new(id),
        beat: Beat(0),
        session_timeout: Duration::from_secs(20),
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

fn meta(partitions: u32) -> Meta {
    Meta {
        bucket: BucketId::new("bucket"),
        manager: "standalone".to_owned(),
        generation: MetaGeneration(1),
        group_uid: String::new(),
        state: GroupState::Active,
        source: Source::Stream {
            stream: "ORDERS".to_owned(),
            partitions,
            filter: "orders.{partition}.*".to_owned(),
            transform: None,
        },
        streams: BTreeMap::new(),
        start_from: StartFrom::Earliest,
        delivery: Delivery {
            max_in_flight: 1,
            batch: 100,
            fetch_wait: Duration::from_secs(5),
            batch_wait: Duration::from_millis(5),
            buffer_messages: 5000,
            buffer_bytes: 16 << 20,
            retry: Retry {
                max_attempts: 5,
                initial: Duration::from_millis(200),
                max: Duration::from_secs(30),
                factor: 2.0,
            },
            on_failure: OnFailure::Block,
            commit_interval: Duration::from_millis(100),
            max_uncommitted: 1000,
        },
        membership: Membership {
            assignor: AssignorSetting::Sticky,
            heartbeat_interval: Duration::from_secs(3),
            session_timeout: Duration::from_secs(20),
            rebalance_timeout: Duration::from_secs(60),
            processing_timeout: Duration::from_secs(300),
            initial_rebalance_delay: Duration::from_secs(3),
            rebalance_delay: Duration::from_secs(1),
            balance_interval: Duration::from_secs(10),
            max_members: 64,
        },
        on_truncation: OnTruncation::Stop,
        on_gap: OnGap::Earliest,
        pause: Pause::default(),
        resumed: BTreeMap::new(),
        unknown: Unknown::default(),
    }
}

/// The term of the newest document.
pub(super) fn term(scene: &Scene) -> Term {
    scene.document().term
}
