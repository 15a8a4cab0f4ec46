//! Virtual time, and the clocks of the machines that live in it.

use std::fmt;
use std::time::Duration;

use lockstep::group::{ServerTime, Timestamp};

/// A moment of the simulated world: the time since its beginning. No machine knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct At(pub Duration);

/// When the simulated world begins, by the wall clock, in nanoseconds.
const BEGINNING: i64 = 1_767_607_200_000_000_000;

/// A machine's clock since boot: it began anywhere, runs a little fast or slow, and stands still when
/// the machine is suspended by its hypervisor.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    boot: Duration,
    /// Parts per million by which it runs fast; negative: slow.
    drift: i64,
    stood: Duration,
}

// === impl At ===

impl At {
    /// So many seconds after the beginning.
    pub const fn secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// This much later.
    #[must_use]
    pub fn after(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(wait))
    }

    /// How long ago `earlier` was; zero if it is not in the past.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// The wall clock of the servers.
    pub fn server_time(self) -> ServerTime {
        let nanos = i64::try_from(self.0.as_nanos()).unwrap_or(i64::MAX);
        ServerTime(BEGINNING.saturating_add(nanos))
    }

    /// The same in whole seconds.
    pub fn unix_seconds(self) -> u64 {
        u64::try_from(self.server_time().0 / 1_000_000_000).unwrap_or(0)
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>4}.{:06}", self.0.as_secs(), self.0.subsec_micros())
    }
}

// === impl Clock ===

impl Clock {
    /// A clock that read `boot` when the world began.
    pub fn new(boot: Duration, drift: i64) -> Self {
        Self {
            boot,
            drift,
            stood: Duration::ZERO,
        }
    }

    /// It has stood still for this long.
    pub fn stand_still(&mut self, time: Duration) {
        self.stood += time;
    }

    /// What it shows.
    pub fn reads(&self, at: At) -> Timestamp {
        let ran = at.0.saturating_sub(self.stood);
        let nanos = i128::try_from(ran.as_nanos()).unwrap_or(i128::MAX);
        let shown = nanos + nanos * i128::from(self.drift) / 1_000_000;
        let shown = u64::try_from(shown).unwrap_or(0);
        Timestamp(self.boot + Duration::from_nanos(shown))
    }

    /// The first moment at which it shows at least this.
    pub fn shows(&self, wanted: Timestamp) -> At {
        let nanos =
            i128::try_from(wanted.0.saturating_sub(self.boot).as_nanos()).unwrap_or(i128::MAX);
        let ran = nanos * 1_000_000 / (1_000_000 + i128::from(self.drift));
        let ran = Duration::from_nanos(u64::try_from(ran).unwrap_or(u64::MAX));
        let mut at = At(ran + self.stood);
        while self.reads(at) < wanted {
            at = at.after(Duration::from_nanos(1));
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_shows_what_it_was_waited_for_whatever_its_drift() {
        for drift in [-5000, -1, 0, 1, 5000] {
            let mut clock = Clock::new(Duration::from_secs(77), drift);
            clock.stand_still(Duration::from_millis(1234));
            for nanos in [0, 1, 999_999_999, 123_456_789_012] {
                let wanted = Timestamp(Duration::from_secs(77) + Duration::from_nanos(nanos));
                let at = clock.shows(wanted);
                assert!(clock.reads(at) >= wanted, "{drift} {nanos}");
                let early = At(at.0.saturating_sub(Duration::from_micros(20)));
                assert!(clock.reads(early) <= wanted, "{drift} {nanos}");
            }
        }
    }
}
