//! A group as people see it: made of documents and of what its streams say, and of nothing else.
//!
//! Pure, so that every odd state can be shown in a test. What is not known is said to be unknown.

mod member;
mod partition;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::Serialize;

pub use member::{MemberRow, MemberWord};
pub use partition::{PartitionRow, PartitionWord};

use super::lag::Lag;
use super::{
    CandidateDocument, GroupDocument, GroupRef, GroupState, Incarnation, MemberDocument, Meta,
    OffsetRecord, Partition, Sequence, ServerTime, Standing,
};

/// What was found at a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Found<T> {
    /// A document.
    Read(T),
    /// Nothing.
    Absent,
    /// Something that is no document of ours; the sentence says what.
    Damaged(String),
}

/// A document with the time at which its server stored it.
#[derive(Clone, Debug, PartialEq)]
pub struct Heard<T> {
    /// The document.
    pub document: T,
    /// When it was stored.
    pub at: ServerTime,
}

/// A stream, as far as display needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamSeen {
    /// When it was created.
    pub created: ServerTime,
    /// Its first message.
    pub first: Sequence,
    /// The position after its newest message.
    pub end: Sequence,
}

/// Everything that was read of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// Which group.
    pub group: GroupRef,
    /// What the group is.
    pub meta: Meta,
    /// The assignment.
    pub document: Found<GroupDocument>,
    /// The members' heartbeats.
    pub members: BTreeMap<Incarnation, Heard<MemberDocument>>,
    /// The coordinator candidates' heartbeats.
    pub candidates: BTreeMap<Incarnation, Heard<CandidateDocument>>,
    /// The commit records.
    pub offsets: BTreeMap<Partition, Found<OffsetRecord>>,
    /// The streams; one that is missing here could not be read.
    pub streams: BTreeMap<String, StreamSeen>,
    /// How many messages of a partition its stream holds, where that was counted.
    pub stored: BTreeMap<Partition, u64>,
    /// What else was odd, in sentences.
    pub problems: Vec<String>,
    /// The wall clock, by which a heartbeat's age is told. For display only.
    pub now: ServerTime,
}

/// A group in a word: the reason words of its conditions, or `Stable`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum GroupWord {
    /// The group was deleted: its members stand by.
    Deleted,
    /// The assignment document cannot be read.
    Damaged,
    /// Nobody has coordinated it yet.
    NoCoordinator,
    /// Its commit records are being seeded.
    Provisioning,
    /// A commit record is missing or cannot be read.
    OffsetLost,
    /// Nobody may own partitions.
    NoMembers,
    /// Partitions are changing hands.
    Rebalancing,
    /// A partition has no owner.
    PartitionsUnassigned,
    /// A partition stands still until somebody acts.
    PartitionsStopped,
    /// The whole group is paused.
    Paused,
    /// Every partition has the owner that it should have.
    Stable,
}

/// A group for display. Its JSON is what `lockstep group describe -o json` prints.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct View {
    /// `namespace/name`.
    pub group: String,
    /// How it stands.
    pub state: GroupWord,
    /// The group epoch; none without an assignment document.
    pub epoch: Option<u64>,
    /// The term of the coordinator.
    pub term: Option<u64>,
    /// Who coordinates: its id, or its incarnation where it has said no id.
    pub coordinator: Option<String>,
    /// How long ago the coordinator was heard, in milliseconds of the wall clock.
    pub coordinator_heard_ms: Option<u64>,
    /// Who may coordinate: `standalone`, or a Kubernetes cluster.
    pub manager: String,
    /// How many members the assignment document lists.
    pub members: usize,
    /// How many of them stand by, owning nothing.
    pub standby: usize,
    /// How many partitions have an owner.
    pub assigned: usize,
    /// Messages left to commit; null when that is not known exactly.
    pub total_lag: Option<u64>,
    /// Where the number comes from: counted, reported, `at_most` (then it is null) or unknown.
    pub total_lag_source: &'static str,
    /// The same for tables.
    #[serde(skip)]
    pub lag: Lag,
    /// What brought the newest assignment about.
    pub reason: String,
    /// What is odd, in sentences.
    pub problems: Vec<String>,
    /// One row per partition.
    pub partitions: Vec<PartitionRow>,
    /// One row per member; printed by `lockstep group members`.
    #[serde(skip)]
    pub member_rows: Vec<MemberRow>,
}

