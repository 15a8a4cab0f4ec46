//! Bodies of answers: the protobuf messages written as JSON.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::values::{duration_text, payload_text, time_text};
use crate::wire::proto::{self, PayloadEncoding, watch_response::Event};

/// Writes the answer of `POST /v1/fetch`, payloads as the request asked for.
pub fn fetch(answer: &proto::FetchResponse, encoding: PayloadEncoding) -> Vec<u8> {
    written(&Fetched {
        messages: answer
            .messages
            .iter()
            .map(|message| Message::of(message, encoding))
            .collect(),
        redelivered: answer.redelivered,
    })
}

/// Writes the answer of `POST /v1/ack`.
pub fn ack(answer: &proto::AckResponse) -> Vec<u8> {
    written(&Results::of(&answer.results))
}

/// Writes the answer of `POST /v1/nack`.
pub fn nack(answer: &proto::NackResponse) -> Vec<u8> {
    written(&Results::of(&answer.results))
}

/// Writes the answer of `POST /v1/publish`.
pub fn publish(answer: &proto::PublishResponse) -> Vec<u8> {
    let proto::PublishResponse {
        stream,
        sequence,
        partition,
        duplicate,
    } = answer;
    written(&json!({
        "stream": stream,
        "sequence": sequence,
        "partition": partition,
        "duplicate": duplicate,
    }))
}

/// Writes the answer of `GET /v1/status`.
pub fn status(answer: &proto::StatusResponse) -> Vec<u8> {
    written(&json!({
        "group": answer.group,
        "member_id": answer.member_id,
        "incarnation": answer.incarnation,
        "state": answer.state().as_str_name(),
        "reason": answer.reason,
        "epoch": answer.epoch,
        "lease_remaining": answer.lease_remaining.as_ref().map(duration_text),
        "partitions": answer.partitions.iter().map(partition_status).collect::<Vec<_>>(),
        "nats": answer.nats.as_ref().map(|nats| json!({
            "connected": nats.connected,
            "server": nats.server,
            "version": nats.version,
        })),
        "app": answer.app.as_ref().map(|app| json!({
            "connected": app.connected,
            "sessions": app.sessions,
            "since": app.since.as_ref().map(time_text),
        })),
        "version": answer.version,
        "problems": answer.problems,
    }))
}

/// Writes the answer of `POST /v1/drain`.
pub fn drain(answer: &proto::DrainResponse) -> Vec<u8> {
    written(&json!({"clean": answer.clean, "unclean": answer.unclean}))
}

/// Writes the answer of a call that says nothing but that it is done.
pub fn nothing() -> Vec<u8> {
    b"{}\n".to_vec()
}

/// Writes what is wrong with a call.
pub fn problem(detail: &proto::ErrorDetail) -> Vec<u8> {
    let mut body = json!({
        "code": detail.code,
        "message": detail.message,
        "hint": detail.hint,
    });
    if let (Some(body), false) = (body.as_object_mut(), detail.field.is_empty()) {
        body.insert("field".to_owned(), detail.field.as_str().into());
    }
    written(&body)
}

/// An event's name and body, for a server-sent event.
pub fn event(seen: &proto::WatchResponse) -> (&'static str, String) {
    let (name, field, body) = match &seen.event {
        Some(event) => named(event),
        None => ("Unknown", "unknown", json!({})),
    };
    let mut all = Map::new();
    all.insert("time".to_owned(), seen.time.as_ref().map(time_text).into());
    all.insert(field.to_owned(), body);
    (name, Value::Object(all).to_string())
}

#[derive(Serialize)]
struct Fetched<'a> {
    messages: Vec<Message<'a>>,
    redelivered: u32,
}

#[derive(Serialize)]
struct Message<'a> {
    partition: u32,
    epoch: u64,
    sequence: u64,
    stream: &'a str,
    subject: &'a str,
    key: &'a str,
    payload: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_encoding: Option<&'static str>,
    headers: BTreeMap<&'a str, &'a [String]>,
    timestamp: Option<String>,
    attempt: u32,
    deadline: Option<String>,
}

#[derive(Serialize)]
struct Results<'a> {
    results: Vec<AckResult<'a>>,
}

#[derive(Serialize)]
struct AckResult<'a> {
    partition: u32,
    epoch: u64,
    sequence: u64,
    status: &'a str,
    committed: u64,
}

/// One line, so that it can be read by line and looks right on a terminal.
fn written(answer: &impl Serialize) -> Vec<u8> {
    // Nothing in these types can fail to be JSON: keys are strings, numbers finite.
    let mut bytes = serde_json::to_vec(answer).unwrap_or_else(|_| b"{}".to_vec());
    bytes.push(b'\n');
    bytes
}

// === impl Message ===

