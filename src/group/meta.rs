//! `meta`: what the group is. Written by its manager alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::json::Unknown;
use super::{BucketId, MetaGeneration, Partition, Sequence, ServerTime, Stopped};

/// The group's description, complete: members and coordinators need nothing else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// The bucket's identity; another one means that the bucket was replaced.
    pub bucket: BucketId,
    /// Who may coordinate: `standalone` or `kubernetes/<cluster uid>`.
    pub manager: String,
    /// Rises with each change of this document's content.
    pub generation: MetaGeneration,
    /// The group object's uid, for display; empty without Kubernetes.
    #[serde(default)]
    pub group_uid: String,
    /// Whether the group's object still exists.
    pub state: GroupState,
    /// Where each partition's messages are.
    pub source: Source,
    /// Streams as they were when the group was made: a re-created stream has another time.
    pub streams: BTreeMap<String, StreamIdentity>,
    /// Where a group without history begins.
    pub start_from: StartFrom,
    /// How messages are handed to the application.
    pub delivery: Delivery,
    /// Timers and limits of membership.
    pub membership: Membership,
    /// What to do when a stream lost its end or was made anew.
    pub on_truncation: OnTruncation,
    /// What to do when retention overtook the group.
    pub on_gap: OnGap,
    /// What is paused.
    #[serde(default)]
    pub pause: Pause,
    /// Partitions lifted from `stopped` by hand, each with the meta generation that lifted it.
    #[serde(default)]
    pub resumed: BTreeMap<Partition, MetaGeneration>,
    /// Fields of newer versions.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Whether the group's object exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GroupState {
    /// The group is declared.
    Active,
    /// The group was deleted: members drain and stand by.
    Deleted,
}

/// Where each partition's messages are, in its compact form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// One stream; partition p is what matches `filter` with `{partition}` replaced by p.
    Stream {
        /// The stream.
        stream: String,
        /// The number of partitions.
        partitions: u32,
        /// A subject with the token `{partition}`, as *stored* in the stream.
        filter: String,
        /// How publishers' subjects become partitions, where the server computes it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        transform: Option<Transform>,
    },
    /// One stream per partition, read without filter.
    Streams {
        /// The streams' names, with `{partition}`.
        pattern: String,
        /// The number of partitions.
        partitions: u32,
        /// The subjects of each, with `{partition}`; empty where Lockstep did not make them.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        subjects: String,
    },
    /// An explicit list, indexed by partition.
    List(Vec<PartitionSource>),
}

/// The server-side subject transform of a stream that Lockstep made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transform {
    /// What publishers publish to, e.g. `orders.*`.
    pub subjects: Vec<String>,
    /// Which wildcard tokens of the subject are the key, counted from 1.
    pub key_tokens: Vec<u32>,
    /// The stream that publishers publish to, where the group reads one that is derived from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
}

/// One partition's messages.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PartitionSource {
    /// The stream.
    pub stream: String,
    /// What to read of it; none: the whole stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
}

/// A stream's incarnation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamIdentity {
    /// When its server says it was created.
    pub created: ServerTime,
    /// Of the origin of a derived stream: the first message that is taken over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_from: Option<Sequence>,
}

/// Where a group begins that has no history: resolved once, when the group is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "policy")]
pub enum StartFrom {
    /// With the oldest message still there.
    Earliest,
    /// With the first message after the group was made.
    Latest,
    /// With this sequence of the stream.
    Sequence {
        /// The first sequence to read.
        sequence: Sequence,
    },
    /// With the first message stored at or after this time.
    Time {
        /// Nanoseconds since the Unix epoch.
        time: ServerTime,
    },
    /// With the first message stored at most this long before the group was made.
    Duration {
        /// How far back, in milliseconds.
        #[serde(with = "millis", rename = "duration_ms")]
        duration: Duration,
    },
}

