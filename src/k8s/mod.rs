//! Kubernetes, as the rest of the crate needs it: a client, server-side apply, Events, a Lease.
//!
//! Errors say what failed, why, and what to do; everything else about the API server stays here.

mod apply;
mod error;
mod events;
pub mod lease;
pub mod names;
mod text;

pub use apply::{FieldManager, apply, apply_status, get_opt};
pub use error::{ErrorKind, K8sError, Remedy};
pub use events::{EventKind, EventReason, Events, Note};
pub use text::cut;

/// A client for the cluster that this process runs in, or that `KUBECONFIG` names.
pub async fn client() -> Result<kube::Client, K8sError> {
    let config = kube::Config::infer().await;
    let config = config.map_err(|error| K8sError::configuration(&error))?;
    kube::Client::try_from(config).map_err(|error| K8sError::of("the cluster", &error))
}
