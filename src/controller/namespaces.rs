//! What has to be known of namespaces: asked for when it matters, and no more often than that.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::api::Api;

use crate::clock;
use crate::group::Timestamp;
use crate::k8s::{self, K8sError};

/// How long labels are taken for what they were.
const KEPT: Duration = Duration::from_secs(15);

/// Names and values.
pub(super) type Labels = BTreeMap<String, String>;

/// The namespaces of this cluster. Cheap to clone.
#[derive(Clone)]
pub(super) struct Namespaces {
    api: Api<Namespace>,
    known: Arc<Mutex<HashMap<String, (Timestamp, Labels)>>>,
}

// === impl Namespaces ===

impl Namespaces {
    pub(super) fn new(client: Client) -> Self {
        Self {
            api: Api::all(client),
            known: Arc::default(),
        }
    }

    /// The labels of a namespace, as they were a moment ago; none of one that is gone.
    pub(super) async fn labels(&self, name: &str) -> Result<Labels, K8sError> {
        let now = clock::now();
        let known = self.locked().get(name).cloned();
        if let Some((read, labels)) = known
            && now.since(read) < KEPT
        {
            return Ok(labels);
        }
        let namespace = k8s::get_opt(&self.api, name).await?;
        let labels = namespace.and_then(|namespace| namespace.metadata.labels);
        let labels = labels.unwrap_or_default();
        self.locked().insert(name.to_owned(), (now, labels.clone()));
        Ok(labels)
    }

    /// Whether a namespace is being deleted, or gone.
    pub(super) async fn is_ending(&self, name: &str) -> Result<bool, K8sError> {
        let namespace = k8s::get_opt(&self.api, name).await?;
        Ok(namespace.is_none_or(|namespace| namespace.metadata.deletion_timestamp.is_some()))
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, HashMap<String, (Timestamp, Labels)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
