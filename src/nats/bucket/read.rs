//! Reading keys from the stream's leader.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::json;

use super::{Bucket, KeyFilter};
use crate::group::{Revision, ServerTime};
use crate::nats::api::{ApiError, Remedy, code};
use crate::nats::streams::RawMessage;
use crate::wire::keys::Key;

/// Requests in flight while a listing is read.
const LISTING_AT_ONCE: usize = 32;

/// One value of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Key,
    /// The number of the write.
    pub revision: Revision,
    /// What was written.
    pub value: EntryValue,
    /// When its server stored it.
    pub created: ServerTime,
}

/// What stands at a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryValue {
    /// A document.
    Put(Bytes),
    /// Somebody deleted or purged the key, which nobody of us does: damage, never absence.
    Marker,
}

/// Why a key could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The bucket is gone.
    #[error("the bucket {bucket} does not exist any more")]
    Missing {
        /// Its name.
        bucket: String,
    },
    /// The server did not answer with a value.
    #[error("{what} of bucket {bucket} cannot be read: {source}")]
    Api {
        /// Which key.
        what: String,
        /// The bucket's name.
        bucket: String,
        /// What happened.
        source: ApiError,
    },
}

// === impl Bucket ===

impl Bucket {
    /// The key's newest value as the leader knows it; it may be old, if that leader has been
    /// replaced and does not know it yet.
    pub async fn get(&self, key: &Key) -> Result<Option<Entry>, ReadError> {
        self.read(&self.subject(key)).await
    }

    /// All keys that match, in their order; without a consumer, for display.
    pub async fn list(&self, filter: &KeyFilter) -> Result<Vec<Entry>, ReadError> {
        let pattern = format!("{}{}", self.prefix, filter.pattern());
        let counts =
            crate::nats::streams::subject_counts(&self.connection, &self.stream, &pattern).await;
        let subjects = counts.map_err(|error| self.read_error(&pattern, error))?;
        // A key whose time to live ran out in between is simply no longer there.
        let entries: Vec<Option<Entry>> = stream::iter(subjects.into_keys())
            .map(|subject| async move { self.read(&subject).await })
            .buffered(LISTING_AT_ONCE)
            .try_collect()
            .await?;
        Ok(entries.into_iter().flatten().collect())
    }

    async fn read(&self, subject: &str) -> Result<Option<Entry>, ReadError> {
        let call = format!("STREAM.MSG.GET.{}", self.stream);
        let body = json!({ "last_by_subj": subject });
        let found = match self.api().call::<Found>(&call, &body).await {
            Ok(found) => found.message,
            Err(error) if error.code() == Some(code::NO_MESSAGE) => return Ok(None),
            Err(error) => return Err(self.read_error(subject, error)),
        };
        self.entry_of(&found)
            .map(Some)
            .map_err(|detail| self.read_error(subject, garbled(subject, detail)))
    }

    fn entry_of(&self, found: &RawMessage) -> Result<Entry, String> {
        let headers = decode(&found.hdrs)?;
        let value = if is_marker(&String::from_utf8_lossy(&headers)) {
            EntryValue::Marker
        } else {
            EntryValue::Put(decode(&found.data)?.into())
        };
        Ok(Entry {
            key: self.key(&found.subject),
            revision: Revision(found.seq),
            value,
            created: found.time,
        })
    }

    fn read_error(&self, what: &str, error: ApiError) -> ReadError {
        let bucket = self.name.to_string();
        if error.code() == Some(code::STREAM_NOT_FOUND) {
            return ReadError::Missing { bucket };
        }
        ReadError::Api {
            what: what.strip_prefix(&*self.prefix).unwrap_or(what).to_owned(),
            bucket,
            source: error,
        }
    }
}

#[derive(serde::Deserialize)]
struct Found {
    message: RawMessage,
}

fn decode(text: &str) -> Result<Vec<u8>, String> {
    BASE64_STANDARD.decode(text).map_err(|e| e.to_string())
}

fn garbled(subject: &str, detail: String) -> ApiError {
    ApiError::Garbled {
        subject: subject.to_owned(),
        detail,
    }
}

/// Whether these header lines are those of a deletion.
fn is_marker(headers: &str) -> bool {
    headers.lines().any(|line| {
        line.split_once(':')
            .is_some_and(|(name, value)| is_marker_header(name.trim(), value.trim()))
    })
}

/// A deletion by a client says its operation; one by the server its reason.
pub(super) fn is_marker_header(name: &str, value: &str) -> bool {
    name.eq_ignore_ascii_case("KV-Operation") && matches!(value, "DEL" | "PURGE")
        || name.eq_ignore_ascii_case("Nats-Marker-Reason")
}

// === impl ReadError ===

impl ReadError {
    /// What this calls for.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Missing { .. } => Remedy::AskOperator,
            Self::Api { source, .. } => source.remedy(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deletion_is_a_marker_whoever_made_it() {
        assert!(is_marker("NATS/1.0\r\nKV-Operation: DEL\r\n\r\n"));
        assert!(is_marker(
            "NATS/1.0\r\nkv-operation: PURGE\r\nNats-Rollup: sub\r\n\r\n"
        ));
        assert!(is_marker("NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\n\r\n"));
        assert!(!is_marker("NATS/1.0\r\nNats-TTL: 3600s\r\n\r\n"));
        assert!(!is_marker(""));
    }
}