impl<'a> Message<'a> {
    fn of(message: &'a proto::Message, asked: PayloadEncoding) -> Self {
        let (payload, encoding) = payload_text(&message.payload, asked);
        Self {
            partition: message.partition,
            epoch: message.epoch,
            sequence: message.sequence,
            stream: &message.stream,
            subject: &message.subject,
            key: &message.key,
            payload,
            // Said only where it could be either.
            payload_encoding: (asked == PayloadEncoding::Text).then(|| encoding.as_str_name()),
            headers: message
                .headers
                .iter()
                .map(|(name, values)| (name.as_str(), values.values.as_slice()))
                .collect(),
            timestamp: message.timestamp.as_ref().map(time_text),
            attempt: message.attempt,
            deadline: message.deadline.as_ref().map(time_text),
        }
    }
}

// === impl Results ===

impl<'a> Results<'a> {
    fn of(results: &'a [proto::AckResult]) -> Self {
        let results = results.iter().map(|result| AckResult {
            partition: result.partition,
            epoch: result.epoch,
            sequence: result.sequence,
            status: result.status().as_str_name(),
            committed: result.committed,
        });
        Self {
            results: results.collect(),
        }
    }
}

fn partition_status(partition: &proto::PartitionStatus) -> Value {
    json!({
        "partition": partition.partition,
        "epoch": partition.epoch,
        "state": partition.state().as_str_name(),
        "position": partition.position,
        "committed": partition.committed,
        "in_flight": partition.in_flight,
        "pending": partition.pending,
        "head_attempts": partition.head_attempts,
        "reason": partition.reason,
        "detail": partition.detail,
    })
}

fn partition_epochs(all: &[proto::PartitionEpoch]) -> Value {
    all.iter()
        .map(|one| json!({"partition": one.partition, "epoch": one.epoch}))
        .collect()
}

/// An event's type, its field and its body.
#[expect(clippy::too_many_lines, reason = "a table: one row per event")]
fn named(event: &Event) -> (&'static str, &'static str, Value) {
    match event {
        Event::Joined(e) => ("Joined", "joined", json!({"epoch": e.epoch})),
        Event::Assigned(e) => (
            "Assigned",
            "assigned",
            json!({"partitions": partition_epochs(&e.partitions)}),
        ),
        Event::Revoking(e) => (
            "Revoking",
            "revoking",
            json!({
                "partitions": partition_epochs(&e.partitions),
                "deadline": e.deadline.as_ref().map(time_text),
            }),
        ),
        Event::Kept(e) => (
            "Kept",
            "kept",
            json!({"partitions": partition_epochs(&e.partitions)}),
        ),
        Event::Revoked(e) => (
            "Revoked",
            "revoked",
            json!({"partitions": partition_epochs(&e.partitions), "clean": e.clean}),
        ),
        Event::Fenced(e) => (
            "Fenced",
            "fenced",
            json!({"partition": e.partition, "epoch": e.epoch}),
        ),
        Event::Suspended(_) => ("Suspended", "suspended", json!({})),
        Event::Resumed(_) => ("Resumed", "resumed", json!({})),
        Event::Committed(e) => (
            "Committed",
            "committed",
            json!({"partition": e.partition, "epoch": e.epoch, "committed": e.committed}),
        ),
        Event::Paused(e) => ("Paused", "paused", json!({"partitions": e.partitions})),
        Event::Unpaused(e) => ("Unpaused", "unpaused", json!({"partitions": e.partitions})),
        Event::AttemptFailed(e) => (
            "AttemptFailed",
            "attempt_failed",
            json!({
                "partition": e.partition, "sequence": e.sequence, "attempts": e.attempts,
                "error": e.error,
            }),
        ),
        Event::Skipped(e) => (
            "Skipped",
            "skipped",
            json!({
                "partition": e.partition, "sequence": e.sequence, "attempts": e.attempts,
                "error": e.error,
            }),
        ),
        Event::Stopped(e) => (
            "Stopped",
            "stopped",
            json!({
                "partition": e.partition, "sequence": e.sequence, "reason": e.reason,
                "detail": e.detail,
            }),
        ),
        Event::MessagesLost(e) => (
            "MessagesLost",
            "messages_lost",
            json!({"partition": e.partition, "from": e.from, "to": e.to}),
        ),
        Event::PositionMoved(e) => (
            "PositionMoved",
            "position_moved",
            json!({
                "partition": e.partition, "from": e.from, "to": e.to, "reason": e.reason,
            }),
        ),
        Event::ProcessingTimedOut(e) => (
            "ProcessingTimedOut",
            "processing_timed_out",
            json!({"partition": e.partition, "sequence": e.sequence}),
        ),
        Event::OffsetLost(e) => (
            "OffsetLost",
            "offset_lost",
            json!({"partition": e.partition, "detail": e.detail}),
        ),
        Event::BucketReplaced(_) => ("BucketReplaced", "bucket_replaced", json!({})),
        Event::Application(e) => (
            "Application",
            "application",
            json!({"connected": e.connected}),
        ),
        Event::Missed(e) => ("Missed", "missed", json!({"events": e.events})),
    }
}
