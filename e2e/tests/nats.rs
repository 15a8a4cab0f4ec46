//! The adapters to NATS, against real servers.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops where it is surprised"
)]

mod nats {
    mod bucket;
    mod reader;
    mod setting;
    mod watch;
}
