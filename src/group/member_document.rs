//! `member.<incarnation>`: what a member says of itself, in full, with every heartbeat.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::json::Unknown;
use super::meta::millis;
use super::{Beat, BucketId, Epoch, GroupEpoch, MemberId, Partition, Sequence};

/// A heartbeat: the member's full state. Written by that process alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemberDocument {
    /// The bucket that the member believes it writes to.
    pub bucket: BucketId,
    /// Its label.
    pub id: MemberId,
    /// Rises with every heartbeat.
    pub beat: Beat,
    /// The session timeout that it counts on; the larger of this and meta's holds.
    #[serde(with = "millis", rename = "session_timeout_ms")]
    pub session_timeout: Duration,
    /// The highest document formats that it reads.
    pub formats: Formats,
    /// Where it is in its life.
    pub state: MemberState,
    /// The pod, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Pod>,
    /// Its zone, if it knows one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The program's version, for people.
    pub version: String,
    /// Its application.
    pub app: App,
    /// The newest group document that it has seen.
    pub seen_epoch: GroupEpoch,
    /// Every partition that it holds.
    #[serde(default)]
    pub held: Vec<Held>,
    /// Releases, each repeated until the document's epoch for that partition is higher.
    #[serde(default)]
    pub released: Vec<Released>,
    /// Fields of newer versions.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// The highest format number that a process reads, per kind of document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Formats {
    /// Of `meta`.
    pub meta: u32,
    /// Of `group`.
    pub group: u32,
    /// Of `member.<incarnation>`.
    pub member: u32,
    /// Of `offset.<p>`.
    pub offset: u32,
}

/// Where a member is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemberState {
    /// Started, not yet taken into the document.
    Joining,
    /// Takes part.
    Active,
    /// Leaving: gives back what it has.
    Draining,
    /// Gone: everything it had is free.
    Left,
}

/// The pod that a member runs in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pod {
    /// The pod's uid.
    pub uid: String,
    /// Its node's name.
    #[serde(default)]
    pub node: String,
}

/// The application behind a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct App {
    /// Whether it is connected now.
    pub connected: bool,
    /// Whether it was ever connected to this incarnation.
    #[serde(default)]
    pub seen: bool,
    /// For how long, in milliseconds, it has been in the present state.
    #[serde(default)]
    pub since_ms: u64,
}

/// One partition in a member's hands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The partition.
    #[serde(rename = "p")]
    pub partition: Partition,
    /// The epoch at which it is held.
    pub epoch: Epoch,
    /// What is being done with it.
    pub state: HoldState,
    /// Next sequence to read.
    pub position: Sequence,
    /// Next sequence by the commit record.
    pub committed: Sequence,
    /// Messages in the application's hands.
    pub in_flight: u32,
    /// Messages not yet handed over, the member's buffer included; none while unknown.
    pub pending: Option<u64>,
    /// Attempts of the head message so far.
    #[serde(default)]
    pub head_attempts: u32,
}

/// What a member does with a partition that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldState {
    /// Writing its claim.
    Claiming,
    /// Handing messages over.
    Feeding,
    /// Paused by hand.
    Paused,
    /// Letting go.
    Revoking,
    /// Stopped by its commit record (poison message, truncation, gap).
    Stopped,
    /// The lease has lapsed.
    Suspended,
}

/// A release: final, and matched exactly by (incarnation, partition, epoch).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Released {
    /// The partition.
    #[serde(rename = "p")]
    pub partition: Partition,
    /// The epoch that is given back.
    pub epoch: Epoch,
    /// Whether all that the application was given is acknowledged and committed.
    pub clean: bool,
}

// === impl Formats ===

impl Formats {
    /// What this version reads.
    pub const CURRENT: Self = Self {
        meta: 1,
        group: 1,
        member: 1,
        offset: 1,
    };
}
