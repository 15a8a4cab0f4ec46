//! What a group needs on the server: its streams, its bucket, its description.
//!
//! First everything is looked at, and what speaks against it is said before anything is changed.
//! Then the streams are made, the bucket, and last `meta`: a group exists once that is written.
//! What is somebody else's is never altered.

mod bucket;
mod derived;
mod error;
mod streams;

use std::collections::BTreeSet;

use super::meta;
use super::{STANDALONE, rebuild};
use crate::crd::ValidGroup;
use crate::group::{
    BucketId, GroupRef, GroupState, Meta, MetaGeneration, Revision, StreamIdentity,
};
use crate::nats::streams::{StreamChange, StreamOwner};
use crate::nats::{Bucket, BucketError, BucketFacts, Connection};

pub(super) use bucket::store_meta;

pub use bucket::read_meta;
pub use error::{Call, ProvisionError};

/// Whose groups these are, and what may be made for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The first part of the buckets' names.
    pub prefix: String,
    /// Who manages the groups: `standalone`, or `kubernetes/<cluster uid>`.
    pub manager: String,
    /// What may be made.
    pub missing: Missing,
    /// Another manager whose group may be taken over, as a person has said.
    pub adopt_from: Option<String>,
    /// The uid of the object that declares the group; empty without Kubernetes.
    pub group_uid: String,
    /// The bucket that the group is known to have: another one means that its state was lost.
    pub known_bucket: Option<BucketId>,
    /// Replicas of the bucket; none: 3, or 1 on a single server.
    pub bucket_replicas: Option<u32>,
}

/// What may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// What is missing is an error.
    Refuse,
    /// The streams, the bucket and `meta` are made.
    Make,
    /// The same, and the loss of a bucket that was there is accepted: offsets are first rebuilt from
    /// what live members report as committed. // P129
    MakeAfterLoss,
}

/// A group that is there.
#[derive(Clone, Debug)]
pub struct Provisioned {
    /// Its name.
    pub group: GroupRef,
    /// Its bucket.
    pub bucket: Bucket,
    /// What the bucket is.
    pub facts: BucketFacts,
    /// Its description.
    pub meta: Meta,
    /// What was done to get there.
    pub change: Change,
    /// The streams that it reads, and whether they were made for it.
    pub streams: Vec<(String, bool)>,
    /// What of ours had been changed by somebody and was put right, in words.
    pub repaired: Vec<String>,
    /// What of ours is not as it should be and could not be put right, in words.
    pub drift: Vec<String>,
    /// Streams of a group that exists that are gone and that are not ours to make.
    pub gone: Vec<String>,
    /// Origins of derived streams that are others than they were, in words.
    pub renewed: Vec<String>,
    /// What works and has a price, in words.
    pub warnings: Vec<String>,
}

/// What providing a group has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing: all was there.
    Nothing,
    /// The group was made.
    Made,
    /// The state of an earlier group of this name was taken over, under this generation.
    Adopted(MetaGeneration),
    /// Its settings are those of the manifest, from this generation on.
    Updated(MetaGeneration),
}

/// What was found.
#[derive(Debug)]
struct Found {
    bucket: Option<(Bucket, BucketFacts)>,
    meta: Option<(Meta, Revision)>,
    next: Option<Meta>,
    streams: streams::Looked,
}

/// What a cluster's name as a manager begins with.
pub const KUBERNETES: &str = "kubernetes/";

// === impl Terms ===

impl Terms {
    /// Groups without Kubernetes.
    pub fn standalone(prefix: &str, missing: Missing) -> Self {
        Self {
            prefix: prefix.to_owned(),
            manager: STANDALONE.to_owned(),
            missing,
            adopt_from: None,
            group_uid: String::new(),
            known_bucket: None,
            bucket_replicas: None,
        }
    }

    fn how_to_adopt(&self, group: &GroupRef, manager: &str) -> String {
        if self.manager == STANDALONE {
            return format!("`lockstep group adopt {group}` moves it");
        }
        let from = manager.strip_prefix(KUBERNETES).unwrap_or(manager);
        format!("annotate the ConsumerGroup with lockstep.dev/adopt-from={from} to take it over")
    }

