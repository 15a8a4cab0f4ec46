//! How fast group documents follow each other: the first at once, the next not before the last one
//! has reached its readers. // P81

use std::time::Duration;

use crate::group::Timestamp;

/// Least time between two documents.
const LEAST: Duration = Duration::from_millis(20);

/// Bytes per second that all watches of a group together are given.
const BYTES_PER_SECOND: usize = 50_000_000;

/// When the next document may be written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    next: Timestamp,
}

// === impl Pace ===

impl Pace {
    /// A document of this size was written, and this many members read it.
    pub(super) fn wrote(&mut self, size: usize, readers: usize, now: Timestamp) {
        let bytes = size.saturating_mul(readers.max(1));
        let nanos = bytes.saturating_mul(1_000_000_000 / BYTES_PER_SECOND);
        let spread = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.next = now.after(spread.max(LEAST));
    }

    /// When the next one may be written; none if it may be now.
    pub(super) fn wait_until(&self, now: Timestamp) -> Option<Timestamp> {
        (self.next > now).then_some(self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_spread_by_their_size_and_their_readers() {
        // P81
        let now = Timestamp(Duration::from_secs(100));
        let mut pace = Pace::default();
        assert_eq!(pace.wait_until(now), None, "the first at once");
        pace.wrote(1000, 3, now);
        assert_eq!(pace.wait_until(now), Some(now.after(LEAST)));
        assert_eq!(pace.wait_until(now.after(LEAST)), None);
        pace.wrote(50_000, 1000, now);
        assert_eq!(
            pace.wait_until(now),
            Some(now.after(Duration::from_secs(1)))
        );
    }
}
