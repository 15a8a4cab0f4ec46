//! `spec.source` and `spec.partitioning`: where a group's messages are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rules;
use super::text::{DurationText, PlainSubject, QuantityText, StreamName, Subject};

/// Where the messages are. Exactly one of `stream`, `streams`, `derived` and `partitions` is given.
/// The form and the names are immutable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [rules::SOURCE_ONE_FORM]))]
pub struct Source {
    /// One stream whose stored subjects contain the partition: made by Lockstep (`create`), or one
    /// whose publishers write the partition themselves (`subjectPattern`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamSource>,
    /// One stream per partition. This is the fastest layout: such a stream is read without a
    /// filter, and the streams spread over the NATS cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<StreamsSource>,
    /// An existing stream that cannot be changed. Lockstep makes a stream that takes its messages
    /// over with the partition in the subject; messages are stored twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub derived: Option<DerivedSource>,
    /// An explicit list, over one stream or many: one entry per partition.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024), extend(
        "x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["partition"]
    ))]
    pub partitions: Option<Vec<PartitionEntry>>,
}

/// One stream with the partition in its stored subjects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    rules::STREAM_CREATE_OR_PATTERN, rules::SUBJECT_PATTERN_TOKEN
]))]
pub struct StreamSource {
    /// The stream's name. Immutable.
    pub name: StreamName,
    /// Lockstep makes the stream, with a transform that puts the partition into the subject: any
    /// publisher in any language publishes to `orders.<key>` and the server stores it as
    /// `orders.<partition>.<key>`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create: Option<CreateStream>,
    /// The stream exists and its publishers write the partition: the subject of a partition's
    /// messages, with `{partition}` as one whole token, such as `orders.{partition}.>`. Immutable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject_pattern: Option<Subject>,
}

/// How Lockstep makes the stream. It has limits retention.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreateStream {
    /// What publishers publish to, such as `orders.*`. Each has a wildcard `*` for the key; several
    /// subjects need their wildcards at the same places. Immutable.
    #[schemars(length(min = 1, max = 16), extend("x-kubernetes-list-type" = "set"))]
    pub subjects: Vec<Subject>,
    /// Where the stream keeps its messages. Immutable.
    #[serde(default)]
    pub storage: Storage,
    /// How long messages are kept; without it, for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_age: Option<DurationText>,
    /// How many bytes are kept, the oldest going first; without it, without limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<QuantityText>,
    /// How many servers keep the stream; by default 3, or 1 on a single server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 5))]
    pub replicas: Option<u32>,
}

/// Where a stream keeps its messages: File or Memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Storage {
    /// On disk.
    #[default]
    File,
    /// In memory: lost when all servers that have it restart.
    Memory,
}

/// One stream per partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [rules::STREAMS_PATTERN]))]
pub struct StreamsSource {
    /// The streams' names, with `{partition}` for the number, such as `orders-{partition}`.
    /// Immutable.
    pub pattern: StreamName,
    /// Lockstep makes the streams. Of the pattern `orders-{partition}` each stores
    /// `orders.<partition>.>`; publishers write the partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create: Option<CreateStreams>,
}

/// How Lockstep makes the streams. They have limits retention.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreateStreams {
    /// Where the streams keep their messages. Immutable.
    #[serde(default)]
    pub storage: Storage,
    /// How long messages are kept; without it, for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_age: Option<DurationText>,
    /// How many bytes each stream keeps, the oldest going first; without it, without limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<QuantityText>,
    /// How many servers keep each stream; by default 3, or 1 on a single server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 5))]
    pub replicas: Option<u32>,
}

/// A stream that takes over the messages of another one, with the partition in the subject.
/// Immutable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DerivedSource {
    /// The stream that cannot be changed. Lockstep makes `<stream>_<group>`.
    pub stream: StreamName,
    /// Which of its subjects are taken over, such as `orders.*`. Each has a wildcard `*` for the
    /// key.
    #[schemars(length(min = 1, max = 16), extend("x-kubernetes-list-type" = "set"))]
    pub subjects: Vec<Subject>,
    /// Where the derived stream keeps its messages.
    #[serde(default)]
    pub storage: Storage,
    /// How long the derived stream keeps messages; without it, for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_age: Option<DurationText>,
    /// How many bytes the derived stream keeps; without it, without limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<QuantityText>,
    /// How many servers keep the derived stream; by default 3, or 1 on a single server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 5))]
    pub replicas: Option<u32>,
}

/// One partition of an explicit list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PartitionEntry {
    /// The partition's number, from 0.
    #[schemars(range(max = 1023))]
    pub partition: u32,
    /// The stream that holds it.
    pub stream: StreamName,
    /// What of the stream belongs to it; without it, the whole stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter_subject: Option<Subject>,
}

/// How many partitions the group has and how a key becomes a partition. Immutable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Partitioning {
    /// The number of partitions: the most members that can work at a time. Immutable, because
    /// another number would move keys.
    #[schemars(range(min = 1, max = 1024))]
    pub partitions: u32,
    /// Which wildcards of the subject are the key, counted from 1; by default the first. Only where
    /// the server computes the partition (`source.stream.create`, `source.derived`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 8),
        inner(range(min = 1, max = 32)),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub key_tokens: Option<Vec<u32>>,
}

/// Where dead letters are stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetter {
    /// The subject that a message is published to after its last attempt, outside of the group's
    /// own source.
    pub subject: PlainSubject,
    /// The stream that stores them; without it, a stream with that subject has to exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<DeadLetterStream>,
}

/// The stream that stores dead letters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetterStream {
    /// The stream's name.
    pub name: StreamName,
    /// Lockstep makes the stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create: Option<CreateStreams>,
}
