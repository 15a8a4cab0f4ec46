//! `spec.startFrom`: where a group without history begins.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rules;
use super::text::{DurationText, TimeText};

/// Where a group without history begins; resolved once, when the group is made. Immutable: to move
/// an existing group use an `OffsetReset`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    rules::START_SEQUENCE, rules::START_TIME, rules::START_DURATION
]))]
pub struct StartFrom {
    /// Earliest: with the oldest message. Latest: with the first message after the group was made.
    /// Sequence, Time, Duration: as the field of that name says.
    pub policy: StartPolicy,
    /// For policy Sequence: the first sequence to read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub sequence: Option<u64>,
    /// For policy Time: the first message that was stored at or after this moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<TimeText>,
    /// For policy Duration: the first message that was stored at most this long before the group
    /// was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<DurationText>,
}

/// Where a group without history begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StartPolicy {
    /// With the oldest message still there.
    #[default]
    Earliest,
    /// With the first message after the group was made.
    Latest,
    /// With a sequence.
    Sequence,
    /// At a moment.
    Time,
    /// Some time back.
    Duration,
}
