//! What a process calls itself unless it is told.

use crate::chance;

/// The host's name; `instead` where it has none.
pub(super) fn name(instead: &str) -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => instead.to_owned(),
        name => name.to_owned(),
    }
}

/// The host's name, and a suffix: several may run on one host.
pub(super) fn name_with_suffix(instead: &str) -> String {
    let suffix: String = chance::name().chars().take(6).collect();
    format!("{}-{suffix}", name(instead))
}
