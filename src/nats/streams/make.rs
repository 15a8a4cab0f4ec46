//! Making the streams that a group's manifest asks for.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use super::{StreamError, StreamFacts, facts};
use crate::group::Sequence;
use crate::nats::api::ApiError;
use crate::nats::connect::Connection;

/// Servers from 2.15 on allow 1,000 consumers where a stream does not say otherwise.
const MAX_CONSUMERS: u32 = 16_384;

/// The shortest memory of message ids that servers take, in nanoseconds. The origin has dropped
/// repeated messages already, and a server below 2.15 would drop those that it kept on purpose.
const SHORTEST_MEMORY: u64 = 100_000_000;

/// A stream to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamPlan {
    /// Its name.
    pub name: String,
    /// The subjects that publishers publish to.
    pub subjects: Vec<String>,
    /// What the server makes of them: source and destination.
    pub transform: Option<(String, String)>,
    /// How many replicas it gets.
    pub replicas: u32,
    /// `file` or `memory`.
    pub storage: String,
    /// Oldest age of a message, in nanoseconds; 0: no limit.
    pub max_age: u64,
    /// Most bytes; none: no limit.
    pub max_bytes: Option<u64>,
    /// The group that it is made for.
    pub owner: Option<StreamOwner>,
    /// The stream that its messages are taken over from; such a stream has no subjects.
    pub source: Option<SourcePlan>,
}

/// A stream whose messages are taken over, and as what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcePlan {
    /// The stream.
    pub origin: String,
    /// The first of its messages that is taken over.
    pub from: Sequence,
    /// Subjects that are taken over, each with what it becomes.
    pub transforms: Vec<(String, String)>,
}

/// The group that a stream was made for, as its metadata says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamOwner {
    /// Who manages the group.
    pub manager: String,
    /// The group, NAMESPACE/NAME.
    pub group: String,
}

/// Settings of a stream of ours that somebody changed, or that the manifest changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamChange {
    /// The stream.
    pub stream: String,
    /// The oldest age in nanoseconds, if it is to change; 0: no limit.
    pub max_age: Option<u64>,
    /// The most bytes, if they are to change; none: no limit.
    pub max_bytes: Option<Option<u64>>,
    /// The replicas, if they are to change.
    pub replicas: Option<u32>,
    /// What it takes over, if that is to change.
    pub source: Option<SourcePlan>,
    /// The group that it is for, if its manager is another one now.
    pub owner: Option<StreamOwner>,
}

pub(super) const KEY_MANAGER: &str = "lockstep.manager";
pub(super) const KEY_GROUP: &str = "lockstep.group";

/// Makes a stream. One that is there with the very same settings is left as it is.
pub async fn create(
    connection: &Connection,
    plan: &StreamPlan,
) -> Result<StreamFacts, StreamError> {
    let call = format!("STREAM.CREATE.{}", plan.name);
    let api = connection.jetstream();
    let made: Result<Value, _> = api.call(&call, &plan.config()).await;
    let made = made.map_err(|error| StreamError::of(&plan.name, error))?;
    facts::from_info(made).map_err(|error| {
        let detail = error.to_string();
        StreamError::of(
            &plan.name,
            ApiError::Garbled {
                subject: call,
                detail,
            },
        )
    })
}

/// Deletes a stream with everything in it.
pub async fn delete(connection: &Connection, stream: &str) -> Result<(), StreamError> {
    let call = format!("STREAM.DELETE.{stream}");
    let api = connection.jetstream();
    let deleted: Result<Value, _> = api.call(&call, &Value::Null).await;
    deleted
        .map(|_| ())
        .map_err(|error| StreamError::of(stream, error))
}

