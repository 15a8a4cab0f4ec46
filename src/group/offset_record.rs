//! `offset.<p>`: the commit record: fence and position in one.

use serde::{Deserialize, Serialize};

use super::json::Unknown;
use super::{Epoch, Incarnation, Sequence, ServerTime};

/// How far all is done, and who may say so. Never deleted; every write is a compare-and-set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OffsetRecord {
    /// The epoch of the newest claim; 0 while only seeded.
    pub epoch: Epoch,
    /// Who claimed it; none while only seeded.
    pub owner: Option<Incarnation>,
    /// The first sequence that is not done.
    pub next_seq: Sequence,
    /// A message at or below the position, by which this history of the stream is recognised.
    pub mark: Option<Mark>,
    /// The stream that the sequences belong to.
    pub stream: String,
    /// When that stream was created.
    pub stream_created: ServerTime,
    /// The attempts that the message at the head has had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<Head>,
    /// Why the partition stands still.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stopped>,
    /// Fields of newer versions.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// A message by sequence and time of storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Its sequence.
    pub seq: Sequence,
    /// Its time of storage.
    pub ts: ServerTime,
}

/// The message at the head of a partition and its attempts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Its sequence.
    pub seq: Sequence,
    /// Attempts that have ended without an acknowledgement.
    pub attempts: u32,
    /// What the application last said of it.
    #[serde(default)]
    pub last_error: String,
}

/// Why a partition stands still until somebody acts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopped {
    /// The message or position that it stands at.
    pub seq: Sequence,
    /// Which rule stopped it.
    pub reason: StopReason,
    /// A sentence for people.
    #[serde(default)]
    pub detail: String,
    /// The meta generation under which it stopped: a resume of a later one lifts it.
    #[serde(default)]
    pub generation: super::MetaGeneration,
}

/// Which rule stopped a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum StopReason {
    /// The message failed `maxAttempts` times and `onFailure` is Block.
    MessageStuck,
    /// The stream was deleted and made anew; `onTruncation` is Stop.
    StreamRecreated,
    /// The stream lost its end or was restored; `onTruncation` is Stop.
    StreamTruncated,
    /// Retention removed messages before they were read; `onGap` is Stop.
    MessagesLost,
}
