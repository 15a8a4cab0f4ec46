//! What the coordinator has seen: the bucket's documents, and when, on its own clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::candidates::Candidates;
use super::healthy_time::HealthyTime;
use super::members::Members;
use super::memory::Memory;
use super::offsets::Offsets;
use crate::group::assignor::Assignor;
use crate::group::lag::Reported;
use crate::group::{
    Assignment, CandidateDocument, GroupDocument, GroupEpoch, Held, Incarnation, MemberDocument,
    Meta, Partition, Revision, Term, Timestamp,
};

/// Who looks, and how patiently.
#[derive(Clone, Debug)]
pub struct Identity {
    /// This candidate's incarnation.
    pub incarnation: Incarnation,
    /// Its label.
    pub id: String,
    /// The live candidate with the highest (priority, id) tries first.
    pub priority: i32,
    /// Whose groups it may coordinate: `standalone` or `kubernetes/<cluster uid>`.
    pub manager: String,
    /// Silence of a holder after which another candidate takes over.
    pub session_timeout: Duration,
    /// Time between this candidate's beats.
    pub heartbeat_interval: Duration,
    /// The wall clock in seconds as this process began: where epochs made from nothing start.
    pub unix_seconds: u64,
    /// An election outside the bucket (a Lease) says that this candidate tries: it need not wait for
    /// the holder's silence. Spent with the first take-over. // P36a
    pub elected: bool,
}

/// A document's place in the bucket.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Slot<T> {
    /// Nothing was ever there.
    #[default]
    Absent,
    /// This is there.
    Known(T),
    /// Something is there that cannot be understood; why, as a sentence.
    Damaged(String),
}

/// Everything a decision rests on.
#[derive(Clone, Debug)]
pub struct Observed {
    pub(super) me: Identity,
    pub(super) healthy: HealthyTime,
    pub(super) watch: Watch,
    pub(super) meta: Slot<Meta>,
    pub(super) group: Slot<GroupDocument>,
    pub(super) revision: Revision,
    pub(super) office: Office,
    pub(super) members: Members,
    pub(super) candidates: Candidates,
    pub(super) offsets: Offsets,
    pub(super) memory: Memory,
    pub(super) gone_pods: BTreeSet<String>,
    pub(super) declared_replicas: Option<u32>,
    pub(super) asked_to_leave: BTreeSet<String>,
    pub(super) known_epoch: GroupEpoch,
    pub(super) zones: BTreeMap<Partition, String>,
    pub(super) assignor: Option<Arc<dyn Assignor>>,
}

/// How far the watch has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watch {
    /// What was there already is being delivered.
    Loading,
    /// What comes now happens now.
    Current,
}

/// Whether this candidate coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Office {
    /// Somebody else does, or nobody.
    None,
    /// It took over with this write, which its watch has not delivered yet: it plans nothing. // P38
    Entering(Term, Revision),
    /// It does.
    Held(Term),
}

// === impl Identity ===

impl Identity {
    /// As heartbeats say it.
    pub fn rank(&self) -> (i32, &str, &Incarnation) {
        (self.priority, &self.id, &self.incarnation)
    }
}

// === impl Slot ===

impl<T> Slot<T> {
    /// What is there, if it can be understood.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Absent | Self::Damaged(_) => None,
        }
    }
}

// === impl Observed ===

impl Observed {
    /// Nothing seen yet.
    pub fn new(me: Identity) -> Self {
        Self {
            healthy: HealthyTime::new(me.heartbeat_interval),
            me,
            watch: Watch::Loading,
            meta: Slot::Absent,
            group: Slot::Absent,
            revision: Revision(0),
            office: Office::None,
            members: Members::default(),
            candidates: Candidates::default(),
            offsets: Offsets::default(),
            memory: Memory::default(),
            gone_pods: BTreeSet::new(),
            declared_replicas: None,
            asked_to_leave: BTreeSet::new(),
            known_epoch: GroupEpoch(0),
            zones: BTreeMap::new(),
            assignor: None,
        }
    }

    /// The watch is made anew: what it delivers first was there before. // P29
    pub fn reloading(&mut self) {
        self.watch = Watch::Loading;
    }

    /// Everything that was there has been delivered.
    pub fn loaded(&mut self, now: Timestamp) {
        self.watch = Watch::Current;
        let at = self.healthy.at(now);
        let owned = self.group.known().is_some_and(GroupDocument::has_owners);
        self.memory.loaded(at, owned);
    }

    /// `meta` as it stands.
    pub fn see_meta(&mut self, meta: Slot<Meta>) {
        self.meta = meta;
    }

    /// `group` as the watch delivered it, or as it was read.
    pub fn see_group(&mut self, revision: Revision, group: Slot<GroupDocument>, now: Timestamp) {
        if revision < self.revision {
            return; // an old read can only show the past // P26
        }
        let known = revision == self.revision && self.group == group;
        if !known {
            self.put_group(revision, group, now);
        }
        self.office = self.office_after(revision);
    }

    /// This candidate's own write was stored.
    pub fn adopt(&mut self, document: GroupDocument, revision: Revision, now: Timestamp) {
        let term = document.term;
        self.put_group(revision, Slot::Known(document), now);
        match self.office {
            Office::Held(held) if held == term => {}
            Office::None | Office::Entering(..) | Office::Held(_) => {
                self.office = Office::Entering(term, revision);
                self.me.elected = false;
                self.offsets.forget();
                self.memory.took_over(self.healthy.at(now));
            }
        }
    }

