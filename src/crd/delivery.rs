//! `spec.delivery`: how messages are handed to the application.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rules;
use super::source::DeadLetter;
use super::text::{DurationText, QuantityText};

/// How messages are handed to the application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [rules::DEAD_LETTER]))]
pub struct Delivery {
    /// Partition: in the partition's order. Key: in order for each key, keys in parallel. None:
    /// without order.
    pub order: Order,
    /// How many messages of a partition the application may have without having acknowledged them.
    /// With 1 the next is handed over only after the previous is acknowledged; with more they are
    /// still handed over in order.
    #[schemars(range(min = 1, max = 10000))]
    pub max_in_flight: u32,
    /// Most messages per fetch, unless the call says otherwise.
    #[schemars(range(min = 1, max = 10000))]
    pub batch: u32,
    /// How long a fetch waits for its first message, unless the call says otherwise.
    pub fetch_wait: DurationText,
    /// How long a fetch waits for more after its first message, unless the call says otherwise.
    pub batch_wait: DurationText,
    /// What one worker buffers in total, shared fairly by its partitions.
    pub buffer: Buffer,
    /// How a message is tried again. It is retried in place: nothing of its partition overtakes it.
    pub retry: Retry,
    /// What happens after the last attempt. Block: the partition stops until it is resumed.
    /// `DeadLetter`: the message is published to `deadLetter.subject` and passed. Skip: it is passed.
    pub on_failure: OnFailure,
    /// Where messages go after their last attempt; for `onFailure: DeadLetter` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_letter: Option<DeadLetter>,
    /// The worker posts messages to the application instead of being asked for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub push: Option<Push>,
}

/// The order of hand-over: Partition, Key or None.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Order {
    /// In the partition's order.
    #[default]
    Partition,
    /// In order for each key, keys in parallel.
    Key,
    /// Without order.
    None,
}

/// What one worker buffers in total.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [rules::BUFFER_RANGE]))]
pub struct Buffer {
    /// Most messages.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub messages: u32,
    /// Most bytes, from 64Ki to 1Gi.
    pub bytes: QuantityText,
}

/// How a message is tried again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Retry {
    /// Attempts before `onFailure` applies. They are counted across restarts of the application.
    #[schemars(range(min = 1, max = 1000))]
    pub max_attempts: u32,
    /// How long to wait before the next attempt.
    pub backoff: Backoff,
}

/// How long to wait before the next attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [rules::BACKOFF_ORDER]))]
pub struct Backoff {
    /// The wait before the second attempt.
    pub initial: DurationText,
    /// The longest wait.
    pub max: DurationText,
    /// Each wait is this many times the one before.
    #[schemars(range(min = 1, max = 100))]
    pub factor: u32,
}

/// What happens after the last attempt: Block, `DeadLetter` or Skip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnFailure {
    /// The partition stops until it is resumed.
    #[default]
    Block,
    /// The message is published elsewhere and passed.
    DeadLetter,
    /// The message is passed.
    Skip,
}

/// Where the worker posts messages to: the pod's own loopback address only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Push {
    /// The application's port on 127.0.0.1.
    #[schemars(range(min = 1, max = 65535))]
    pub port: u32,
    /// The path that messages are posted to.
    #[serde(default = "Push::default_path")]
    #[schemars(length(max = 255), regex(pattern = r"^/[^\s?#]*$"))]
    pub path: String,
}

impl Default for Delivery {
    fn default() -> Self {
        Self {
            order: Order::default(),
            max_in_flight: 1,
            batch: 100,
            fetch_wait: "5s".into(),
            batch_wait: "5ms".into(),
            buffer: Buffer::default(),
            retry: Retry::default(),
            on_failure: OnFailure::default(),
            dead_letter: None,
            push: None,
        }
    }
}

impl Default for Buffer {
    fn default() -> Self {
        Self {
            messages: 5000,
            bytes: "16Mi".into(),
        }
    }
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            max_attempts: 5,
            backoff: Backoff::default(),
        }
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            initial: "200ms".into(),
            max: "30s".into(),
            factor: 2,
        }
    }
}

impl Push {
    fn default_path() -> String {
        "/messages".to_owned()
    }
}
