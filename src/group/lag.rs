//! How much is left to commit, as far as that is known. What is unknown stays unknown: never 0.

use std::fmt;

use super::{Epoch, Sequence};

/// What is left to commit of one partition, or of several together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lag {
    /// Counted in the stream.
    Counted(u64),
    /// The owner's word, as of its newest heartbeat.
    Reported(u64),
    /// No more than this many; how many is not known.
    AtMost(u64),
    /// Nothing is known.
    Unknown,
}

/// What is known of one partition without asking its stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reported {
    /// It has an owner: how much is left is for the owner to say.
    pub owned: bool,
    /// The epoch of its last grant: within it, hardly anybody but that owner commits.
    pub epoch: Epoch,
    /// The first sequence that is not committed, as the owner says.
    pub committed: Option<Sequence>,
    /// What is left, as the owner says; none while it has not.
    pub lag: Option<u64>,
}

/// What is known of one partition's messages, each from its own source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// What the owner says it has still to do, if its word is fresh.
    pub reported: Option<u64>,
    /// The first sequence that is not committed.
    pub next: Option<Sequence>,
    /// The stream's first message and the position after its last.
    pub ends: Option<(Sequence, Sequence)>,
    /// How many messages of this partition the stream holds, committed ones included.
    pub stored: Option<u64>,
}

// === impl Evidence ===

impl Evidence {
    /// What follows from it.
    ///
    /// The sequences of one partition are sparse in a stream that holds several, so their
    /// difference is only a bound. It is exact in two cases: nothing stored is left, or nothing
    /// stored is committed.
    pub fn lag(&self) -> Lag {
        let (Some(next), Some((first, end))) = (self.next, self.ends) else {
            return self.reported.map_or(Lag::Unknown, Lag::Reported);
        };
        if next == end || self.stored == Some(0) {
            return Lag::Counted(0);
        }
        if next > end {
            // The stream was cut or made anew: what is left to do is for the owner to find out.
            return self.reported.map_or(Lag::Unknown, Lag::Reported);
        }
        if let Some(reported) = self.reported {
            return Lag::Reported(reported);
        }
        match self.stored {
            Some(stored) if next <= first => Lag::Counted(stored),
            Some(stored) => Lag::AtMost(stored.min(end.0 - next.0)),
            None => Lag::AtMost(end.0 - next.max(first).0),
        }
    }

    /// Whether a count of the partition's stored messages would make the answer better.
    pub fn wants_count(&self) -> bool {
        match self.lag() {
            Lag::AtMost(_) => self.stored.is_none(),
            Lag::Counted(_) | Lag::Reported(_) | Lag::Unknown => false,
        }
    }
}

// === impl Lag ===

impl Lag {
    /// The number, if it is one.
    pub fn number(self) -> Option<u64> {
        match self {
            Self::Counted(n) | Self::Reported(n) => Some(n),
            Self::AtMost(_) | Self::Unknown => None,
        }
    }

    /// Where the number comes from, in a word.
    pub fn source(self) -> &'static str {
        match self {
            Self::Counted(_) => "counted",
            Self::Reported(_) => "reported",
            Self::AtMost(_) => "at_most",
            Self::Unknown => "unknown",
        }
    }

    /// The lag of both together, known no better than the one that is known less.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
            (Self::AtMost(a), Self::AtMost(b) | Self::Counted(b) | Self::Reported(b))
            | (Self::Counted(a) | Self::Reported(a), Self::AtMost(b)) => {
                Self::AtMost(a.saturating_add(b))
            }
            (Self::Counted(a), Self::Counted(b)) => Self::Counted(a.saturating_add(b)),
            (Self::Counted(a) | Self::Reported(a), Self::Counted(b) | Self::Reported(b)) => {
                Self::Reported(a.saturating_add(b))
            }
        }
    }
}

