//! The group's bucket: one stream per group that holds its whole state.
//!
//! Made and read as a stream, since the client's own buckets force direct gets, which answer
//! from any replica, old without bound. Reads here go to the leader; even so an answer can be
//! old, and only a compare-and-set proves what it replaces.

mod config;
mod filter;
mod outcome;
mod read;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::header::{HeaderValue, NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, NATS_MESSAGE_TTL};
use bytes::Bytes;
use serde_json::Value;

pub use config::{BucketSettings, Difference};
pub use filter::KeyFilter;
pub use outcome::{CasOutcome, PutOutcome};
pub use read::{Entry, EntryValue, ReadError};
pub use watch::{Watch, WatchEvent};

use super::api::{Api, ApiError, Remedy, code};
use super::connect::Connection;
use crate::group::{BucketId, Revision, ServerTime};
use crate::wire::keys::Key;

/// A group's bucket, through one connection. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Bucket {
    connection: Connection,
    name: Arc<str>,
    stream: Arc<str>,
    prefix: Arc<str>,
}

/// What a bucket is at the moment of looking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketFacts {
    /// Its random identity; none if somebody else made the stream.
    pub id: Option<BucketId>,
    /// When its stream was created.
    pub created: ServerTime,
    /// The group object's uid that it was made for.
    pub group_uid: String,
    /// How many replicas it has.
    pub replicas: u32,
    /// The newest revision.
    pub last: Revision,
    /// Settings that are not as they were made.
    pub differences: Vec<Difference>,
}

/// Why a bucket cannot be opened or made.
#[derive(Debug, thiserror::Error)]
pub enum BucketError {
    /// It is not there.
    #[error("the bucket {bucket} does not exist")]
    Missing {
        /// Its name.
        bucket: String,
    },
    /// The stream's name is taken by something that was made differently.
    #[error(
        "the stream KV_{bucket} exists with other settings or another identity; look at it before \
         anything is made"
    )]
    Taken {
        /// The bucket's name.
        bucket: String,
    },
    /// The server did not do it, or did not say.
    #[error("bucket {bucket}: {source}")]
    Api {
        /// Its name.
        bucket: String,
        /// What happened.
        source: ApiError,
    },
}

// === impl Bucket ===

impl Bucket {
    /// Opens a bucket that is there, and says what it is.
    pub async fn open(
        connection: &Connection,
        name: &str,
    ) -> Result<(Self, BucketFacts), BucketError> {
        let bucket = Self::at(connection, name);
        let facts = bucket.look().await?;
        Ok((bucket, facts))
    }

    /// Makes a bucket. One that is there with the same settings and identity is opened.
    pub async fn create(
        connection: &Connection,
        name: &str,
        settings: &BucketSettings,
    ) -> Result<(Self, BucketFacts), BucketError> {
        let bucket = Self::at(connection, name);
        let call = format!("STREAM.CREATE.{}", bucket.stream);
        let config = config::stream_config(name, settings);
        let made: config::Found = match bucket.api().call(&call, &config).await {
            Ok(made) => made,
            Err(error) => return Err(bucket.error(error)),
        };
        let facts = bucket.facts(&made)?;
        Ok((bucket, facts))
    }