/// How messages are handed to the application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Delivery {
    /// Messages in the application's hands per partition, 1 to 10,000.
    pub max_in_flight: u32,
    /// Messages per fetch unless the call says otherwise.
    pub batch: u32,
    /// How long a fetch waits for its first message unless the call says otherwise.
    #[serde(with = "millis", rename = "fetch_wait_ms")]
    pub fetch_wait: Duration,
    /// How long a fetch waits for more after its first message.
    #[serde(with = "millis", rename = "batch_wait_ms")]
    pub batch_wait: Duration,
    /// Most messages that one member buffers over all its partitions.
    pub buffer_messages: u32,
    /// Most bytes that one member buffers over all its partitions.
    pub buffer_bytes: u64,
    /// Retries of a message.
    pub retry: Retry,
    /// What happens after the last attempt.
    pub on_failure: OnFailure,
    /// How often the acknowledged prefix is committed.
    #[serde(with = "millis", rename = "commit_interval_ms")]
    pub commit_interval: Duration,
    /// Acknowledged messages of a partition that may wait for their commit before it stops feeding.
    pub max_uncommitted: u32,
}

/// Retries of a message, in place: nothing of its partition overtakes it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Retry {
    /// Attempts before [`OnFailure`] applies; at least 1.
    pub max_attempts: u32,
    /// Wait before the second attempt.
    #[serde(with = "millis", rename = "initial_ms")]
    pub initial: Duration,
    /// Longest wait.
    #[serde(with = "millis", rename = "max_ms")]
    pub max: Duration,
    /// Each wait is this many times the one before.
    pub factor: f64,
}

/// What happens to a message after its last attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnFailure {
    /// The partition stops, with its reason in the commit record, until it is resumed.
    Block,
    /// The message is passed over; this is committed and counted.
    Skip,
}

/// Timers and limits of membership.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Membership {
    /// Who gets what.
    pub assignor: AssignorSetting,
    /// Longest time between a member's heartbeats; at most a quarter of the session timeout.
    #[serde(with = "millis", rename = "heartbeat_interval_ms")]
    pub heartbeat_interval: Duration,
    /// Silence after which the coordinator removes a member.
    #[serde(with = "millis", rename = "session_timeout_ms")]
    pub session_timeout: Duration,
    /// Time that an owner has to let a partition go.
    #[serde(with = "millis", rename = "rebalance_timeout_ms")]
    pub rebalance_timeout: Duration,
    /// Time that the application has for a message.
    #[serde(with = "millis", rename = "processing_timeout_ms")]
    pub processing_timeout: Duration,
    /// Wait for more members when nobody was there.
    #[serde(with = "millis", rename = "initial_rebalance_delay_ms")]
    pub initial_rebalance_delay: Duration,
    /// Wait for more members when others are there.
    #[serde(with = "millis", rename = "rebalance_delay_ms")]
    pub rebalance_delay: Duration,
    /// Least time between moves made for balance alone.
    #[serde(with = "millis", rename = "balance_interval_ms")]
    pub balance_interval: Duration,
    /// Members beyond this many stand by.
    pub max_members: u32,
}

/// Which assignor, with its settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum AssignorSetting {
    /// Balanced to one, with the least movement.
    Sticky,
    /// Contiguous blocks by member id.
    Range,
    /// Dealt out in turn.
    RoundRobin,
    /// Consistent hashing with bounded load.
    Rendezvous,
    /// Sticky, preferring the zone of the partition's stream leader.
    ZoneAware,
    /// A map from member id to partitions; absent members' partitions fall to Sticky.
    Manual {
        /// Member id to its partitions.
        map: BTreeMap<String, BTreeSet<Partition>>,
    },
}

/// What to do when a stream lost its end, was restored or was made anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnTruncation {
    /// The partition stops with a condition.
    Stop,
    /// It goes on with the oldest message.
    Earliest,
    /// It goes on with the next new message.
    Latest,
}

/// What to do when retention removed messages before they were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnGap {
    /// It goes on with the oldest message, and says how many were lost.
    Earliest,
    /// The partition stops with a condition.
    Stop,
}

/// What is paused: feeding stops, ownership, heartbeats and commits go on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// The whole group.
    #[serde(default)]
    pub all: bool,
    /// Single partitions.
    #[serde(default)]
    pub partitions: BTreeSet<Partition>,
}

// === impl Meta ===

impl Meta {
    /// How many partitions the group has.
    pub fn partitions(&self) -> u32 {
        self.source.partitions()
    }

