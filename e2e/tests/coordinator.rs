//! Coordinators over a real server: elections, writes whose end is unknown, lost and damaged state.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops where it is surprised"
)]

mod coordinator {
    mod damage;
    mod derived;
    mod election;
    mod lag;
    mod loss;
    mod manifests;
    mod matrix;
    mod stage;
    mod writes;
}