    fn at(connection: &Connection, name: &str) -> Self {
        Self {
            connection: connection.clone(),
            name: name.into(),
            stream: config::stream_name(name).into(),
            prefix: format!("$KV.{name}.").into(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same bucket through another connection.
    #[must_use]
    pub fn through(&self, connection: &Connection) -> Self {
        Self {
            connection: connection.clone(),
            ..self.clone()
        }
    }

    /// What the bucket is now.
    pub async fn look(&self) -> Result<BucketFacts, BucketError> {
        let call = format!("STREAM.INFO.{}", self.stream);
        match self.api().call::<config::Found>(&call, &Value::Null).await {
            Ok(found) => self.facts(&found),
            Err(error) => Err(self.error(error)),
        }
    }

    /// Writes the key if it still stands at `expected`; revision 0: if it is not there.
    pub async fn replace(&self, key: &Key, value: Bytes, expected: Revision) -> CasOutcome {
        let mut headers = HeaderMap::new();
        let expected = HeaderValue::from(expected.0);
        headers.insert(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, expected);
        let subject = self.subject(key);
        outcome::of_cas(self.api().publish(&subject, headers, value).await)
    }

    /// Writes the key, whatever stands there. The time to live counts from each write anew; a
    /// write without one makes the key permanent.
    pub async fn put(&self, key: &Key, value: Bytes, ttl: Option<Duration>) -> PutOutcome {
        let mut headers = HeaderMap::new();
        if let Some(ttl) = ttl {
            headers.insert(NATS_MESSAGE_TTL, whole_seconds(ttl));
        }
        let subject = self.subject(key);
        outcome::of_put(self.api().publish(&subject, headers, value).await)
    }

    /// Puts the settings right that somebody changed; says what the bucket is then. Values and
    /// replicas stay.
    pub async fn repair(&self) -> Result<BucketFacts, BucketError> {
        let info = format!("STREAM.INFO.{}", self.stream);
        let found = self.api().call::<config::Found>(&info, &Value::Null).await;
        let found = found.map_err(|error| self.error(error))?;
        let update = format!("STREAM.UPDATE.{}", self.stream);
        let config = config::repaired(&self.name, found.config);
        let updated = self.api().call::<config::Found>(&update, &config).await;
        updated.map_or_else(|error| Err(self.error(error)), |found| self.facts(&found))
    }

    /// Deletes the bucket with everything in it.
    pub async fn delete(&self) -> Result<(), BucketError> {
        let call = format!("STREAM.DELETE.{}", self.stream);
        match self.api().call::<Value>(&call, &Value::Null).await {
            Ok(_) => Ok(()),
            Err(error) => Err(self.error(error)),
        }
    }

    /// The names of all buckets with this prefix, of groups or not.
    pub async fn names(connection: &Connection, prefix: &str) -> Result<Vec<String>, ApiError> {
        let start = config::stream_name(&format!("{prefix}_"));
        let streams = super::streams::names(connection, "$KV.>").await?;
        let ours = streams.into_iter().filter(|name| name.starts_with(&start));
        Ok(ours
            .filter_map(|name| name.strip_prefix("KV_").map(ToOwned::to_owned))
            .collect())
    }

    fn api(&self) -> &Api {
        self.connection.jetstream()
    }

    fn subject(&self, key: &Key) -> String {
        format!("{}{key}", self.prefix)
    }

    /// The key of a subject of this bucket.
    fn key(&self, subject: &str) -> Key {
        subject
            .strip_prefix(&*self.prefix)
            .map_or_else(|| Key::Foreign(subject.to_owned()), Key::parse)
    }

    fn facts(&self, found: &config::Found) -> Result<BucketFacts, BucketError> {
        let created = super::time::parse(&found.created).ok_or_else(|| BucketError::Api {
            bucket: self.name.to_string(),
            source: ApiError::Garbled {
                subject: format!("STREAM.INFO.{}", self.stream),
                detail: format!("created is {:?}", found.created),
            },
        })?;
        Ok(BucketFacts {
            id: found.id(),
            created,
            group_uid: found
                .metadata(config::KEY_GROUP_UID)
                .unwrap_or_default()
                .to_owned(),
            replicas: found.number("num_replicas"),
            last: Revision(found.state.last_seq),
            differences: config::differences(&self.name, &found.config),
        })
    }

    fn error(&self, error: ApiError) -> BucketError {
        let bucket = self.name.to_string();
        match error.code() {
            Some(code::STREAM_NOT_FOUND) => BucketError::Missing { bucket },
            Some(code::STREAM_EXISTS) => BucketError::Taken { bucket },
            Some(_) | None => BucketError::Api {
                bucket,
                source: error,
            },
        }
    }
}

/// The server takes whole seconds, at least one.
fn whole_seconds(ttl: Duration) -> String {
    let up = u64::from(ttl.subsec_nanos() > 0);
    format!("{}s", (ttl.as_secs() + up).max(1))
}

// === impl BucketError ===

impl BucketError {
    /// What this calls for.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Missing { .. } => Remedy::AskOperator,
            Self::Taken { .. } => Remedy::Observe,
            Self::Api { source, .. } => source.remedy(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_to_live_is_whole_seconds_rounded_up_and_never_zero() {
        assert_eq!(whole_seconds(Duration::from_secs(3600)), "3600s");
        assert_eq!(whole_seconds(Duration::from_millis(1500)), "2s");
        assert_eq!(whole_seconds(Duration::ZERO), "1s");
    }
}
