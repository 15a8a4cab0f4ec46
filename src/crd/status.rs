//! What the controller reports of a `ConsumerGroup`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::conditions::Condition;

/// The group as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerGroupStatus {
    /// The `metadata.generation` that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What holds and what does not, each with a reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend(
        "x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]
    ))]
    pub conditions: Vec<Condition>,
    /// How many pods the target has.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i32>,
    /// The selector of the target's pods, for autoscalers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub selector: Option<String>,
    /// Who is in the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub members: Option<MembersStatus>,
    /// How many partitions there are and in which state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partitions: Option<PartitionsStatus>,
    /// The edition of the assignment; it rises with each change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<i64>,
    /// How many times a coordinator took over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub term: Option<i64>,
    /// Who coordinates the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub coordinator: Option<String>,
    /// What is left to commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag: Option<LagStatus>,
    /// How many members the autoscaler would like.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub desired_replicas: Option<i32>,
    /// When the target was last scaled.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 40), extend("format" = "date-time"))]
    pub last_scale_time: Option<String>,
    /// The newest change of the assignment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_rebalance: Option<RebalanceStatus>,
    /// What the group uses in NATS.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1100), extend(
        "x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]
    ))]
    pub nats_resources: Vec<NatsResource>,
    /// The bucket that holds the group's state. Another one than this means that state was lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bucket: Option<BucketStatus>,
    /// The versions of the group's workers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        inner(length(max = 63)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub worker_versions: Vec<String>,
    /// How many workers are older than this controller would inject.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub outdated_workers: Option<i32>,
}

/// Who is in the group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MembersStatus {
    /// How many members there are, those standing by included.
    #[schemars(range(min = 0))]
    pub count: i32,
    /// How many stand by: healthy, owning nothing.
    #[schemars(range(min = 0))]
    pub standby: i32,
    /// The first 100 members.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    pub list: Vec<MemberStatus>,
}

/// One member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MemberStatus {
    /// Its id: the pod's name.
    #[schemars(length(max = 253))]
    pub id: String,
    /// What it is doing.
    #[schemars(length(max = 63))]
    pub state: String,
    /// How many partitions it owns.
    #[schemars(range(min = 0))]
    pub partitions: i32,
}

/// How many partitions there are and in which state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PartitionsStatus {
    /// All of them.
    #[schemars(range(min = 0))]
    pub total: i32,
    /// Those with an owner.
    #[schemars(range(min = 0))]
    pub assigned: i32,
    /// Those that stopped and wait for somebody to look.
    #[schemars(range(min = 0))]
    pub stopped: i32,
}

/// What is left to commit. Absent numbers are unknown, never zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LagStatus {
    /// Messages over all partitions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<i64>,
    /// Messages of the partition that has most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_partition: Option<i64>,
    /// The age of the oldest message that is not committed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_seconds: Option<i64>,
    /// When this was so.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 40), extend("format" = "date-time"))]
    pub observed_at: Option<String>,
}

/// A change of the assignment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RebalanceStatus {
    /// What brought it about.
    #[schemars(length(max = 63))]
    pub reason: String,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 40), extend("format" = "date-time"))]
    pub at: Option<String>,
    /// How long it took.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 24))]
    pub duration: Option<String>,
}

/// A stream or bucket that the group uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NatsResource {
    /// The stream's name.
    #[schemars(length(max = 255))]
    pub name: String,
    /// Whether Lockstep made it. What is not ours is never altered or deleted.
    pub created: bool,
}

/// The bucket that holds the group's state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BucketStatus {
    /// Its random identity.
    #[schemars(length(max = 64))]
    pub id: String,
    /// When its server says it was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 40), extend("format" = "date-time"))]
    pub created: Option<String>,
}
