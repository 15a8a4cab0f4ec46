//! The streams that a group reads: those that are there, those to be made, and those of ours that
//! somebody changed.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Missing, ProvisionError, Terms};
use crate::crd::{NewStream, Storage, ValidGroup};
use crate::group::StreamIdentity;
use crate::nats::streams::{self, StreamChange, StreamError, StreamOwner, StreamPlan};
use crate::nats::{ApiError, Connection, StreamFacts};

/// Replicas of what Lockstep makes where nothing else is asked for.
pub(super) const USUAL_REPLICAS: u32 = 3;

/// "No suitable peers for placement", and "replicas > 1 not supported in non-clustered mode".
const TOO_FEW_SERVERS: [u64; 2] = [10005, 10074];

/// What a look at the streams has found.
#[derive(Debug, Default)]
pub(super) struct Looked {
    /// Those that are missing and may be made.
    pub(super) to_make: Vec<NewStream>,
    /// Those of ours that are not as the manifest says.
    pub(super) to_repair: Vec<StreamChange>,
    /// Those that are there, and whether they were made for this group.
    pub(super) streams: Vec<(String, bool)>,
    /// Those that a group that exists reads, that are gone and that are not ours to make.
    pub(super) gone: Vec<String>,
    /// What works and has a price, in words.
    pub(super) warnings: Vec<String>,
}

/// Which streams have to be made. One that is there has to be readable, and as wanted.
pub(super) async fn look(
    connection: &Connection,
    group: &ValidGroup,
    terms: &Terms,
    exists: bool,
) -> Result<Looked, ProvisionError> {
    let wanted: BTreeMap<&str, &NewStream> = group
        .create
        .iter()
        .map(|new| (new.name.as_str(), new))
        .collect();
    let mut looked = Looked::default();
    let me = terms.owner(&group.group);
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
                    if facts.owner.as_ref() == Some(&me) {
                        looked.to_repair.extend(drift(&facts, new));
                    }
                }
                looked
                    .streams
                    .push((stream.clone(), facts.owner.as_ref() == Some(&me)));
                let warnings = facts.warnings();
                let warnings = warnings.iter().map(|w| format!("stream {stream}: {w}"));
                looked.warnings.extend(warnings);
            }
            (Err(StreamError::Missing { .. }), Some(new)) if terms.missing != Missing::Refuse => {
                looked.to_make.push(new.clone());
            }
            // The group exists: its members name what is wrong with their partitions.
            (Err(StreamError::Missing { .. }), _) if exists => {
                looked.gone.push(stream.clone());
            }
            (Err(StreamError::Missing { stream }), _) => {
                let group = group.group.clone();
                return Err(ProvisionError::StreamNotFound { group, stream });
            }
            (Err(error), _) => return Err(error.into()),
        }
    }
    Ok(looked)
}

/// What of a stream of ours is not as the manifest says, and may change.
fn drift(facts: &StreamFacts, new: &NewStream) -> Option<StreamChange> {
    let max_age = nanoseconds(new.max_age);
    let change = StreamChange {
        stream: facts.name.clone(),
        max_age: (facts.max_age != max_age).then_some(max_age),
        max_bytes: (facts.max_bytes != new.max_bytes).then_some(new.max_bytes),
        replicas: new.replicas.filter(|replicas| *replicas != facts.replicas),
    };
    change.says_something().then_some(change)
}

fn nanoseconds(age: Option<Duration>) -> u64 {
    age.map_or(0, |age| u64::try_from(age.as_nanos()).unwrap_or(u64::MAX))
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

/// Makes a stream; with one replica where the servers are too few for more.
pub(super) async fn make(
    connection: &Connection,
    new: &NewStream,
    owner: StreamOwner,
) -> Result<(), ProvisionError> {
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
        max_age: nanoseconds(new.max_age),
        max_bytes: new.max_bytes,
        owner: Some(owner),
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

/// When each of the group's streams was created.
pub(super) async fn identities(
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

/// Whether the servers are fewer than the replicas that were asked for.
pub(super) fn too_few_servers(error: &ApiError) -> bool {
    match error {
        ApiError::Refused(refusal) => TOO_FEW_SERVERS.contains(&refusal.err_code),
        ApiError::Unanswered { .. }
        | ApiError::NoResponders { .. }
        | ApiError::Lost { .. }
        | ApiError::TooLarge { .. }
        | ApiError::Garbled { .. } => false,
    }
}
