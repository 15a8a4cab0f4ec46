//! Nothing is lost, made up or altered.

use std::collections::BTreeSet;

use super::Expectations;
use super::prepared::Prepared;
use super::verdict::{Rule, Violation};

pub(crate) fn check(history: &Prepared, expect: &Expectations) -> Vec<Violation> {
    let mut violations = publishers_agree(history);
    violations.extend(sightings_are_genuine(history));
    violations.extend(everything_was_seen(history, expect));
    violations
}

/// A harness that contradicts itself proves nothing.
fn publishers_agree(history: &Prepared) -> Vec<Violation> {
    let twice = |(partition, sequence): &(u32, u64)| {
        let text = format!("two publishers claim sequence {sequence}");
        Violation::new(Rule::Altered, *partition, text)
    };
    history.published_twice.iter().map(twice).collect()
}

fn sightings_are_genuine(history: &Prepared) -> Vec<Violation> {
    let judge = |sighting: &super::prepared::Sighting| {
        let (partition, sequence) = (sighting.partition, sighting.sequence);
        let published = history
            .published
            .get(&partition)
            .and_then(|all| all.get(&sequence));
        let Some(message) = published else {
            let text = format!(
                "{} saw sequence {sequence}, never published",
                sighting.member
            );
            return Some(Violation::new(Rule::MadeUp, partition, text));
        };
        if message.key == sighting.key && message.n == sighting.n {
            return None;
        }
        let text = format!(
            "{} saw {}/{} at sequence {sequence}, published was {}/{}",
            sighting.member, sighting.key, sighting.n, message.key, message.n
        );
        Some(Violation::new(Rule::Altered, partition, text))
    };
    history.sightings().filter_map(judge).collect()
}

fn everything_was_seen(history: &Prepared, expect: &Expectations) -> Vec<Violation> {
    let seen: BTreeSet<(u32, u64)> = history
        .sightings()
        .map(|sighting| (sighting.partition, sighting.sequence))
        .collect();
    history
        .messages()
        .filter(|(partition, sequence, _)| {
            expect.complete(*partition)
                && *sequence >= expect.removed_below
                && !seen.contains(&(*partition, *sequence))
        })
        .map(|(partition, sequence, message)| {
            let text = format!(
                "sequence {sequence} ({}/{}) was never seen",
                message.key, message.n
            );
            Violation::new(Rule::Lost, partition, text)
        })
        .collect()
}
