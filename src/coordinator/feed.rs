//! From what the watch delivers to what the core has seen.

use crate::group::decide::{Observed, Slot};
use crate::group::{BucketId, Timestamp};
use crate::nats::{Entry, EntryValue};
use crate::wire::{self, DecodeError, keys::Key};

/// What an entry shows beside its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shows {
    /// The bucket as it should be.
    ThisBucket,
    /// `meta` names another bucket. // P33
    AnotherBucket,
}

/// Takes one entry in. What is damaged on a member's or a candidate's key is ignored; on `meta` and
/// `group` it is damage. // P14
pub(super) fn take_in(
    seen: &mut Observed,
    entry: &Entry,
    bucket: &BucketId,
    now: Timestamp,
) -> Shows {
    match &entry.key {
        Key::Meta => {
            let meta = slot(&entry.value, wire::meta::decode);
            let other = meta.known().is_some_and(|meta| meta.bucket != *bucket);
            if other {
                return Shows::AnotherBucket;
            }
            seen.see_meta(meta);
        }
        Key::Group => {
            let group = slot(&entry.value, wire::group::decode);
            seen.see_group(entry.revision, group, now);
        }
        Key::Member(member) => match slot(&entry.value, wire::member::decode) {
            Slot::Known(says) => seen.see_member(member, says, now),
            Slot::Absent => {}
            Slot::Damaged(why) => tracing::debug!(%member, why, "heartbeat ignored"),
        },
        Key::Candidate(candidate) => match slot(&entry.value, wire::candidate::decode) {
            Slot::Known(says) => seen.see_candidate(candidate, says, now),
            Slot::Absent => {}
            Slot::Damaged(why) => tracing::debug!(%candidate, why, "heartbeat ignored"),
        },
        Key::Offset(_) | Key::Reset(_) | Key::Foreign(_) => {}
    }
    Shows::ThisBucket
}

/// The document at a key, or why there is none that can be understood.
pub(super) fn slot<T>(
    value: &EntryValue,
    decode: impl FnOnce(&[u8]) -> Result<T, DecodeError>,
) -> Slot<T> {
    match value {
        EntryValue::Marker => Slot::Damaged("somebody deleted it".to_owned()),
        EntryValue::Put(bytes) => match decode(bytes) {
            Ok(document) => Slot::Known(document),
            Err(error) => Slot::Damaged(error.to_string()),
        },
    }
}
