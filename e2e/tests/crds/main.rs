//! The custom resource definitions on a real API server: what it accepts, what it refuses and in
//! which words, what it fills in, and what `kubectl` shows of it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at what should not be"
)]

mod cases;
mod manifests;
mod printing;
mod rules;
mod schema;
mod stage;
mod updates;
