//! From a checked manifest to the document `meta`, and from one manifest to the next.

use std::collections::BTreeMap;
use std::fmt;

use super::provision::{Missing, Terms};
use crate::crd::ValidGroup;
use crate::group::{
    BucketId, GroupState, Meta, MetaGeneration, Source, StartFrom, StreamIdentity, Unknown,
};

/// The manager of a group that lives without Kubernetes.
pub const STANDALONE: &str = "standalone";

/// A manifest that would change what offsets depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImmutableMismatch {
    field: &'static str,
    in_force: String,
    wanted: String,
}

/// What the group is, as it is written for the first time.
pub(super) fn first(
    group: &ValidGroup,
    terms: &Terms,
    bucket: BucketId,
    streams: BTreeMap<String, StreamIdentity>,
) -> Meta {
    Meta {
        bucket,
        manager: terms.manager.clone(),
        generation: MetaGeneration(1),
        group_uid: terms.group_uid.clone(),
        state: GroupState::Active,
        source: group.source.clone(),
        streams,
        start_from: group.start_from,
        delivery: group.delivery.clone(),
        membership: group.membership.clone(),
        on_truncation: group.on_truncation,
        on_gap: group.on_gap,
        pause: group.pause.clone(),
        resumed: BTreeMap::new(),
        unknown: Unknown::default(),
    }
}

/// What a group that exists is from now on; none if the manifest says nothing new.
///
/// Without Kubernetes a pause that was made by hand stays: a manifest can pause, and
/// `lockstep group resume` resumes. In Kubernetes the object alone says what is paused.
pub(super) fn next(
    old: &Meta,
    group: &ValidGroup,
    terms: &Terms,
) -> Result<Option<Meta>, ImmutableMismatch> {
    unchanged("spec.source", &old.source, &group.source, source_in_words)?;
    unchanged(
        "spec.startFrom",
        &old.start_from,
        &group.start_from,
        start_in_words,
    )?;
    let mut new = Meta {
        delivery: group.delivery.clone(),
        membership: group.membership.clone(),
        on_truncation: group.on_truncation,
        on_gap: group.on_gap,
        ..old.clone()
    };
    if terms.manager == STANDALONE {
        new.pause.all |= group.pause.all;
        new.pause.partitions.extend(&group.pause.partitions);
    } else {
        new.pause = group.pause.clone();
    }
    new.manager.clone_from(&terms.manager);
    new.group_uid.clone_from(&terms.group_uid);
    if terms.missing != Missing::Refuse {
        new.state = GroupState::Active;
    }
    if new == *old {
        return Ok(None);
    }
    new.generation = MetaGeneration(old.generation.0 + 1);
    Ok(Some(new))
}

fn unchanged<T: PartialEq>(
    field: &'static str,
    in_force: &T,
    wanted: &T,
    words: fn(&T) -> String,
) -> Result<(), ImmutableMismatch> {
    if in_force == wanted {
        return Ok(());
    }
    Err(ImmutableMismatch {
        field,
        in_force: words(in_force),
        wanted: words(wanted),
    })
}

fn source_in_words(source: &Source) -> String {
    let partitions = source.partitions();
    match source {
        Source::Stream { stream, filter, .. } => {
            format!("{partitions} partitions of stream {stream} ({filter})")
        }
        Source::Streams { pattern, .. } => format!("{partitions} streams {pattern}"),
        Source::List(list) => {
            let of = |p: &crate::group::PartitionSource| match &p.filter {
                Some(filter) => format!("{} ({filter})", p.stream),
                None => p.stream.clone(),
            };
            let shown: Vec<String> = list.iter().take(4).map(of).collect();
            format!("{partitions} partitions: {} …", shown.join(", "))
        }
    }
}

fn start_in_words(start: &StartFrom) -> String {
    match start {
        StartFrom::Earliest => "Earliest".to_owned(),
        StartFrom::Latest => "Latest".to_owned(),
        StartFrom::Sequence { sequence } => format!("Sequence {sequence}"),
        StartFrom::Time { time } => format!("Time {} ns", time.0),
        StartFrom::Duration { duration } => format!("Duration {duration:?}"),
    }
}

// === impl ImmutableMismatch ===

impl fmt::Display for ImmutableMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            field,
            in_force,
            wanted,
        } = self;
        write!(
            f,
            "ImmutableMismatch: {field} of the group in force is {in_force}, and the manifest wants \
             {wanted}; offsets depend on it: make a new group, or delete this one with \
             `lockstep group delete`"
        )
    }
}

impl std::error::Error for ImmutableMismatch {}
