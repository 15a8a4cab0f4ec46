//! `candidate.<incarnation>`: who would coordinate.

use serde::{Deserialize, Serialize};

use super::json::Unknown;
use super::{Beat, member_document::Formats};

/// A coordinator candidate's heartbeat. Written by that process alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CandidateDocument {
    /// Its label: `--id`, or host name plus suffix.
    pub id: String,
    /// The live candidate with the highest (priority, id) tries when the holder is silent.
    pub priority: i32,
    /// Rises with every heartbeat.
    pub beat: Beat,
    /// The highest document formats that it reads.
    pub formats: Formats,
    /// The process has stopped on purpose: a successor need not wait for its silence.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub left: bool,
    /// Fields of newer versions.
    #[serde(flatten)]
    pub unknown: Unknown,
}
