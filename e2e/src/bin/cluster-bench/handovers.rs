//! How long partitions stood still, when they changed hands and when they did not.
//!
//! As the history checker has it, the pause of a message is the time that it waited for nobody but
//! the group: from its publication, or from the first sighting of the one before it in its partition,
//! whichever is later, to its own first sighting. The first message of an epoch waited for a
//! hand-over.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lockstep_e2e::clock;
use lockstep_e2e::history::{At, Record};

/// The pauses between two moments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pauses {
    /// One for each change of owner.
    pub(crate) hand_overs: Vec<Duration>,
    /// The longest of each partition that changed hands.
    pub(crate) longest_of_moved: BTreeMap<u32, Duration>,
    /// The longest of each partition that did not.
    pub(crate) longest_of_untouched: BTreeMap<u32, Duration>,
}

/// A message as it was first handed over.
struct First {
    partition: u32,
    epoch: u64,
    pause: Duration,
    at: At,
}

/// The pauses of the messages that were first seen between two moments.
pub(crate) fn pauses(records: &[Record], from: At, to: At) -> Pauses {
    let mut longest: BTreeMap<u32, Duration> = BTreeMap::new();
    let mut epochs: BTreeMap<u32, u64> = BTreeMap::new();
    let mut moved = BTreeSet::new();
    let mut found = Pauses::default();
    for first in firsts(records) {
        let before = epochs.insert(first.partition, first.epoch);
        if first.at < from || first.at > to {
            continue;
        }
        let so_far = longest.entry(first.partition).or_default();
        *so_far = (*so_far).max(first.pause);
        if before.is_some_and(|before| before != first.epoch) {
            found.hand_overs.push(first.pause);
            moved.insert(first.partition);
        }
    }
    let (of_moved, untouched): (BTreeMap<_, _>, BTreeMap<_, _>) = longest
        .into_iter()
        .partition(|(partition, _)| moved.contains(partition));
    found.longest_of_moved = of_moved;
    found.longest_of_untouched = untouched;
    found
}

/// The first sighting of each message whose publication is on record, in the order of time.
fn firsts(records: &[Record]) -> Vec<First> {
    let mut published: BTreeMap<(u32, u64), At> = BTreeMap::new();
    let mut seen: Vec<(At, u32, u64, u64)> = Vec::new();
    for record in records {
        if let Record::Published {
            partition,
            sequence,
            at,
            ..
        } = record
        {
            published.insert((*partition, *sequence), *at);
        }
        if let Record::Seen {
            partition,
            sequence,
            epoch,
            at,
            ..
        } = record
        {
            seen.push((*at, *partition, *sequence, *epoch));
        }
    }
    seen.sort_unstable();
    let mut known = BTreeSet::new();
    let mut last: BTreeMap<u32, At> = BTreeMap::new();
    let mut firsts = Vec::new();
    for (at, partition, sequence, epoch) in seen {
        if !known.insert((partition, sequence)) {
            continue;
        }
        let before = last.insert(partition, at).unwrap_or(0);
        if let Some(published) = published.get(&(partition, sequence)) {
            let pause = clock::span(before.max(*published), at);
            firsts.push(First {
                partition,
                epoch,
                pause,
                at,
            });
        }
    }
    firsts
}

/// When the application of a member was first handed a message.
pub(crate) fn first_message(records: &[Record], of: &str) -> Option<At> {
    let seen = records.iter().filter_map(|record| {
        let Record::Seen { member, at, .. } = record else {
            return None;
        };
        (member == of).then_some(*at)
    });
    seen.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn published(partition: u32, sequence: u64, at: u64) -> Record {
        Record::Published {
            stream: "S".to_owned(),
            sequence,
            partition,
            key: "k".to_owned(),
            n: sequence,
            at: at * MS,
        }
    }

    fn seen((partition, epoch): (u32, u64), sequence: u64, at: u64) -> Record {
        Record::Seen {
            member: format!("m{epoch}"),
            session: "s".to_owned(),
            partition,
            epoch,
            sequence,
            key: "k".to_owned(),
            n: sequence,
            attempt: 1,
            at: at * MS,
        }
    }

    #[test]
    fn the_first_message_of_an_epoch_waited_for_the_hand_over() {
        let records = [
            published(0, 1, 10),
            published(0, 2, 20),
            published(1, 3, 20),
            published(0, 4, 300),
            published(1, 5, 310),
            seen((0, 1), 1, 12),
            seen((1, 1), 3, 23),
            // It was there at 20, and its partition was handed over at 250.
            seen((0, 2), 2, 250),
            // Handed over once more to the same epoch: no pause.
            seen((0, 2), 2, 280),
            seen((0, 2), 4, 301),
            seen((1, 1), 5, 314),
        ];
        let found = pauses(&records, 15 * MS, 400 * MS);
        let ms = Duration::from_millis;
        assert_eq!(found.hand_overs, [ms(230)]);
        assert_eq!(found.longest_of_moved, BTreeMap::from([(0, ms(230))]));
        assert_eq!(found.longest_of_untouched, BTreeMap::from([(1, ms(4))]));
        // What was before is known, and does not count.
        let later = pauses(&records, 260 * MS, 400 * MS);
        assert_eq!(
            (later.hand_overs.len(), later.longest_of_untouched.len()),
            (0, 2)
        );
        assert_eq!(first_message(&records, "m2"), Some(250 * MS));
        assert_eq!(first_message(&records, "m9"), None);
    }
}
