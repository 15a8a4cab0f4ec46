//! The counter that everything is read into.

use std::time::{Duration, Instant};

/// Counts what is read, until it is enough.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tally {
    enough: Enough,
    count: u64,
    /// When the first messages came, and how many they were.
    first: Option<(Instant, u64)>,
    last: Option<Instant>,
}

/// When a reader may stop: after so many messages, or so long after the first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Enough {
    pub(crate) messages: u64,
    pub(crate) within: Duration,
}

/// How fast something was read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pace {
    /// Messages in all.
    pub(crate) messages: u64,
    /// Messages per second, from the first arrival to the last; what arrived first does not count.
    pub(crate) per_second: f64,
}

// === impl Tally ===

impl Tally {
    pub(crate) fn until(enough: Enough) -> Self {
        Self {
            enough,
            count: 0,
            first: None,
            last: None,
        }
    }

    /// Counts messages that came at this moment; whether more are wanted.
    pub(crate) fn note(&mut self, messages: u64, at: Instant) -> bool {
        self.count += messages;
        self.last = Some(at);
        let (first, _) = *self.first.get_or_insert((at, messages));
        self.count < self.enough.messages && at.duration_since(first) < self.enough.within
    }

    /// The pace so far; none before there is a span of time.
    pub(crate) fn pace(&self) -> Option<Pace> {
        let ((first, at_first), last) = (self.first?, self.last?);
        Pace::of(self.count, at_first, last.duration_since(first))
    }
}

// === impl Pace ===

impl Pace {
    /// Of so many messages, so many of them at the beginning, in this time.
    pub(crate) fn of(messages: u64, at_first: u64, took: Duration) -> Option<Self> {
        let counted = u32::try_from(messages.checked_sub(at_first)?).ok()?;
        (counted > 0 && !took.is_zero()).then(|| Self {
            messages,
            per_second: f64::from(counted) / took.as_secs_f64(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENOUGH: Enough = Enough {
        messages: 100,
        within: Duration::from_secs(10),
    };

    #[test]
    fn the_pace_is_that_after_the_first_arrival() {
        let mut tally = Tally::until(ENOUGH);
        let start = lockstep_e2e::clock::now();
        assert!(tally.note(40, start));
        assert_eq!(tally.pace(), None);
        assert!(tally.note(20, start + Duration::from_secs(1)));
        assert!(!tally.note(40, start + Duration::from_secs(2)));
        let pace = tally.pace().unwrap();
        assert_eq!(pace.messages, 100);
        assert!((pace.per_second - 30.0).abs() < 1e-9);
    }

    #[test]
    fn a_slow_reader_stops_when_its_time_is_over() {
        let mut tally = Tally::until(ENOUGH);
        let start = lockstep_e2e::clock::now();
        assert!(tally.note(1, start));
        assert!(tally.note(1, start + Duration::from_secs(9)));
        assert!(!tally.note(1, start + Duration::from_secs(10)));
    }
}