impl fmt::Display for Lag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Counted(n) | Self::Reported(n) => n.fmt(f),
            Self::AtMost(n) => write!(f, "<={n}"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn evidence(next: u64, first: u64, end: u64) -> Evidence {
        Evidence {
            next: Some(Sequence(next)),
            ends: Some((Sequence(first), Sequence(end))),
            ..Evidence::default()
        }
    }

    fn stored(n: u64, of: Evidence) -> Evidence {
        Evidence {
            stored: Some(n),
            ..of
        }
    }

    #[test]
    fn without_evidence_the_lag_is_unknown_not_zero() {
        assert_eq!(Evidence::default().lag(), Lag::Unknown);
        let no_stream = Evidence {
            next: Some(Sequence(7)),
            ..Evidence::default()
        };
        assert_eq!(no_stream.lag(), Lag::Unknown);
        let no_record = Evidence {
            next: None,
            ..evidence(1, 1, 9)
        };
        assert_eq!(no_record.lag(), Lag::Unknown);
    }

    #[test]
    fn at_the_end_of_the_stream_nothing_is_left_whatever_was_reported() {
        let late = Evidence {
            reported: Some(3),
            ..evidence(100, 40, 100)
        };
        assert_eq!(late.lag(), Lag::Counted(0));
        assert_eq!(evidence(1, 1, 1).lag(), Lag::Counted(0));
    }

    #[test]
    fn a_position_beyond_the_end_is_not_taken_for_done() {
        assert_eq!(evidence(101, 40, 100).lag(), Lag::Unknown);
    }

    #[test]
    fn of_what_nobody_has_read_all_is_left() {
        assert_eq!(stored(17, evidence(1, 1, 100)).lag(), Lag::Counted(17));
        assert_eq!(stored(17, evidence(10, 40, 100)).lag(), Lag::Counted(17));
        assert_eq!(stored(0, evidence(50, 40, 100)).lag(), Lag::Counted(0));
    }

    #[test]
    fn in_the_middle_the_owner_knows_and_the_stream_only_bounds() {
        assert_eq!(evidence(50, 40, 100).lag(), Lag::AtMost(50));
        assert_eq!(stored(17, evidence(50, 40, 100)).lag(), Lag::AtMost(17));
        assert_eq!(stored(90, evidence(50, 40, 100)).lag(), Lag::AtMost(50));
        assert_eq!(evidence(1, 40, 100).lag(), Lag::AtMost(60));
        let told = Evidence {
            reported: Some(5),
            ..evidence(50, 40, 100)
        };
        assert_eq!(told.lag(), Lag::Reported(5));
        assert!(evidence(50, 40, 100).wants_count());
        assert!(!told.wants_count());
        assert!(!stored(17, evidence(50, 40, 100)).wants_count());
    }

    #[test]
    fn a_sum_is_known_no_better_than_its_least_known_part() {
        let all = [Lag::Counted(1), Lag::Reported(2), Lag::AtMost(4)];
        let sum = all.into_iter().fold(Lag::Counted(0), Lag::and);
        assert_eq!(sum, Lag::AtMost(7));
        assert_eq!(sum.and(Lag::Unknown), Lag::Unknown);
        assert_eq!(Lag::Counted(1).and(Lag::Reported(2)), Lag::Reported(3));
        assert_eq!(Lag::Counted(1).and(Lag::Counted(2)), Lag::Counted(3));
        assert_eq!(
            (Lag::AtMost(3).number(), Lag::Unknown.number()),
            (None, None)
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: Some(Box::new(
                proptest::test_runner::FileFailurePersistence::WithSource("regressions"),
            )),
            ..ProptestConfig::default()
        })]

        /// Against a stream in which every message is known.
        #[test]
        fn what_is_said_of_the_lag_is_true(
            ours in prop::collection::vec(any::<bool>(), 0..60),
            removed in 0_usize..60,
            next in 1_usize..62,
            count in any::<bool>(),
        ) {
            let end = ours.len() + 1;
            let first = (removed + 1).min(end);
            let next = next.min(end);
            let is_ours = |seq: &usize| ours[seq - 1];
            let left = (first.max(next)..end).filter(is_ours).count() as u64;
            let stored = (first..end).filter(is_ours).count() as u64;
            let of = evidence(next as u64, first as u64, end as u64);
            let of = Evidence { stored: count.then_some(stored), ..of };
            match of.lag() {
                Lag::Counted(n) => prop_assert_eq!(n, left),
                Lag::AtMost(n) => prop_assert!(left <= n, "{} are left, said {}", left, n),
                other @ (Lag::Reported(_) | Lag::Unknown) => prop_assert!(false, "{:?}", other),
            }
        }
    }
}
