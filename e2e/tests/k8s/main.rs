//! The Kubernetes adapter against a real API server: who leads, and what Events become.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at what should not be"
)]

mod events;
mod leases;
