//! The controller against a real API server and a real NATS server.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops where it is surprised"
)]

mod credentials;
mod deletion;
mod failover;
mod groups;
mod permissions;
mod quiet;
mod rights;
mod scaling;
mod sources;
mod stage;
mod standstill;
mod tls;
mod trouble;
