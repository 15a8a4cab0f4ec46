//! After a loss of state that was accepted: offsets from what live members report as committed.
//!
//! The members of the lost bucket go on beating for a moment, into the new one, with all that they
//! hold. That is the best evidence there is. What nobody reports begins at `startFrom`. // P129

use std::collections::BTreeMap;
use std::time::Duration;

use super::provision::ProvisionError;
use super::start;
use crate::clock;
use crate::group::decide::seed;
use crate::group::{GroupRef, Meta, Partition, Sequence};
use crate::nats::{Bucket, Connection, EntryValue, KeyFilter, WatchEvent, streams};
use crate::wire::{self, keys::Key};

/// Heartbeats of which at least one is waited for.
const BEATS: u32 = 2;

/// Time beside that for members to notice that their server takes their puts again.
const MARGIN: Duration = Duration::from_secs(2);

/// Writes the commit records of what live members report, before the group is made again.
pub(super) async fn offsets(
    connection: &Connection,
    bucket: &Bucket,
    group: &GroupRef,
    meta: &Meta,
) -> Result<(), ProvisionError> {
    let wait = meta.membership.heartbeat_interval * BEATS + MARGIN;
    tracing::warn!(%group, ?wait, "state was lost: waiting for what live members report");
    let reported = listen(bucket, wait).await;
    for (partition, next_seq) in &reported {
        let Some(of) = meta.source.of(*partition) else {
            continue;
        };
        let created = streams::info(connection, &of.stream).await?.created;
        let Some(record) = seed(meta, *partition, *next_seq, created) else {
            continue;
        };
        let written = start::write_one(bucket, *partition, &record).await;
        written.map_err(|error| ProvisionError::NotStored {
            group: group.clone(),
            key: Key::Offset(*partition),
            why: error.to_string(),
        })?;
    }
    let partitions = meta.partitions();
    let rebuilt = reported.len();
    tracing::warn!(%group, rebuilt, partitions, "offsets rebuilt from members' reports");
    Ok(())
}

/// The highest committed position per partition that any member states.
async fn listen(bucket: &Bucket, wait: Duration) -> BTreeMap<Partition, Sequence> {
    let end = clock::now().after(wait);
    let mut reported = BTreeMap::new();
    let mut watch = bucket.watch(&[KeyFilter::AllMembers]);
    loop {
        let event = tokio::select! {
            event = watch.next() => event,
            () = clock::until(Some(end)) => return reported,
        };
        let entry = match event {
            Some(WatchEvent::Entry(entry)) => entry,
            Some(WatchEvent::Loaded | WatchEvent::Restarted { .. } | WatchEvent::Gone { .. }) => {
                continue;
            }
            None => return reported,
        };
        let EntryValue::Put(bytes) = entry.value else {
            continue;
        };
        let Ok(says) = wire::member::decode(&bytes) else {
            continue;
        };
        for held in &says.held {
            let committed = reported.entry(held.partition).or_insert(held.committed);
            *committed = held.committed.max(*committed);
        }
    }
}
