//! What a group needs on the server: its streams, its bucket, its description.
//!
//! First everything is looked at, and what speaks against it is said before anything is changed.
//! Then the streams are made, the bucket, and last `meta`: a group exists once that is written.

use std::collections::BTreeMap;

use super::meta::{self, ImmutableMismatch, STANDALONE};
use super::rebuild;
use crate::chance;
use crate::crd::{NewStream, Storage, ValidGroup};
use crate::group::{GroupRef, Meta, MetaGeneration, Revision, StreamIdentity};
use crate::nats::streams::{self, StreamError, StreamPlan, StreamRefusal};
use crate::nats::{
    ApiError, Bucket, BucketError, BucketFacts, BucketSettings, CasOutcome, Connection, EntryValue,
    ReadError, Remedy, StreamFacts,
};
use crate::wire::{self, keys::Key};

/// Replicas of what Lockstep makes where nothing else is asked for.
const USUAL_REPLICAS: u32 = 3;

/// "No suitable peers for placement", and "replicas > 1 not supported in non-clustered mode".
const TOO_FEW_SERVERS: [u64; 2] = [10005, 10074];

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
    /// Its bucket.
    pub bucket: Bucket,
    /// What the bucket is.
    pub facts: BucketFacts,
    /// Its description.
    pub meta: Meta,
    /// What was done to get there.
    pub change: Change,
}

/// What providing a group has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing: all was there.
    Nothing,
    /// The group was made.
    Made,
    /// Its settings are those of the manifest, from this generation on.
    Updated(MetaGeneration),
}

/// Why a group is not provided.
#[derive(Debug, thiserror::Error)]
pub enum ProvisionError {
    /// There is no bucket, and none may be made.
    #[error(
        "group {group} has no bucket {bucket}; give --create if the group is new, or \
         --accept-state-loss if its state was lost"
    )]
    NoBucket {
        /// The group.
        group: GroupRef,
        /// Its bucket.
        bucket: String,
    },
    /// There is a bucket that somebody else made.
    #[error(
        "the stream of bucket {bucket} was not made by Lockstep; remove it, or choose another \
         --bucket-prefix"
    )]
    ForeignBucket {
        /// The bucket.
        bucket: String,
    },
    /// There is no description, and none may be made.
    #[error("bucket {bucket} holds no description of group {group}; give --create")]
    NoMeta {
        /// The group.
        group: GroupRef,
        /// Its bucket.
        bucket: String,
    },
    /// The description cannot be understood.
    #[error("StateDamaged: meta of group {group} cannot be read ({why}); nothing is overwritten")]
    MetaDamaged {
        /// The group.
        group: GroupRef,
        /// What is wrong with it.
        why: String,
    },
    /// Another manager coordinates the group.
    #[error(
        "OwnershipConflict: group {group} is managed by {manager}, this is {STANDALONE}; \
         `lockstep group adopt {group}` moves it"
    )]
    OwnershipConflict {
        /// The group.
        group: GroupRef,
        /// Its manager.
        manager: String,
    },
    /// The manifest would change what cannot change.
    #[error("group {group}: {mismatch}")]
    Immutable {
        /// The group.
        group: GroupRef,
        /// What, and both values.
        mismatch: ImmutableMismatch,
    },
    /// A stream that the group reads is not there.
    #[error(
        "StreamNotFound: group {group} reads stream {stream}, which does not exist; make it, or let \
         Lockstep make it (spec.source.stream.create) with --create"
    )]
    StreamNotFound {
        /// The group.
        group: GroupRef,
        /// The stream.
        stream: String,
    },
    /// A stream that Lockstep would make is there and is another one.
    #[error(
        "ImmutableMismatch: group {group}: stream {stream} exists with {found}, wanted {wanted}"
    )]
    StreamDiffers {
        /// The group.
        group: GroupRef,
        /// The stream.
        stream: String,
        /// How it is.
        found: String,
        /// How the manifest wants it.
        wanted: String,
    },
    /// A stream that no group can read.
    #[error("UnsupportedRetention: group {group}: {refusal}")]
    Unreadable {
        /// The group.
        group: GroupRef,
        /// Why.
        refusal: StreamRefusal,
    },
    /// The server could not be asked about the bucket, or would not make it.
    #[error(transparent)]
    Bucket(#[from] BucketError),
    /// The server could not be asked about a stream, or would not make it.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// A document could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A document was not stored.
    #[error("{key} of group {group} was not stored: {why}")]
    NotStored {
        /// The group.
        group: GroupRef,
        /// Which document.
        key: Key,
        /// What the server says.
        why: String,
    },
}

/// What a failure to provide a group calls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Trying again: time may heal it.
    Retry,
    /// A person: nothing that waiting would mend.
    Person,
    /// The manifest: it asks for something impossible.
    Manifest,
}

/// What was found.
#[derive(Debug)]
struct Found {
    bucket: Option<(Bucket, BucketFacts)>,
    meta: Option<(Meta, Revision)>,
    next: Option<Meta>,
    to_make: Vec<NewStream>,
}

