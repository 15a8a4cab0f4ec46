//! The oldest message that is not committed, found with few questions.
//!
//! Within a stream a lower sequence is an older message. A partition's position is only a bound: the
//! sequences of one partition are sparse. So the partition with the lowest position is asked for its
//! first message, and those whose positions are above that message need no question at all.

use std::collections::BTreeMap;

use super::{Partition, Sequence};

/// What is known of the partitions of one stream that have something left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search(BTreeMap<Partition, Candidate>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Candidate {
    next: Sequence,
    found: Answer,
}

/// What asking for a partition's first message has brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was not asked for.
    NotAsked,
    /// It is here.
    At(Sequence),
    /// There is none.
    Nothing,
}

/// How a search goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// This partition's first message at or above this position is to be asked for.
    Ask(Partition, Sequence),
    /// This is the oldest.
    Found(Sequence),
    /// There is none.
    Nothing,
}

// === impl Search ===

impl Search {
    /// A partition that has something left at or above this position, and what is known of it.
    pub fn add(&mut self, partition: Partition, next: Sequence, found: Answer) {
        self.0.insert(partition, Candidate { next, found });
    }

    /// What was brought by asking.
    pub fn answer(&mut self, partition: Partition, found: Answer) {
        if let Some(candidate) = self.0.get_mut(&partition) {
            candidate.found = found;
        }
    }

    /// What is to be done now.
    pub fn step(&self) -> Step {
        let found = self
            .0
            .values()
            .filter_map(|candidate| match candidate.found {
                Answer::At(sequence) => Some(sequence),
                Answer::NotAsked | Answer::Nothing => None,
            });
        let oldest = found.min();
        let open = self.0.iter().filter(|(_, c)| c.found == Answer::NotAsked);
        let open = open.min_by_key(|(partition, c)| (c.next, **partition));
        match (open, oldest) {
            (Some((partition, c)), None) => Step::Ask(*partition, c.next),
            (Some((partition, c)), Some(oldest)) if c.next < oldest => {
                Step::Ask(*partition, c.next)
            }
            (_, Some(oldest)) => Step::Found(oldest),
            (None, None) => Step::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_can_only_be_younger_is_not_asked_for() {
        let mut search = Search::default();
        for (partition, next) in [(0, 50), (1, 10), (2, 30)] {
            search.add(Partition(partition), Sequence(next), Answer::NotAsked);
        }
        assert_eq!(search.step(), Step::Ask(Partition(1), Sequence(10)));
        search.answer(Partition(1), Answer::At(Sequence(40)));
        // 2 may have one at 30; 0 has none below 50.
        assert_eq!(search.step(), Step::Ask(Partition(2), Sequence(30)));
        search.answer(Partition(2), Answer::At(Sequence(60)));
        assert_eq!(search.step(), Step::Found(Sequence(40)));
    }

    #[test]
    fn where_nothing_is_left_nothing_is_found() {
        let mut search = Search::default();
        assert_eq!(search.step(), Step::Nothing);
        search.add(Partition(0), Sequence(7), Answer::NotAsked);
        search.answer(Partition(0), Answer::Nothing);
        assert_eq!(search.step(), Step::Nothing);
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: Some(Box::new(
                proptest::test_runner::FileFailurePersistence::WithSource("regressions"),
            )),
            ..ProptestConfig::default()
        })]

        /// Against a stream in which the partition of every message is known.
        #[test]
        fn what_is_found_is_the_oldest(
            messages in prop::collection::vec(0_u32..4, 0..40),
            nexts in prop::collection::vec(1_u64..42, 4),
        ) {
            let first = |partition: u32, next: u64| {
                let all = (1_u64..).zip(&messages);
                let mut own = all.filter(|(seq, p)| **p == partition && *seq >= next);
                own.next().map(|(seq, _)| Sequence(seq))
            };
            let mut search = Search::default();
            for (partition, next) in (0..).zip(&nexts) {
                search.add(Partition(partition), Sequence(*next), Answer::NotAsked);
            }
            let oldest = (0..).zip(&nexts).filter_map(|(p, next)| first(p, *next)).min();
            let mut questions = 0;
            let found = loop {
                match search.step() {
                    Step::Ask(partition, next) => {
                        questions += 1;
                        prop_assert!(questions <= 4);
                        let found = first(partition.0, next.0).map_or(Answer::Nothing, Answer::At);
                        search.answer(partition, found);
                    }
                    Step::Found(sequence) => break Some(sequence),
                    Step::Nothing => break None,
                }
            };
            prop_assert_eq!(found, oldest);
        }
    }
}
