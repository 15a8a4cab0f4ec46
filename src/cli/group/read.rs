//! Reading a group for display: STREAM.INFO and MSG.GET only, so that a read-only user suffices.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt, stream};

use crate::cli::{CommonFlags, Failure};
use crate::clock;
use crate::group::describe::{Found, Heard, Seen, StreamSeen};
use crate::group::{GroupRef, Meta, Partition};
use crate::nats::{
    Bucket, BucketError, Connection, Entry, EntryValue, KeyFilter, StreamFacts, streams,
};
use crate::wire::{self, DecodeError, keys::Key};

/// Streams that are looked at together.
const STREAMS_AT_ONCE: usize = 16;

/// What a bucket of our prefix holds.
pub(super) enum Reading {
    /// A group.
    Group(Box<Seen>),
    /// A group whose description cannot be read; the sentence says why.
    Damaged(String),
}

/// The documents of a bucket, sorted by key.
struct Documents {
    meta: Found<Meta>,
    seen: BTreeMap<Key, Entry>,
}

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

/// What the group is, and the revision at which `meta` says so.
pub(super) async fn meta(bucket: &Bucket, group: &GroupRef) -> Result<(Meta, Entry), Failure> {
    let entry = bucket.get(&Key::Meta).await.map_err(|e| Failure::of(&e))?;
    let found = found(entry.as_ref(), wire::meta::decode);
    match (found, entry) {
        (Found::Read(meta), Some(entry)) => Ok((meta, entry)),
        (found, _) => Err(Failure::failed(damaged_meta(group, bucket.name(), &found))),
    }
}

/// What the group is.
pub(in crate::cli) async fn meta_of(
    connection: &Connection,
    group: &GroupRef,
    common: &CommonFlags,
) -> Result<Meta, Failure> {
    let bucket = open(connection, group, common).await?;
    Ok(meta(&bucket, group).await?.0)
}

/// Everything that display needs of a group.
pub(super) async fn group(
    connection: &Connection,
    bucket: &Bucket,
    group: &GroupRef,
) -> Result<Reading, Failure> {
    let entries = bucket.list(&KeyFilter::Everything).await;
    let documents = Documents::of(entries.map_err(|e| Failure::of(&e))?);
    let Found::Read(meta) = documents.meta else {
        let why = damaged_meta(group, bucket.name(), &documents.meta);
        return Ok(Reading::Damaged(why));
    };
    let mut seen = understand(group, meta, &documents.seen);
    look_at_streams(connection, &mut seen).await;
    count_messages(connection, &mut seen).await;
    Ok(Reading::Group(Box::new(seen)))
}

fn damaged_meta(group: &GroupRef, bucket: &str, found: &Found<Meta>) -> String {
    let why = match found {
        Found::Damaged(why) => why.as_str(),
        Found::Absent | Found::Read(_) => "it is not there",
    };
    format!(
        "the description of group {group} (key meta of bucket {bucket}) is damaged: {why}; \
         nothing is guessed over it: restore the bucket, or delete it and create the group anew"
    )
}

/// What was found at a key.
fn found<T>(entry: Option<&Entry>, decode: fn(&[u8]) -> Result<T, DecodeError>) -> Found<T> {
    match entry.map(|e| &e.value) {
        None => Found::Absent,
        Some(EntryValue::Marker) => Found::Damaged("somebody deleted the key".to_owned()),
        Some(EntryValue::Put(bytes)) => match decode(bytes) {
            Ok(document) => Found::Read(document),
            Err(error) => Found::Damaged(error.to_string()),
        },
    }
}

