//! The driver of [`decide`](crate::group::decide): observe, decide, write, adopt.
//!
//! One task per group owns everything that happens to it, so that nothing comes between a write and
//! its adoption. Beside it runs the heart: its beats come back through the group's watch, and only
//! while they do, time passes for the group's timers.

mod feed;
mod group_task;
mod heart;
pub mod meta;
mod pace;
mod probe;
pub mod provision;
mod rebuild;
mod report;
mod run;
mod single;
pub mod standstill;
mod start;
mod write;

pub use meta::{ImmutableMismatch, STANDALONE};
pub use report::{Details, GroupStatus, Lag, MemberView, Phase, Rebalance};
pub use run::{Coordinator, CoordinatorError, LEAST_SESSION_IN_PRODUCTION, Settings};
pub use single::{GroupCoordinator, Knowledge};