    /// Whether this partition's feeding is paused.
    pub fn is_paused(&self, partition: Partition) -> bool {
        self.pause.all || self.pause.partitions.contains(&partition)
    }

    /// Whether this stop of the partition was lifted since. P128
    pub fn has_lifted(&self, partition: Partition, stopped: &Stopped) -> bool {
        let lifted = self.resumed.get(&partition);
        lifted.is_some_and(|generation| *generation > stopped.generation)
    }

    /// The next generation, in which these partitions no longer stand still. P128
    #[must_use = "nothing is lifted before it is written"]
    pub fn lifting(&self, partitions: &BTreeSet<Partition>) -> Self {
        let mut next = self.clone();
        next.generation = MetaGeneration(self.generation.0 + 1);
        let lifted = partitions.iter().map(|p| (*p, next.generation));
        next.resumed.extend(lifted);
        next
    }
}

// === impl Source ===

impl Source {
    /// How many partitions there are.
    pub fn partitions(&self) -> u32 {
        match self {
            Self::Stream { partitions, .. } | Self::Streams { partitions, .. } => *partitions,
            Self::List(list) => u32::try_from(list.len()).unwrap_or(u32::MAX),
        }
    }

    /// Where this partition's messages are; none if there is no such partition.
    pub fn of(&self, partition: Partition) -> Option<PartitionSource> {
        let number = partition.to_string();
        match self {
            Self::Stream {
                stream,
                partitions,
                filter,
                ..
            } => (partition.0 < *partitions).then(|| PartitionSource {
                stream: stream.clone(),
                filter: Some(filter.replace("{partition}", &number)),
            }),
            Self::Streams {
                pattern,
                partitions,
                ..
            } => (partition.0 < *partitions).then(|| PartitionSource {
                stream: pattern.replace("{partition}", &number),
                filter: None,
            }),
            Self::List(list) => list.get(partition.index()).cloned(),
        }
    }

    /// The stream that the group's own stream is derived from, if it is.
    pub fn origin(&self) -> Option<&str> {
        match self {
            Self::Stream { transform, .. } => transform.as_ref()?.origin.as_deref(),
            Self::Streams { .. } | Self::List(_) => None,
        }
    }

    /// Every stream that the group reads.
    pub fn streams(&self) -> BTreeSet<String> {
        Partition::all(self.partitions())
            .filter_map(|p| self.of(p))
            .map(|s| s.stream)
            .collect()
    }
}

/// Durations as whole milliseconds, the unit of every document.
pub mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes whole milliseconds.
    pub fn serialize<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(u64::try_from(value.as_millis()).unwrap_or(u64::MAX))
    }

    /// Reads whole milliseconds.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_millis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(source: &Source, partition: u32) -> Option<(String, Option<String>)> {
        let of = source.of(Partition(partition))?;
        Some((of.stream, of.filter))
    }

    #[test]
    fn a_partition_is_a_stream_and_a_filter_where_the_stream_holds_more() {
        // P5
        let one = Source::Stream {
            stream: "ORDERS".to_owned(),
            partitions: 12,
            filter: "orders.{partition}.*".to_owned(),
            transform: None,
        };
        let filter = Some("orders.11.*".to_owned());
        assert_eq!(read(&one, 11), Some(("ORDERS".to_owned(), filter)));
        assert_eq!(read(&one, 12), None);
        let many = Source::Streams {
            pattern: "orders-{partition}".to_owned(),
            partitions: 12,
            subjects: "orders.{partition}.>".to_owned(),
        };
        assert_eq!(read(&many, 11), Some(("orders-11".to_owned(), None)));
        assert_eq!(read(&many, 12), None);
        let entry = |filter: Option<&str>| PartitionSource {
            stream: "S".to_owned(),
            filter: filter.map(str::to_owned),
        };
        let list = Source::List(vec![entry(Some("a.>")), entry(None)]);
        assert_eq!(
            read(&list, 0),
            Some(("S".to_owned(), Some("a.>".to_owned())))
        );
        assert_eq!(read(&list, 1), Some(("S".to_owned(), None)));
        assert_eq!(read(&list, 2), None);
        assert_eq!(
            (one.partitions(), many.partitions(), list.partitions()),
            (12, 12, 2)
        );
    }
}
