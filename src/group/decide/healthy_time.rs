//! Healthy time: time in which the coordinator's own beat comes back to it.
//!
//! Whoever was suspended, or cut off from the bucket, has seen nobody's heartbeat either. Timers that
//! counted plain time would evict the whole group on waking.

use std::time::Duration;

use crate::group::Timestamp;

/// A reading of healthy time. Never compared with any other clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Healthy(Duration);

/// The coordinator's clock.
#[derive(Clone, Debug)]
pub(super) struct HealthyTime {
    heartbeat: Duration,
    confirmed: Healthy,
    last_echo: Option<Timestamp>,
}

// === impl Healthy ===

impl Healthy {
    /// This much later.
    #[must_use]
    pub(super) fn after(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(wait))
    }

    /// How long ago `earlier` was; zero if it is not in the past.
    pub(super) fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

// === impl HealthyTime ===

impl HealthyTime {
    pub(super) fn new(heartbeat: Duration) -> Self {
        Self {
            heartbeat,
            confirmed: Healthy::default(),
            last_echo: None,
        }
    }

    /// The own beat came back.
    pub(super) fn echo(&mut self, now: Timestamp) {
        self.confirmed = self.at(now);
        self.last_echo = Some(now);
    }

    /// Whether the own beat ever came back.
    pub(super) fn has_begun(&self) -> bool {
        self.last_echo.is_some()
    }

    /// What echoes have proved. Only this may evict anybody.
    pub(super) fn confirmed(&self) -> Healthy {
        self.confirmed
    }

    /// The same, and what the next echo would add if it came now. // P44
    pub(super) fn at(&self, now: Timestamp) -> Healthy {
        let unproved = self
            .last_echo
            .map_or(Duration::ZERO, |echo| now.since(echo));
        self.confirmed.after(unproved.min(self.heartbeat * 2))
    }

    /// For how long no beat has come back.
    pub(super) fn silence(&self, now: Timestamp) -> Duration {
        self.last_echo
            .map_or(Duration::ZERO, |echo| now.since(echo))
    }

    /// When the silence will have lasted this long.
    pub(super) fn silent_for(&self, silence: Duration) -> Option<Timestamp> {
        self.last_echo.map(|echo| echo.after(silence))
    }

    /// When `deadline` is reached if all stays well.
    pub(super) fn expected_at(&self, deadline: Healthy) -> Option<Timestamp> {
        self.last_echo
            .map(|echo| echo.after(deadline.since(self.confirmed)))
    }
}
