//! Reading a group for display: STREAM.INFO and MSG.GET only, so that a read-only user suffices.

use crate::cli::{CommonFlags, Failure};
use crate::group::{GroupRef, Meta};
use crate::nats::{Bucket, BucketError, Connection, EntryValue};
use crate::wire::{self, keys::Key};

/// The group's bucket.
pub(super) async fn open(
    connection: &Connection,
    group: &GroupRef,
    common: &CommonFlags,
) -> Result<Bucket, Failure> {
    let name = group.bucket_name(common.bucket_prefix());
    match Bucket::open(connection, &name).await {
        Ok((bucket, _)) => Ok(bucket),
        Err(BucketError::Missing { bucket }) => Err(Failure::failed(format!(
            "there is no group {group} (no bucket {bucket}); `lockstep group list` shows those \
             that there are, and `lockstep group create FILE` makes one"
        ))),
        Err(error @ (BucketError::Taken { .. } | BucketError::Api { .. })) => {
            Err(Failure::of(&error))
        }
    }
}

/// What the group is.
pub(in crate::cli) async fn meta_of(
    connection: &Connection,
    group: &GroupRef,
    common: &CommonFlags,
) -> Result<Meta, Failure> {
    let bucket = open(connection, group, common).await?;
    let entry = bucket.get(&Key::Meta).await.map_err(|e| Failure::of(&e))?;
    let damaged = |why: String| {
        Failure::failed(format!(
            "the description of group {group} (key meta of bucket {}) is damaged: {why}; \
             nothing is guessed and nothing was changed",
            bucket.name()
        ))
    };
    match entry.map(|e| e.value) {
        Some(EntryValue::Put(bytes)) => {
            wire::meta::decode(&bytes).map_err(|e| damaged(e.to_string()))
        }
        Some(EntryValue::Marker) => Err(damaged("somebody deleted the key".to_owned())),
        None => Err(damaged("the key is not there".to_owned())),
    }
}
