//! Members and partitions in the one order that every assignor uses.

use std::collections::BTreeMap;

use super::{Candidate, PartitionInput, Target};
use crate::group::Partition;

/// The members that are to be considered, by (id, incarnation): those that are used by need only
/// if there are no others.
pub(super) fn willing(members: &[Candidate]) -> Vec<Candidate> {
    let steady = members.iter().any(|m| !m.by_need);
    let mut willing: Vec<Candidate> = members
        .iter()
        .filter(|m| !(steady && m.by_need))
        .cloned()
        .collect();
    willing.sort_by(|a, b| (&a.id, &a.incarnation).cmp(&(&b.id, &b.incarnation)));
    willing.dedup_by(|a, b| a.incarnation == b.incarnation);
    willing
}

/// The partitions by number, each once.
pub(super) fn in_order(partitions: &[PartitionInput]) -> Vec<&PartitionInput> {
    let by_number: BTreeMap<Partition, &PartitionInput> =
        partitions.iter().map(|p| (p.partition, p)).collect();
    by_number.into_values().collect()
}

/// The target that gives the i-th partition to the member at `owners[i]`.
pub(super) fn named(
    members: &[Candidate],
    partitions: &[&PartitionInput],
    owners: impl IntoIterator<Item = usize>,
) -> Target {
    partitions
        .iter()
        .zip(owners)
        .filter_map(|(p, owner)| Some((p.partition, members.get(owner)?.incarnation.clone())))
        .collect()
}
