//! Why a pod is not let in: a sentence for whoever reads `kubectl describe replicaset`.

use crate::k8s::names;

/// Why a pod is not let in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// The label is there and says nothing.
    #[error(
        "label {label} is empty; name a ConsumerGroup of this namespace, or remove the label",
        label = names::GROUP_LABEL
    )]
    NoGroupNamed,
    /// There is no such group.
    #[error(
        "ConsumerGroup {namespace}/{name} is not found; create the ConsumerGroup; the ReplicaSet \
         retries by itself"
    )]
    NoGroup {
        /// The pod's namespace.
        namespace: String,
        /// What the label says.
        name: String,
    },
    /// The group is on its way out.
    #[error(
        "ConsumerGroup {namespace}/{name} is being deleted; create it anew, or remove the pod's \
         label {label}", label = names::GROUP_LABEL
    )]
    GroupBeingDeleted {
        /// The pod's namespace.
        namespace: String,
        /// The group.
        name: String,
    },
    /// The group cannot be understood by this version.
    #[error("ConsumerGroup {namespace}/{name} cannot be used: {why}; correct the object")]
    GroupInvalid {
        /// The pod's namespace.
        namespace: String,
        /// The group.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// The connection is not there.
    #[error(
        "NatsConnection {connection}, which ConsumerGroup {group} refers to, is not found; create \
         it; the ReplicaSet retries by itself"
    )]
    NoConnection {
        /// The group's name.
        group: String,
        /// `namespace/name` of the connection.
        connection: String,
    },
    /// The connection's owner does not allow it.
    #[error(
        "NatsConnection {connection} does not allow this namespace; its owner has to add it to \
         spec.allowedNamespaces"
    )]
    NotGranted {
        /// `namespace/name` of the connection.
        connection: String,
    },
    /// The worker would have no credentials.
    #[error(
        "NatsConnection {connection} needs credentials and none are named for workers; set \
         spec.worker.natsSecretName of ConsumerGroup {group}, or spec.workerSecretName of the \
         NatsConnection, to a Secret in the pod's namespace"
    )]
    NoWorkerSecret {
        /// The group's name.
        group: String,
        /// `namespace/name` of the connection.
        connection: String,
    },
    /// An annotation cannot be read.
    #[error("annotation {name} is {value:?}; write {expected}")]
    Annotation {
        /// Which.
        name: &'static str,
        /// What it says.
        value: String,
        /// What it may say.
        expected: &'static str,
    },
    /// An annotation names a container that is not there.
    #[error(
        "annotation {annotation} names {container:?}, which is no regular container of this pod \
         (it has {there})", annotation = names::CONTAINERS
    )]
    NoSuchContainer {
        /// What it names.
        container: String,
        /// What the pod has.
        there: String,
    },
    /// A name that Lockstep uses is in use.
    #[error("the pod has a {what} named {name:?}, a name that Lockstep uses itself; rename it")]
    NameTaken {
        /// Container or volume.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A path that Lockstep uses is in use.
    #[error(
        "container {container:?} mounts something at {path}, where Lockstep's socket is; mount it \
         elsewhere"
    )]
    PathTaken {
        /// The container.
        container: String,
        /// The path.
        path: String,
    },
    /// The pod is no pod.
    #[error("the pod cannot be read: {why}")]
    Unreadable {
        /// What is wrong with it.
        why: String,
    },
    /// There are no workers for it.
    #[error(
        "Lockstep's worker runs on Linux only and this pod asks for Windows; remove the label {label}",
        label = names::GROUP_LABEL
    )]
    Windows,
}

// === impl Denial ===

impl Denial {
    /// An annotation that cannot be read.
    pub(super) fn annotation(name: &'static str, value: &str, expected: &'static str) -> Self {
        let value = value.to_owned();
        Self::Annotation {
            name,
            value,
            expected,
        }
    }
}