/// Changes a stream; everything that is not named stays as it is.
pub async fn update(connection: &Connection, change: &StreamChange) -> Result<(), StreamError> {
    let stream = &change.stream;
    let api = connection.jetstream();
    let failed = |error| StreamError::of(stream, error);
    let found = api
        .call(&format!("STREAM.INFO.{stream}"), &Value::Null)
        .await;
    let mut found: Value = found.map_err(failed)?;
    let mut config = found["config"].take();
    if let Some(age) = change.max_age {
        config["max_age"] = json!(age);
    }
    if let Some(most) = change.max_bytes {
        config["max_bytes"] = most.map_or(json!(-1), |most| json!(most));
    }
    if let Some(replicas) = change.replicas {
        config["num_replicas"] = json!(replicas);
    }
    if let Some(source) = &change.source {
        config["sources"] = json!([source.config()]);
        config["subjects"] = json!([]);
    }
    if let Some(StreamOwner { manager, group }) = &change.owner {
        config["metadata"][KEY_MANAGER] = json!(manager);
        config["metadata"][KEY_GROUP] = json!(group);
    }
    let updated: Result<Value, _> = api.call(&format!("STREAM.UPDATE.{stream}"), &config).await;
    updated.map(drop).map_err(failed)
}

// === impl StreamChange ===

impl StreamChange {
    /// Nothing of this stream is to change.
    pub fn none(stream: &str) -> Self {
        Self {
            stream: stream.to_owned(),
            max_age: None,
            max_bytes: None,
            replicas: None,
            source: None,
            owner: None,
        }
    }

    /// Whether anything is to change.
    pub fn says_something(&self) -> bool {
        self.max_age.is_some()
            || self.max_bytes.is_some()
            || self.replicas.is_some()
            || self.source.is_some()
            || self.owner.is_some()
    }
}

impl fmt::Display for StreamChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream {}", self.stream)?;
        if let Some(age) = self.max_age {
            write!(
                f,
                ", max_age {}",
                humantime::format_duration(Duration::from_nanos(age))
            )?;
        }
        match self.max_bytes {
            Some(Some(bytes)) => write!(f, ", max_bytes {bytes}")?,
            Some(None) => f.write_str(", max_bytes unlimited")?,
            None => {}
        }
        if let Some(replicas) = self.replicas {
            write!(f, ", replicas {replicas}")?;
        }
        if let Some(source) = &self.source {
            write!(f, ", taken over from {source}")?;
        }
        if let Some(StreamOwner { manager, group }) = &self.owner {
            write!(f, ", made for {group} of {manager}")?;
        }
        Ok(())
    }
}

// === impl StreamPlan ===

impl StreamPlan {
    /// A stream with these subjects, stored as they are published.
    pub fn plain(name: &str, subjects: Vec<String>) -> Self {
        Self {
            name: name.to_owned(),
            subjects,
            transform: None,
            replicas: 1,
            storage: "file".to_owned(),
            max_age: 0,
            max_bytes: None,
            owner: None,
            source: None,
        }
    }

    fn config(&self) -> Value {
        let mut config = json!({
            "name": self.name,
            "subjects": self.subjects,
            "retention": "limits",
            "storage": self.storage,
            "num_replicas": self.replicas,
            "max_age": self.max_age,
            "max_bytes": self.max_bytes.map_or(json!(-1), |most| json!(most)),
            "max_consumers": MAX_CONSUMERS,
            "discard": "old",
        });
        if let Some((src, dest)) = &self.transform {
            config["subject_transform"] = json!({ "src": src, "dest": dest });
        }
        if let Some(source) = &self.source {
            config["sources"] = json!([source.config()]);
            config["duplicate_window"] = json!(SHORTEST_MEMORY);
        }
        if let Some(StreamOwner { manager, group }) = &self.owner {
            config["metadata"] = json!({ KEY_MANAGER: manager, KEY_GROUP: group });
        }
        config
    }
}

// === impl SourcePlan ===

impl SourcePlan {
    fn config(&self) -> Value {
        let transforms = self.transforms.iter();
        let transforms = transforms.map(|(src, dest)| json!({ "src": src, "dest": dest }));
        json!({
            "name": self.origin,
            "opt_start_seq": self.from.0,
            "subject_transforms": transforms.collect::<Vec<_>>(),
        })
    }
}

impl fmt::Display for SourcePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transforms = self.transforms.iter();
        let transforms =
            transforms.map(|(source, destination)| format!("{source} → {destination}"));
        let transforms: Vec<String> = transforms.collect();
        write!(f, "{} ({})", self.origin, transforms.join(", "))
    }
}