    /// A member's heartbeat.
    pub fn see_member(&mut self, member: &Incarnation, says: MemberDocument, now: Timestamp) {
        let at = self.healthy.at(now);
        let news = self.members.see(member, says, (self.watch, at));
        for partition in news {
            self.offsets.suspect(partition);
        }
        if let Some(sight) = self.members.get(member) {
            self.offsets.hear(&sight.says.held);
        }
    }

    /// A candidate's heartbeat. The own one is the echo. // P30
    pub fn see_candidate(
        &mut self,
        candidate: &Incarnation,
        says: CandidateDocument,
        now: Timestamp,
    ) {
        let own = *candidate == self.me.incarnation;
        let rose = self
            .candidates
            .see(candidate, says, (self.watch, self.healthy.at(now)));
        if own && rose {
            self.healthy.echo(now);
        }
    }

    /// Commit records as they were read.
    pub fn offsets_mut(&mut self) -> &mut Offsets {
        &mut self.offsets
    }

    /// These pods were seen to run and then seen to end gracefully. // P48
    pub fn see_pods_gone(&mut self, uids: &BTreeSet<String>) {
        self.gone_pods.clone_from(uids);
    }

    /// How many members are meant to be there: ends the initial delay early.
    pub fn declare_replicas(&mut self, replicas: Option<u32>) {
        self.declared_replicas = replicas;
    }

    /// Members, by their ids, that are to give their partitions up as if they were draining, as long
    /// as somebody else can have them; they go on beating. // P57a
    pub fn ask_to_leave(&mut self, members: &BTreeSet<String>) {
        self.asked_to_leave.clone_from(members);
    }

    /// What a member said last.
    pub fn heartbeat(&self, member: &Incarnation) -> Option<&MemberDocument> {
        self.members.get(member).map(|sight| &sight.says)
    }

    /// An edition of the document that is known from outside the bucket: a document below it was
    /// rolled back. // P71a
    pub fn know_epoch(&mut self, epoch: GroupEpoch) {
        self.known_epoch = self.known_epoch.max(epoch);
    }

    /// Where the leader of each partition's stream runs.
    pub fn see_zones(&mut self, zones: BTreeMap<Partition, String>) {
        self.zones = zones;
    }

    /// An assignor that replaces the one of the settings.
    pub fn use_assignor(&mut self, assignor: Arc<dyn Assignor>) {
        self.assignor = Some(assignor);
    }

    /// Who looks.
    pub fn identity(&self) -> &Identity {
        &self.me
    }

    /// The group document as it stands.
    pub fn document(&self) -> &Slot<GroupDocument> {
        &self.group
    }

    /// The revision of `group` that the next write is based on.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The group's settings as they stand.
    pub fn meta(&self) -> &Slot<Meta> {
        &self.meta
    }

    /// Whether this candidate coordinates.
    pub fn is_coordinating(&self) -> bool {
        matches!(self.office, Office::Held(_))
    }

    /// For how long no own beat has come back.
    pub fn silence(&self, now: Timestamp) -> std::time::Duration {
        self.healthy.silence(now)
    }

    /// Forgets who is long gone, so that a coordinator that runs for months does not grow.
    pub fn forget_the_long_gone(&mut self, now: Timestamp) {
        let at = self.healthy.at(now);
        let document = self.group.known();
        let listed =
            |member: &Incarnation| document.is_some_and(|d| d.members.contains_key(member));
        self.members.forget(at, listed);
        self.candidates.forget(at);
        self.memory.forget(&self.members);
    }

    /// Whether this document was written by this candidate under the term that it holds or enters.
    pub fn is_mine(&self, document: &GroupDocument) -> bool {
        document.holder.as_ref() == Some(&self.me.incarnation)
    }

    /// Partitions that stand still by their commit records.
    pub fn stopped_partitions(&self) -> BTreeSet<Partition> {
        self.offsets.stopped().collect()
    }

    /// What each partition's owner says of it.
    pub fn reported(&self) -> Vec<Reported> {
        let Some(document) = self.group.known() else {
            return Vec::new();
        };
        let all = Partition::all(u32::MAX).zip(&document.partitions);
        let of = |(partition, a): (Partition, &Assignment)| {
            let sight = a.owner.as_ref().and_then(|owner| self.members.get(owner));
            let mut held = sight.iter().flat_map(|sight| &sight.says.held);
            let held = held.find(|h| h.partition == partition && h.epoch == a.epoch);
            let left = |held: &Held| Some(held.pending? + u64::from(held.in_flight));
            Reported {
                owned: a.owner.is_some(),
                epoch: a.epoch,
                committed: held.map(|held| held.committed),
                lag: held.and_then(left),
            }
        };
        all.map(of).collect()
    }

    /// This candidate stops planning, and takes over anew when it can. // P40
    pub fn step_down(&mut self) {
        self.office = Office::None;
    }

    fn put_group(&mut self, revision: Revision, group: Slot<GroupDocument>, now: Timestamp) {
        if let Slot::Known(new) = &group {
            let old = self.group.known();
            self.memory
                .learn((old, new), &self.members, self.healthy.at(now));
        }
        self.group = group;
        self.revision = revision;
    }

    /// A higher term, or the own term under another holder, ends it for good. // P39
    fn office_after(&self, delivered: Revision) -> Office {
        let on_record = self.group.known().map(|d| (d.term, d.holder.as_ref()));
        let mine = |term| on_record == Some((term, Some(&self.me.incarnation)));
        match self.office {
            Office::Entering(term, barrier) if mine(term) && delivered >= barrier => {
                Office::Held(term)
            }
            Office::Held(term) | Office::Entering(term, _) if mine(term) => self.office,
            Office::None | Office::Entering(..) | Office::Held(_) => Office::None,
        }
    }
}
