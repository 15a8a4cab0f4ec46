//! A pod of a group, reduced to what matters for membership and scaling.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use crate::controller::objects::{ObjectKey, annotation};
use crate::k8s::names;

/// On a pod: whom a `ReplicaSet` takes first when it shrinks; the lowest goes first.
pub(in crate::controller) const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// On a pod that the kubelet made from a file: nobody can change it.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// On a pod of a Deployment: which of its `ReplicaSets` it is of.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// A pod with a group's label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::controller) struct PodFact {
    pub(in crate::controller) uid: String,
    pub(in crate::controller) name: String,
    /// The group that its label names, in its own namespace.
    pub(in crate::controller) group: ObjectKey,
    /// Seconds since 1970.
    pub(in crate::controller) created: i64,
    pub(in crate::controller) node: Option<String>,
    pub(in crate::controller) phase: Phase,
    pub(in crate::controller) ready: bool,
    pub(in crate::controller) deletion: Deletion,
    pub(in crate::controller) worker: Worker,
    /// Its annotation asks for no worker, or nobody could give it one.
    pub(in crate::controller) wants_no_worker: bool,
    pub(in crate::controller) owner: Option<Owner>,
    /// As its annotation says.
    pub(in crate::controller) deletion_cost: Option<i32>,
}

/// How far a pod has come, in the order in which a `ReplicaSet` takes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::controller) enum Phase {
    Pending,
    Unknown,
    Running,
    /// Succeeded or failed.
    Finished,
}

/// Whether it is being deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::controller) enum Deletion {
    None,
    /// It has time to end.
    Graceful,
    /// Nobody waits for its end.
    Forced,
}

/// The injected container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::controller) enum Worker {
    /// The pod has none.
    Absent,
    /// It does not run yet, or not at present.
    Waiting,
    Running,
    /// Its process has ended.
    Ended,
}

/// Who made the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::controller) struct Owner {
    pub(in crate::controller) kind: String,
    pub(in crate::controller) name: String,
    /// Of a pod that a Deployment's `ReplicaSet` made.
    pub(in crate::controller) template_hash: Option<String>,
}

// === impl PodFact ===

impl PodFact {
    /// What a pod says; none if it has no group's label.
    pub(super) fn of(pod: &Pod) -> Option<Self> {
        let metadata = &pod.metadata;
        let labels = metadata.labels.as_ref()?;
        let group = labels.get(names::GROUP_LABEL)?;
        let namespace = metadata.namespace.clone().unwrap_or_default();
        let status = pod.status.as_ref();
        let spec = pod.spec.as_ref();
        let conditions = status.and_then(|s| s.conditions.as_deref());
        let ready = conditions.unwrap_or_default().iter();
        let created = metadata.creation_timestamp.as_ref();
        Some(Self {
            uid: metadata.uid.clone()?,
            name: metadata.name.clone()?,
            group: ObjectKey::new(&namespace, group),
            created: created.map_or(0, |at| at.0.as_second()),
            node: spec.and_then(|s| s.node_name.clone()),
            phase: Phase::of(status.and_then(|s| s.phase.as_deref()).unwrap_or_default()),
            ready: ready
                .into_iter()
                .any(|c| c.type_ == "Ready" && c.status == "True"),
            deletion: deletion(pod),
            worker: worker(pod),
            wants_no_worker: annotation(metadata, names::INJECT) == Some("false")
                || annotation(metadata, MIRROR).is_some(),
            owner: owner(pod, labels.get(TEMPLATE_HASH)),
            deletion_cost: annotation(metadata, DELETION_COST).and_then(|c| c.parse().ok()),
        })
    }

    /// Whether a workload counts it as one of its pods.
    pub(in crate::controller) fn counts(&self) -> bool {
        self.phase != Phase::Finished && self.deletion == Deletion::None
    }

    /// Whether it is meant to be a member and cannot be one: it came by the label after it was made,
    /// or the webhook did not see it.
    pub(super) fn lacks_its_worker(&self) -> bool {
        self.counts() && self.worker == Worker::Absent && !self.wants_no_worker
    }
}

// === impl Phase ===

impl Phase {
    fn of(word: &str) -> Self {
        match word {
            "Running" => Self::Running,
            "Succeeded" | "Failed" => Self::Finished,
            "Unknown" => Self::Unknown,
            _ => Self::Pending,
        }
    }
}

fn deletion(pod: &Pod) -> Deletion {
    let metadata = &pod.metadata;
    match (
        &metadata.deletion_timestamp,
        metadata.deletion_grace_period_seconds,
    ) {
        (None, _) => Deletion::None,
        (Some(_), Some(seconds)) if seconds > 0 => Deletion::Graceful,
        (Some(_), Some(_) | None) => Deletion::Forced,
    }
}

