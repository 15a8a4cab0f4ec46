//! The only place of this crate that reads a clock.
//!
//! Histories are written by several processes of one machine; they all read `CLOCK_BOOTTIME`,
//! so that their times can be compared.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Now, for deadlines inside this process.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the clock that others ask"
)]
pub fn now() -> Instant {
    Instant::now()
}

/// Nanoseconds since the machine started, suspended time included: the time of histories.
pub fn boottime_ns() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds * 1_000_000_000 + nanos
}

/// A wall clock time of this machine (RFC 3339, as a server on it writes them) as history time.
/// As exact as the machine's clock is steady between that time and now.
pub fn boottime_of(rfc3339: &str) -> Option<u64> {
    let then: jiff::Timestamp = rfc3339.parse().ok()?;
    let wall = clock_gettime(ClockId::Realtime);
    let wall = i128::from(wall.tv_sec) * 1_000_000_000 + i128::from(wall.tv_nsec);
    let ago = wall - then.as_nanosecond();
    u64::try_from(i128::from(boottime_ns()) - ago).ok()
}

/// A span of history time as a duration.
pub fn span(from_ns: u64, to_ns: u64) -> Duration {
    Duration::from_nanos(to_ns.saturating_sub(from_ns))
}
