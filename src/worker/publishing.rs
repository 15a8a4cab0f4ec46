//! Publishing for the application: by key into the group's own source, or by subject.

use std::collections::BTreeMap;

use crate::group::partitioning::{self, Key};
use crate::group::{Meta, Partition, Source};
use crate::nats::{self, Connection, Outgoing, PublishOutcome};

use super::handle::{CallError, Position, Publish, PublishTo, Published};
use super::settings::Resolver;

/// A message on its way, addressed.
#[derive(Debug)]
pub(super) struct Addressed {
    partition: Option<Partition>,
    message: Outgoing,
}

/// Finds out where a message goes.
pub(super) fn address(
    publish: Publish,
    meta: &Meta,
    resolver: Option<&Resolver>,
) -> Result<Addressed, CallError> {
    let (partition, subject) = match &publish.to {
        PublishTo::Key(key) => by_key(key, meta, resolver)?,
        PublishTo::Subject(subject) => (
            partitioning::partition_of_subject(&meta.source, subject),
            subject.clone(),
        ),
    };
    let derived = publish
        .derived_from
        .map(|position| derived_id(position, meta, &subject));
    let headers = publish
        .headers
        .into_iter()
        .flat_map(|(name, values)| values.into_iter().map(move |value| (name.clone(), value)))
        .collect();
    Ok(Addressed {
        partition,
        message: Outgoing {
            subject,
            headers,
            payload: publish.payload,
            id: publish.id.or(derived),
        },
    })
}

fn by_key(
    key: &str,
    meta: &Meta,
    resolver: Option<&Resolver>,
) -> Result<(Option<Partition>, String), CallError> {
    let wrong = |sentence: String| CallError::BadRequest {
        field: "key",
        sentence,
    };
    let parsed: Key = key.parse().map_err(|error| wrong(format!("{error}")))?;
    if let Some(resolver) = resolver {
        if let Source::Stream {
            stream,
            transform: Some(_),
            ..
        } = &meta.source
        {
            return Err(wrong(format!(
                "the server computes the partitions of stream {stream}; a resolver of keys works \
                 with `streams`, `partitions` or a `subjectPattern`"
            )));
        }
        let partition = (resolver.0)(key, meta.partitions());
        let subject = subject_in(&meta.source, partition, &parsed).ok_or_else(|| {
            wrong(format!(
                "the resolver chose partition {partition}, whose subject for this key is not known"
            ))
        })?;
        return Ok((Some(partition), subject));
    }
    let address =
        partitioning::address(&meta.source, &parsed).map_err(|error| wrong(format!("{error}")))?;
    Ok((Some(address.partition), address.subject))
}

/// The subject of a key in a partition that a resolver chose: the first wildcards of its filter
/// take the key.
fn subject_in(source: &Source, partition: Partition, key: &Key) -> Option<String> {
    let pattern = match source {
        Source::Streams { subjects, .. } => subjects.replace("{partition}", &partition.to_string()),
        Source::Stream { .. } | Source::List(_) => source.of(partition)?.filter?,
    };
    let (fixed, _) = pattern.split_once(['*', '>'])?;
    Some(format!("{fixed}{}", key.as_str()))
}

/// The identity of what was made from a consumed message and goes to this subject: made again, it
/// is the same.
fn derived_id(from: Position, meta: &Meta, subject: &str) -> String {
    let stream = meta
        .source
        .of(from.partition)
        .map_or_else(String::new, |source| source.stream);
    let created = meta.streams.get(&stream).map_or(0, |s| s.created.0);
    format!("{stream}.{created}.{}>{subject}", from.sequence)
}

/// Publishes and says what became of it.
pub(super) async fn send(
    connection: Connection,
    addressed: Addressed,
) -> Result<Published, CallError> {
    let Addressed { partition, message } = addressed;
    match nats::publish(&connection, message).await {
        PublishOutcome::Stored {
            stream,
            sequence,
            duplicate,
        } => Ok(Published {
            stream,
            sequence,
            partition,
            duplicate,
        }),
        PublishOutcome::Unknown { why } => Err(CallError::Unavailable {
            why: format!(
                "whether the message is stored is not known: {why}; with an id it may be sent again"
            ),
        }),
        PublishOutcome::NoStream { subject } => Err(CallError::Unavailable {
            why: format!(
                "no stream takes the subject {subject:?}, or its stream has no leader now"
            ),
        }),
        PublishOutcome::TooLarge { size, limit } => Err(CallError::TooLarge {
            size: size as u64,
            limit: limit as u64,
        }),
        PublishOutcome::Invalid { sentence } => Err(CallError::BadRequest {
            field: "message",
            sentence,
        }),
        PublishOutcome::Refused { code, text } => Err(CallError::Unavailable {
            why: format!("the stream refuses the message: {text} ({code})"),
        }),
    }
}

/// The stream of each partition, shared by all of its messages.
pub(super) fn stream_names(source: &Source) -> Vec<std::sync::Arc<str>> {
    let mut known: BTreeMap<String, std::sync::Arc<str>> = BTreeMap::new();
    Partition::all(source.partitions())
        .map(|partition| {
            let name = source.of(partition).map_or_else(String::new, |s| s.stream);
            let shared = known
                .entry(name)
                .or_insert_with_key(|name| name.as_str().into());
            std::sync::Arc::clone(shared)
        })
        .collect()
}
