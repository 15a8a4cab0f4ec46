//! The streams that a group reads: those that are there, those to be made, and those of ours that
//! somebody changed.

use std::collections::BTreeMap;
use std::time::Duration;

use super::derived::{self, Look, OriginSeen};
use super::{Missing, ProvisionError, Terms};
use crate::crd::{NewStream, Origin, Storage, ValidGroup};
use crate::group::{Meta, Sequence, StreamIdentity};
use crate::nats::streams::{self, SourcePlan, StreamChange, StreamError, StreamOwner, StreamPlan};
use crate::nats::{ApiError, Connection, StreamFacts};

/// Replicas of what Lockstep makes where nothing else is asked for.
pub(super) const USUAL_REPLICAS: u32 = 3;

/// "No suitable peers for placement", and "replicas > 1 not supported in non-clustered mode".
const TOO_FEW_SERVERS: [u64; 2] = [10005, 10074];

/// What a look at the streams has found.
#[derive(Debug, Default)]
pub(super) struct Looked {
    /// Those that are missing and may be made.
    pub(super) to_make: Vec<StreamToMake>,
    /// Those of ours that are not as the manifest says.
    pub(super) to_repair: Vec<StreamChange>,
    /// What is to be noted in streams of ours, without a word: nobody changed anything.
    pub(super) to_note: Vec<StreamChange>,
    /// Those that are there, and whether they were made for this group.
    pub(super) streams: Vec<(String, bool)>,
    /// Those that a group that exists reads, that are gone and that are not ours to make.
    pub(super) gone: Vec<String>,
    /// What is another stream than it was, in words.
    pub(super) renewed: Vec<String>,
    /// The origin of a derived stream, as the group's description is to name it.
    pub(super) origin: Option<(String, StreamIdentity)>,
    /// What works and has a price, in words.
    pub(super) warnings: Vec<String>,
}

/// A stream that is to be made.
#[derive(Clone, Debug)]
pub(super) struct StreamToMake {
    pub(super) new: NewStream,
    /// Where one that is derived begins, in its origin.
    pub(super) from: Option<Sequence>,
}

/// A look at a group's streams.
struct Looking<'a> {
    connection: &'a Connection,
    group: &'a ValidGroup,
    terms: &'a Terms,
    /// The group's description, if it exists.
    meta: Option<&'a Meta>,
    found: Looked,
}

/// Which streams have to be made. One that is there has to be readable, and as wanted.
pub(super) async fn look(
    connection: &Connection,
    group: &ValidGroup,
    terms: &Terms,
    meta: Option<&Meta>,
) -> Result<Looked, ProvisionError> {
    let wanted: BTreeMap<&str, &NewStream> = group
        .create
        .iter()
        .map(|new| (new.name.as_str(), new))
        .collect();
    let mut looking = Looking {
        connection,
        group,
        terms,
        meta,
        found: Looked::default(),
    };
    for stream in group.source.streams() {
        let new = wanted.get(stream.as_str()).copied();
        looking.look_at(&stream, new).await?;
    }
    Ok(looking.found)
}

// === impl Looking ===

