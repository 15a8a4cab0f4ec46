//! `lockstep controller`: the operator of a Kubernetes cluster.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;

use super::connection::LogFlags;
use super::{Failure, Runs, host, output, signals};
use crate::controller::{self, ControllerError, Settings, WebhookSettings};
use crate::http::HttpServer;
use crate::k8s;
use crate::settings::parse_duration;

/// Where a pod finds its namespace.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// A Lease counts whole seconds, and its renewals have to fit in.
const SHORTEST_LEASE: Duration = Duration::from_secs(3);

/// Look after the consumer groups of a Kubernetes cluster
#[derive(Args, Debug)]
#[command(
    after_help = "Runs in the cluster, or beside one that KUBECONFIG names. Every replica injects workers; the one\n\
                  that holds the Lease reconciles and coordinates. The Helm chart sets all of this.\n\
                  Example: lockstep controller --namespace lockstep-system --no-webhook"
)]
pub(super) struct Flags {
    /// Its own namespace [default: that of its account in the cluster]
    #[arg(long, env = "LOCKSTEP_NAMESPACE", value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Its label, the pod's name [default: the host's name]
    #[arg(long, env = "LOCKSTEP_ID", value_name = "ID")]
    id: Option<String>,
    /// Namespaces to look after [default: all]
    #[arg(
        long,
        env = "LOCKSTEP_WATCH_NAMESPACES",
        value_name = "NAMESPACE",
        value_delimiter = ','
    )]
    watch_namespaces: Vec<String>,
    /// The cluster's identity in groups' state [default: the uid of namespace kube-system]
    #[arg(long, env = "LOCKSTEP_CLUSTER_ID", value_name = "ID")]
    cluster_id: Option<String>,
    /// Lease that decides which controller tries
    #[arg(
        long,
        env = "LOCKSTEP_LEASE",
        value_name = "NAME",
        default_value = "lockstep-controller"
    )]
    lease: String,
    /// How long others wait for a silent holder of the Lease
    #[arg(long, env = "LOCKSTEP_LEASE_DURATION", value_name = "DURATION", default_value = "15s",
          value_parser = parse_lease)]
    lease_duration: Duration,
    /// Image of injected workers
    #[arg(
        long,
        env = "LOCKSTEP_WORKER_IMAGE",
        value_name = "IMAGE",
        default_value = "lockstep"
    )]
    worker_image: String,
    /// Objects reconciled at once
    #[arg(long, env = "LOCKSTEP_MAX_CONCURRENT_RECONCILES", value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u16).range(1..=256))]
    max_concurrent_reconciles: u16,
    /// Show single partitions of groups with at most this many in metrics
    #[arg(
        long,
        env = "LOCKSTEP_METRICS_PER_PARTITION",
        value_name = "N",
        default_value_t = 64
    )]
    metrics_per_partition: usize,
    /// Groups that are provided in NATS at once
    #[arg(long, env = "LOCKSTEP_MAX_CONCURRENT_GROUPS", value_name = "N", default_value_t = 16,
          value_parser = clap::value_parser!(u16).range(1..=256))]
    max_concurrent_groups: u16,
    /// How long cleaning up after a deleted group is tried
    #[arg(long, env = "LOCKSTEP_CLEANUP_TIMEOUT", value_name = "DURATION", default_value = "5m",
          value_parser = parse_duration)]
    cleanup_timeout: Duration,
    /// Let Kubernetes choose the pods that go when a Deployment shrinks: the youngest
    #[arg(long, env = "LOCKSTEP_NO_POD_DELETION_COST")]
    no_pod_deletion_cost: bool,
    /// Address for /metrics, /healthz, /readyz
    #[arg(long, env = "LOCKSTEP_HTTP_ADDR", value_name = "ADDR")]
    http_addr: Option<SocketAddr>,
    #[command(flatten)]
    webhook: WebhookFlags,
    #[command(flatten)]
    log: LogFlags,
}

