//! The whole of Lockstep on a real cluster: chart, webhook, sidecars, kubelet; and the cluster itself.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops where it is surprised"
)]

mod applications;
mod chart;
mod life;
mod lost_node;
mod node;
mod outages;
mod providers;
mod rolling;
mod scaling;
mod sidecar;
mod stage;
mod suspension;
