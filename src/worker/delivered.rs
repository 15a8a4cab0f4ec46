//! A message as it is handed to the application.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::group::{Epoch, Partition, Sequence, ServerTime, Source, partitioning};
use crate::nats::Subject;

/// A message in the application's hands. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Delivered {
    /// Its partition.
    pub partition: Partition,
    /// The epoch of the ownership under which it is handed over: the application's fencing token.
    pub epoch: Epoch,
    /// Its sequence in the stream.
    pub sequence: Sequence,
    /// The stream.
    pub stream: Arc<str>,
    /// The subject under which it is stored.
    pub subject: Subject,
    /// How the group's messages are laid out: by it the key is known.
    pub source: Arc<Source>,
    /// Its content.
    pub payload: Bytes,
    /// Its headers.
    pub headers: Headers,
    /// When the server stored it.
    pub timestamp: ServerTime,
    /// 1 for the first time; rises after a nack, a disconnect or an unclean hand-over.
    pub attempt: u32,
    /// How long from now the application has for it, before it counts as hung.
    pub time_left: Duration,
    /// When that time ends, on the wall clock.
    pub deadline: ServerTime,
}

/// A message's headers; empty ones cost nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(Option<Arc<[Header]>>);

/// A name with its values.
type Header = (String, Vec<String>);

// === impl Delivered ===

impl Delivered {
    /// The key: what of the subject the publisher chose.
    pub fn key(&self) -> String {
        partitioning::key_of_stored(&self.source, self.partition, &self.subject)
    }

    /// Its size as credit counts it: payload and subject.
    pub fn size(&self) -> u64 {
        (self.payload.len() + self.subject.len()) as u64
    }
}

// === impl Headers ===

impl Headers {
    /// Names and values, in the order in which they came.
    pub fn iter(&self) -> impl Iterator<Item = &(String, Vec<String>)> {
        self.0.iter().flat_map(|all| all.iter())
    }

    /// The first value of this header; names are compared as they are written.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter()
            .find(|(n, _)| n == name)
            .and_then(|(_, values)| values.first())
            .map(String::as_str)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

impl From<Vec<(String, Vec<String>)>> for Headers {
    fn from(all: Vec<(String, Vec<String>)>) -> Self {
        Self((!all.is_empty()).then(|| all.into()))
    }
}
