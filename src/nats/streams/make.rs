//! Making the streams that a group's manifest asks for.

use serde_json::{Value, json};

use super::{StreamError, StreamFacts, facts};
use crate::nats::api::ApiError;
use crate::nats::connect::Connection;

/// Servers from 2.15 on allow 1,000 consumers where a stream does not say otherwise.
const MAX_CONSUMERS: u32 = 16_384;

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
}

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
        config
    }
}
