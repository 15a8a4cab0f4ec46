//! The model of the simulator against real servers: the same scripts, and the same outcomes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test stops where it is surprised, and prints what it met"
)]

mod model {
    mod bucket;
    mod script;
    mod servers;
    mod simulated;
    mod streams;
}
