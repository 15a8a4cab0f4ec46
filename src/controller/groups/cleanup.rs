//! What becomes of a group whose object is gone, or is to go.
//!
//! Retain: the state and the streams stay, members stand by, and a new object of the same name takes
//! everything over. Delete: what Lockstep made is removed first, and the object waits for it, for a
//! while.

use std::time::Duration;

use kube::api::Api;
use kube::core::{ApiResource, DynamicObject};
use kube::{Client, ResourceExt};

use super::reconcile::{Needs, set_finalizers};
use crate::controller::connections::{Connections, Usable};
use crate::controller::objects::{ObjectKey, reference};
use crate::coordinator::provision::{self, Missing, ProvisionError, Terms};
use crate::crd::ConsumerGroup;
use crate::group::GroupRef;
use crate::k8s::{self, EventKind, EventReason, K8sError, Note};
use crate::nats::{Bucket, BucketError};

/// How soon cleaning up goes on.
const SOON: Duration = Duration::from_secs(1);

/// How soon cleaning up is tried again where something does not answer.
const TRY_AGAIN: Duration = Duration::from_secs(5);

/// The object is gone for good: there is nothing to look at again.
const DONE: Duration = Duration::from_secs(3600);

/// Removes what was made for the group, and lets the object go.
pub(super) async fn clean_up(
    object: &ConsumerGroup,
    key: &ObjectKey,
    needs: &Needs<'_>,
    usable: Option<&Usable>,
) -> Result<Duration, K8sError> {
    let (Some(usable), Some(group)) = (usable, group_of(key)) else {
        return Ok(TRY_AGAIN);
    };
    let terms = terms(needs.manager, &usable.prefix);
    let marked = provision::mark_deleted(&usable.connection, &terms, &group, None).await;
    if let Some(wait) = not_yet(key, marked) {
        return Ok(wait);
    }
    // Members let go first, as long as somebody is there to tell them.
    let running = needs.running.get(key);
    let details = running.and_then(|running| running.coordinator.status().details);
    if details.is_some_and(|details| details.assigned > 0) {
        return Ok(SOON);
    }
    needs.running.stop(key).await;
    let removed = match provision::remove(&usable.connection, &terms, &group).await {
        Ok(removed) => removed,
        Err(error) => {
            tracing::warn!(group = %key, %error, "cleaning up is tried again");
            return Ok(TRY_AGAIN);
        }
    };
    let note = Note {
        kind: EventKind::Normal,
        reason: EventReason::CleanedUp,
        action: "CleanUp",
        text: format!("removed {removed:?}"),
    };
    needs.events.record(&reference(object), note);
    set_finalizers(&object.name_any(), key, needs.client, &[]).await?;
    Ok(DONE)
}

fn not_yet(key: &ObjectKey, done: Result<bool, ProvisionError>) -> Option<Duration> {
    match done {
        // It is marked, or nothing is left that could be.
        Ok(_) | Err(ProvisionError::NoBucket { .. } | ProvisionError::ForeignBucket { .. }) => None,
        Err(error) => {
            tracing::warn!(group = %key, %error, "cleaning up is tried again");
            Some(TRY_AGAIN)
        }
    }
}

/// Lets the object go although something is left, and names it.
pub(super) async fn give_up(
    object: &ConsumerGroup,
    key: &ObjectKey,
    needs: &Needs<'_>,
) -> Result<Duration, K8sError> {
    needs.running.stop(key).await;
    let status = object.status.clone().unwrap_or_default();
    let made = status
        .nats_resources
        .iter()
        .filter(|resource| resource.created);
    let left: Vec<&str> = made.map(|resource| resource.name.as_str()).collect();
    let text = format!(
        "cleaning up was tried for {:?} and is given up; left in NATS: the bucket of {key}, streams \
         {left:?}. `lockstep group delete {key}` removes them",
        needs.cleanup_timeout
    );
    tracing::warn!(group = %key, text);
    let note = Note {
        kind: EventKind::Warning,
        reason: EventReason::CleanupIncomplete,
        action: "CleanUp",
        text,
    };
    needs.events.record(&reference(object), note);
    set_finalizers(&object.name_any(), key, needs.client, &[]).await?;
    Ok(DONE)
}

/// The object of a group is gone: members are told, and stand by until it is back. Says whether all
/// could be told that may have to be.
pub(in crate::controller) async fn group_is_gone(
    key: &ObjectKey,
    uid: &str,
    manager: &str,
    connections: &Connections,
) -> bool {
    let Some(group) = group_of(key) else {
        return true;
    };
    let mut all_told = connections.all_are_usable();
    for (_, usable) in connections.usable() {
        let terms = terms(manager, &usable.prefix);
        match provision::mark_deleted(&usable.connection, &terms, &group, Some(uid)).await {
            Ok(true) => tracing::info!(group = %key, "the object is gone: members stand by"),
            Ok(false)
            | Err(ProvisionError::NoBucket { .. } | ProvisionError::ForeignBucket { .. }) => {}
            Err(error) => {
                all_told = false;
                tracing::warn!(group = %key, %error, "members are not told yet");
            }
        }
    }
    all_told
}

/// Groups whose objects went while nobody was looking, by their buckets.
pub(in crate::controller) async fn sweep(
    client: &Client,
    usable: &Usable,
    manager: &str,
    known: impl Fn(&ObjectKey) -> Whether,
) -> Result<(), ProvisionError> {
    let names = Bucket::names(&usable.connection, &usable.prefix).await;
    let names = names.map_err(|source| BucketError::Api {
        bucket: usable.prefix.clone(),
        source,
    })?;
    for name in names {
        let Some(group) = GroupRef::of_bucket(&name, &usable.prefix) else {
            continue;
        };
        let key = ObjectKey::new(&group.namespace.to_string(), &group.name.to_string());
        // What a watch does not show may be newer than the watch.
        if known(&key) != Whether::Gone || is_there(client, &key).await {
            continue;
        }
        let terms = terms(manager, &usable.prefix);
        match provision::mark_deleted(&usable.connection, &terms, &group, None).await {
            Ok(true) => {
                tracing::info!(group = %key, "its object went while nobody looked: members stand by");
            }
            Ok(false)
            | Err(ProvisionError::NoBucket { .. } | ProvisionError::ForeignBucket { .. }) => {}
            Err(error @ ProvisionError::MetaDamaged { .. }) => {
                tracing::warn!(group = %key, %error, "a group without an object is left as it is");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// What a watch says of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::controller) enum Whether {
    There,
    Gone,
    /// In a namespace that is not looked after from here.
    Elsewhere,
}

/// Whether the object is there; one that cannot be asked for may be.
async fn is_there(client: &Client, key: &ObjectKey) -> bool {
    let resource = ApiResource::erase::<ConsumerGroup>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &key.namespace, &resource);
    match k8s::get_opt(&api, &key.name).await {
        Ok(found) => found.is_some(),
        Err(error) => {
            tracing::debug!(group = %key, %error, "not known whether its object is there");
            true
        }
    }
}

fn terms(manager: &str, prefix: &str) -> Terms {
    Terms {
        manager: manager.to_owned(),
        ..Terms::standalone(prefix, Missing::Refuse)
    }
}

fn group_of(key: &ObjectKey) -> Option<GroupRef> {
    format!("{}/{}", key.namespace, key.name).parse().ok()
}
