//! One partition, for display.

use serde::Serialize;

use super::{Found, Seen};
use crate::group::lag::{Evidence, Lag};
use crate::group::{
    Assignment, Held, HoldState, Incarnation, OffsetRecord, Partition, StopReason, Stopped,
};

/// A partition in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PartitionWord {
    /// Its commit record is missing or cannot be read.
    OffsetLost,
    /// Its commit record has not been written yet.
    Seeding,
    /// The assignment cannot be read.
    Unknown,
    /// It stands still until somebody acts.
    Stopped,
    /// It has no owner.
    Unassigned,
    /// Its owner has to let go.
    Revoking,
    /// It was granted, and its owner has not claimed it yet.
    Claiming,
    /// It is paused.
    Paused,
    /// Its owner's lease has lapsed.
    Suspended,
    /// Its owner was not heard within the session timeout.
    Silent,
    /// Its owner hands messages over.
    Feeding,
}

/// A partition for display.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartitionRow {
    /// Its number.
    pub partition: u32,
    /// Where its messages are.
    pub stream: String,
    /// The owner's id.
    pub owner: Option<String>,
    /// The owner itself.
    pub owner_incarnation: Option<String>,
    /// The epoch of its newest grant.
    pub epoch: Option<u64>,
    /// The first sequence that is not committed.
    pub committed: Option<u64>,
    /// The position after the stream's newest message.
    pub end: Option<u64>,
    /// Messages left to commit; null when that is not known exactly.
    pub lag: Option<u64>,
    /// Where the number comes from: counted, reported, `at_most` (then it is null) or unknown.
    pub lag_source: &'static str,
    /// The same for tables.
    #[serde(skip)]
    pub lag_known: Lag,
    /// Messages in the application's hands; null when nobody says so.
    pub in_flight: Option<u32>,
    /// How it stands.
    pub state: PartitionWord,
    /// Why it is stopped.
    pub stopped: Option<StopReason>,
    /// A sentence about why it is stopped.
    pub detail: String,
    /// Attempts that the message at the head has had.
    pub attempts: u32,
    /// What the application last said of that message.
    pub last_error: String,
}

pub(super) fn row(seen: &Seen, p: Partition) -> PartitionRow {
    let source = seen.meta.source.of(p);
    let stream = source.map(|s| s.stream).unwrap_or_default();
    let assignment = seen.document().and_then(|d| d.assignment(p));
    let owner = assignment.and_then(|a| a.owner.as_ref());
    let record = record(seen, p);
    let lag = evidence(seen, p).lag();
    let stopped = record.and_then(|r| stopped(seen, p, r));
    let head = record.and_then(|r| r.head.as_ref());
    PartitionRow {
        partition: p.0,
        end: seen.streams.get(&stream).map(|s| s.end.0),
        stream,
        owner: owner.map(|o| label(seen, o)),
        owner_incarnation: owner.map(ToString::to_string),
        epoch: assignment.map(|a| a.epoch.0),
        committed: record.map(|r| r.next_seq.0),
        lag: lag.number(),
        lag_source: lag.source(),
        lag_known: lag,
        in_flight: report(seen, p).map(|held| held.in_flight),
        state: word(seen, p),
        stopped: stopped.map(|s| s.reason),
        detail: stopped.map(|s| s.detail.clone()).unwrap_or_default(),
        attempts: head.map_or(0, |h| h.attempts),
        last_error: head.map(|h| h.last_error.clone()).unwrap_or_default(),
    }
}

/// The id of a member as the document has it; its incarnation where it does not.
fn label(seen: &Seen, owner: &Incarnation) -> String {
    let entry = seen.document().and_then(|d| d.members.get(owner));
    entry.map_or_else(|| owner.to_string(), |m| m.id.to_string())
}

fn record(seen: &Seen, p: Partition) -> Option<&OffsetRecord> {
    match seen.offsets.get(&p) {
        Some(Found::Read(record)) => Some(record),
        Some(Found::Absent | Found::Damaged(_)) | None => None,
    }
}