/// How the API server reaches the webhook. As typed.
#[derive(Args, Debug)]
#[command(next_help_heading = "Webhook")]
struct WebhookFlags {
    /// Do not inject workers
    #[arg(long, env = "LOCKSTEP_NO_WEBHOOK")]
    no_webhook: bool,
    /// Where it listens
    #[arg(
        long,
        env = "LOCKSTEP_WEBHOOK_ADDR",
        value_name = "ADDR",
        default_value = "0.0.0.0:9443"
    )]
    webhook_addr: SocketAddr,
    /// Service in front of it
    #[arg(
        long,
        env = "LOCKSTEP_WEBHOOK_SERVICE",
        value_name = "NAME",
        default_value = "lockstep-webhook"
    )]
    webhook_service: String,
    /// Names of its certificate [default: those of the Service]
    #[arg(
        long,
        env = "LOCKSTEP_WEBHOOK_HOST",
        value_name = "NAME",
        value_delimiter = ','
    )]
    webhook_host: Vec<String>,
    /// Secret with its certificate
    #[arg(
        long,
        env = "LOCKSTEP_WEBHOOK_SECRET",
        value_name = "NAME",
        default_value = "lockstep-webhook-tls"
    )]
    webhook_secret: String,
    /// Configuration of the mutating webhook that gets its authority
    #[arg(
        long,
        env = "LOCKSTEP_WEBHOOK_CONFIGURATION",
        value_name = "NAME",
        default_value = "lockstep-injector"
    )]
    webhook_configuration: String,
}

fn parse_lease(given: &str) -> Result<Duration, String> {
    let parsed = parse_duration(given).map_err(|e| e.to_string())?;
    if parsed < SHORTEST_LEASE {
        return Err(format!(
            "{given} is too short; use at least {SHORTEST_LEASE:?}"
        ));
    }
    Ok(parsed)
}

// === impl Flags ===

impl Flags {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let settings = self.settings()?;
        self.log.start(Runs::ForLong)?;
        let stopping = signals::stop()?;
        let http = match self.http_addr {
            Some(address) => Some(HttpServer::bind(address).await),
            None => None,
        };
        let http = http.transpose().map_err(|e| Failure::of(&e))?;
        let client = k8s::client().await.map_err(|e| Failure::of(&e))?;
        let at = http
            .as_ref()
            .map_or_else(String::new, |h| format!(", http on {}", h.address()));
        output::line(format_args!("ready: controller {}{at}", settings.id))?;
        match controller::run(settings, client, http, stopping).await {
            Ok(()) => Ok(()),
            Err(
                error @ (ControllerError::Cluster(_)
                | ControllerError::Webhook(_)
                | ControllerError::EndedEarly),
            ) => Err(Failure::of(&error)),
        }
    }

    fn settings(&self) -> Result<Settings, Failure> {
        let namespace = match &self.namespace {
            Some(namespace) => namespace.clone(),
            None => std::fs::read_to_string(NAMESPACE_FILE).map_err(|_| {
                Failure::usage("--namespace is missing, and this is no pod that would tell it")
            })?,
        };
        let namespace = namespace.trim().to_owned();
        let webhook = (!self.webhook.no_webhook).then(|| self.webhook.settings(&namespace));
        Ok(Settings {
            id: self.id.clone().unwrap_or_else(|| host::name("controller")),
            watch_namespaces: self.watch_namespaces.clone(),
            cluster_id: self.cluster_id.clone().filter(|id| !id.is_empty()),
            lease: self.lease.clone(),
            lease_duration: self.lease_duration,
            worker_image: self.worker_image.clone(),
            webhook,
            max_concurrent_reconciles: self.max_concurrent_reconciles,
            metrics_per_partition: self.metrics_per_partition,
            max_concurrent_groups: self.max_concurrent_groups,
            cleanup_timeout: self.cleanup_timeout,
            pod_deletion_costs: !self.no_pod_deletion_cost,
            namespace,
        })
    }
}

// === impl WebhookFlags ===

impl WebhookFlags {
    fn settings(&self, namespace: &str) -> WebhookSettings {
        let service = &self.webhook_service;
        let hosts = if self.webhook_host.is_empty() {
            vec![
                format!("{service}.{namespace}.svc"),
                format!("{service}.{namespace}.svc.cluster.local"),
            ]
        } else {
            self.webhook_host.clone()
        };
        WebhookSettings {
            address: self.webhook_addr,
            hosts,
            secret: self.webhook_secret.clone(),
            configuration: self.webhook_configuration.clone(),
        }
    }
}
