//! Time as the core sees it: a reading of *this machine's* clock, handed in by the driver.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A reading of `CLOCK_BOOTTIME`: the time since this machine's boot, suspension included.
///
/// Never sent to, and never compared with, another machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub Duration);

/// A message's time of storage by its server, in nanoseconds since the Unix epoch (UTC).
///
/// Used only to recognise a message and for display, never as a timer.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct ServerTime(pub i64);

// === impl Timestamp ===

impl Timestamp {
    /// This much later.
    #[must_use]
    pub fn after(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(wait))
    }

    /// How long ago `earlier` was; zero if it is not in the past.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// How long it is from `now` to this moment; zero if it has passed.
    pub fn remaining(self, now: Self) -> Duration {
        self.0.saturating_sub(now.0)
    }
}
