//! No duplicates across a clean hand-over, a bounded number across an unclean one, and never
//! what was committed before the epoch began.

use std::collections::{BTreeMap, BTreeSet};

use super::Expectations;
use super::prepared::{Prepared, Step};
use super::verdict::{Rule, Violation};

/// Messages that more than one epoch saw, counted once per further epoch; and what is wrong.
pub(crate) fn check(history: &Prepared, expect: &Expectations) -> (u64, Vec<Violation>) {
    let mut violations = committed_is_not_seen_again(history, expect);
    let epochs = epochs_of_messages(history);
    let given_back = given_back(history);
    let mut repeats: BTreeMap<(u32, u64), u64> = BTreeMap::new();
    for ((partition, sequence), epochs) in &epochs {
        let epochs: Vec<u64> = epochs.iter().copied().collect();
        for pair in epochs.windows(2) {
            *repeats.entry((*partition, pair[1])).or_default() += 1;
            let retry = given_back.contains(&(*partition, *sequence, pair[0]));
            if !retry && clean_between(history, expect, *partition, (pair[0], pair[1])) {
                let text = format!(
                    "sequence {sequence} was seen at epoch {} and again at epoch {}, although \
                     the hand-over was clean",
                    pair[0], pair[1]
                );
                violations.push(Violation::new(Rule::DuplicateAfterClean, *partition, text));
            }
        }
    }
    let bound = expect.in_flight + expect.uncommitted;
    for ((partition, epoch), count) in repeats.iter().filter(|(_, count)| **count > bound) {
        let text =
            format!("{count} messages were seen again at epoch {epoch}, allowed are {bound}");
        violations.push(Violation::new(Rule::TooManyDuplicates, *partition, text));
    }
    (repeats.values().sum(), violations)
}

fn epochs_of_messages(history: &Prepared) -> BTreeMap<(u32, u64), BTreeSet<u64>> {
    let mut epochs: BTreeMap<(u32, u64), BTreeSet<u64>> = BTreeMap::new();
    for sighting in history.sightings() {
        let place = (sighting.partition, sighting.sequence);
        epochs.entry(place).or_default().insert(sighting.epoch);
    }
    epochs
}

/// What the application gave back in an epoch, and was not handed again in it, by partition, sequence
/// and epoch: who has the partition next tries it again, and duplicates nothing.
fn given_back(history: &Prepared) -> BTreeSet<(u32, u64, u64)> {
    let mut given_back = BTreeSet::new();
    for step in &history.steps {
        match step {
            Step::Nacking(nack) => {
                given_back.insert((nack.partition, nack.sequence, nack.epoch));
            }
            Step::Seen(seen) => {
                given_back.remove(&(seen.partition, seen.sequence, seen.epoch));
            }
            Step::Acking(_) | Step::Acked(_) => {}
        }
    }
    given_back
}

/// Whether every grant after `from` up to `to` is known, and none of them was unclean. What was
/// granted in a bucket that was lost could not be handed over.
fn clean_between(
    history: &Prepared,
    expect: &Expectations,
    partition: u32,
    (from, to): (u64, u64),
) -> bool {
    let Some(grants) = history.grants.get(&partition) else {
        return false;
    };
    let revision = |epoch| grants.iter().find(|(_, grant)| grant.epoch == epoch);
    if let (Some((earlier, _)), Some((later, _))) = (revision(from), revision(to))
        && expect.lost_between(*earlier, *later)
    {
        return false;
    }
    let mut between = grants
        .values()
        .filter(|grant| from < grant.epoch && grant.epoch <= to);
    let reaches = grants.values().any(|grant| grant.epoch == to);
    reaches && between.all(|grant| !grant.unclean)
}

/// Where an epoch began: at its claim, which leaves the position as it was (P96), or where a policy
/// moved it. By the record before it, too, should the auditor have missed the claim.
fn beginning(
    history: &Prepared,
    expect: &Expectations,
    (partition, epoch): (u32, u64),
) -> Option<u64> {
    let commits = history.commits.get(&partition)?;
    let of_epoch = || commits.iter().filter(|(_, commit)| commit.epoch == epoch);
    let (claimed, _) = of_epoch().next()?;
    let least = of_epoch().map(|(_, commit)| commit.next_seq).min()?;
    match commits.range(..claimed).next_back() {
        None => Some(least),
        Some((before, _)) if expect.lost_between(*before, *claimed) => None,
        Some((_, before)) => Some(least.min(before.next_seq)),
    }
}

fn committed_is_not_seen_again(history: &Prepared, expect: &Expectations) -> Vec<Violation> {
    let mut known = BTreeMap::new();
    let mut violations = Vec::new();
    for sighting in history.sightings() {
        let (partition, epoch) = (sighting.partition, sighting.epoch);
        let begin = *known
            .entry((partition, epoch))
            .or_insert_with(|| beginning(history, expect, (partition, epoch)));
        if begin.is_some_and(|begin| sighting.sequence < begin) {
            let text = format!(
                "{} saw sequence {} at epoch {epoch}, which began at {}",
                sighting.member,
                sighting.sequence,
                begin.unwrap_or_default()
            );
            violations.push(Violation::new(Rule::SeenAfterCommit, partition, text));
        }
    }
    violations
}
