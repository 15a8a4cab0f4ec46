//! Waits between attempts: exponential, bounded, spread.

use std::time::Duration;

/// Exponential waits with a bound.
#[derive(Clone, Debug)]
pub struct Backoff {
    initial: Duration,
    max: Duration,
    factor: f64,
    attempts: i32,
}

// === impl Backoff ===

impl Backoff {
    /// Waits of `initial`, twice that, and so on up to `max`.
    pub fn doubling(initial: Duration, max: Duration) -> Self {
        Self {
            initial,
            max,
            factor: 2.0,
            attempts: 0,
        }
    }

    /// The next wait: between half of and the whole of the exponential value, by `fraction`
    /// (0 to 1), so that many who failed together do not come back together.
    #[must_use = "a wait that nobody waits is a busy loop"]
    pub fn next(&mut self, fraction: f64) -> Duration {
        let raw = self.initial.as_secs_f64() * self.factor.powi(self.attempts);
        self.attempts = self.attempts.saturating_add(1);
        let bounded = raw.min(self.max.as_secs_f64());
        Duration::from_secs_f64(bounded * (0.5 + fraction.clamp(0.0, 1.0) / 2.0))
    }

    /// Begins anew: the last attempt did well.
    pub fn reset(&mut self) {
        self.attempts = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_their_bound_and_begin_anew_after_success() {
        let mut backoff = Backoff::doubling(Duration::from_millis(10), Duration::from_millis(50));
        let waits: Vec<_> = (0..5).map(|_| backoff.next(1.0).as_millis()).collect();
        assert_eq!(waits, [10, 20, 40, 50, 50]);
        backoff.reset();
        assert_eq!(backoff.next(0.0), Duration::from_millis(5));
        (0..10_000).for_each(|_| assert!(backoff.next(1.0) <= Duration::from_millis(50)));
    }
}
