//! What a watch shows of pods: when each came to be, when its containers ran, when it was ready.

use std::collections::BTreeMap;
use std::pin::pin;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::api::Api;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use lockstep_e2e::clock;
use lockstep_e2e::history::At;
use lockstep_e2e::scene::{Outcome, SceneError};
use tokio::sync::watch;

use crate::groups::NAMESPACE;

/// The life of a pod, as a watch shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    /// It was there.
    pub(crate) created: At,
    /// Its worker ran.
    pub(crate) worker_ran: Option<At>,
    /// Its application ran.
    pub(crate) application_ran: Option<At>,
    pub(crate) ready: Option<At>,
}

/// All pods that were seen, by name.
pub(crate) type Lives = BTreeMap<String, Life>;

/// Follows the application's pods beside what is done meanwhile.
pub(crate) async fn followed<T>(
    client: &Client,
    meanwhile: impl AsyncFnOnce(watch::Receiver<Lives>) -> Outcome<T>,
) -> Outcome<T> {
    let (lives, watching) = watch::channel(Lives::new());
    tokio::select! {
        () = follow(client, &lives) => Err(SceneError::new("the watch of pods has ended")),
        done = meanwhile(watching) => done,
    }
}

async fn follow(client: &Client, lives: &watch::Sender<Lives>) {
    let api: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let config = watcher::Config::default().labels("app=orders");
    let events = watcher(api, config).default_backoff();
    let mut pods = pin!(events.applied_objects());
    while let Some(pod) = pods.next().await {
        let Ok(pod) = pod else { continue };
        let now = clock::boottime_ns();
        lives.send_modify(|lives| {
            let life = lives
                .entry(pod.name_any())
                .or_insert_with(|| Life::beginning(now));
            life.see(&pod, now);
        });
    }
}

// === impl Life ===

impl Life {
    fn beginning(now: At) -> Self {
        Self {
            created: now,
            worker_ran: None,
            application_ran: None,
            ready: None,
        }
    }

    fn see(&mut self, pod: &Pod, now: At) {
        let Some(status) = &pod.status else { return };
        let runs = |all: &Option<Vec<ContainerStatus>>, name: &str| {
            let mut all = all.iter().flatten();
            all.any(|container| {
                let state = container.state.as_ref();
                container.name == name && state.is_some_and(|state| state.running.is_some())
            })
        };
        if runs(&status.init_container_statuses, "lockstep-worker") {
            self.worker_ran.get_or_insert(now);
        }
        if runs(&status.container_statuses, "app") {
            self.application_ran.get_or_insert(now);
        }
        let mut conditions = status.conditions.iter().flatten();
        if conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True") {
            self.ready.get_or_insert(now);
        }
    }
}
