//! Consumer groups, as `ConsumerGroup` objects declare them: observe, validate, plan, apply, report.
//!
//! [`plan`] and [`status`] are pure; [`reconcile`] does what they say. A group that is provided has a
//! coordinator of its own, which runs until the object is gone or this process no longer leads.

mod cleanup;
mod grant;
mod plan;
mod reconcile;
mod running;
mod status;

pub(super) use cleanup::{group_is_gone, sweep};
pub(super) use reconcile::{Needs, connection_of, reconcile, report_invalid};
pub(super) use running::Running;
