//! The webhook: the API server asks about each pod with a group's label, and gets the worker that
//! belongs into it.
//!
//! Every replica answers, leading or not: from caches of groups and connections that it keeps
//! itself, and with the certificate that the leader keeps in a Secret. It writes nothing.

pub mod certificates;
mod known;
mod review;
mod server;

use std::time::Duration;

use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use certificates::{Certificates, Keeper, KeeperSettings, Lifetimes};
pub use server::{BoundWebhook, WebhookError};

use crate::http::Verdict;
use crate::k8s::Events;
use crate::k8s::lease::Leadership;
use crate::metrics::{AdmissionMetrics, Metrics};
use crate::tasks::Tasks;
use known::Known;

use super::injection::Defaults;
use super::settings::{Settings, WebhookSettings};

/// The path that the API server posts to.
pub const PATH: &str = "/inject";

/// How long the API server itself may take to answer a question of ours, within its own patience of
/// five seconds.
const LOOK_UP_WITHIN: Duration = Duration::from_secs(3);

/// What answers the API server. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Admission {
    known: Known,
    defaults: Defaults,
    certificates: Certificates,
    metrics: AdmissionMetrics,
}

/// What the webhook shares with the rest of its controller.
#[derive(Clone, Copy)]
pub(super) struct Needs<'a> {
    pub(super) client: &'a Client,
    pub(super) events: &'a Events,
    pub(super) metrics: &'a Metrics,
    pub(super) leadership: &'a watch::Receiver<Leadership>,
    pub(super) tasks: &'a Tasks,
}

/// Serves the webhook of a controller, and keeps its certificates while it leads.
pub(super) fn open(
    settings: &Settings,
    webhook: &WebhookSettings,
    needs: &Needs<'_>,
) -> Result<Admission, WebhookError> {
    let Needs { client, tasks, .. } = *needs;
    let bound = BoundWebhook::bind(webhook.address)?;
    tracing::info!(address = %bound.address(), hosts = ?webhook.hosts, "the webhook listens");
    let metrics = AdmissionMetrics::register(needs.metrics);
    let certificates = Certificates::default();
    let place = (settings.namespace.clone(), webhook.secret.clone());
    let (following, series) = (certificates.clone(), metrics.clone());
    let watching = client.clone();
    tasks.spawn_vital("certificates", |stop| {
        following.follow(watching, place, series, stop)
    });
    let keeping = KeeperSettings {
        namespace: settings.namespace.clone(),
        secret: webhook.secret.clone(),
        configuration: webhook.configuration.clone(),
        hosts: webhook.hosts.clone(),
        lifetimes: Lifetimes::default(),
    };
    let keeper = Keeper::new(client.clone(), needs.events.clone(), keeping);
    let leadership = needs.leadership.clone();
    tasks.spawn("keeper", |stop| keeper.run(leadership, stop));
    let defaults = Defaults {
        image: settings.worker_image.clone(),
    };
    let namespaces = &settings.watch_namespaces;
    let chosen = (defaults, certificates);
    let admission = Admission::start(client.clone(), namespaces, chosen, metrics, tasks);
    let serving = admission.clone();
    tasks.spawn_vital("webhook", |stop| serving.serve(bound, stop));
    Ok(admission)
}

// === impl Admission ===

impl Admission {
    /// Begins to follow the groups and connections of these namespaces, or of all.
    pub fn start(
        client: Client,
        namespaces: &[String],
        (defaults, certificates): (Defaults, Certificates),
        metrics: AdmissionMetrics,
        tasks: &Tasks,
    ) -> Self {
        Self {
            known: Known::follow(client, namespaces, tasks),
            defaults,
            certificates,
            metrics,
        }
    }

    /// Whether pods can be answered about: not whether this replica leads.
    pub fn ready(&self) -> Verdict {
        if !self.certificates.is_loaded() {
            Verdict::No("no certificate yet")
        } else if self.known.is_synced() {
            Verdict::Yes("ready")
        } else {
            Verdict::No("groups not read yet")
        }
    }

    /// Answers until told to stop; what is being answered then is answered.
    pub async fn serve(self, bound: BoundWebhook, stop: CancellationToken) {
        let certificates = self.certificates.clone();
        server::serve(bound, review::routes(self), certificates, stop).await;
    }
}
