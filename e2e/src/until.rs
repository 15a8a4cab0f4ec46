//! Waiting for a condition, with a deadline that says what was there instead.

use std::fmt::{self, Debug, Display};
use std::time::Duration;

use crate::clock;

/// How often a condition is looked at. Short enough not to lengthen a test.
const POLL: Duration = Duration::from_millis(20);

/// A condition did not come true in time.
#[derive(Clone, PartialEq, Eq)]
pub struct TimedOut {
    /// What was waited for.
    pub what: String,
    /// For how long.
    pub within: Duration,
    /// What the last look saw instead.
    pub last_seen: String,
}

/// Looks again and again until `look` answers `Ok`; its `Err` says what it saw instead.
///
/// ```
/// # use std::time::Duration;
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let mut looks = 0;
/// let seen = lockstep_e2e::until("the third look", Duration::from_secs(5), async || {
///     looks += 1;
///     if looks == 3 { Ok(looks) } else { Err(format!("look {looks}")) }
/// });
/// assert_eq!(seen.await.unwrap(), 3);
/// # });
/// ```
pub async fn until<T, E: Display>(
    what: impl Into<String>,
    within: Duration,
    mut look: impl AsyncFnMut() -> Result<T, E>,
) -> Result<T, TimedOut> {
    let deadline = clock::now() + within;
    let mut last_seen = "the first look did not end".to_owned();
    loop {
        let left = deadline.saturating_duration_since(clock::now());
        match tokio::time::timeout(left, look()).await {
            Ok(Ok(seen)) => return Ok(seen),
            Ok(Err(instead)) => last_seen = instead.to_string(),
            Err(_) => {}
        }
        if clock::now() + POLL >= deadline {
            return Err(TimedOut {
                what: what.into(),
                within,
                last_seen,
            });
        }
        tokio::time::sleep(POLL).await;
    }
}

/// As [`until`], for a look that needs not wait itself.
pub async fn until_sync<T, E: Display>(
    what: impl Into<String>,
    within: Duration,
    mut look: impl FnMut() -> Result<T, E>,
) -> Result<T, TimedOut> {
    until(what, within, async || look()).await
}

// === impl TimedOut ===

impl Display for TimedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no {} within {:?}; last seen: {}",
            self.what, self.within, self.last_seen
        )
    }
}

/// The same words, so that an `unwrap` in a test can be read.
impl Debug for TimedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}

impl std::error::Error for TimedOut {}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_last_seen_is_in_the_message() {
        let never = until::<(), _>("sunrise", Duration::from_millis(60), async || Err("a moon"));
        let message = never.await.unwrap_err().to_string();
        assert_eq!(message, "no sunrise within 60ms; last seen: a moon");
    }

    #[tokio::test]
    async fn a_look_that_hangs_does_not_outlive_the_deadline() {
        let hanging = until::<(), &str>("answer", Duration::from_millis(60), async || {
            std::future::pending().await
        });
        let message = hanging.await.unwrap_err().to_string();
        assert_eq!(
            message,
            "no answer within 60ms; last seen: the first look did not end"
        );
    }
}
