//! Consumer groups, as `ConsumerGroup` objects declare them: observe, validate, plan, apply, report.
//!
//! [`mod@plan`] and [`mod@status`] are pure; [`mod@reconcile`] does what they say. A group that is provided has a
//! coordinator of its own, which runs until the object is gone or this process no longer leads.

mod cleanup;
mod grant;
mod outside;
mod plan;
mod provide;
mod reconcile;
mod report;
mod running;
mod status;

pub(super) use cleanup::{Whether, group_is_gone, sweep};
pub(super) use reconcile::{Again, Needs, connection_of, reconcile};
pub(super) use report::report_invalid;
pub(super) use running::Running;
