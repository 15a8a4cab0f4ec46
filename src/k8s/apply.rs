//! Server-side apply: each kind of write has a field manager of its own.

use std::fmt::Debug;

use kube::Resource;
use kube::api::{Api, Patch, PatchParams};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::K8sError;

/// Who writes a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldManager {
    /// Specs, finalizers, what the controller makes.
    Controller,
    /// `spec.replicas` of a group, when it is adopted; the target's scale.
    Scale,
    /// Status.
    Status,
    /// `spec.replicas` of a group, when the built-in autoscaler decides.
    Autoscaler,
}

// === impl FieldManager ===

impl FieldManager {
    /// As the API server shows it in `managedFields`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Controller => "lockstep-controller",
            Self::Scale => "lockstep-scale",
            Self::Status => "lockstep-status",
            Self::Autoscaler => "lockstep-autoscaler",
        }
    }

    fn params(self) -> PatchParams {
        PatchParams::apply(self.as_str()).force()
    }
}

/// Applies a partial object: the fields it names become this manager's. Only for fields that are
/// Lockstep's alone, so that force takes nothing from anybody else.
pub async fn apply<K>(
    api: &Api<K>,
    name: &str,
    manager: FieldManager,
    patch: &(impl Serialize + Debug + Sync),
) -> Result<K, K8sError>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let applied = api
        .patch(name, &manager.params(), &Patch::Apply(patch))
        .await;
    applied.map_err(|error| K8sError::of(name, &error))
}

/// The same for the status.
pub async fn apply_status<K>(
    api: &Api<K>,
    name: &str,
    patch: &(impl Serialize + Debug + Sync),
) -> Result<K, K8sError>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let params = FieldManager::Status.params();
    let applied = api.patch_status(name, &params, &Patch::Apply(patch)).await;
    applied.map_err(|error| K8sError::of(name, &error))
}

/// The object, if it is there.
pub async fn get_opt<K>(api: &Api<K>, name: &str) -> Result<Option<K>, K8sError>
where
    K: Clone + DeserializeOwned + Debug,
{
    let found = api.get_opt(name).await;
    found.map_err(|error| K8sError::of(name, &error))
}
