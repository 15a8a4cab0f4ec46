//! One owner per partition and epoch; epochs never fall.

use std::collections::{BTreeMap, BTreeSet};

use super::prepared::Prepared;
use super::verdict::{Rule, Violation};

pub(crate) fn check(history: &Prepared) -> Vec<Violation> {
    let mut violations = one_member_reads(history);
    violations.extend(one_incarnation_writes(history));
    violations.extend(readers_are_owners(history));
    violations.extend(grants_rise(history));
    violations
}

/// As the applications saw it.
fn one_member_reads(history: &Prepared) -> Vec<Violation> {
    let mut reader: BTreeMap<(u32, u64), &str> = BTreeMap::new();
    let mut violations = Vec::new();
    for sighting in history.sightings() {
        let place = (sighting.partition, sighting.epoch);
        let first = *reader.entry(place).or_insert(&sighting.member);
        if first != sighting.member {
            let text = format!(
                "epoch {} was read by {first} and {}",
                place.1, sighting.member
            );
            violations.push(Violation::new(Rule::TwoOwners, place.0, text));
        }
    }
    violations
}

/// As the bucket has it: grants and commits.
fn one_incarnation_writes(history: &Prepared) -> Vec<Violation> {
    let mut violations = Vec::new();
    for ((partition, epoch), owners) in owners(history) {
        if let [first, .., last] = owners.as_slice() {
            let text = format!("epoch {epoch} belonged to {first} and to {last}");
            violations.push(Violation::new(Rule::TwoOwners, partition, text));
        }
    }
    violations
}

/// The different owners of each partition and epoch. Epoch 0 is the seed, which nobody owns.
fn owners(history: &Prepared) -> BTreeMap<(u32, u64), Vec<&str>> {
    let mut owners: BTreeMap<(u32, u64), Vec<&str>> = BTreeMap::new();
    let granted = history.grants.iter().flat_map(|(partition, grants)| {
        grants
            .values()
            .map(|grant| (*partition, grant.epoch, grant.owner.as_str()))
    });
    let committed = history.commits.iter().flat_map(|(partition, commits)| {
        commits
            .values()
            .map(|commit| (*partition, commit.epoch, commit.owner.as_str()))
    });
    for (partition, epoch, owner) in granted.chain(committed).filter(|(_, epoch, _)| *epoch > 0) {
        let known = owners.entry((partition, epoch)).or_default();
        if !known.contains(&owner) {
            known.push(owner);
        }
    }
    owners
}

/// The application that read an epoch sat at the socket of the incarnation that owned it.
fn readers_are_owners(history: &Prepared) -> Vec<Violation> {
    let owners = owners(history);
    let mut violations = Vec::new();
    let mut reported = BTreeSet::new();
    for sighting in history.sightings() {
        let place = (sighting.partition, sighting.epoch);
        let known = owners.get(&place).map(Vec::as_slice).unwrap_or_default();
        let names: Vec<&str> = known
            .iter()
            .filter_map(|owner| history.names.get(*owner).map(String::as_str))
            .collect();
        let foreign = !names.is_empty() && !names.contains(&sighting.member.as_str());
        if foreign && reported.insert((place, &sighting.member)) {
            let text = format!(
                "epoch {} belonged to {names:?} and was read by {}",
                place.1, sighting.member
            );
            violations.push(Violation::new(Rule::ForeignReader, place.0, text));
        }
    }
    violations
}

/// In the order of the document's revisions.
fn grants_rise(history: &Prepared) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (partition, grants) in &history.grants {
        let epochs: Vec<u64> = grants.values().map(|grant| grant.epoch).collect();
        for pair in epochs.windows(2).filter(|pair| pair[1] <= pair[0]) {
            let text = format!("epoch {} was granted after epoch {}", pair[1], pair[0]);
            violations.push(Violation::new(Rule::EpochFell, *partition, text));
        }
    }
    violations
}