    /// The stamp on streams that are made for this group.
    pub fn owner(&self, group: &GroupRef) -> StreamOwner {
        StreamOwner {
            manager: self.manager.clone(),
            group: group.to_string(),
        }
    }
}

/// Looks at everything and says what speaks against providing the group; changes nothing.
pub async fn inspect(
    connection: &Connection,
    terms: &Terms,
    group: &ValidGroup,
) -> Result<(), ProvisionError> {
    look(connection, terms, group).await.map(drop)
}

/// Provides the group: what is missing is made, if it may be; a changed manifest is written; what is
/// ours and was changed by somebody is put right.
pub async fn provide(
    connection: &Connection,
    terms: &Terms,
    group: &ValidGroup,
) -> Result<Provisioned, ProvisionError> {
    let found = look(connection, terms, group).await?;
    make_streams(connection, terms, group, &found.streams.to_make).await?;
    let (mut repaired, mut drift) = (Vec::new(), Vec::new());
    if found.meta.is_some() {
        let again = found.streams.to_make.iter();
        repaired.extend(again.map(|it| {
            let name = &it.new.name;
            format!("stream {name} was gone and is made anew")
        }));
    }
    repair_streams(
        connection,
        &found.streams.to_repair,
        &mut repaired,
        &mut drift,
    )
    .await;
    note(connection, &found.streams.to_note).await;
    let origin = found.streams.origin;
    let (bucket, facts, meta, change) = match (found.bucket, found.meta) {
        (Some((bucket, facts)), Some((meta, revision))) => {
            repair_bucket(&bucket, &facts, &mut repaired, &mut drift).await;
            let next = with_origin(&meta, found.next, origin);
            let (meta, change) = match next {
                None => (meta, Change::Nothing),
                Some(next) => {
                    let change = kind_of_change(&meta, &next);
                    let meta = bucket::store_meta(&bucket, &group.group, &next, revision).await?;
                    (meta, change)
                }
            };
            (bucket, facts, meta, change)
        }
        (bucket, _) => found_anew(connection, terms, group, (bucket, origin)).await?,
    };
    let made = found
        .streams
        .to_make
        .into_iter()
        .map(|it| (it.new.name, true));
    Ok(Provisioned {
        group: group.group.clone(),
        streams: found.streams.streams.into_iter().chain(made).collect(),
        bucket,
        facts,
        meta,
        change,
        repaired,
        drift,
        gone: found.streams.gone,
        renewed: found.streams.renewed,
        warnings: found.streams.warnings,
    })
}

/// A bucket, if it is there.
type There = Option<(Bucket, BucketFacts)>;

/// The stream that the group's own is derived from, if it is.
type Origin = Option<(String, StreamIdentity)>;

/// The bucket, if it is not there, and the first `meta`.
async fn found_anew(
    connection: &Connection,
    terms: &Terms,
    group: &ValidGroup,
    (there, origin): (There, Origin),
) -> Result<(Bucket, BucketFacts, Meta, Change), ProvisionError> {
    let was_there = there.is_some();
    let (bucket, facts) = if let Some(there) = there {
        there
    } else {
        let name = group.group.bucket_name(&terms.prefix);
        bucket::make(connection, &name, terms).await?
    };
    let id = facts.id.clone().ok_or_else(|| bucket::foreign(&bucket))?;
    let identities = streams::identities(connection, group, origin).await?;
    let meta = meta::first(group, terms, id, identities);
    if terms.missing == Missing::MakeAfterLoss && !was_there {
        rebuild::offsets(connection, &bucket, &group.group, &meta).await?;
    }
    let meta = bucket::store_meta(&bucket, &group.group, &meta, Revision(0)).await?;
    Ok((bucket, facts, meta, Change::Made))
}

async fn make_streams(
    connection: &Connection,
    terms: &Terms,
    group: &ValidGroup,
    to_make: &[streams::StreamToMake],
) -> Result<(), ProvisionError> {
    for stream in to_make {
        streams::make(connection, stream, terms.owner(&group.group)).await?;
    }
    Ok(())
}

