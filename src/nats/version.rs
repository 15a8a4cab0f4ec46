//! The oldest server that this version works with.

use std::fmt;

/// Per-message TTLs came with 2.11.
const MINIMUM: (u32, u32) = (2, 11);
/// Which has the first level of the `JetStream` API; servers before it have none.
const MINIMUM_API_LEVEL: u32 = 1;

/// A server that ignores what we rely on, without saying so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooOld {
    version: String,
}

/// Refuses a server before 2.11: by the version that it names, if that can be read, and by the
/// level of its API, if it was asked.
///
/// The two can differ: the server that we are connected to need not be the one that has the
/// streams.
pub(super) fn check(version: &str, api_level: Option<u32>) -> Result<(), TooOld> {
    let old_version = numbers(version).is_some_and(|found| found < MINIMUM);
    let old_level = api_level.is_some_and(|level| level < MINIMUM_API_LEVEL);
    if old_version || old_level {
        let version = version.to_owned();
        return Err(TooOld { version });
    }
    Ok(())
}

fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.trim_start_matches('v').split(['.', '-']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

// === impl TooOld ===

impl fmt::Display for TooOld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the NATS server {} (or the one behind it that has JetStream) is older than 2.11; \
             Lockstep needs 2.11 or newer (2.12 recommended), since older ones silently ignore \
             settings that its state depends on; upgrade the server",
            self.version
        )
    }
}

impl std::error::Error for TooOld {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_before_2_11_is_refused_with_a_sentence() {
        let error = check("2.10.26", None).unwrap_err().to_string();
        assert!(error.contains("2.10.26") && error.contains("2.11 or newer"));
        assert!(check("2.9.25-RC.1", None).is_err());
        assert!(check("1.4.1", None).is_err());
    }

    // P20a
    #[test]
    fn an_old_server_behind_a_new_one_is_refused_by_its_api_level() {
        assert!(check("2.15.3", Some(0)).is_err());
    }

    #[test]
    fn newer_servers_are_taken_and_so_are_versions_that_cannot_be_read() {
        for (version, level) in [
            ("2.11.0", 1),
            ("2.11.11", 1),
            ("2.12.8", 3),
            ("3.0.0-beta.1", 9),
        ] {
            assert_eq!(check(version, Some(level)), Ok(()), "{version}");
        }
        assert_eq!(check("custom-build", Some(1)), Ok(()));
    }
}
