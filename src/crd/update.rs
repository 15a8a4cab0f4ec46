//! What of a group may change while it exists: the rules with `oldSelf`.

use super::checks::Findings;
use super::consumer_group::ConsumerGroup;
use super::rules;
use super::source::{DerivedSource, StreamsSource};
use super::violation::Violation;

/// The rules that a change from `old` to `new` breaks; empty if the change is allowed.
pub fn check_update(old: &ConsumerGroup, new: &ConsumerGroup) -> Vec<Violation> {
    let (old, new) = (&old.spec, &new.spec);
    let mut found = Findings::default();
    let connection = new.connection_ref == old.connection_ref;
    found.unless(
        "spec.connectionRef",
        &rules::CONNECTION_IMMUTABLE,
        connection,
    );
    let mut unless = |rule, holds| found.unless("spec", rule, holds);
    unless(
        &rules::PARTITIONING_IMMUTABLE,
        new.partitioning == old.partitioning,
    );
    unless(
        &rules::START_FROM_IMMUTABLE,
        new.start_from == old.start_from,
    );
    let (source, was) = (&new.source, &old.source);
    let form = source.stream.is_some() == was.stream.is_some()
        && source.derived.is_some() == was.derived.is_some()
        && source.streams.is_some() == was.streams.is_some()
        && source.partitions.is_some() == was.partitions.is_some();
    unless(&rules::SOURCE_FORM_IMMUTABLE, form);
    if let (Some(stream), Some(was)) = (&source.stream, &was.stream) {
        let named = stream.name == was.name && stream.subject_pattern == was.subject_pattern;
        unless(&rules::STREAM_IMMUTABLE, named);
        if let (Some(create), Some(was)) = (&stream.create, &was.create) {
            let made = in_any_order(&create.subjects) == in_any_order(&was.subjects)
                && create.storage == was.storage;
            unless(&rules::STREAM_CREATE_IMMUTABLE, made);
        }
    }
    if let (Some(derived), Some(was)) = (&source.derived, &was.derived) {
        // Apart from the order of its subjects, which are a set.
        let rest = |of: &DerivedSource| DerivedSource {
            subjects: Vec::new(),
            ..of.clone()
        };
        let kept = rest(derived) == rest(was)
            && in_any_order(&derived.subjects) == in_any_order(&was.subjects);
        unless(&rules::DERIVED_IMMUTABLE, kept);
    }
    if let (Some(streams), Some(was)) = (&source.streams, &was.streams) {
        let storage = |of: &StreamsSource| of.create.as_ref().map(|create| create.storage);
        let kept = streams.pattern == was.pattern && storage(streams) == storage(was);
        unless(&rules::STREAMS_IMMUTABLE, kept);
    }
    if let (Some(partitions), Some(was)) = (&source.partitions, &was.partitions) {
        unless(
            &rules::PARTITIONS_IMMUTABLE,
            in_any_order(partitions) == in_any_order(was),
        );
    }
    found.0
}

/// Sets, and lists that stand for maps, have no order for the API server either.
fn in_any_order<T: Ord>(items: &[T]) -> Vec<&T> {
    let mut items: Vec<_> = items.iter().collect();
    items.sort();
    items
}
