//! The only place that reads a clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

use crate::group::{ServerTime, Timestamp};

/// The longest single wait: the runtime's timers stand still while the machine is suspended, so a
/// deadline is looked at again at least this often.
const LONGEST_NAP: Duration = Duration::from_secs(1);

/// The time since boot, suspension included (`CLOCK_BOOTTIME`): what leases are measured with.
pub fn now() -> Timestamp {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
    Timestamp(Duration::new(seconds, nanos))
}

/// Waits until this moment; for ever if there is none. A moment that has passed gives way to other
/// tasks now and then, so that whoever comes back to it again and again starves nobody.
pub async fn until(deadline: Option<Timestamp>) {
    let Some(deadline) = deadline else {
        return std::future::pending().await;
    };
    tokio::task::coop::consume_budget().await;
    loop {
        let remaining = deadline.remaining(now());
        if remaining.is_zero() {
            return;
        }
        tokio::time::sleep(remaining.min(LONGEST_NAP)).await;
    }
}

/// The wall clock, for display and for `startFrom: Duration`; never a timer.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the module that reads clocks"
)]
pub fn unix_now() -> ServerTime {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    ServerTime(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_deadline_is_waited_for_and_no_longer_than_that() {
        let deadline = now().after(Duration::from_millis(5));
        until(Some(deadline)).await;
        assert!(now() >= deadline);
        until(Some(deadline)).await; // a past one does not wait
    }

    #[tokio::test]
    async fn who_comes_back_to_a_past_deadline_again_and_again_starves_nobody() {
        let past = Some(now());
        let others_had_a_turn = std::cell::Cell::new(false);
        let spin = async {
            for _ in 0..10_000 {
                until(past).await;
                if others_had_a_turn.get() {
                    return true;
                }
            }
            false
        };
        let (gave_way, ()) = tokio::join!(spin, async { others_had_a_turn.set(true) });
        assert!(gave_way);
    }
}
