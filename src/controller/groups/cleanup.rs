//! What becomes of a group whose object is gone, or is to go.
//!
//! Retain: the state and the streams stay, members stand by, and a new object of the same name takes
//! everything over. Delete: what Lockstep made is removed first, and the object waits for it, for a
//! while.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::ResourceExt;

use super::Running;
use super::reconcile::{Needs, set_finalizers};
use crate::controller::connections::{Connections, Usable};
use crate::controller::objects::{ObjectKey, reference};
use crate::coordinator::provision::{self, Missing, ProvisionError, Terms};
use crate::crd::ConsumerGroup;
use crate::group::GroupRef;
use crate::k8s::{EventKind, EventReason, K8sError, Note};
use crate::nats::Bucket;

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
    let marked = provision::mark_deleted(&usable.connection, &terms, &group).await;
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
        Ok(_) => None,
        // Nothing is left that could be marked.
        Err(ProvisionError::NoBucket { .. } | ProvisionError::ForeignBucket { .. }) => None,
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

/// The object of a group is gone: members are told, and stand by until it is back.
pub(in crate::controller) async fn group_is_gone(
    key: &ObjectKey,
    manager: &str,
    connections: &Connections,
    running: &Running,
) {
    let Some(group) = group_of(key) else { return };
    for (_, usable) in connections.usable() {
        let terms = terms(manager, &usable.prefix);
        match provision::mark_deleted(&usable.connection, &terms, &group).await {
            Ok(true) => tracing::info!(group = %key, "the object is gone: members stand by"),
            Ok(false) => {}
            Err(ProvisionError::NoBucket { .. }) => {}
            Err(error) => tracing::warn!(group = %key, %error, "members are not told yet"),
        }
    }
    // The coordinator goes on until it has written the last document, and is stopped with the others.
    if running.get(key).is_none() {
        tracing::debug!(group = %key, "nobody coordinates it here");
    }
}

/// Groups whose objects went while nobody was looking, by their buckets.
pub(in crate::controller) async fn sweep(
    usable: &Usable,
    manager: &str,
    objects: &BTreeSet<ObjectKey>,
    within: impl Fn(&ObjectKey) -> bool,
) -> Result<(), ProvisionError> {
    let names = Bucket::names(&usable.connection, &usable.prefix).await;
    let names = names.unwrap_or_default();
    for name in names {
        let Some(group) = group_of_bucket(&name, &usable.prefix) else {
            continue;
        };
        let key = ObjectKey::new(&group.namespace.to_string(), &group.name.to_string());
        if !objects.contains(&key) && within(&key) {
            let terms = terms(manager, &usable.prefix);
            if provision::mark_deleted(&usable.connection, &terms, &group).await? {
                tracing::info!(group = %key, "its object went while nobody looked: members stand by");
            }
        }
    }
    Ok(())
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

fn group_of_bucket(name: &str, prefix: &str) -> Option<GroupRef> {
    let rest = name.strip_prefix(prefix)?.strip_prefix('_')?;
    let (namespace, group) = rest.split_once('_')?;
    format!("{namespace}/{group}").parse().ok()
}
