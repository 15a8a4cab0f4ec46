//! The consumer on the server: one reader's cursor, made for it and never shared.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::chance;
use crate::group::Sequence;
use crate::nats::api::{Api, ApiError, code};
use crate::nats::connect::Connection;

/// How long the server keeps a consumer that nobody pulls from.
const INACTIVE: Duration = Duration::from_secs(40);

/// A consumer to be made.
#[derive(Clone, Debug)]
pub(crate) struct Consumer {
    pub(crate) stream: String,
    pub(crate) name: String,
    /// None: the whole stream. Several only for watches: on file storage they are slow.
    pub(crate) filters: Vec<String>,
    pub(crate) start: Start,
    pub(crate) metadata: BTreeMap<String, String>,
}

/// Where a consumer begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// With the first message at or above this sequence.
    At(Sequence),
    /// With the newest message of each subject.
    LastPerSubject,
}

/// Why a consumer was not made.
#[derive(Debug)]
pub(crate) enum CreateError {
    /// Somebody has this name, with other settings.
    NameTaken,
    /// The stream is not there; during an election, too.
    NoStream(ApiError),
    /// Anything else.
    Api(ApiError),
}

/// A consumer's own account of itself.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct ConsumerInfo {
    /// What it has not delivered yet.
    #[serde(default)]
    pub(crate) num_pending: u64,
}

// === impl Consumer ===

impl Consumer {
    /// Makes it. A consumer of the same name is never joined: the metadata differ each time.
    pub(crate) async fn create(&self, api: &Api) -> Result<ConsumerInfo, CreateError> {
        let Self { stream, name, .. } = self;
        // With one filter it stands in the subject, which is what permissions are written for.
        let call = match self.filters.as_slice() {
            [filter] => format!("CONSUMER.CREATE.{stream}.{name}.{filter}"),
            [] | [_, ..] => format!("CONSUMER.CREATE.{stream}.{name}"),
        };
        let request = json!({
            "stream_name": stream,
            "action": "create",
            "config": self.config(),
        });
        api.call(&call, &request).await.map_err(CreateError::of)
    }

    /// Deletes it; gone already is as good.
    async fn delete(&self, api: &Api) -> Result<(), ApiError> {
        let call = format!("CONSUMER.DELETE.{}.{}", self.stream, self.name);
        match api.call::<Value>(&call, &Value::Null).await {
            Err(error) if !is_gone(&error) => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Asks its leader how it stands.
    pub(crate) async fn info(&self, api: &Api) -> Result<ConsumerInfo, ApiError> {
        let call = format!("CONSUMER.INFO.{}.{}", self.stream, self.name);
        api.call(&call, &Value::Null).await
    }

    fn config(&self) -> Value {
        let mut metadata = self.metadata.clone();
        // An identical configuration would be answered with the consumer that is there, which two
        // readers would then share.
        metadata.insert("lockstep.random".to_owned(), chance::name());
        let mut config = json!({
            "name": self.name,
            "ack_policy": "none",
            "replay_policy": "instant",
            "mem_storage": true,
            "num_replicas": 1,
            "inactive_threshold": nanos(INACTIVE),
            "metadata": metadata,
        });
        match self.start {
            Start::At(sequence) => {
                config["deliver_policy"] = json!("by_start_sequence");
                config["opt_start_seq"] = json!(sequence.0);
            }
            Start::LastPerSubject => config["deliver_policy"] = json!("last_per_subject"),
        }
        match self.filters.as_slice() {
            [] => {}
            [filter] => config["filter_subject"] = json!(filter),
            filters @ [_, ..] => config["filter_subjects"] = json!(filters),
        }
        config
    }
}

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn is_gone(error: &ApiError) -> bool {
    matches!(
        error.code(),
        Some(code::CONSUMER_NOT_FOUND | code::STREAM_NOT_FOUND)
    )
}

/// Deletes a consumer if that is possible now; the server forgets it by itself in time.
pub(crate) async fn delete(connection: &Connection, consumer: &Consumer) {
    if !connection.is_up() {
        return;
    }
    if let Err(error) = consumer.delete(connection.jetstream()).await {
        tracing::debug!(
            error = &error as &dyn std::error::Error,
            consumer = consumer.name,
            "consumer not deleted"
        );
    }
}

// === impl CreateError ===

impl CreateError {
    fn of(error: ApiError) -> Self {
        match error.code() {
            Some(code::CONSUMER_EXISTS | code::CONSUMER_NAME_IN_USE) => Self::NameTaken,
            Some(code::STREAM_NOT_FOUND) => Self::NoStream(error),
            Some(_) | None => Self::Api(error),
        }
    }
}

impl std::fmt::Display for CreateError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NameTaken => f.write_str("another consumer has this name"),
            Self::NoStream(error) | Self::Api(error) => error.fmt(f),
        }
    }
}
