//! What acts in Kubernetes only: the target of scaling, the autoscaler, the injected worker.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rules;
use super::text::{DurationText, ObjectName};

/// The workload whose pods are the group's members, in the group's namespace. It may change; the old
/// target stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [rules::SCALE_TARGET_KIND]))]
pub struct ScaleTargetRef {
    /// The target's API version: apps/v1.
    #[schemars(length(min = 1, max = 63))]
    pub api_version: String,
    /// The target's kind: Deployment or StatefulSet.
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,
    /// The target's name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// How the number of members follows the lag.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [rules::MIN_MAX_REPLICAS]))]
pub struct Autoscaling {
    /// Active: writes `spec.replicas`. Recommend: only shows `status.desiredReplicas`. Off: neither.
    pub mode: AutoscalingMode,
    /// The fewest members; 0 lets an idle group scale to nothing.
    #[schemars(range(max = 1024))]
    pub min_replicas: u32,
    /// The most members; by default the number of partitions.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1024))]
    pub max_replicas: Option<u32>,
    /// The lag that is aimed at.
    pub lag: LagTarget,
    /// How fast decisions follow each other.
    pub behavior: ScalingBehavior,
}

/// Whether the built-in autoscaler acts: Off, Recommend or Active.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AutoscalingMode {
    /// It does nothing.
    Off,
    /// It shows what it would do.
    Recommend,
    /// It scales.
    #[default]
    Active,
}

/// The lag that is aimed at: exactly one of `targetPerReplica` and `targetDrain`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [rules::LAG_TARGET]))]
pub struct LagTarget {
    /// How many messages of lag one member is thought to manage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub target_per_replica: Option<u32>,
    /// In what time the lag is to be worked off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_drain: Option<DurationText>,
    /// A group with no members gets one when its lag is larger than this.
    #[serde(default)]
    #[schemars(range(max = 1_000_000_000))]
    pub activation: u32,
}

/// How fast scaling decisions follow each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ScalingBehavior {
    /// How long a need for more members has to last.
    pub scale_up_stabilization: DurationText,
    /// How long a need for fewer members has to last.
    pub scale_down_stabilization: DurationText,
    /// How long nothing may be pending before a group scales to zero.
    pub idle: DurationText,
}

/// The injected worker of the group's pods. What is not given is chosen by the controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Worker {
    /// A Secret in the pods' namespace with the worker's NATS credentials; by default the
    /// connection's `workerSecretName`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nats_secret_name: Option<ObjectName>,
    /// The worker container's resources; they replace the default ones as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// How much the worker logs: error, warn, info, debug or trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_level: Option<LogLevel>,
}

/// A container's resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Resources {
    /// What is reserved for it, such as `cpu: 20m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "resource_map")]
    pub requests: Option<BTreeMap<String, Amount>>,
    /// What it may use at most, such as `memory: 128Mi`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "resource_map")]
    pub limits: Option<BTreeMap<String, Amount>>,
}

/// An amount of a resource as Kubernetes writes it: a whole number, or a text such as 20m or 128Mi.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Amount {
    /// A whole number.
    Number(i64),
    /// A number with a unit.
    Text(String),
}

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// What a person must look at.
    Error,
    /// What was unexpected.
    Warn,
    /// What changed.
    Info,
    /// Each step.
    Debug,
    /// Everything.
    Trace,
}

/// Kubernetes' own form of a resource amount.
const AMOUNT: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

fn resource_map(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "maxProperties": 16,
        "additionalProperties": {
            "anyOf": [{ "type": "integer" }, { "type": "string" }],
            "maxLength": 32,
            "pattern": AMOUNT,
            "x-kubernetes-int-or-string": true,
        },
    })
}

impl Default for Autoscaling {
    fn default() -> Self {
        Self {
            mode: AutoscalingMode::default(),
            min_replicas: 1,
            max_replicas: None,
            lag: LagTarget::default(),
            behavior: ScalingBehavior::default(),
        }
    }
}

impl Default for LagTarget {
    fn default() -> Self {
        Self {
            target_per_replica: Some(1000),
            target_drain: None,
            activation: 0,
        }
    }
}

impl Default for ScalingBehavior {
    fn default() -> Self {
        Self {
            scale_up_stabilization: "30s".into(),
            scale_down_stabilization: "300s".into(),
            idle: "5m".into(),
        }
    }
}
