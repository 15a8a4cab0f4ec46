//! A message as a stream delivers it.

use std::fmt;
use std::ops::Deref;

use bytes::Bytes;

use super::reply::Delivery;
use crate::group::{Sequence, ServerTime};

/// A message of a stream.
#[derive(Clone, Debug)]
pub struct StreamMessage {
    /// Its sequence.
    pub sequence: Sequence,
    /// The subject that it is stored under.
    pub subject: Subject,
    /// Its headers.
    pub headers: Headers,
    /// Its content.
    pub payload: Bytes,
    /// When it was stored.
    pub timestamp: ServerTime,
    /// What its consumer still had after it.
    pub pending: u64,
    /// What it counts against a window of bytes.
    pub size: u64,
}

/// A message's subject; cheap to clone, and text wherever text is wanted.
#[derive(Clone, PartialEq, Eq)]
pub struct Subject(async_nats::Subject);

/// A message's headers, as they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(Option<async_nats::HeaderMap>);

// === impl StreamMessage ===

impl StreamMessage {
    pub(super) fn new(message: async_nats::Message, delivery: &Delivery) -> Self {
        Self {
            sequence: delivery.stream,
            subject: Subject(message.subject),
            headers: Headers(message.headers),
            payload: message.payload,
            timestamp: delivery.timestamp,
            pending: delivery.pending,
            size: u64::try_from(message.length).unwrap_or(u64::MAX),
        }
    }
}

// === impl Subject ===

impl Subject {
    /// The subject as text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl Deref for Subject {
    type Target = str;
    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl From<&str> for Subject {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

// === impl Headers ===

impl Headers {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(async_nats::HeaderMap::is_empty)
    }

    /// The first value of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        Some(self.0.as_ref()?.get(name)?.as_str())
    }

    /// Each name with its values, by name.
    pub fn to_vec(&self) -> Vec<(String, Vec<String>)> {
        let Some(headers) = &self.0 else {
            return Vec::new();
        };
        let mut all: Vec<_> = headers
            .iter()
            .map(|(name, values)| {
                let values = values.iter().map(|v| v.as_str().to_owned()).collect();
                (name.to_string(), values)
            })
            .collect();
        all.sort();
        all
    }
}