fn worker(pod: &Pod) -> Worker {
    let spec = pod.spec.as_ref();
    let containers = spec.map(|s| s.containers.as_slice()).unwrap_or_default();
    let first = spec.and_then(|s| s.init_containers.as_deref());
    let mut all = containers.iter().chain(first.unwrap_or_default());
    if !all.any(|container| container.name == names::WORKER_CONTAINER) {
        return Worker::Absent;
    }
    let Some(status) = pod.status.as_ref() else {
        return Worker::Waiting;
    };
    let of = |list: &Option<Vec<ContainerStatus>>| {
        let mut list = list.as_deref().unwrap_or_default().iter();
        let found = list.find(|c| c.name == names::WORKER_CONTAINER);
        found.and_then(|c| c.state.clone())
    };
    let state = of(&status.init_container_statuses).or_else(|| of(&status.container_statuses));
    match state {
        Some(state) if state.terminated.is_some() => Worker::Ended,
        Some(state) if state.running.is_some() => Worker::Running,
        Some(_) | None => Worker::Waiting,
    }
}

fn owner(pod: &Pod, hash: Option<&String>) -> Option<Owner> {
    let owners = pod.metadata.owner_references.as_deref()?;
    let owner = owners.iter().find(|owner| owner.controller == Some(true))?;
    Some(Owner {
        kind: owner.kind.clone(),
        name: owner.name.clone(),
        template_hash: hash.cloned(),
    })
}

#[cfg(test)]
pub(in crate::controller) mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A pod of group shop/orders with a worker, and what is different about it.
    pub(in crate::controller) fn pod(name: &str, more: &Value) -> PodFact {
        let mut pod = json!({
            "metadata": {
                "name": name, "namespace": "shop", "uid": format!("uid-{name}"),
                "labels": { "lockstep.dev/consumer-group": "orders" },
            },
            "spec": {
                "nodeName": "node-1",
                "containers": [{ "name": "app" }],
                "initContainers": [{ "name": "lockstep-worker" }],
            },
            "status": { "phase": "Running" },
        });
        merge(&mut pod, more);
        PodFact::of(&serde_json::from_value(pod).unwrap()).unwrap()
    }

    fn merge(into: &mut Value, more: &Value) {
        let (Value::Object(into), Value::Object(more)) = (&mut *into, more) else {
            *into = more.clone();
            return;
        };
        for (key, value) in more {
            merge(into.entry(key.clone()).or_insert(Value::Null), value);
        }
    }

    /// The worker's container in this state.
    pub(in crate::controller) fn worker_is(state: &str) -> Value {
        let state = json!([{
            "name": "lockstep-worker", "image": "i", "imageID": "i", "ready": false,
            "restartCount": 0, "state": { state: { "exitCode": 0 } },
        }]);
        json!({ "status": { "initContainerStatuses": state } })
    }

    #[test]
    fn a_pod_is_told_by_its_label() {
        let pod_of = |labels: Value| {
            let pod = json!({ "metadata": { "name": "a", "uid": "u", "labels": labels } });
            PodFact::of(&serde_json::from_value(pod).unwrap())
        };
        assert_eq!(pod_of(json!({ "app": "x" })), None);
        let fact = pod_of(json!({ "lockstep.dev/consumer-group": "orders" })).unwrap();
        assert_eq!(
            (fact.group.name.as_str(), fact.worker),
            ("orders", Worker::Absent)
        );
    }

    #[test]
    fn a_deletion_without_time_to_end_is_forced() {
        let deleted = |grace: i64| {
            let at = "2026-01-01T00:00:00Z";
            let more = json!({ "deletionTimestamp": at, "deletionGracePeriodSeconds": grace });
            pod("a", &json!({ "metadata": more })).deletion
        };
        assert_eq!(deleted(30), Deletion::Graceful);
        assert_eq!(deleted(0), Deletion::Forced);
        assert_eq!(pod("a", &json!({})).deletion, Deletion::None);
    }

    #[test]
    fn the_worker_is_found_among_the_sidecars() {
        assert_eq!(pod("a", &json!({})).worker, Worker::Waiting);
        assert_eq!(pod("a", &worker_is("running")).worker, Worker::Running);
        assert_eq!(pod("a", &worker_is("terminated")).worker, Worker::Ended);
    }

    #[test]
    fn a_labelled_pod_without_a_worker_lacks_it_unless_it_wants_none() {
        let bare = json!({ "spec": { "initContainers": null } });
        assert!(pod("a", &bare).lacks_its_worker());
        assert!(!pod("a", &json!({})).lacks_its_worker());
        let refused = json!({ "lockstep.dev/inject": "false" });
        let refused = json!({ "spec": bare["spec"], "metadata": { "annotations": refused } });
        assert!(!pod("a", &refused).lacks_its_worker());
        let over = json!({ "spec": bare["spec"], "status": { "phase": "Succeeded" } });
        assert!(!pod("a", &over).lacks_its_worker());
    }
}
