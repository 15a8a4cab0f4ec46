//! The adapters to NATS, against real servers.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops where it is surprised"
)]

mod nats {
    mod bucket;
    mod connection;
    mod reader;
    mod replicated;
    mod setting;
    mod streams;
    mod validity;
    mod watch;
}
