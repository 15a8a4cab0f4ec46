//! The group's bucket, and the description in it.

use super::streams::{USUAL_REPLICAS, too_few_servers};
use super::{ProvisionError, Terms};
use crate::chance;
use crate::group::{GroupRef, Meta, Revision};
use crate::nats::{
    Bucket, BucketError, BucketFacts, BucketSettings, CasOutcome, Connection, EntryValue,
};
use crate::wire::{self, keys::Key};

/// Makes a group's bucket; with one replica where the servers are too few for more.
pub(super) async fn make(
    connection: &Connection,
    name: &str,
    terms: &Terms,
) -> Result<(Bucket, BucketFacts), ProvisionError> {
    let mut settings = BucketSettings {
        replicas: terms.bucket_replicas.unwrap_or(USUAL_REPLICAS),
        id: chance::bucket_id(),
        group_uid: terms.group_uid.clone(),
        history: 1,
    };
    let mut made = Bucket::create(connection, name, &settings).await;
    if let Err(BucketError::Api { source, .. }) = &made
        && too_few_servers(source)
        && terms.bucket_replicas.is_none()
    {
        settings.replicas = 1;
        made = Bucket::create(connection, name, &settings).await;
        if made.is_ok() {
            tracing::warn!(
                bucket = name,
                "the bucket has one replica: the loss of its server loses the group's state"
            );
        }
    }
    match made {
        // Another process was faster: its bucket is the bucket.
        Err(BucketError::Taken { .. }) => Ok(Bucket::open(connection, name).await?),
        made => Ok(made?),
    }
}

/// The group's description and its revision; none if it was never written.
pub async fn read_meta(
    bucket: &Bucket,
    group: &GroupRef,
) -> Result<Option<(Meta, Revision)>, ProvisionError> {
    let damaged = |why: String| ProvisionError::MetaDamaged {
        group: group.clone(),
        why,
    };
    let Some(entry) = bucket.get(&Key::Meta).await? else {
        return Ok(None);
    };
    match entry.value {
        EntryValue::Marker => Err(damaged("somebody deleted it".to_owned())),
        EntryValue::Put(bytes) => match wire::meta::decode(&bytes) {
            Ok(meta) => Ok(Some((meta, entry.revision))),
            Err(error) => Err(damaged(error.to_string())),
        },
    }
}

/// Writes `meta` by compare-and-set. What another process of the same manifest wrote first is as
/// good.
pub(in crate::coordinator) async fn store_meta(
    bucket: &Bucket,
    group: &GroupRef,
    meta: &Meta,
    expected: Revision,
) -> Result<Meta, ProvisionError> {
    let not_stored = |why: String| ProvisionError::NotStored {
        group: group.clone(),
        key: Key::Meta,
        why,
    };
    let bytes = wire::meta::encode(meta).map_err(|e| not_stored(e.to_string()))?;
    match bucket.replace(&Key::Meta, bytes.into(), expected).await {
        CasOutcome::Stored(_) => Ok(meta.clone()),
        CasOutcome::Conflict { .. } => match read_meta(bucket, group).await? {
            Some((there, _)) if there == *meta => Ok(there),
            Some((there, revision)) if expected == Revision(0) && revision > expected => Ok(there),
            Some(_) | None => Err(not_stored("somebody else writes to it".to_owned())),
        },
        CasOutcome::Busy => Err(not_stored("its leader is busy".to_owned())),
        CasOutcome::Unknown { why } => Err(not_stored(why)),
        CasOutcome::Refused { text, .. } => Err(not_stored(text)),
    }
}

/// The stream of this name is somebody else's.
pub(super) fn foreign(bucket: &Bucket) -> ProvisionError {
    ProvisionError::ForeignBucket {
        bucket: bucket.name().to_owned(),
    }
}