impl Looking<'_> {
    async fn look_at(
        &mut self,
        stream: &str,
        new: Option<&NewStream>,
    ) -> Result<(), ProvisionError> {
        let origin = match new.and_then(|new| new.origin.as_ref()) {
            None => None,
            Some(origin) => self.look_at_origin(origin).await?,
        };
        match (streams::info(self.connection, stream).await, new) {
            (Ok(facts), new) => self.is_there(&facts, new, origin.as_ref()).await,
            (Err(StreamError::Missing { .. }), Some(new))
                if self.terms.missing != Missing::Refuse =>
            {
                self.is_to_make(new, origin.as_ref()).await
            }
            // The group exists: its members name what is wrong with their partitions.
            (Err(StreamError::Missing { .. }), _) if self.meta.is_some() => {
                self.found.gone.push(stream.to_owned());
                Ok(())
            }
            (Err(StreamError::Missing { stream }), _) => {
                let group = self.group.group.clone();
                Err(ProvisionError::StreamNotFound { group, stream })
            }
            (Err(error), _) => Err(error.into()),
        }
    }

    async fn look_at_origin(
        &mut self,
        origin: &Origin,
    ) -> Result<Option<OriginSeen>, ProvisionError> {
        match derived::look(self.connection, self.group, origin, self.meta).await? {
            Look::Gone => {
                self.found.gone.push(origin.stream.clone());
                Ok(None)
            }
            Look::Seen(seen) => {
                let words = seen
                    .warnings()
                    .map(|w| format!("stream {}: {w}", origin.stream));
                self.found.warnings.extend(words);
                Ok(Some(*seen))
            }
        }
    }

    async fn is_to_make(
        &mut self,
        new: &NewStream,
        origin: Option<&OriginSeen>,
    ) -> Result<(), ProvisionError> {
        let mut from = None;
        if let Some(of) = &new.origin {
            // Without its origin it waits: that is said already.
            let Some(seen) = origin else { return Ok(()) };
            let start = self.group.start_from;
            let begin = seen.beginning(self.connection, start).await?;
            self.found.origin = Some((of.stream.clone(), seen.identity(begin)));
            from = Some(begin);
        }
        let new = new.clone();
        self.found.to_make.push(StreamToMake { new, from });
        Ok(())
    }

    async fn is_there(
        &mut self,
        facts: &StreamFacts,
        new: Option<&NewStream>,
        origin: Option<&OriginSeen>,
    ) -> Result<(), ProvisionError> {
        facts
            .check()
            .map_err(|refusal| ProvisionError::Unreadable {
                group: self.group.group.clone(),
                refusal,
            })?;
        let ours = self.is_ours(facts);
        let mut note = StreamChange::none(&facts.name);
        if ours {
            let me = self.terms.owner(&self.group.group);
            note.owner = Some(me).filter(|me| facts.owner.as_ref() != Some(me));
        }
        if let Some(new) = new {
            if new.origin.is_some() {
                derived::check_owner(self.group, self.terms, facts)?;
            }
            let mut change = drift(facts, new);
            match &new.origin {
                Some(of) if ours => {
                    let plan = self.derived(facts, new, origin).await?;
                    if derived::is_as_wanted(facts, of) {
                        note.source = plan.filter(|plan| derived::has_come_further(facts, plan));
                    } else {
                        change.source = plan;
                    }
                }
                Some(_) | None => check_made(self.group, facts, new)?,
            }
            if ours && change.says_something() {
                self.found.to_repair.push(change);
            }
        }
        if note.says_something() {
            self.found.to_note.push(note);
        }
        self.found.streams.push((facts.name.clone(), ours));
        let warnings = facts.warnings();
        let warnings = warnings
            .iter()
            .map(|w| format!("stream {}: {w}", facts.name));
        self.found.warnings.extend(warnings);
        Ok(())
    }

    /// What a derived stream of ours should take over from now on; what it has come to is noted.
    async fn derived(
        &mut self,
        facts: &StreamFacts,
        new: &NewStream,
        origin: Option<&OriginSeen>,
    ) -> Result<Option<SourcePlan>, ProvisionError> {
        let Some(seen) = origin else { return Ok(None) };
        let plan = derived::plan_from_here(self.connection, facts, new, seen).await?;
        let Some(plan) = plan else { return Ok(None) };
        if self.meta.is_none() {
            // It was made a moment ago, or is left of an earlier group: that is where this begins.
            let identity = seen.identity(plan.from);
            self.found.origin = Some((plan.origin.clone(), identity));
        } else if seen.is_another() {
            self.found.renewed.push(format!(
                "stream {origin} was made anew: of the new one, messages at sequences that {stream} \
                 had reached in the former one may not be taken over; once the group has read what \
                 is in {stream}, delete that stream, and it is made anew with all of {origin}",
                origin = plan.origin,
                stream = facts.name,
            ));
        }
        Ok(Some(plan))
    }

    /// Whether it was made for this group, by its manager or by the one that it is taken over from.
    fn is_ours(&self, facts: &StreamFacts) -> bool {
        let me = self.terms.owner(&self.group.group);
        let former = self.meta.map(|meta| &meta.manager);
        facts.owner.as_ref().is_some_and(|owner| {
            owner.group == me.group
                && (owner.manager == me.manager || Some(&owner.manager) == former)
        })
    }
}

/// What of a stream of ours is not as the manifest says, and may change.
fn drift(facts: &StreamFacts, new: &NewStream) -> StreamChange {
    let max_age = nanoseconds(new.max_age);
    StreamChange {
        max_age: (facts.max_age != max_age).then_some(max_age),
        max_bytes: (facts.max_bytes != new.max_bytes).then_some(new.max_bytes),
        replicas: new.replicas.filter(|replicas| *replicas != facts.replicas),
        ..StreamChange::none(&facts.name)
    }
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
    let taken_over = match &new.origin {
        Some(origin) => derived::is_as_wanted(facts, origin),
        None => facts.sources.is_empty(),
    };
    if subjects.0 == subjects.1 && facts.transform == transform && taken_over {
        return Ok(());
    }
    if let Some(origin) = &new.origin {
        let found = facts.sources.iter().filter_map(|s| s.plan.as_ref());
        let found: Vec<_> = found.map(ToString::to_string).collect();
        return Err(ProvisionError::StreamDiffers {
            group: group.group.clone(),
            stream: facts.name.clone(),
            found: format!("subjects {:?}, taken over from {found:?}", subjects.0),
            wanted: format!("taken over from {}", derived::plan(origin, Sequence::FIRST)),
        });
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
    to_make: &StreamToMake,
    owner: StreamOwner,
) -> Result<(), ProvisionError> {
    let new = &to_make.new;
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
        source: new
            .origin
            .as_ref()
            .zip(to_make.from)
            .map(|(origin, from)| derived::plan(origin, from)),
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

/// When each of the group's streams was created; that of a derived stream's origin is known already.
pub(super) async fn identities(
    connection: &Connection,
    group: &ValidGroup,
    origin: Option<(String, StreamIdentity)>,
) -> Result<BTreeMap<String, StreamIdentity>, ProvisionError> {
    let mut identities: BTreeMap<_, _> = origin.into_iter().collect();
    for stream in group.source.streams() {
        let created = streams::info(connection, &stream).await?.created;
        let taken_from = None;
        identities.insert(
            stream,
            StreamIdentity {
                created,
                taken_from,
            },
        );
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
