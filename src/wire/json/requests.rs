//! Bodies of requests: JSON read strictly into the protobuf messages.
//!
//! Only what the encoding itself demands is checked here: names, types, presence. What a value may
//! be is checked once for both encodings, where the call is made.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

use super::error::{JsonError, read};
use super::values::{parse_duration, payload_of};
use crate::wire::proto::{self, ack_request, publish_request};

/// Reads the body of `POST /v1/fetch`.
pub fn fetch_request(body: &[u8]) -> Result<proto::FetchRequest, JsonError> {
    let read: Fetch = read(body)?;
    Ok(proto::FetchRequest {
        max_messages: read.max_messages,
        max_wait: read.max_wait.map(Span::into),
        batch_wait: read.batch_wait.map(Span::into),
        max_bytes: read.max_bytes,
        partitions: some_partitions(read.partitions)?,
        payload_encoding: proto::PayloadEncoding::from(read.payload_encoding).into(),
    })
}

/// Reads the body of `POST /v1/ack`.
pub fn ack_request(body: &[u8]) -> Result<proto::AckRequest, JsonError> {
    let read: Ack = read(body)?;
    Ok(proto::AckRequest {
        positions: read.positions.into_iter().map(Position::into).collect(),
        mode: match read.mode {
            Mode::UpTo => ack_request::Mode::UpTo,
            Mode::Each => ack_request::Mode::Each,
        }
        .into(),
        wait: match read.wait {
            Wait::Accepted => ack_request::Wait::Accepted,
            Wait::Committed => ack_request::Wait::Committed,
        }
        .into(),
    })
}

/// Reads the body of `POST /v1/nack`.
pub fn nack_request(body: &[u8]) -> Result<proto::NackRequest, JsonError> {
    let read: Nack = read(body)?;
    Ok(proto::NackRequest {
        messages: read.messages.into_iter().map(Position::into).collect(),
        error: read.error,
        delay: read.delay.map(Span::into),
    })
}

/// Reads the body of `POST /v1/publish`.
pub fn publish_request(body: &[u8]) -> Result<proto::PublishRequest, JsonError> {
    let read: Publish = read(body)?;
    let to = match (read.key, read.subject) {
        (Some(key), None) => publish_request::To::Key(key),
        (None, Some(subject)) => publish_request::To::Subject(subject),
        (Some(_), Some(_)) => {
            return Err(JsonError::new("subject", "excludes key; give one of them"));
        }
        (None, None) => {
            return Err(JsonError::new(
                "key",
                "is required and is missing; give it or subject",
            ));
        }
    };
    let encoding = read.payload_encoding.into();
    let headers = read
        .headers
        .unwrap_or_default()
        .into_iter()
        .map(|(name, Values(values))| (name, proto::HeaderValues { values }));
    Ok(proto::PublishRequest {
        payload: payload_of(read.payload, encoding)?.into(),
        headers: headers.collect(),
        id: read.id,
        derived_from: read.derived_from.map(Position::into),
        payload_encoding: encoding.into(),
        to: Some(to),
    })
}

/// Reads the body of `POST /v1/pause`.
pub fn pause_request(body: &[u8]) -> Result<proto::PauseRequest, JsonError> {
    let read: Partitions = read(body)?;
    Ok(proto::PauseRequest {
        partitions: some_partitions(read.partitions)?,
    })
}

/// Reads the body of `POST /v1/resume`.
pub fn resume_request(body: &[u8]) -> Result<proto::ResumeRequest, JsonError> {
    let read: Partitions = read(body)?;
    Ok(proto::ResumeRequest {
        partitions: some_partitions(read.partitions)?,
    })
}

/// Reads the body of `POST /v1/drain`.
pub fn drain_request(body: &[u8]) -> Result<proto::DrainRequest, JsonError> {
    let read: Drain = read(body)?;
    Ok(proto::DrainRequest {
        timeout: read.timeout.map(Span::into),
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fetch {
    max_messages: Option<u32>,
    max_wait: Option<Span>,
    batch_wait: Option<Span>,
    max_bytes: Option<u64>,
    partitions: Option<Vec<u32>>,
    #[serde(default)]
    payload_encoding: Encoding,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ack {
    positions: Vec<Position>,
    #[serde(default)]
    mode: Mode,
    #[serde(default)]
    wait: Wait,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nack {
    messages: Vec<Position>,
    error: String,
    delay: Option<Span>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Publish {
    key: Option<String>,
    subject: Option<String>,
    payload: String,
    headers: Option<BTreeMap<String, Values>>,
    id: Option<String>,
    derived_from: Option<Position>,
    #[serde(default)]
    payload_encoding: Encoding,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Partitions {
    partitions: Option<Vec<u32>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Drain {
    timeout: Option<Span>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Position {
    partition: u32,
    epoch: u64,
    sequence: u64,
}

#[derive(Default, Deserialize)]
enum Mode {
    #[default]
    #[serde(rename = "UP_TO")]
    UpTo,
    #[serde(rename = "EACH")]
    Each,
}

#[derive(Default, Deserialize)]
enum Wait {
    #[default]
    #[serde(rename = "ACCEPTED")]
    Accepted,
    #[serde(rename = "COMMITTED")]
    Committed,
}

#[derive(Default, Deserialize)]
enum Encoding {
    #[default]
    #[serde(rename = "BASE64", alias = "base64")]
    Base64,
    #[serde(rename = "TEXT", alias = "text")]
    Text,
}

/// A duration as a string.
struct Span(prost_types::Duration);

/// A header's values: a list, or a single one.
struct Values(Vec<String>);

/// None named is all; an empty list is neither, and refused.
fn some_partitions(named: Option<Vec<u32>>) -> Result<Vec<u32>, JsonError> {
    match named {
        None => Ok(Vec::new()),
        Some(named) if named.is_empty() => Err(JsonError::new(
            "partitions",
            "is empty; name at least one, or leave it out for all",
        )),
        Some(named) => Ok(named),
    }
}

// === impl Span ===

impl From<Span> for prost_types::Duration {
    fn from(span: Span) -> Self {
        span.0
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let text = String::deserialize(from)?;
        let duration = parse_duration(&text).map_err(D::Error::custom)?;
        prost_types::Duration::try_from(duration)
            .map(Self)
            .map_err(|_| D::Error::custom(format!("{text:?} is too long")))
    }
}

// === impl Values ===

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected a string or a list of strings")]
        enum Either {
            One(String),
            Many(Vec<String>),
        }
        Ok(match Either::deserialize(from)? {
            Either::One(value) => Self(vec![value]),
            Either::Many(values) => Self(values),
        })
    }
}

// === impl Position ===

impl From<Position> for proto::Position {
    fn from(position: Position) -> Self {
        let Position {
            partition,
            epoch,
            sequence,
        } = position;
        Self {
            partition,
            epoch,
            sequence,
        }
    }
}

// === impl Encoding ===

impl From<Encoding> for proto::PayloadEncoding {
    fn from(encoding: Encoding) -> Self {
        match encoding {
            Encoding::Base64 => Self::Base64,
            Encoding::Text => Self::Text,
        }
    }
}
