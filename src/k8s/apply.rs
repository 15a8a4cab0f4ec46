//! Server-side apply: each kind of write has a field manager of its own.

use std::fmt::Debug;

use kube::Resource;
use kube::api::{Api, Patch, PatchParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

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

/// Applies some of an object's fields, which become this manager's; `fields` is the object without
/// its kind and version. Only for fields that are Lockstep's alone, so that force takes nothing from
/// anybody else.
pub async fn apply<K>(
    api: &Api<K>,
    name: &str,
    manager: FieldManager,
    fields: Value,
) -> Result<(), K8sError>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let patch = Patch::Apply(whole::<K>(fields));
    let applied = api.patch(name, &manager.params(), &patch).await;
    applied
        .map(drop)
        .map_err(|error| K8sError::of(name, &error))
}

/// The same for the whole status.
pub async fn apply_status<K>(
    api: &Api<K>,
    name: &str,
    status: &(impl Serialize + Sync),
) -> Result<(), K8sError>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let patch = Patch::Apply(whole::<K>(json!({ "status": status })));
    let params = FieldManager::Status.params();
    let applied = api.patch_status(name, &params, &patch).await;
    applied
        .map(drop)
        .map_err(|error| K8sError::of(name, &error))
}

/// An object that names its kind, as server-side apply wants it.
fn whole<K: Resource<DynamicType = ()>>(mut fields: Value) -> Value {
    fields["apiVersion"] = json!(K::api_version(&()));
    fields["kind"] = json!(K::kind(&()));
    fields
}

/// The object, if it is there.
pub async fn get_opt<K>(api: &Api<K>, name: &str) -> Result<Option<K>, K8sError>
where
    K: Clone + DeserializeOwned + Debug,
{
    let found = api.get_opt(name).await;
    found.map_err(|error| K8sError::of(name, &error))
}