/// What the owner says of the partition at the epoch of its grant, if its word still counts.
fn report(seen: &Seen, p: Partition) -> Option<&Held> {
    let assignment = seen.document()?.assignment(p)?;
    let owner = seen.members.get(assignment.owner.as_ref()?)?;
    let says = |h: &&Held| h.partition == p && h.epoch == assignment.epoch;
    let held = owner.document.held.iter().find(says)?;
    seen.is_fresh(owner).then_some(held)
}

/// Why the partition stands still, unless it was resumed since.
fn stopped<'a>(seen: &Seen, p: Partition, record: &'a OffsetRecord) -> Option<&'a Stopped> {
    let stopped = record.stopped.as_ref()?;
    (!seen.meta.has_lifted(p, stopped)).then_some(stopped)
}

/// What is known of how much is left.
pub(super) fn evidence(seen: &Seen, p: Partition) -> Evidence {
    let record = record(seen, p);
    let stream = record.and_then(|r| seen.streams.get(&r.stream).map(|s| (r, s)));
    // Sequences of another history of the stream say nothing about this one.
    let same = stream.filter(|(record, stream)| record.stream_created == stream.created);
    let report = report(seen, p);
    Evidence {
        reported: report.and_then(|h| Some(h.pending? + u64::from(h.in_flight))),
        next: record.map(|r| r.next_seq),
        ends: same.map(|(_, stream)| (stream.first, stream.end)),
        stored: seen.stored.get(&p).copied(),
    }
}

fn word(seen: &Seen, p: Partition) -> PartitionWord {
    let document = match &seen.document {
        Found::Read(document) => Some(document),
        Found::Absent => None,
        Found::Damaged(_) => return PartitionWord::Unknown,
    };
    let seeded = document.is_some_and(|d| d.seeded);
    let record = match seen.offsets.get(&p) {
        Some(Found::Read(record)) => record,
        Some(Found::Damaged(_)) => return PartitionWord::OffsetLost,
        Some(Found::Absent) | None if seeded => return PartitionWord::OffsetLost,
        Some(Found::Absent) | None => return PartitionWord::Seeding,
    };
    if stopped(seen, p, record).is_some() {
        return PartitionWord::Stopped;
    }
    let assignment = document.and_then(|d| d.assignment(p));
    match assignment.and_then(|a| Some((a, a.owner.as_ref()?))) {
        None => PartitionWord::Unassigned,
        Some(grant) => owned_word(seen, p, record, grant),
    }
}

fn owned_word(
    seen: &Seen,
    p: Partition,
    record: &OffsetRecord,
    (assignment, owner): (&Assignment, &Incarnation),
) -> PartitionWord {
    if assignment.is_being_revoked() {
        return PartitionWord::Revoking;
    }
    if (record.epoch, record.owner.as_ref()) != (assignment.epoch, Some(owner)) {
        return PartitionWord::Claiming;
    }
    let fresh = seen.members.get(owner).is_some_and(|o| seen.is_fresh(o));
    match report(seen, p).map(|held| held.state) {
        None if !fresh => PartitionWord::Silent,
        None if seen.meta.is_paused(p) => PartitionWord::Paused,
        Some(HoldState::Suspended) => PartitionWord::Suspended,
        Some(HoldState::Stopped) => PartitionWord::Stopped,
        Some(HoldState::Revoking) => PartitionWord::Revoking,
        Some(HoldState::Paused) => PartitionWord::Paused,
        Some(HoldState::Claiming | HoldState::Feeding) if seen.meta.is_paused(p) => {
            PartitionWord::Paused
        }
        Some(HoldState::Claiming) => PartitionWord::Claiming,
        // None: its claim is on record, and its next heartbeat will say more.
        None | Some(HoldState::Feeding) => PartitionWord::Feeding,
    }
}

// === impl PartitionWord ===

impl std::fmt::Display for PartitionWord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::OffsetLost => "offset lost",
            Self::Seeding => "seeding",
            Self::Unknown => "unknown",
            Self::Stopped => "stopped",
            Self::Unassigned => "unassigned",
            Self::Revoking => "revoking",
            Self::Claiming => "claiming",
            Self::Paused => "paused",
            Self::Suspended => "suspended",
            Self::Silent => "silent",
            Self::Feeding => "feeding",
        })
    }
}