/// The group for display.
pub fn view(seen: &Seen) -> View {
    let partitions: Vec<PartitionRow> = Partition::all(seen.meta.partitions())
        .map(|p| partition::row(seen, p))
        .collect();
    let document = seen.document();
    let standing = |wanted: fn(Standing) -> bool| {
        let members = document.into_iter().flat_map(|d| d.members.values());
        members.filter(|m| wanted(m.standing)).count()
    };
    let lag = partitions
        .iter()
        .fold(Lag::Counted(0), |sum, row| sum.and(row.lag_known));
    let holder = document.and_then(|d| d.holder.as_ref());
    let heard = holder.and_then(|h| seen.candidates.get(h));
    // One that has stopped on purpose coordinates no more.
    let holder = holder.filter(|_| !heard.is_some_and(|c| c.document.left));
    let id_or_incarnation =
        |h: &Incarnation| heard.map_or_else(|| h.to_string(), |c| c.document.id.clone());
    View {
        group: seen.group.to_string(),
        state: word(seen, &partitions),
        epoch: document.map(|d| d.epoch.0),
        term: document.map(|d| d.term.0),
        coordinator: holder.map(id_or_incarnation),
        coordinator_heard_ms: holder.and(heard).map(|c| seen.age_ms(c.at)),
        manager: seen.meta.manager.clone(),
        members: standing(|_| true),
        standby: standing(|s| matches!(s, Standing::Standby(_))),
        assigned: partitions.iter().filter(|p| p.owner.is_some()).count(),
        total_lag: lag.number(),
        total_lag_source: lag.source(),
        lag,
        reason: document.map(|d| d.reason.clone()).unwrap_or_default(),
        problems: problems(seen),
        partitions,
        member_rows: member::rows(seen),
    }
}

fn word(seen: &Seen, partitions: &[PartitionRow]) -> GroupWord {
    let any = |words: &[PartitionWord]| partitions.iter().any(|p| words.contains(&p.state));
    let active = |d: &GroupDocument| d.members.values().any(|m| m.standing == Standing::Active);
    let document = match &seen.document {
        _ if seen.meta.state == GroupState::Deleted => return GroupWord::Deleted,
        Found::Damaged(_) => return GroupWord::Damaged,
        Found::Absent => return GroupWord::NoCoordinator,
        Found::Read(document) => document,
    };
    if !document.seeded {
        GroupWord::Provisioning
    } else if any(&[PartitionWord::OffsetLost]) {
        GroupWord::OffsetLost
    } else if !active(document) && !any(&[PartitionWord::Revoking]) {
        GroupWord::NoMembers
    } else if any(&[PartitionWord::Revoking, PartitionWord::Claiming]) {
        GroupWord::Rebalancing
    } else if partitions.iter().any(|p| p.owner.is_none()) {
        GroupWord::PartitionsUnassigned
    } else if any(&[PartitionWord::Stopped]) {
        GroupWord::PartitionsStopped
    } else if seen.meta.pause.all {
        GroupWord::Paused
    } else {
        GroupWord::Stable
    }
}

fn problems(seen: &Seen) -> Vec<String> {
    let mut problems = seen.problems.clone();
    if let Found::Damaged(why) = &seen.document {
        problems.push(format!(
            "the assignment document (key group) is damaged: {why}"
        ));
    }
    let seeded = seen.document().is_some_and(|d| d.seeded);
    for p in Partition::all(seen.meta.partitions()) {
        match seen.offsets.get(&p) {
            Some(Found::Damaged(why)) => {
                problems.push(format!(
                    "the commit record of partition {p} is damaged: {why}"
                ));
            }
            Some(Found::Absent) | None if seeded => {
                problems.push(format!("the commit record of partition {p} is lost"));
            }
            Some(Found::Read(_) | Found::Absent) | None => {}
        }
    }
    problems
}

// === impl Seen ===

impl Seen {
    fn document(&self) -> Option<&GroupDocument> {
        match &self.document {
            Found::Read(document) => Some(document),
            Found::Absent | Found::Damaged(_) => None,
        }
    }

    /// How long ago this was, by the wall clock; nothing is ever in the future.
    fn age_ms(&self, at: ServerTime) -> u64 {
        u64::try_from(self.now.0.saturating_sub(at.0)).unwrap_or(0) / 1_000_000
    }

    /// Whether a member's word still counts: it was heard within its session timeout.
    fn is_fresh(&self, heard: &Heard<MemberDocument>) -> bool {
        let timeout = self.meta.membership.session_timeout;
        let timeout = timeout.max(heard.document.session_timeout).as_millis();
        u128::from(self.age_ms(heard.at)) <= timeout
    }

    /// The partitions of which a count of stored messages would make the lag better known.
    pub fn uncounted(&self) -> Vec<Partition> {
        Partition::all(self.meta.partitions())
            .filter(|p| partition::evidence(self, *p).wants_count())
            .collect()
    }
}
