//! A controller's life: admission always, everything else while it leads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::api::Api;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::admission::{self, Admission, WebhookError};
use super::connections::Connections;
use super::groups::Running;
use super::leader::Leader;
use super::namespaces::Namespaces;
use super::pods::Pods;
use super::scaling::Scaling;
use super::settings::Settings;
use crate::chance;
use crate::clock;
use crate::coordinator::provision::KUBERNETES;
use crate::http::{HttpServer, Verdict, Vitals};
use crate::k8s::lease::{Elector, Leadership, LeaseSettings};
use crate::k8s::{self, Events, K8sError, Remedy};
use crate::metrics::{ControllerMetrics, CoordinatorMetrics, Leads, Metrics};
use crate::tasks::Tasks;

/// The wait before the API server is asked again at the start.
const BETWEEN_ATTEMPTS: Duration = Duration::from_secs(1);

/// Why a controller does not run.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// The cluster cannot be used.
    #[error(transparent)]
    Cluster(#[from] K8sError),
    /// The webhook cannot be served.
    #[error(transparent)]
    Webhook(#[from] WebhookError),
    /// A part that must not end has ended.
    #[error("a part of this controller has ended, so all of it does; the log above says why")]
    EndedEarly,
}

/// The probes' view.
#[derive(Clone, Debug, Default)]
struct Probed(Arc<Parts>);

/// What has to be there.
#[derive(Debug, Default)]
struct Parts {
    /// The API server has answered.
    started: AtomicBool,
    /// The webhook, if there is to be one.
    webhook: OnceLock<Admission>,
}

/// Runs a controller until told to stop.
pub async fn run(
    settings: Settings,
    client: Client,
    http: Option<HttpServer>,
    stopping: CancellationToken,
) -> Result<(), ControllerError> {
    let tasks = Tasks::new();
    let metrics = Metrics::new();
    let groups =
        CoordinatorMetrics::register_with_partitions(&metrics, settings.metrics_per_partition);
    let figures = ControllerMetrics::register(&metrics);
    let probed = Probed::default();
    if let Some(http) = http {
        let (metrics, vitals) = (metrics.clone(), probed.clone());
        tasks.spawn_vital("http", |stop| {
            http.serve(metrics, vitals, stop.cancelled_owned())
        });
    }
    let manager = tokio::select! {
        () = stopping.cancelled() => return Ok(()),
        uid = cluster_uid(&settings, &client) => format!("{KUBERNETES}{}", uid?),
    };
    tracing::info!(manager, id = settings.id, "controller started");
    let elector = Elector::new(client.clone(), lease(&settings));
    let leadership = elector.leadership();
    let election = Tasks::new();
    election.spawn_vital("election", |stop| elector.run(stop));
    let events = Events::new(client.clone(), settings.id.clone(), &tasks);
    if let Some(webhook) = &settings.webhook {
        let needs = admission::Needs {
            client: &client,
            events: &events,
            metrics: &metrics,
            leadership: &leadership,
            tasks: &tasks,
        };
        let admission = admission::open(&settings, webhook, &needs)?;
        drop(probed.0.webhook.set(admission));
    }
    probed.0.started.store(true, Ordering::Relaxed);
    let leader = Leader {
        settings,
        namespaces: Namespaces::new(client.clone()),
        client,
        manager,
        events,
        metrics: groups,
        figures,
        connections: Connections::default(),
        running: Running::default(),
        pods: Pods::default(),
        scaling: Scaling::default(),
    };
    let ended_early = tasks.stopping();
    let result = tokio::select! {
        () = stopping.cancelled() => Ok(()),
        () = ended_early.cancelled() => Err(ControllerError::EndedEarly),
        () = election.stopping().cancelled_owned() => Err(ControllerError::EndedEarly),
        () = lead_when_elected(&leader, leadership, &stopping) => Ok(()),
    };
    // The coordinators stop before the Lease is given back: the next leader finds their offices free.
    leader.stopped().await;
    election.stop().await;
    tasks.stop().await;
    result
}

fn lease(settings: &Settings) -> LeaseSettings {
    LeaseSettings {
        namespace: settings.namespace.clone(),
        name: settings.lease.clone(),
        identity: format!("{}_{}", settings.id, chance::name()),
        ..LeaseSettings::lasting(settings.lease_duration)
    }
}

/// The identity of this cluster, as groups' descriptions name it.
async fn cluster_uid(settings: &Settings, client: &Client) -> Result<String, K8sError> {
    if let Some(given) = &settings.cluster_id {
        return Ok(given.clone());
    }
    let namespaces: Api<Namespace> = Api::all(client.clone());
    loop {
        match k8s::get_opt(&namespaces, "kube-system").await {
            Ok(Some(Namespace { metadata, .. })) => {
                if let Some(uid) = metadata.uid {
                    return Ok(uid);
                }
            }
            Ok(None) => tracing::warn!("namespace kube-system is not there yet; waiting"),
            Err(error) if error.remedy() == Remedy::AskOperator => return Err(error),
            Err(error) => tracing::warn!(%error, "the API server does not answer; trying on"),
        }
        tokio::time::sleep(BETWEEN_ATTEMPTS).await;
    }
}

/// Leads whenever it is elected, and stops when it no longer is.
async fn lead_when_elected(
    leader: &Leader,
    mut leadership: watch::Receiver<Leadership>,
    stopping: &CancellationToken,
) {
    loop {
        if elected(&mut leadership).await.is_err() {
            return;
        }
        tracing::info!("elected: this controller coordinates");
        leader.figures.leads(Leads::Yes);
        let over = CancellationToken::new();
        tokio::select! {
            () = leader.lead(over.clone()) => {}
            () = no_longer(&mut leadership) => tracing::warn!("no longer elected"),
            () = stopping.cancelled() => {}
        }
        over.cancel();
        leader.stopped().await;
        leader.figures.leads(Leads::No);
        if stopping.is_cancelled() {
            return;
        }
    }
}

async fn elected(leadership: &mut watch::Receiver<Leadership>) -> Result<(), ()> {
    let led = leadership.wait_for(|l| l.leads(clock::now())).await;
    led.map(drop).map_err(drop)
}

/// Waits until the leadership has ended, also by the clock alone.
async fn no_longer(leadership: &mut watch::Receiver<Leadership>) {
    loop {
        let until = match &*leadership.borrow_and_update() {
            Leadership::Leading(until) => *until,
            Leadership::Following(_) => return,
        };
        tokio::select! {
            () = clock::until(Some(until)) => return,
            changed = leadership.changed() => if changed.is_err() { return },
        }
    }
}

// === impl Probed ===

impl Vitals for Probed {
    fn healthy(&self) -> Verdict {
        Verdict::Yes("alive")
    }

    fn ready(&self) -> Verdict {
        if !self.0.started.load(Ordering::Relaxed) {
            return Verdict::No("the API server has not answered yet");
        }
        let webhook = self.0.webhook.get();
        webhook.map_or(Verdict::Yes("ready"), Admission::ready)
    }
}
