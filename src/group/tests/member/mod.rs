//! One member: its lease, its claims, its ledgers.

#![allow(
    clippy::wildcard_enum_match_arm,
    clippy::unchecked_time_subtraction,
    reason = "a test picks what it looks at, and knows its numbers"
)]

mod answers;
mod claiming;
mod commits;
mod documents;
mod echo;
mod feeding;
mod findings;
mod policy;
mod properties;
mod releases;
mod saying;
mod scene;
mod window;
