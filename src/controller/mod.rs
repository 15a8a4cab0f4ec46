//! The controller of a Kubernetes cluster.
//!
//! Every replica serves admission; the one that holds the Lease also reconciles `NatsConnection` and
//! `ConsumerGroup` objects and coordinates the groups. What it writes into a group is fenced by the
//! group's term, so that a second one does no harm; and members go on without any.

pub mod admission;
mod connections;
mod figures;
mod gone;
mod groups;
pub mod injection;
mod leader;
mod namespaces;
mod objects;
mod pods;
mod present;
mod resets;
mod run;
mod scaling;
mod settings;

pub use run::{ControllerError, run};
pub use settings::{Settings, WebhookSettings};
