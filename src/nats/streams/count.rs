//! How many messages are left from a position on. The sequences of one subject are sparse, so only
//! the server knows: a consumer is made for the question, and deleted.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::StreamError;
use crate::chance;
use crate::group::Sequence;
use crate::nats::connect::Connection;

/// How long the server keeps the consumer if it is not told that it may go.
const INACTIVE: Duration = Duration::from_secs(5);

#[derive(Deserialize)]
struct Made {
    #[serde(default)]
    num_pending: u64,
}

/// How many messages of this filter (none: all) there are at or above this sequence.
pub async fn count_from(
    connection: &Connection,
    stream: &str,
    filter: Option<&str>,
    from: Sequence,
) -> Result<u64, StreamError> {
    let name = format!("ls-count-{}", chance::name());
    let mut config = json!({
        "name": name,
        "ack_policy": "none",
        "replay_policy": "instant",
        "mem_storage": true,
        "num_replicas": 1,
        "inactive_threshold": u64::try_from(INACTIVE.as_nanos()).unwrap_or(u64::MAX),
        "deliver_policy": "by_start_sequence",
        "opt_start_seq": from.max(Sequence::FIRST).0,
    });
    let mut call = format!("CONSUMER.CREATE.{stream}.{name}");
    if let Some(filter) = filter {
        config["filter_subject"] = json!(filter);
        call = format!("{call}.{filter}");
    }
    let request = json!({ "stream_name": stream, "action": "create", "config": config });
    let api = connection.jetstream();
    let made: Result<Made, _> = api.call(&call, &request).await;
    let made = made.map_err(|error| StreamError::of(stream, error))?;
    let call = format!("CONSUMER.DELETE.{stream}.{name}");
    // If it stays, the server removes it soon.
    drop(api.call::<Value>(&call, &Value::Null).await);
    Ok(made.num_pending)
}