/// What is to be noted in streams of ours. If it is not, the next look tries again.
async fn note(connection: &Connection, changes: &[StreamChange]) {
    for change in changes {
        if let Err(error) = crate::nats::streams::update(connection, change).await {
            let error = &error as &(dyn std::error::Error + 'static);
            tracing::debug!(error, stream = change.stream, "not noted");
        }
    }
}

/// The next description, if the group's stream is derived anew from what was found.
fn with_origin(meta: &Meta, next: Option<Meta>, origin: Origin) -> Option<Meta> {
    let Some((stream, identity)) = origin else {
        return next;
    };
    if meta.streams.get(&stream) == Some(&identity) {
        return next;
    }
    let mut next = next.unwrap_or_else(|| Meta {
        generation: MetaGeneration(meta.generation.0 + 1),
        ..meta.clone()
    });
    next.streams.insert(stream, identity);
    Some(next)
}

/// Puts right what may be put right; the rest is told, and the group goes on.
async fn repair_streams(
    connection: &Connection,
    changes: &[StreamChange],
    repaired: &mut Vec<String>,
    drift: &mut Vec<String>,
) {
    for change in changes {
        match crate::nats::streams::update(connection, change).await {
            Ok(()) => repaired.push(change.to_string()),
            Err(error) => drift.push(format!("{change}: {error}")),
        }
    }
}

async fn repair_bucket(
    bucket: &Bucket,
    facts: &BucketFacts,
    repaired: &mut Vec<String>,
    drift: &mut Vec<String>,
) {
    if facts.differences.is_empty() {
        return;
    }
    let words = facts.differences.iter().map(ToString::to_string);
    let words = words.collect::<Vec<_>>().join(", ");
    let words = format!("bucket {}: {words}", bucket.name());
    match bucket.repair().await {
        Ok(facts) if facts.differences.is_empty() => repaired.push(words),
        Ok(_) => drift.push(words),
        Err(error) => drift.push(format!("{words} ({error})")),
    }
}

fn kind_of_change(old: &Meta, next: &Meta) -> Change {
    let other_object = !old.group_uid.is_empty() && old.group_uid != next.group_uid;
    let revived = old.state == GroupState::Deleted && next.state == GroupState::Active;
    if old.manager != next.manager || other_object || revived {
        Change::Adopted(next.generation)
    } else {
        Change::Updated(next.generation)
    }
}

async fn look(
    connection: &Connection,
    terms: &Terms,
    group: &ValidGroup,
) -> Result<Found, ProvisionError> {
    let bucket = look_at_bucket(connection, terms, &group.group).await?;
    let meta = match &bucket {
        Some((bucket, _)) => read_meta(bucket, &group.group).await?,
        None => None,
    };
    let next = match &meta {
        Some((meta, _)) => check_meta(meta, group, terms)?,
        None if terms.missing == Missing::Refuse => {
            return Err(ProvisionError::NoMeta {
                group: group.group.clone(),
                bucket: group.group.bucket_name(&terms.prefix),
            });
        }
        None => None,
    };
    let streams = streams::look(
        connection,
        group,
        terms,
        meta.as_ref().map(|(meta, _)| meta),
    )
    .await?;
    Ok(Found {
        bucket,
        meta,
        next,
        streams,
    })
}

async fn look_at_bucket(
    connection: &Connection,
    terms: &Terms,
    group: &GroupRef,
) -> Result<Option<(Bucket, BucketFacts)>, ProvisionError> {
    let name = group.bucket_name(&terms.prefix);
    let accepted = terms.missing == Missing::MakeAfterLoss;
    let lost = |what| ProvisionError::StateLost {
        group: group.clone(),
        bucket: name.clone(),
        what,
    };
    match Bucket::open(connection, &name).await {
        Ok((bucket, facts)) => match (&facts.id, &terms.known_bucket) {
            (None, _) => Err(bucket::foreign(&bucket)),
            (Some(id), Some(known)) if id != known && !accepted => {
                Err(lost("is another one than it was"))
            }
            (Some(_), _) => Ok(Some((bucket, facts))),
        },
        Err(BucketError::Missing { .. }) if terms.known_bucket.is_some() && !accepted => {
            Err(lost("is missing"))
        }
        Err(BucketError::Missing { bucket }) if terms.missing == Missing::Refuse => {
            let group = group.clone();
            Err(ProvisionError::NoBucket { group, bucket })
        }
        Err(BucketError::Missing { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn check_meta(
    meta: &Meta,
    group: &ValidGroup,
    terms: &Terms,
) -> Result<Option<Meta>, ProvisionError> {
    if meta.manager != terms.manager && terms.adopt_from.as_ref() != Some(&meta.manager) {
        return Err(ProvisionError::OwnershipConflict {
            group: group.group.clone(),
            manager: meta.manager.clone(),
            me: terms.manager.clone(),
            remedy: terms.how_to_adopt(&group.group, &meta.manager),
        });
    }
    meta::next(meta, group, terms).map_err(|mismatch| ProvisionError::Immutable {
        group: group.group.clone(),
        mismatch,
    })
}

/// Writes that the group is no longer declared: members drain and stand by. Says whether there was
/// anything to write. A group of another manager is left alone, and so is one that was declared anew
/// since: of an object with another uid than this one. // P130
pub async fn mark_deleted(
    connection: &Connection,
    terms: &Terms,
    group: &GroupRef,
    uid: Option<&str>,
) -> Result<bool, ProvisionError> {
    let Some((bucket, _)) = look_at_bucket(connection, terms, group).await? else {
        return Ok(false);
    };
    let Some((meta, revision)) = read_meta(&bucket, group).await? else {
        return Ok(false);
    };
    let other = uid.is_some_and(|uid| meta.group_uid != uid);
    if meta.manager != terms.manager || meta.state == GroupState::Deleted || other {
        return Ok(false);
    }
    let next = Meta {
        state: GroupState::Deleted,
        generation: MetaGeneration(meta.generation.0 + 1),
        ..meta
    };
    bucket::store_meta(&bucket, group, &next, revision).await?;
    Ok(true)
}

/// Removes what was made for the group: its bucket, and the streams with its stamp that no other
/// group reads. Returns what was removed, by name; what is not there any more is no error.
pub async fn remove(
    connection: &Connection,
    terms: &Terms,
    group: &GroupRef,
) -> Result<Vec<String>, ProvisionError> {
    use crate::nats::streams::{self as adapter, StreamError};
    let Some((bucket, _)) = look_at_bucket(connection, terms, group).await? else {
        return Ok(Vec::new());
    };
    let Some((meta, _)) = read_meta(&bucket, group).await? else {
        bucket.delete().await?;
        return Ok(vec![bucket.name().to_owned()]);
    };
    if meta.manager != terms.manager {
        return Ok(Vec::new());
    }
    let shared = read_by_others(connection, terms, group).await?;
    let me = terms.owner(group);
    let mut removed = Vec::new();
    for stream in meta.source.streams().difference(&shared) {
        match adapter::info(connection, stream).await {
            Ok(facts) if facts.owner.as_ref() == Some(&me) => {
                adapter::delete(connection, stream).await?;
                removed.push(stream.clone());
            }
            Ok(_) | Err(StreamError::Missing { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // Last, since it says what there is to remove.
    bucket.delete().await?;
    removed.push(bucket.name().to_owned());
    Ok(removed)
}

/// The streams that other groups with buckets of this prefix read.
async fn read_by_others(
    connection: &Connection,
    terms: &Terms,
    group: &GroupRef,
) -> Result<BTreeSet<String>, ProvisionError> {
    let names = Bucket::names(connection, &terms.prefix).await;
    let names = names.map_err(|source| BucketError::Api {
        bucket: group.bucket_name(&terms.prefix),
        source,
    })?;
    let own = group.bucket_name(&terms.prefix);
    let mut streams = BTreeSet::new();
    for name in names.into_iter().filter(|name| *name != own) {
        let Ok((bucket, _)) = Bucket::open(connection, &name).await else {
            continue;
        };
        if let Some((meta, _)) = read_meta(&bucket, group).await? {
            streams.extend(meta.source.streams());
        }
    }
    Ok(streams)
}
