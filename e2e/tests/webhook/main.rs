//! The webhook behind a real API server.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops where it is surprised"
)]

mod limits;
mod rotation;
mod rules;
mod stage;
mod workloads;
