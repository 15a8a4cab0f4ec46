//! What a change of membership costs each partition, from what the members received.

use std::collections::BTreeMap;
use std::time::Duration;

/// A message in a member's hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Receipt {
    pub(crate) partition: u32,
    pub(crate) member: usize,
    pub(crate) published_ns: u64,
    pub(crate) received_ns: u64,
}

/// The longest waits around one event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pauses {
    /// Partitions that changed their owner.
    pub(crate) moved: usize,
    /// Longest wait of a message in one of those.
    pub(crate) of_moved: Duration,
    /// Partitions that kept it.
    pub(crate) kept: usize,
    /// Longest wait in one of those.
    pub(crate) of_kept: Duration,
}

// === impl Pauses ===

impl Pauses {
    /// The longest waits of messages that were published from shortly before the event on.
    pub(crate) fn around(receipts: &[Receipt], (from_ns, to_ns): (u64, u64)) -> Self {
        let mut by_partition: BTreeMap<u32, Vec<&Receipt>> = BTreeMap::new();
        for receipt in receipts {
            by_partition
                .entry(receipt.partition)
                .or_default()
                .push(receipt);
        }
        let mut pauses = Self::default();
        for receipts in by_partition.values_mut() {
            receipts.sort_by_key(|receipt| receipt.received_ns);
            let before = receipts.iter().rfind(|r| r.received_ns < from_ns);
            let after = receipts.iter().rfind(|r| r.received_ns < to_ns);
            let within = receipts
                .iter()
                .filter(|r| r.received_ns >= from_ns && r.received_ns < to_ns);
            let longest = within
                .map(|r| r.received_ns.saturating_sub(r.published_ns))
                .max();
            let longest = Duration::from_nanos(longest.unwrap_or(0));
            if before.map(|r| r.member) == after.map(|r| r.member) {
                pauses.kept += 1;
                pauses.of_kept = pauses.of_kept.max(longest);
            } else {
                pauses.moved += 1;
                pauses.of_moved = pauses.of_moved.max(longest);
            }
        }
        pauses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt(partition: u32, member: usize, published_ns: u64, received_ns: u64) -> Receipt {
        Receipt {
            partition,
            member,
            published_ns,
            received_ns,
        }
    }

    #[test]
    fn a_partition_moved_if_another_member_had_it_at_the_end() {
        let receipts = [
            receipt(0, 0, 5, 6),
            receipt(0, 0, 95, 101), // still the old owner, after the event
            receipt(0, 1, 110, 190),
            receipt(1, 0, 5, 7),
            receipt(1, 0, 150, 153),
            receipt(1, 1, 250, 900), // later than what is looked at
        ];
        let pauses = Pauses::around(&receipts, (100, 200));
        let expected = Pauses {
            moved: 1,
            of_moved: Duration::from_nanos(80),
            kept: 1,
            of_kept: Duration::from_nanos(3),
        };
        assert_eq!(pauses, expected);
    }

    #[test]
    fn what_an_owner_had_before_the_event_is_no_pause_of_it() {
        let receipts = [receipt(0, 0, 0, 99), receipt(0, 0, 120, 130)];
        let pauses = Pauses::around(&receipts, (100, 200));
        assert_eq!(
            (pauses.moved, pauses.of_kept),
            (0, Duration::from_nanos(10))
        );
    }
}
