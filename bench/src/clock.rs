//! The monotonic clock as a number: the same for all processes of a machine, Java's included.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds on the monotonic clock.
pub(crate) fn monotonic_ns() -> u64 {
    const SECOND: u64 = 1_000_000_000;
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds * SECOND + u64::try_from(now.tv_nsec).unwrap_or(0)
}
