//! Where a group begins: `startFrom` asked of the streams, once, and written as commit records.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt, TryStreamExt, stream};

use crate::clock;
use crate::group::decide::{OffsetFact, seed};
use crate::group::start::{self, Answer, Question, StreamEnds};
use crate::group::{Meta, OffsetRecord, Partition, Sequence, ServerTime, StartFrom};
use crate::nats::streams::{self, StreamError};
use crate::nats::{Bucket, CasOutcome, Connection, ReadError};
use crate::wire::{self, keys::Key};

/// Commit records that are written at once.
const WRITES_AT_ONCE: usize = 32;

/// Why commit records could not be written.
#[derive(Debug, thiserror::Error)]
pub(super) enum SeedError {
    /// A stream did not say where it begins.
    #[error("the start of a partition is not known: {0}")]
    Stream(#[from] StreamError),
    /// A record that is there could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It was not stored.
    #[error("the commit record of partition {partition} was not stored: {why}")]
    NotStored {
        /// Which one.
        partition: Partition,
        /// What the server says.
        why: String,
    },
}

/// What there is at a partition's commit record.
#[derive(Debug)]
pub(super) enum Record {
    Absent,
    Present(OffsetRecord),
    Damaged(String),
}

// === impl Record ===

impl Record {
    pub(super) fn fact(&self) -> OffsetFact {
        match self {
            Self::Absent => OffsetFact::Absent,
            Self::Present(record) => OffsetFact::from(record),
            Self::Damaged(why) => OffsetFact::Damaged(why.clone()),
        }
    }
}

/// Reads one commit record.
pub(super) async fn read(bucket: &Bucket, partition: Partition) -> Result<Record, ReadError> {
    use crate::nats::EntryValue;
    let Some(entry) = bucket.get(&Key::Offset(partition)).await? else {
        return Ok(Record::Absent);
    };
    Ok(match entry.value {
        EntryValue::Marker => Record::Damaged("somebody deleted it".to_owned()),
        EntryValue::Put(bytes) => match wire::offset::decode(&bytes) {
            Ok(record) => Record::Present(record),
            Err(error) => Record::Damaged(error.to_string()),
        },
    })
}

/// Writes the commit records that are missing, create-only; what is there by then is kept. // P86
pub(super) async fn write_missing(
    connection: &Connection,
    bucket: &Bucket,
    meta: &Meta,
    missing: &BTreeSet<Partition>,
) -> Result<BTreeMap<Partition, OffsetFact>, SeedError> {
    let siblings = siblings(bucket, meta, missing).await?;
    let (answers, created) = ask(connection, meta).await?;
    let positions = start::positions(&beginning(meta), &meta.source, &answers)
        .map_err(|stream| StreamError::Missing { stream })?;
    let records = missing.iter().filter_map(|partition| {
        let stream = meta.source.of(*partition)?.stream;
        let resolved = positions.get(partition).copied();
        let next = siblings.get(&stream).copied().or(resolved)?;
        let record = seed(meta, *partition, next, *created.get(&stream)?)?;
        Some((*partition, record))
    });
    let records: Vec<(Partition, OffsetRecord)> = records.collect();
    stream::iter(records)
        .map(|(partition, record)| async move {
            let fact = write_one(bucket, partition, &record).await?;
            Ok((partition, fact))
        })
        .buffer_unordered(WRITES_AT_ONCE)
        .try_collect()
        .await
}

/// Writes one record if there is none; says what is there.
pub(super) async fn write_one(
    bucket: &Bucket,
    partition: Partition,
    record: &OffsetRecord,
) -> Result<OffsetFact, SeedError> {
    let not_stored = |why: String| SeedError::NotStored { partition, why };
    let bytes = wire::offset::encode(record).map_err(|e| not_stored(e.to_string()))?;
    let key = Key::Offset(partition);
    let outcome = bucket
        .replace(&key, bytes.into(), crate::group::Revision(0))
        .await;
    match outcome {
        CasOutcome::Stored(_) => Ok(OffsetFact::from(record)),
        CasOutcome::Conflict { .. } => Ok(read(bucket, partition).await?.fact()),
        CasOutcome::Busy => Err(not_stored("its leader is busy".to_owned())),
        CasOutcome::Unknown { why } => Err(not_stored(why)),
        CasOutcome::Refused { text, .. } => Err(not_stored(text)),
    }
}

/// Where an interrupted seeding began in each stream: the rest begins there, too, where the position
/// depends on the moment. // P89
async fn siblings(
    bucket: &Bucket,
    meta: &Meta,
    missing: &BTreeSet<Partition>,
) -> Result<BTreeMap<String, Sequence>, ReadError> {
    let mut found = BTreeMap::new();
    match beginning(meta) {
        StartFrom::Latest | StartFrom::Duration { .. } => {}
        StartFrom::Earliest | StartFrom::Sequence { .. } | StartFrom::Time { .. } => {
            return Ok(found);
        }
    }
    for partition in Partition::all(meta.partitions()).filter(|p| !missing.contains(p)) {
        match read(bucket, partition).await? {
            Record::Present(record) if record.owner.is_none() => {
                let entry = found.entry(record.stream).or_insert(record.next_seq);
                *entry = record.next_seq.min(*entry);
            }
            Record::Present(_) | Record::Absent | Record::Damaged(_) => {}
        }
    }
    Ok(found)
}

/// Where the group begins in the streams that it reads. One that is derived begins where the group
/// does: `startFrom` was asked of its origin. // P88a
fn beginning(meta: &Meta) -> StartFrom {
    match meta.source.origin() {
        Some(_) => StartFrom::Earliest,
        None => meta.start_from,
    }
}

type Answers = (BTreeMap<String, Answer>, BTreeMap<String, ServerTime>);

async fn ask(connection: &Connection, meta: &Meta) -> Result<Answers, StreamError> {
    let question = start::question(&beginning(meta), clock::unix_now());
    let (mut answers, mut created) = (BTreeMap::new(), BTreeMap::new());
    for stream in meta.source.streams() {
        let facts = streams::info(connection, &stream).await?;
        let first_since = match question {
            Question::Ends => None,
            Question::FirstSince(time) => streams::first_at_or_after(connection, &stream, time)
                .await?
                .map(|message| message.sequence),
        };
        let ends = StreamEnds {
            first: facts.first,
            end: facts.last.next(),
        };
        created.insert(stream.clone(), facts.created);
        answers.insert(stream, Answer { ends, first_since });
    }
    Ok((answers, created))
}