// === impl ProvisionError ===

impl ProvisionError {
    /// What this calls for.
    pub fn calls_for(&self) -> Call {
        let remedy = match self {
            Self::Immutable { .. } | Self::StreamDiffers { .. } => return Call::Manifest,
            Self::NoBucket { .. }
            | Self::ForeignBucket { .. }
            | Self::NoMeta { .. }
            | Self::MetaDamaged { .. }
            | Self::OwnershipConflict { .. }
            | Self::StreamNotFound { .. }
            | Self::Unreadable { .. } => return Call::Person,
            Self::NotStored { .. } => return Call::Retry,
            Self::Bucket(error) => error.remedy(),
            Self::Stream(error) => error.remedy(),
            Self::Read(error) => error.remedy(),
        };
        match remedy {
            Remedy::Retry | Remedy::Observe => Call::Retry,
            Remedy::AskOperator => Call::Person,
        }
    }
}

/// Looks at everything and says what speaks against providing the group; changes nothing.
pub async fn inspect(
    connection: &Connection,
    prefix: &str,
    group: &ValidGroup,
    missing: Missing,
) -> Result<(), ProvisionError> {
    look(connection, prefix, group, missing).await.map(drop)
}

/// Provides the group: what is missing is made, if it may be; a changed manifest is written.
pub async fn provide(
    connection: &Connection,
    prefix: &str,
    group: &ValidGroup,
    missing: Missing,
) -> Result<Provisioned, ProvisionError> {
    let found = look(connection, prefix, group, missing).await?;
    for stream in &found.to_make {
        make_stream(connection, stream).await?;
    }
    if let (Some((bucket, facts)), Some((meta, revision))) = (&found.bucket, &found.meta) {
        let change = found.next.as_ref();
        let meta = match change {
            Some(next) => store_meta(bucket, &group.group, next, *revision).await?,
            None => meta.clone(),
        };
        return Ok(Provisioned {
            bucket: bucket.clone(),
            facts: facts.clone(),
            change: change.map_or(Change::Nothing, |next| Change::Updated(next.generation)),
            meta,
        });
    }
    let was_there = found.bucket.is_some();
    let (bucket, facts) = match found.bucket {
        Some(there) => there,
        None => make_bucket(connection, &group.group.bucket_name(prefix)).await?,
    };
    let id = facts.id.clone().ok_or_else(|| foreign(&bucket))?;
    let streams = identities(connection, group).await?;
    let meta = meta::first(group, id, streams);
    if missing == Missing::MakeAfterLoss && !was_there {
        rebuild::offsets(connection, &bucket, &group.group, &meta).await?;
    }
    let meta = store_meta(&bucket, &group.group, &meta, Revision(0)).await?;
    Ok(Provisioned {
        bucket,
        facts,
        meta,
        change: Change::Made,
    })
}

