//! The `OffsetReset`: one move of a group's offsets, done once and kept as a record.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::conditions::Condition;
use super::rules;
use super::text::{DurationText, ObjectName, TimeText};

/// One move of a group's offsets. It is done once; to move them again make another object.
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(
    clippy::duplicated_attributes,
    reason = "columns are alike in all but their names"
)]
#[kube(
    group = "lockstep.dev",
    version = "v1alpha1",
    kind = "OffsetReset",
    namespaced,
    status = "OffsetResetStatus",
    derive = "PartialEq",
    shortname = "ofr",
    category = "lockstep",
    doc = "One move of a consumer group's offsets, done once and kept as a record.",
    printcolumn(name = "Group", type_ = "string", json_path = ".spec.groupRef.name"),
    printcolumn(name = "To", type_ = "string", json_path = ".spec.to.policy"),
    printcolumn(name = "Dry-Run", type_ = "boolean", json_path = ".spec.dryRun"),
    printcolumn(
        name = "Complete",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Complete")].status"#
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "Failed",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Failed")].reason"#,
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [rules::RESET_IMMUTABLE]))]
pub struct OffsetResetSpec {
    /// The `ConsumerGroup`, in this namespace.
    pub group_ref: GroupRef,
    /// Which partitions are moved; without it, all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 1024),
        inner(range(max = 1023)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub partitions: Option<Vec<u32>>,
    /// Where to.
    pub to: ResetTo,
    /// Only show where each partition would go, and how many messages that is.
    #[serde(default)]
    pub dry_run: bool,
    /// How long the object is kept once the reset is done; without it, for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_after_finished: Option<DurationText>,
}

/// A `ConsumerGroup` by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupRef {
    /// Its name.
    pub name: ObjectName,
}

/// Where offsets are moved to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    rules::RESET_SEQUENCES, rules::RESET_TIME, rules::RESET_DURATION, rules::RESET_SHIFT
]))]
pub struct ResetTo {
    /// Earliest: to the oldest message. Latest: past the newest. Sequence, Time, Duration, Shift: as
    /// the field of that name says.
    pub policy: ResetPolicy,
    /// For policy Sequence: the next sequence of each partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024), extend(
        "x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["partition"]
    ))]
    pub sequences: Option<Vec<PartitionSequence>>,
    /// For policy Time: to the first message that was stored at or after this moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<TimeText>,
    /// For policy Duration: to the first message that was stored at most this long ago.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<DurationText>,
    /// For policy Shift: this many messages of the partition forward, or back if negative.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shift_by: Option<i64>,
}

/// Where offsets are moved to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ResetPolicy {
    /// To the oldest message.
    Earliest,
    /// Past the newest message.
    Latest,
    /// To sequences.
    Sequence,
    /// To a moment.
    Time,
    /// Some time back.
    Duration,
    /// Some messages forward or back.
    Shift,
}

/// The next sequence of one partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PartitionSequence {
    /// The partition.
    #[schemars(range(max = 1023))]
    pub partition: u32,
    /// The sequence that is read next.
    #[schemars(range(min = 1))]
    pub sequence: u64,
}

/// The reset as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OffsetResetStatus {
    /// The `metadata.generation` that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Complete or Failed, once it is over.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend(
        "x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]
    ))]
    pub conditions: Vec<Condition>,
    /// The uid of the group that accepted it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub group_uid: Option<String>,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 40), extend("format" = "date-time"))]
    pub start_time: Option<String>,
    /// When it was over.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 40), extend("format" = "date-time"))]
    pub completion_time: Option<String>,
    /// What became of each partition.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024), extend(
        "x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["partition"]
    ))]
    pub partitions: Vec<PartitionReset>,
}

/// What became of one partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PartitionReset {
    /// The partition.
    #[schemars(range(max = 1023))]
    pub partition: u32,
    /// The sequence that would have been read next.
    pub from: i64,
    /// The sequence that is read next.
    pub to: i64,
    /// How many messages that is: skipped if positive, read again if negative.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<i64>,
    /// Why this partition was not moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub error: Option<String>,
}
