//! The `lockstep` program as people and programs use it, against a real server.
//!
//! The groups here are planted: their documents are written by the test, so that every state can
//! be shown, odd ones included. What coordinators and members make of commands is tested with
//! processes.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::format_collect,
    reason = "a test stops at what it did not expect; its strings are short"
)]

#[path = "cli/changing.rs"]
mod changing;
#[path = "cli/creating.rs"]
mod creating;
#[path = "cli/partitions.rs"]
mod partitions;
#[path = "cli/permissions.rs"]
mod permissions;
#[path = "cli/plant.rs"]
mod plant;
#[path = "cli/publishing.rs"]
mod publishing;
#[path = "cli/reading.rs"]
mod reading;
#[path = "cli/usage.rs"]
mod usage;
