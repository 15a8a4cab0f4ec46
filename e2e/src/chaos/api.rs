//! The JetStream API as somebody with the `nats` command line uses it, past Lockstep.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use crate::scene::{Outcome, SceneError};
use crate::until::until;

/// How long the server may take to answer; with an election in between.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// Calls the API until there is an answer; an answer that is an error is one as well.
pub async fn call(client: &async_nats::Client, subject: &str, body: &Value) -> Outcome<Value> {
    let payload = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let answered = until(format!("answer to {subject}"), ANSWER_WITHIN, async || {
        let asked = client.request(format!("$JS.API.{subject}"), payload.clone().into());
        let asked = tokio::time::timeout(Duration::from_secs(5), asked);
        match asked.await {
            Ok(Ok(answer)) => Ok(answer.payload),
            Ok(Err(error)) => Err(error.to_string()),
            Err(late) => Err(late.to_string()),
        }
    });
    Ok(serde_json::from_slice(&answered.await?)?)
}

/// As [`call`], and an answer that is an error fails.
pub async fn demand(client: &async_nats::Client, subject: &str, body: &Value) -> Outcome<Value> {
    let answer = call(client, subject, body).await?;
    match answer.get("error") {
        None => Ok(answer),
        Some(error) => Err(SceneError::new(format!("{subject}: {error}"))),
    }
}

/// The names of a stream's consumers.
pub async fn consumers(client: &async_nats::Client, stream: &str) -> Outcome<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    loop {
        let page = json!({ "offset": names.len() });
        let answer = demand(client, &format!("CONSUMER.NAMES.{stream}"), &page).await?;
        let listed = answer.get("consumers").and_then(Value::as_array);
        let listed = listed.into_iter().flatten().filter_map(Value::as_str);
        let before = names.len();
        names.extend(listed.map(str::to_owned));
        let total = answer.get("total").and_then(Value::as_u64).unwrap_or(0);
        let have = u64::try_from(names.len()).unwrap_or(u64::MAX);
        if have >= total || names.len() == before {
            return Ok(names);
        }
    }
}

/// Makes a consumer that somebody else needs; what the server answers.
pub async fn make_consumer(
    client: &async_nats::Client,
    stream: &str,
    name: &str,
) -> Outcome<Value> {
    let config = json!({
        "stream_name": stream,
        "action": "create",
        "config": {
            "name": name, "ack_policy": "none", "deliver_policy": "new", "mem_storage": true,
            "num_replicas": 1, "inactive_threshold": 600_000_000_000_u64,
        },
    });
    call(client, &format!("CONSUMER.CREATE.{stream}.{name}"), &config).await
}

/// Deletes a consumer; that it is gone already is no error.
pub async fn delete_consumer(client: &async_nats::Client, stream: &str, name: &str) -> Outcome<()> {
    let subject = format!("CONSUMER.DELETE.{stream}.{name}");
    call(client, &subject, &Value::Null).await?;
    Ok(())
}

/// What the server knows of a stream.
pub async fn stream(client: &async_nats::Client, name: &str) -> Outcome<Value> {
    demand(client, &format!("STREAM.INFO.{name}"), &Value::Null).await
}
