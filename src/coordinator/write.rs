//! The compare-and-set of `group`, and what follows from each of its endings.

use std::time::Duration;

use bytes::Bytes;

use super::feed;
use super::heart::Highest;
use crate::clock;
use crate::group::decide::Observed;
use crate::group::{GroupDocument, Revision};
use crate::nats::{Bucket, CasOutcome};
use crate::wire::{self, keys::Key};

/// Reads of a key until it shows the revision that a conflict has named.
const LOOKS: u32 = 25;
/// Time between two of them.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// The wait where nothing could be found out.
const AFTER_A_FAILURE: Duration = Duration::from_secs(1);

/// What became of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "what was not written did not happen"]
pub(super) enum Written {
    /// It stands there, and is adopted: this many bytes.
    Stored(usize),
    /// Something else stands there, which is adopted.
    Lost,
    /// Nothing is known to have happened: decide again after a while.
    Later(Duration),
    /// The key stands below what was seen before: the bucket was replaced or rolled back.
    Below,
    /// The server will not take it.
    Refused(String),
}

/// Writes a document, of at most so many bytes, based on the revision last adopted; adopts what is
/// found to stand there.
pub(super) async fn write(
    bucket: &Bucket,
    seen: &mut Observed,
    highest: &Highest,
    (document, most): (GroupDocument, usize),
) -> Written {
    let bytes: Bytes = match wire::group::encode(&document) {
        Ok(bytes) => bytes.into(),
        Err(error) => return Written::Refused(error.to_string()),
    };
    let size = bytes.len();
    if size > most {
        return Written::Refused(format!(
            "the document has {size} bytes, more than the {most} that this server's max_payload \
             allows; raise max_payload, or have fewer partitions or members"
        ));
    }
    let expected = seen.revision();
    let before = highest.get();
    match bucket.replace(&Key::Group, bytes, expected).await {
        CasOutcome::Stored(revision) if revision <= before => Written::Below, // P33
        CasOutcome::Stored(revision) => {
            highest.saw(revision);
            seen.adopt(document, revision, clock::now()); // P22
            Written::Stored(size)
        }
        CasOutcome::Conflict { stands_at } => look_up(bucket, seen, stands_at).await, // P23
        CasOutcome::Busy => Written::Later(BETWEEN_LOOKS),                            // P24
        CasOutcome::Unknown { why } => {
            tracing::warn!(why, "document not acknowledged; looking what stands there"); // P25
            look_up(bucket, seen, None).await
        }
        CasOutcome::Refused { text, .. } => Written::Refused(text),
    }
}

/// Reads until what is read is as new as what the server named, and adopts it. // P23
async fn look_up(bucket: &Bucket, seen: &mut Observed, stands_at: Option<Revision>) -> Written {
    let expected = seen.revision();
    if stands_at.is_some_and(|there| there < expected) {
        return Written::Below;
    }
    for _ in 0..LOOKS {
        match bucket.get(&Key::Group).await {
            Ok(Some(entry)) if Some(entry.revision) >= stands_at && entry.revision >= expected => {
                let now = clock::now();
                let group = feed::slot(&entry.value, wire::group::decode);
                let mine = group
                    .known()
                    .filter(|document| seen.is_mine(document))
                    .cloned();
                match mine {
                    Some(document) if entry.revision > expected => {
                        seen.adopt(document, entry.revision, now);
                    }
                    Some(_) | None => seen.see_group(entry.revision, group, now),
                }
                return Written::Lost;
            }
            Ok(None) if stands_at.is_none() && expected == Revision(0) => return Written::Lost,
            Ok(_) => {} // an old read // P26
            Err(error) => {
                let error = &error as &(dyn std::error::Error + 'static);
                tracing::debug!(error, "the group document cannot be read");
                return Written::Later(AFTER_A_FAILURE);
            }
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
    Written::Later(AFTER_A_FAILURE)
}
