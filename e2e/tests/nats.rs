//! The adapters to NATS, against real servers.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test stops where it is surprised, and prints what it met"
)]

mod nats {
    mod bucket;
    mod connection;
    mod matrix;
    mod reader;
    mod replicated;
    mod setting;
    mod streams;
    mod validity;
    mod watch;
}
