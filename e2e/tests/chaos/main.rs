//! Real servers, one or three, that are killed, parted and emptied under a running group. What the
//! applications saw is judged by the history checker.

mod servers;

use std::time::Duration;

/// How long an assignment may take to settle on a busy machine.
const SETTLED: Duration = Duration::from_secs(45);
