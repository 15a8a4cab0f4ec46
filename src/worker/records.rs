//! Heartbeats and commit records on their way to the bucket and back.

use std::time::Duration;

use bytes::Bytes;

use crate::clock;
use crate::group::member::{Found, Written};
use crate::group::{Epoch, MemberDocument, OffsetRecord, Partition, Revision};
use crate::nats::{Bucket, CasOutcome, EntryValue, PutOutcome};
use crate::wire;
use crate::wire::keys::Key;

use super::inbox::{Inbox, Incoming};

/// How long a heartbeat's key outlives the last heartbeat.
const MEMBER_TTL: Duration = Duration::from_secs(3600);

/// Puts one heartbeat.
pub(super) async fn beat(bucket: Bucket, key: Key, document: Box<MemberDocument>, inbox: Inbox) {
    let beat = document.beat;
    let outcome = match wire::member::encode(&document) {
        Ok(bytes) => bucket.put(&key, Bytes::from(bytes), Some(MEMBER_TTL)).await,
        Err(error) => {
            tracing::error!(%error, "a heartbeat cannot be written");
            return inbox.say(Incoming::Put(beat, None)).await;
        }
    };
    let stored = match outcome {
        PutOutcome::Stored(revision) => Some(revision),
        PutOutcome::Unknown { why } => {
            tracing::debug!(why, beat = beat.0, "a heartbeat without an answer");
            None
        }
        PutOutcome::Refused { code, text } => {
            tracing::warn!(code, text, "the server refuses heartbeats");
            let why = format!("the server refuses heartbeats: {text} ({code})");
            inbox.say(Incoming::Trouble(Some(why))).await;
            None
        }
    };
    inbox.say(Incoming::Put(beat, stored)).await;
}

/// Reads one commit record.
pub(super) async fn read(bucket: Bucket, partition: Partition, epoch: Epoch, inbox: Inbox) {
    let found = match bucket.get(&Key::Offset(partition)).await {
        Ok(None) => Found::Absent,
        Ok(Some(entry)) => match entry.value {
            EntryValue::Marker => Found::Damaged("somebody deleted the commit record".to_owned()),
            EntryValue::Put(bytes) => match wire::offset::decode(&bytes) {
                Ok(record) => Found::Record(entry.revision, Box::new(record)),
                Err(error) => Found::Damaged(error.to_string()),
            },
        },
        Err(error) => Found::Unanswered(error.to_string()),
    };
    inbox.say(Incoming::Offset(partition, epoch, found)).await;
}

/// Writes one commit record.
pub(super) async fn write(
    bucket: Bucket,
    (partition, epoch): (Partition, Epoch),
    record: Box<OffsetRecord>,
    expected: Revision,
    inbox: Inbox,
) {
    let sent = clock::now();
    let outcome = match wire::offset::encode(&record) {
        Ok(bytes) => {
            let key = Key::Offset(partition);
            match bucket.replace(&key, Bytes::from(bytes), expected).await {
                CasOutcome::Stored(revision) => Written::Stored(revision),
                CasOutcome::Conflict { stands_at } => Written::Conflict(stands_at),
                CasOutcome::Busy => Written::Busy,
                CasOutcome::Unknown { why } => Written::Unknown(why),
                CasOutcome::Refused { code, text } => {
                    Written::Unknown(format!("the server refuses commits: {text} ({code})"))
                }
            }
        }
        Err(error) => Written::Unknown(error.to_string()),
    };
    let took = clock::now().since(sent);
    inbox
        .say(Incoming::Written(partition, epoch, outcome, took))
        .await;
}