async fn look(
    connection: &Connection,
    prefix: &str,
    group: &ValidGroup,
    missing: Missing,
) -> Result<Found, ProvisionError> {
    let name = group.group.bucket_name(prefix);
    let bucket = match Bucket::open(connection, &name).await {
        Ok((bucket, facts)) if facts.id.is_none() => return Err(foreign(&bucket)),
        Ok(there) => Some(there),
        Err(BucketError::Missing { bucket }) if missing == Missing::Refuse => {
            let group = group.group.clone();
            return Err(ProvisionError::NoBucket { group, bucket });
        }
        Err(BucketError::Missing { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let meta = match &bucket {
        Some((bucket, _)) => read_meta(bucket, &group.group).await?,
        None => None,
    };
    let next = match &meta {
        Some((meta, _)) => check_meta(meta, group, missing)?,
        None if missing == Missing::Refuse => {
            return Err(ProvisionError::NoMeta {
                group: group.group.clone(),
                bucket: name,
            });
        }
        None => None,
    };
    let to_make = look_at_streams(connection, group, missing, meta.is_some()).await?;
    Ok(Found {
        bucket,
        meta,
        next,
        to_make,
    })
}

fn check_meta(
    meta: &Meta,
    group: &ValidGroup,
    missing: Missing,
) -> Result<Option<Meta>, ProvisionError> {
    if meta.manager != STANDALONE {
        return Err(ProvisionError::OwnershipConflict {
            group: group.group.clone(),
            manager: meta.manager.clone(),
        });
    }
    meta::next(meta, group, missing != Missing::Refuse).map_err(|mismatch| {
        ProvisionError::Immutable {
            group: group.group.clone(),
            mismatch,
        }
    })
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
async fn store_meta(
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

/// Which streams have to be made. One that is there has to be readable, and as wanted.
async fn look_at_streams(
    connection: &Connection,
    group: &ValidGroup,
    missing: Missing,
    exists: bool,
) -> Result<Vec<NewStream>, ProvisionError> {
    let wanted: BTreeMap<&str, &NewStream> = group
        .create
        .iter()
        .map(|new| (new.name.as_str(), new))
        .collect();
    let mut to_make = Vec::new();
    for stream in group.source.streams() {
        let new = wanted.get(stream.as_str()).copied();
        match (streams::info(connection, &stream).await, new) {
            (Ok(facts), new) => {
                facts
                    .check()
                    .map_err(|refusal| ProvisionError::Unreadable {
                        group: group.group.clone(),
                        refusal,
                    })?;
                if let Some(new) = new {
                    check_made(group, &facts, new)?;
                }
                for warning in facts.warnings() {
                    tracing::debug!(stream, ?warning, "a property of the stream");
                }
            }
            (Err(StreamError::Missing { .. }), Some(new)) if missing != Missing::Refuse => {
                to_make.push(new.clone());
            }
            // The group exists: its members name what is wrong with their partitions.
            (Err(StreamError::Missing { .. }), _) if exists => {
                tracing::warn!(group = %group.group, stream, "StreamNotFound: the stream is gone");
            }
            (Err(StreamError::Missing { stream }), _) => {
                let group = group.group.clone();
                return Err(ProvisionError::StreamNotFound { group, stream });
            }
            (Err(error), _) => return Err(error.into()),
        }
    }
    Ok(to_make)
}

fn check_made(
    group: &ValidGroup,
    facts: &StreamFacts,
    new: &NewStream,
) -> Result<(), ProvisionError> {
    let transform = new.transform.as_ref();
    let transform = transform.map(|t| (t.source.clone(), t.destination.clone()));
    let mut subjects = (facts.subjects.clone(), new.subjects.clone());
    subjects.0.sort();
    subjects.1.sort();
    if subjects.0 == subjects.1 && facts.transform == transform {
        return Ok(());
    }
    let words = |subjects: &[String], transform: &Option<(String, String)>| match transform {
        Some((source, destination)) => format!("subjects {subjects:?}, {source} → {destination}"),
        None => format!("subjects {subjects:?}"),
    };
    Err(ProvisionError::StreamDiffers {
        group: group.group.clone(),
        stream: facts.name.clone(),
        found: words(&subjects.0, &facts.transform),
        wanted: words(&subjects.1, &transform),
    })
}

async fn make_stream(connection: &Connection, new: &NewStream) -> Result<(), ProvisionError> {
    let mut plan = StreamPlan {
        name: new.name.clone(),
        subjects: new.subjects.clone(),
        transform: new
            .transform
            .as_ref()
            .map(|t| (t.source.clone(), t.destination.clone())),
        replicas: new.replicas.unwrap_or(USUAL_REPLICAS),
        storage: match new.storage {
            Storage::File => "file",
            Storage::Memory => "memory",
        }
        .to_owned(),
        max_age: new
            .max_age
            .map_or(0, |age| u64::try_from(age.as_nanos()).unwrap_or(u64::MAX)),
        max_bytes: new.max_bytes,
    };
    let mut made = streams::create(connection, &plan).await;
    if let Err(StreamError::Api { source, .. }) = &made
        && too_few_servers(source)
        && new.replicas.is_none()
    {
        plan.replicas = 1;
        made = streams::create(connection, &plan).await;
    }
    match made {
        Ok(facts) => {
            let replicas = facts.replicas;
            tracing::info!(stream = plan.name, replicas, "stream made");
            Ok(())
        }
        // Another process of the same manifest was faster; the next look says if it is as wanted.
        Err(StreamError::Taken { .. }) if streams::info(connection, &plan.name).await.is_ok() => {
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

async fn make_bucket(
    connection: &Connection,
    name: &str,
) -> Result<(Bucket, BucketFacts), ProvisionError> {
    let mut settings = BucketSettings {
        replicas: USUAL_REPLICAS,
        id: chance::bucket_id(),
        group_uid: String::new(),
        history: 1,
    };
    let mut made = Bucket::create(connection, name, &settings).await;
    if let Err(BucketError::Api { source, .. }) = &made
        && too_few_servers(source)
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

async fn identities(
    connection: &Connection,
    group: &ValidGroup,
) -> Result<BTreeMap<String, StreamIdentity>, ProvisionError> {
    let mut identities = BTreeMap::new();
    for stream in group.source.streams() {
        let created = streams::info(connection, &stream).await?.created;
        identities.insert(stream, StreamIdentity { created });
    }
    Ok(identities)
}

fn too_few_servers(error: &ApiError) -> bool {
    match error {
        ApiError::Refused(refusal) => TOO_FEW_SERVERS.contains(&refusal.err_code),
        ApiError::Unanswered { .. }
        | ApiError::NoResponders { .. }
        | ApiError::Lost { .. }
        | ApiError::TooLarge { .. }
        | ApiError::Garbled { .. } => false,
    }
}

fn foreign(bucket: &Bucket) -> ProvisionError {
    ProvisionError::ForeignBucket {
        bucket: bucket.name().to_owned(),
    }
}
