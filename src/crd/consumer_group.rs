//! The `ConsumerGroup`: what a user declares, with or without Kubernetes.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::delivery::Delivery;
use super::membership::Membership;
use super::rules;
use super::scaling::{Autoscaling, ScaleTargetRef, Worker};
use super::source::{Partitioning, Source};
use super::start_from::StartFrom;
use super::status::ConsumerGroupStatus;
use super::text::ObjectName;

/// A consumer group over NATS `JetStream`: its source, partitions, and how messages are delivered.
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(
    clippy::duplicated_attributes,
    reason = "columns are alike in all but their names"
)]
#[kube(
    group = "lockstep.dev",
    version = "v1alpha1",
    kind = "ConsumerGroup",
    namespaced,
    status = "ConsumerGroupStatus",
    derive = "PartialEq",
    shortname = "cg",
    category = "lockstep",
    doc = "A consumer group over NATS JetStream: partitions owned exclusively, in order, with offsets that survive.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(
        name = "Stream",
        type_ = "string",
        json_path = ".spec.source.stream.name"
    ),
    printcolumn(
        name = "Partitions",
        type_ = "integer",
        json_path = ".spec.partitioning.partitions"
    ),
    printcolumn(
        name = "Assigned",
        type_ = "integer",
        json_path = ".status.partitions.assigned"
    ),
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".status.replicas"),
    printcolumn(
        name = "Members",
        type_ = "integer",
        json_path = ".status.members.count"
    ),
    printcolumn(name = "Lag", type_ = "integer", json_path = ".status.lag.total"),
    printcolumn(
        name = "State",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].reason"#
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "Coordinator",
        type_ = "string",
        json_path = ".status.coordinator",
        priority = 1
    ),
    printcolumn(
        name = "Connection",
        type_ = "string",
        json_path = ".spec.connectionRef.name",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    rules::PARTITIONING_IMMUTABLE, rules::START_FROM_IMMUTABLE, rules::SOURCE_FORM_IMMUTABLE,
    rules::STREAM_IMMUTABLE, rules::STREAM_CREATE_IMMUTABLE, rules::DERIVED_IMMUTABLE,
    rules::STREAMS_IMMUTABLE, rules::PARTITIONS_IMMUTABLE, rules::PARTITIONS_COUNT,
    rules::PARTITIONS_RANGE, rules::KEY_TOKENS_PLACE, rules::START_SEQUENCE_PLACE,
    rules::REPLICAS_TARGET, rules::AUTOSCALING_TARGET, rules::MAX_REPLICAS, rules::PAUSED_RANGE
]))]
pub struct ConsumerGroupSpec {
    /// The `NatsConnection` that the group lives on; in another namespace it has to grant it.
    /// Immutable. Without Kubernetes it has no effect.
    #[serde(default)]
    pub connection_ref: ConnectionRef,
    /// Where the messages are. The form and the names are immutable.
    pub source: Source,
    /// How many partitions there are and how a key becomes a partition. Immutable.
    pub partitioning: Partitioning,
    /// Where a group without history begins. Immutable.
    #[serde(default)]
    pub start_from: StartFrom,
    /// How messages are handed to the application.
    #[serde(default)]
    pub delivery: Delivery,
    /// Timers and limits of membership.
    #[serde(default)]
    pub membership: Membership,
    /// What a partition does when its stream lost its end, was restored or made anew. Stop: it stops
    /// with a condition. Earliest, Latest: it goes on there.
    #[serde(default)]
    pub on_truncation: OnTruncation,
    /// What a partition does when retention removed messages before they were read. Earliest: it
    /// goes on with the oldest, and says how many were lost. Stop: it stops with a condition.
    #[serde(default)]
    pub on_gap: OnGap,
    /// The workload whose pods are the members. Without Kubernetes it has no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_target_ref: Option<ScaleTargetRef>,
    /// The number of members that is asked for: written by you, `kubectl scale`, an autoscaler; taken
    /// over from the target at first. Without Kubernetes it has no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1024))]
    pub replicas: Option<u32>,
    /// How the number of members follows the lag. Without Kubernetes it has no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscaling: Option<Autoscaling>,
    /// Nothing is handed to the application while this is true; members keep their partitions.
    #[serde(default)]
    pub paused: bool,
    /// Nothing of these partitions is handed to the application; members keep them.
    #[serde(default)]
    #[schemars(
        length(max = 1024),
        inner(range(max = 1023)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub paused_partitions: Vec<u32>,
    /// What becomes of the group's state and of the streams Lockstep made when the object is
    /// deleted. Retain: they stay. Delete: they are removed.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
    /// The injected worker. Without Kubernetes it has no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<Worker>,
}

/// A `NatsConnection` by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [rules::CONNECTION_IMMUTABLE]))]
pub struct ConnectionRef {
    /// Its name.
    pub name: ObjectName,
    /// Its namespace; by default the group's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<ObjectName>,
}

/// What a partition does when its stream lost its end: Stop, Earliest or Latest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnTruncation {
    /// It stops with a condition.
    #[default]
    Stop,
    /// It goes on with the oldest message.
    Earliest,
    /// It goes on with the next new message.
    Latest,
}

/// What a partition does when retention overtook it: Earliest or Stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnGap {
    /// It goes on with the oldest message, and says how many were lost.
    #[default]
    Earliest,
    /// It stops with a condition.
    Stop,
}

/// What becomes of what Lockstep made: Retain or Delete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// It stays.
    #[default]
    Retain,
    /// It is removed.
    Delete,
}

impl Default for ConnectionRef {
    fn default() -> Self {
        Self {
            name: "default".into(),
            namespace: None,
        }
    }
}