fn understand(group: &GroupRef, meta: Meta, entries: &BTreeMap<Key, Entry>) -> Seen {
    let mut seen = Seen {
        group: group.clone(),
        meta,
        document: found(entries.get(&Key::Group), wire::group::decode),
        members: BTreeMap::new(),
        candidates: BTreeMap::new(),
        offsets: BTreeMap::new(),
        streams: BTreeMap::new(),
        stored: BTreeMap::new(),
        problems: Vec::new(),
        now: clock::unix_now(),
    };
    for (key, entry) in entries {
        let ignored = match key {
            Key::Offset(p) => {
                let record = found(Some(entry), wire::offset::decode);
                seen.offsets.insert(*p, record);
                continue;
            }
            Key::Member(m) => heard(entry, wire::member::decode)
                .map(|heard| drop(seen.members.insert(m.clone(), heard))),
            Key::Candidate(c) => heard(entry, wire::candidate::decode)
                .map(|heard| drop(seen.candidates.insert(c.clone(), heard))),
            Key::Meta | Key::Group | Key::Reset(_) | Key::Foreign(_) => continue,
        };
        if let Err(why) = ignored {
            seen.problems
                .push(format!("the key {key} is ignored: {why}"));
        }
    }
    seen
}

fn heard<T>(
    entry: &Entry,
    decode: fn(&[u8]) -> Result<T, DecodeError>,
) -> Result<Heard<T>, String> {
    match found(Some(entry), decode) {
        Found::Read(document) => Ok(Heard {
            document,
            at: entry.created,
        }),
        Found::Damaged(why) => Err(why),
        Found::Absent => Err("it is not there".to_owned()),
    }
}

async fn look_at_streams(connection: &Connection, seen: &mut Seen) {
    let names: BTreeSet<String> = seen.meta.source.streams();
    let looks = stream::iter(names).map(|name| async move {
        let facts = streams::info(connection, &name).await;
        (name, facts)
    });
    let looks: Vec<_> = looks.buffered(STREAMS_AT_ONCE).collect().await;
    for (name, facts) in looks {
        match facts {
            Ok(facts) => {
                let end = facts.last.next();
                let (created, first) = (facts.created, facts.first);
                seen.problems.extend(not_come_over(&facts));
                for p in whole(seen, &name) {
                    seen.stored.insert(p, facts.messages);
                }
                seen.streams.insert(
                    name,
                    StreamSeen {
                        created,
                        first,
                        end,
                    },
                );
            }
            Err(error) => seen.problems.push(Failure::of(&error).to_string()),
        }
    }
}

/// What the servers have not taken over of the streams that this one is derived from: it is nobody's
/// lag yet.
fn not_come_over(facts: &StreamFacts) -> Vec<String> {
    let name = &facts.name;
    let words = facts.sources.iter().filter_map(|source| match source.lag {
        Some(0) => None,
        Some(lag) => Some(format!(
            "{lag} messages have not come over to stream {name} yet; no lag counts them"
        )),
        None => Some(format!(
            "it is not known how many messages have not come over to stream {name}; no lag counts \
             them"
        )),
    });
    words.collect()
}

/// The partitions that are the whole stream: its number of messages is theirs.
fn whole(seen: &Seen, stream: &str) -> Vec<Partition> {
    let is_whole = |p: &Partition| {
        let of = seen.meta.source.of(*p);
        of.is_some_and(|of| of.stream == stream && of.filter.is_none())
    };
    Partition::all(seen.meta.partitions())
        .filter(is_whole)
        .collect()
}

/// Counts the messages of partitions whose lag nobody reports.
async fn count_messages(connection: &Connection, seen: &mut Seen) {
    let filters = seen.uncounted().into_iter().filter_map(|p| {
        let of = seen.meta.source.of(p)?;
        Some((p, of.stream, of.filter?))
    });
    let counts = stream::iter(filters).map(|(p, stream, filter)| async move {
        let counts = streams::subject_counts(connection, &stream, &filter).await;
        Some((p, counts.ok()?.values().sum::<u64>()))
    });
    // A count that cannot be had leaves a wider bound, not a wrong one.
    let counts: Vec<_> = counts.buffered(STREAMS_AT_ONCE).collect().await;
    seen.stored.extend(counts.into_iter().flatten());
}

// === impl Documents ===

impl Documents {
    fn of(entries: Vec<Entry>) -> Self {
        let seen: BTreeMap<Key, Entry> = entries.into_iter().map(|e| (e.key.clone(), e)).collect();
        let meta = found(seen.get(&Key::Meta), wire::meta::decode);
        Self { meta, seen }
    }
}
