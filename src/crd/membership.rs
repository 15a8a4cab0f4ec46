//! `spec.membership`: who belongs to the group, for how long, and who gets what.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rules;
use super::text::DurationText;

/// Timers and limits of membership.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    rules::FOUR_HEARTBEATS, rules::HEARTBEAT_RANGE, rules::SESSION_RANGE, rules::REBALANCE_RANGE
]))]
pub struct Membership {
    /// How partitions are given to members.
    pub assignor: Assignor,
    /// How often a worker says that it is alive; at most a quarter of `sessionTimeout`.
    pub heartbeat_interval: DurationText,
    /// The silence after which a worker's partitions go to others, from 6s to 30m. Below 12s an
    /// election among the NATS servers alone can cost a healthy worker its partitions.
    pub session_timeout: DurationText,
    /// How long a worker may take to let a partition go, from 1s to 1h.
    pub rebalance_timeout: DurationText,
    /// How long the application may take for a message before that counts as a failed attempt.
    pub processing_timeout: DurationText,
    /// How long the first members wait for others before partitions are given out.
    pub initial_rebalance_delay: DurationText,
    /// How long a joining member waits for others that join with it.
    pub rebalance_delay: DurationText,
    /// Members beyond this number stand by: healthy, owning nothing.
    #[schemars(range(min = 1, max = 1024))]
    pub max_members: u32,
}

/// How partitions are given to members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [rules::ASSIGNOR_MAP]))]
pub struct Assignor {
    /// Sticky: balanced, with the least movement. Range: contiguous blocks. `RoundRobin`: dealt out in
    /// turn. Rendezvous: consistent hashing with bounded load. `ZoneAware`: as Sticky, preferring the
    /// zone of the partition's stream leader. Manual: as `map` says.
    #[serde(rename = "type")]
    pub kind: AssignorType,
    /// For type Manual: from a member's id to its partitions. The partitions of absent members and
    /// those not listed are given out as Sticky does.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "manual_map")]
    pub map: Option<BTreeMap<String, Vec<u32>>>,
}

/// Which assignor: Sticky, Range, `RoundRobin`, Rendezvous, `ZoneAware` or Manual.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AssignorType {
    /// Balanced, with the least movement.
    #[default]
    Sticky,
    /// Contiguous blocks.
    Range,
    /// Dealt out in turn.
    RoundRobin,
    /// Consistent hashing with bounded load.
    Rendezvous,
    /// As Sticky, preferring the zone of the partition's stream leader.
    ZoneAware,
    /// As a map says.
    Manual,
}

/// The schema language of the API server has no other way to bound a map.
fn manual_map(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "maxProperties": 1024,
        "additionalProperties": {
            "type": "array",
            "maxItems": 1024,
            "x-kubernetes-list-type": "set",
            "items": { "type": "integer", "format": "int32", "minimum": 0, "maximum": 1023 },
        },
    })
}

impl Default for Membership {
    fn default() -> Self {
        Self {
            assignor: Assignor::default(),
            heartbeat_interval: "3s".into(),
            session_timeout: "20s".into(),
            rebalance_timeout: "60s".into(),
            processing_timeout: "5m".into(),
            initial_rebalance_delay: "3s".into(),
            rebalance_delay: "1s".into(),
            max_members: 64,
        }
    }
}
