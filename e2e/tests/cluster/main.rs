//! The whole of Lockstep on a real cluster: chart, webhook, sidecars, kubelet; and the cluster itself.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops where it is surprised"
)]

mod chart;
mod life;
mod node;
mod providers;
