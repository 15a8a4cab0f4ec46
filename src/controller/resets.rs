//! Offset resets, as `OffsetReset` objects ask for them: this version says that it does not do them,
//! so that nobody waits for one.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use kube::Client;
use kube::api::Api;
use kube::core::error_boundary::DeserializeGuard;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::objects::{Conditions, ObjectKey, is_left_alone};
use crate::crd::{ConditionType, OffsetReset, Reason};
use crate::k8s::{self, K8sError};

type Reset = DeserializeGuard<OffsetReset>;

/// How soon an object is tried again whose status could not be written.
const TRY_AGAIN: Duration = Duration::from_secs(30);

/// What is said of each of them.
const WORDS: &str = "this version does not reset offsets from Kubernetes; nothing was changed";

/// Looks after the resets of a namespace, or of all, until it is over.
pub(super) async fn run(client: Client, api: Api<Reset>, over: CancellationToken) {
    Controller::new(api, watcher::Config::default())
        .graceful_shutdown_on(over.cancelled_owned())
        .run(reconcile, after_failure, Arc::new(client))
        .for_each(|_| std::future::ready(()))
        .await;
}

async fn reconcile(object: Arc<Reset>, client: Arc<Client>) -> Result<Action, K8sError> {
    // One that cannot be read is not done either, and has no status to say it in.
    let Ok(reset) = &object.0 else {
        return Ok(Action::await_change());
    };
    if is_left_alone(&reset.metadata) {
        return Ok(Action::await_change());
    }
    let key = ObjectKey::of(reset);
    let generation = reset.metadata.generation;
    let before = reset.status.clone().unwrap_or_default();
    let mut conditions = Conditions::default();
    conditions.fails(ConditionType::Complete, Reason::NotSupported, WORDS);
    let next = conditions.after(&before.conditions, generation);
    if next == before.conditions {
        return Ok(Action::await_change());
    }
    let status = json!({ "observedGeneration": generation, "conditions": next });
    let api: Api<OffsetReset> = Api::namespaced(client.as_ref().clone(), &key.namespace);
    k8s::apply_status(&api, &key.name, &status).await?;
    Ok(Action::await_change())
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the signature that a controller asks for"
)]
fn after_failure(object: Arc<Reset>, error: &K8sError, _client: Arc<Client>) -> Action {
    let reset = ObjectKey::of(&*object);
    tracing::warn!(%reset, %error, wait = ?TRY_AGAIN, "its status is not written; trying again");
    Action::requeue(TRY_AGAIN)
}
