//! Looking into streams. Everything here is answered by the stream's leader.

use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{StreamError, StreamFacts, facts};
use crate::group::{Sequence, ServerTime};
use crate::nats::api::{ApiError, code};
use crate::nats::connect::Connection;
use crate::nats::time;

/// A message without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageFacts {
    /// Its sequence.
    pub sequence: Sequence,
    /// When it was stored.
    pub timestamp: ServerTime,
    /// The subject that it is stored under.
    pub subject: String,
}

/// A message as `STREAM.MSG.GET` gives it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct RawMessage {
    pub(crate) subject: String,
    pub(crate) seq: u64,
    #[serde(deserialize_with = "time::deserialize")]
    pub(crate) time: ServerTime,
    #[serde(default)]
    pub(crate) hdrs: String,
    #[serde(default)]
    pub(crate) data: String,
}

#[derive(Deserialize)]
struct Answer {
    message: RawMessage,
}

#[derive(Deserialize)]
struct Page<T> {
    #[serde(default)]
    total: usize,
    #[serde(flatten)]
    items: T,
}

#[derive(Deserialize)]
struct Names {
    #[serde(default)]
    streams: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Subjects {
    state: SubjectState,
}

#[derive(Deserialize)]
struct SubjectState {
    #[serde(default)]
    subjects: Option<BTreeMap<String, u64>>,
}

/// What the stream is now.
pub async fn info(connection: &Connection, stream: &str) -> Result<StreamFacts, StreamError> {
    let call = format!("STREAM.INFO.{stream}");
    let api = connection.jetstream();
    let found: Result<Value, _> = api.call(&call, &Value::Null).await;
    let found = found.map_err(|error| StreamError::of(stream, error))?;
    facts::from_info(found).map_err(|error| StreamError::of(stream, garbled(call, &error)))
}

/// The message at exactly this sequence; none if it is not there (any more, or yet).
pub async fn message_at(
    connection: &Connection,
    stream: &str,
    sequence: Sequence,
) -> Result<Option<MessageFacts>, StreamError> {
    if sequence < Sequence::FIRST {
        return Ok(None);
    }
    message(connection, stream, &json!({ "seq": sequence.0 })).await
}

/// The sequence in the origin of a message that was taken over from there, as the server notes it
/// in a header; none if the message is not there or does not say.
pub async fn taken_over_up_to(
    connection: &Connection,
    stream: &str,
    at: Sequence,
    origin: &str,
) -> Result<Option<Sequence>, StreamError> {
    let message = raw_message(connection, stream, &json!({ "seq": at.0 })).await?;
    Ok(message.and_then(|message| sequence_in(origin, &message.hdrs)))
}

/// `Nats-Stream-Source: <stream> <sequence> <filter> <destination> …`, among a message's headers.
fn sequence_in(origin: &str, headers: &str) -> Option<Sequence> {
    let bytes = BASE64_STANDARD.decode(headers);
    let bytes = bytes.ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix("Nats-Stream-Source:"))?;
    let mut words = value.split_whitespace();
    // In another domain or account the name goes on after a colon.
    let name = words.next()?.split(':').next()?;
    let sequence = words.next()?.parse().ok()?;
    (name == origin).then_some(Sequence(sequence))
}

/// The first message of this filter (none: any) at or above this sequence.
pub async fn first_from(
    connection: &Connection,
    stream: &str,
    filter: Option<&str>,
    sequence: Sequence,
) -> Result<Option<MessageFacts>, StreamError> {
    let sequence = sequence.max(Sequence::FIRST).0;
    let body = json!({ "seq": sequence, "next_by_subj": filter.unwrap_or(">") });
    message(connection, stream, &body).await
}

async fn message(
    connection: &Connection,
    stream: &str,
    body: &Value,
) -> Result<Option<MessageFacts>, StreamError> {
    let message = raw_message(connection, stream, body).await?;
    Ok(message.map(|message| MessageFacts {
        sequence: Sequence(message.seq),
        timestamp: message.time,
        subject: message.subject,
    }))
}

async fn raw_message(
    connection: &Connection,
    stream: &str,
    body: &Value,
) -> Result<Option<RawMessage>, StreamError> {
    let call = format!("STREAM.MSG.GET.{stream}");
    match connection.jetstream().call::<Answer>(&call, body).await {
        Ok(Answer { message }) => Ok(Some(message)),
        Err(error) if error.code() == Some(code::NO_MESSAGE) => Ok(None),
        Err(error) => Err(StreamError::of(stream, error)),
    }
}

/// The first message that was stored at or after this time; none if all are older.
///
/// By bisection over single messages, since not every supported server can be asked by time, and
/// one that cannot answers with another message instead of refusing.
pub async fn first_at_or_after(
    connection: &Connection,
    stream: &str,
    time: ServerTime,
) -> Result<Option<MessageFacts>, StreamError> {
    let facts = info(connection, stream).await?;
    let (mut low, mut high) = (facts.first.0, facts.last.0 + 1);
    let mut found = None;
    // All below `low` are older; `found` is the first known to be young enough, at or above `high`.
    while low < high {
        let middle = low + (high - low) / 2;
        match first_from(connection, stream, None, Sequence(middle)).await? {
            Some(message) if message.timestamp < time => low = message.sequence.0 + 1,
            Some(message) => {
                high = middle;
                found = Some(message);
            }
            None => high = middle,
        }
    }
    Ok(found)
}

/// The subjects that match, each with the number of its messages.
pub async fn subject_counts(
    connection: &Connection,
    stream: &str,
    filter: &str,
) -> Result<BTreeMap<String, u64>, ApiError> {
    let call = format!("STREAM.INFO.{stream}");
    let mut counts = BTreeMap::new();
    loop {
        let body = json!({ "subjects_filter": filter, "offset": counts.len() });
        let page: Page<Subjects> = connection.jetstream().call(&call, &body).await?;
        let subjects = page.items.state.subjects.unwrap_or_default();
        let done = subjects.is_empty();
        counts.extend(subjects);
        if done || counts.len() >= page.total {
            return Ok(counts);
        }
    }
}

/// The names of all streams that take this subject.
pub async fn names(connection: &Connection, subject: &str) -> Result<Vec<String>, ApiError> {
    let mut names = Vec::new();
    loop {
        let body = json!({ "subject": subject, "offset": names.len() });
        let api = connection.jetstream();
        let page: Page<Names> = api.call("STREAM.NAMES", &body).await?;
        let streams = page.items.streams.unwrap_or_default();
        let done = streams.is_empty();
        names.extend(streams);
        if done || names.len() >= page.total {
            return Ok(names);
        }
    }
}

fn garbled(subject: String, error: &serde_json::Error) -> ApiError {
    ApiError::Garbled {
        subject,
        detail: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_where_in_its_origin_it_was() {
        let headers = |text: &str| BASE64_STANDARD.encode(text);
        let of = |text: &str| sequence_in("OLD", &headers(text));
        let full =
            "NATS/1.0\r\nA: b\r\nNats-Stream-Source: OLD 24 old.* old.{{x}} old.k aoQJ\r\n\r\n";
        assert_eq!(of(full), Some(Sequence(24)));
        assert_eq!(
            of("NATS/1.0\r\nNats-Stream-Source: OTHER 24 > >\r\n\r\n"),
            None
        );
        assert_eq!(
            of("NATS/1.0\r\nNats-Stream-Source: OLD:hub 7 > >\r\n\r\n"),
            Some(Sequence(7))
        );
        assert_eq!(of("NATS/1.0\r\nA: b\r\n\r\n"), None);
        assert_eq!(sequence_in("OLD", "not base64!"), None);
    }
}
