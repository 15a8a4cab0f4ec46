//! A stream that is derived from one that cannot be changed: the server takes messages over as they
//! come, with the partition in their subjects. The origin itself is never altered.

use super::{ProvisionError, Terms};
use crate::clock;
use crate::crd::{NewStream, Origin, ValidGroup};
use crate::group::start::{self, Answer, Question, StreamEnds};
use crate::group::{Meta, Sequence, StartFrom, StreamIdentity};
use crate::nats::streams::{self, SourcePlan, StreamError, StreamWarning};
use crate::nats::{Connection, StreamFacts};

/// The origin at the moment of looking.
#[derive(Clone, Debug)]
pub(super) struct OriginSeen {
    pub(super) facts: StreamFacts,
    /// What was taken over so far, as the group's description says.
    known: Option<StreamIdentity>,
}

/// What a look at an origin has found.
#[derive(Debug)]
pub(super) enum Look {
    /// It is there, and can be taken over.
    Seen(Box<OriginSeen>),
    /// It is gone, and the group that needs it exists.
    Gone,
}

/// Looks at the stream that a group's own is derived from.
pub(super) async fn look(
    connection: &Connection,
    group: &ValidGroup,
    origin: &Origin,
    meta: Option<&Meta>,
) -> Result<Look, ProvisionError> {
    let stream = &origin.stream;
    let facts = match streams::info(connection, stream).await {
        Ok(facts) => facts,
        Err(StreamError::Missing { .. }) if meta.is_some() => return Ok(Look::Gone),
        Err(StreamError::Missing { .. }) => {
            return Err(ProvisionError::StreamNotFound {
                group: group.group.clone(),
                stream: stream.clone(),
            });
        }
        Err(error) => return Err(error.into()),
    };
    facts
        .check()
        .map_err(|refusal| ProvisionError::Unreadable {
            group: group.group.clone(),
            refusal,
        })?;
    let known = meta.and_then(|meta| meta.streams.get(stream).cloned());
    Ok(Look::Seen(Box::new(OriginSeen { facts, known })))
}

/// A stream that is there under the name of a derived one is either of this group or nobody's.
pub(super) fn check_owner(
    group: &ValidGroup,
    terms: &Terms,
    facts: &StreamFacts,
) -> Result<(), ProvisionError> {
    let me = terms.owner(&group.group);
    match &facts.owner {
        Some(owner) if owner.group != me.group => Err(ProvisionError::StreamOfAnother {
            group: group.group.clone(),
            stream: facts.name.clone(),
            owner: owner.group.clone(),
        }),
        Some(_) | None => Ok(()),
    }
}

/// Whether it takes over what it should, and nothing is published to it.
pub(super) fn is_as_wanted(facts: &StreamFacts, origin: &Origin) -> bool {
    let [source] = &facts.sources[..] else {
        return false;
    };
    let same =
        |plan: &SourcePlan| plan.origin == origin.stream && plan.transforms == origin.transforms;
    facts.subjects.is_empty() && source.plan.as_ref().is_some_and(same)
}

/// Whether it would begin elsewhere by what is set than it has come to.
pub(super) fn has_come_further(facts: &StreamFacts, plan: &SourcePlan) -> bool {
    let mut set = facts.sources.iter().map(|source| source.plan.as_ref());
    set.all(|set| set != Some(plan))
}

/// What a derived stream takes over, from this message on.
pub(super) fn plan(origin: &Origin, from: Sequence) -> SourcePlan {
    SourcePlan {
        origin: origin.stream.clone(),
        from,
        transforms: origin.transforms.clone(),
    }
}

/// The same for one that is there, from where it has come to.
///
/// A server below 2.15 begins at `opt_start_seq` again after a restart in which it finds the stream
/// empty, because limits have removed everything. So that is moved along.
pub(super) async fn plan_from_here(
    connection: &Connection,
    facts: &StreamFacts,
    new: &NewStream,
    seen: &OriginSeen,
) -> Result<Option<SourcePlan>, ProvisionError> {
    let Some(origin) = &new.origin else {
        return Ok(None);
    };
    let taken = if facts.messages == 0 || seen.is_another() {
        None
    } else {
        streams::taken_over_up_to(connection, &facts.name, facts.last, &origin.stream).await?
    };
    let set = facts.sources.iter().filter_map(|s| s.plan.as_ref());
    let set = set.filter(|plan| plan.origin == origin.stream);
    let known = seen.known.as_ref().and_then(|known| known.taken_from);
    let from = taken
        .map(Sequence::next)
        .or(set.map(|plan| plan.from).next())
        .or(known)
        .unwrap_or(seen.facts.first);
    Ok(Some(plan(origin, from)))
}

// === impl OriginSeen ===

impl OriginSeen {
    /// It is not the stream that messages were taken over from so far, but one of the same name.
    pub(super) fn is_another(&self) -> bool {
        let known = self.known.as_ref();
        known.is_some_and(|known| known.created != self.facts.created)
    }

    /// What the group's description says of it.
    pub(super) fn identity(&self, taken_from: Sequence) -> StreamIdentity {
        StreamIdentity {
            created: self.facts.created,
            taken_from: Some(taken_from),
        }
    }

    /// What of it should be said. A server below 2.15 does not take a roll-up over.
    pub(super) fn warnings(&self) -> impl Iterator<Item = StreamWarning> {
        let found = self.facts.warnings().into_iter();
        found.filter(|warning| *warning == StreamWarning::AllowsRollup)
    }

    /// The first message that a derived stream takes over which is made now. // P88a
    ///
    /// The beginning is resolved once, in the origin, and noted: a derived stream that is made
    /// again begins where the first one did, and one of another origin with all that is there.
    pub(super) async fn beginning(
        &self,
        connection: &Connection,
        start: StartFrom,
    ) -> Result<Sequence, ProvisionError> {
        let noted = self.known.as_ref().and_then(|known| known.taken_from);
        if start == StartFrom::Earliest || self.is_another() {
            return Ok(self.facts.first);
        }
        if let Some(noted) = noted {
            return Ok(noted);
        }
        let first_since = match start::question(&start, clock::unix_now()) {
            Question::Ends => None,
            Question::FirstSince(time) => {
                let stream = &self.facts.name;
                let found = streams::first_at_or_after(connection, stream, time).await?;
                found.map(|message| message.sequence)
            }
        };
        let ends = StreamEnds {
            first: self.facts.first,
            end: self.facts.last.next(),
        };
        Ok(start::position(&start, Answer { ends, first_since }))
    }
}
