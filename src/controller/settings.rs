//! What a controller is started with.

use std::net::SocketAddr;
use std::time::Duration;

/// What a controller is started with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its own namespace: of its Lease and its Secret.
    pub namespace: String,
    /// Its label: the pod's name.
    pub id: String,
    /// The namespaces whose objects it looks after; empty: all.
    pub watch_namespaces: Vec<String>,
    /// The identity of the cluster; none: the uid of namespace kube-system.
    pub cluster_id: Option<String>,
    /// The Lease that decides which controller tries.
    pub lease: String,
    /// How long others wait for a silent holder of the Lease.
    pub lease_duration: Duration,
    /// The image of injected workers.
    pub worker_image: String,
    /// Where the webhook listens; none: it does not.
    pub webhook: Option<WebhookSettings>,
    /// Objects that are reconciled at once.
    pub max_concurrent_reconciles: u16,
    /// Groups with at most this many partitions show each of them in metrics.
    pub metrics_per_partition: usize,
    /// Groups that are provided in NATS at once.
    pub max_concurrent_groups: u16,
    /// Whether pods of a Deployment may be given a deletion cost, so that those go whose departure
    /// moves least; else the youngest go.
    pub pod_deletion_costs: bool,
    /// How long cleaning up is tried before it is given up.
    pub cleanup_timeout: Duration,
}

/// How the API server reaches the webhook.
#[derive(Clone, Debug)]
pub struct WebhookSettings {
    /// Where it listens.
    pub address: SocketAddr,
    /// The names and addresses that its certificate is for.
    pub hosts: Vec<String>,
    /// The Secret with its certificate, in the controller's namespace.
    pub secret: String,
    /// The `MutatingWebhookConfiguration` that gets its authority.
    pub configuration: String,
}
