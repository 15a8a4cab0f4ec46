//! The pods of all groups, as a watch shows them while this process leads.
//!
//! [`census`] decides what follows from what was seen; here it is fed. A watch that breaks begins
//! anew by itself, and until then what is known stays known: pods hasten decisions, and nothing
//! that has to be right rests on them.

mod census;
mod fact;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::api::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};

use self::census::{Census, Evidence, Since};
pub(in crate::controller) use self::fact::{DELETION_COST, Phase, PodFact};
#[cfg(test)]
pub(in crate::controller) use self::fact::{Deletion, tests};
use super::objects::ObjectKey;
use crate::clock;
use crate::k8s::{self, names};

/// All pods with a group's label. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(in crate::controller) struct Pods(Arc<Mutex<Census>>);

/// One watch: of all namespaces, or of one.
struct Watch<'a, W> {
    pods: &'a Pods,
    client: &'a Client,
    namespace: Option<&'a str>,
    wake: &'a W,
    /// What was named since the watch began anew; none once it is current.
    named: Option<BTreeSet<String>>,
}

// === impl Pods ===

impl Pods {
    /// Follows the pods of a namespace, or of all, for as long as it is polled; `wake` is told of each
    /// group whose pods changed.
    pub(in crate::controller) async fn follow<W: Fn(&ObjectKey)>(
        &self,
        client: &Client,
        namespace: Option<&str>,
        wake: &W,
    ) {
        let api: Api<Pod> = match namespace {
            Some(namespace) => Api::namespaced(client.clone(), namespace),
            None => Api::all(client.clone()),
        };
        let config = watcher::Config::default().labels(names::GROUP_LABEL);
        let mut events = std::pin::pin!(watcher(api, config).default_backoff());
        let mut watch = Watch {
            pods: self,
            client,
            namespace,
            wake,
            named: None,
        };
        let mut said = false;
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    said = false;
                    watch.take(event).await;
                }
                Err(error) if !said => {
                    said = true;
                    tracing::warn!(%error, "pods cannot be watched; trying on");
                }
                Err(_) => {}
            }
        }
    }

    /// A group's pods; none while they are not known yet.
    pub(in crate::controller) fn of(&self, group: &ObjectKey) -> Option<Vec<PodFact>> {
        self.with(|census| census.knows(&group.namespace).then(|| census.of(group)))
    }

    /// Uids of the group's pods that were seen to run and then seen to end.
    pub(in crate::controller) fn gone(&self, group: &ObjectKey) -> BTreeSet<String> {
        self.with(|census| census.gone(group))
    }

    /// Names of the group's pods that are being deleted and have time to end.
    pub(in crate::controller) fn leaving(&self, group: &ObjectKey) -> BTreeSet<String> {
        self.with(|census| census.leaving(group))
    }

    /// How many of the group's pods have no worker, and the names of those that are new among them.
    pub(in crate::controller) fn uninjected(&self, group: &ObjectKey) -> (usize, Vec<String>) {
        self.with(|census| census.uninjected(group))
    }

    /// Pods that own partitions for the first time, given the names of all that own some. Each is
    /// returned once, and those that joined before this process looked are not.
    pub(in crate::controller) fn joins(
        &self,
        group: &ObjectKey,
        owners: &BTreeSet<&str>,
    ) -> Vec<PodFact> {
        self.with(|census| census.joins(group, owners))
    }

    /// Nothing is watched any more: what was seen until now proves nothing later.
    pub(in crate::controller) fn forget_all(&self) {
        self.with(|census| *census = Census::default());
    }

    fn with<T>(&self, ask: impl FnOnce(&mut Census) -> T) -> T {
        ask(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

// === impl Watch ===

impl<W: Fn(&ObjectKey)> Watch<'_, W> {
    async fn take(&mut self, event: Event<Pod>) {
        match event {
            Event::Init => self.named = Some(BTreeSet::new()),
            Event::InitApply(pod) => {
                let since = if self.named.is_some() {
                    Since::Before
                } else {
                    Since::Now
                };
                if let (Some(named), Some(uid)) = (&mut self.named, &pod.metadata.uid) {
                    named.insert(uid.clone());
                }
                self.see(&pod, since).await;
            }
            Event::InitDone => {
                let named = self.named.take().unwrap_or_default();
                let changed = self
                    .pods
                    .with(|census| census.keep_only(&named, self.namespace));
                changed.iter().for_each(self.wake);
            }
            Event::Apply(pod) => self.see(&pod, Since::Now).await,
            Event::Delete(pod) => {
                // Its last state may be the one in which its worker has ended.
                self.see(&pod, Since::Now).await;
                let uid = pod.metadata.uid.unwrap_or_default();
                if let Some(group) = self.pods.with(|census| census.lose(&uid)) {
                    (self.wake)(&group);
                }
            }
        }
    }

    async fn see(&self, pod: &Pod, since: Since) {
        let Some(fact) = PodFact::of(pod) else {
            return;
        };
        let group = fact.group.clone();
        if let Some(evidence) = self.pods.with(|census| census.see(fact, since))
            && self.is_to_be_believed(&evidence).await
        {
            self.pods
                .with(|census| census.believe(evidence, clock::now()));
        }
        (self.wake)(&group);
    }

    /// Whether the node that reported an end is ready: one that is not may not know.
    async fn is_to_be_believed(&self, evidence: &Evidence) -> bool {
        let nodes: Api<Node> = Api::all(self.client.clone());
        match k8s::get_opt(&nodes, &evidence.node).await {
            Ok(node) => node.is_some_and(|node| is_ready(&node)),
            Err(error) => {
                let pod = &evidence.uid;
                tracing::debug!(%error, pod, "its node cannot be read: the session timeout decides");
                false
            }
        }
    }
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|s| s.conditions.as_deref());
    let mut conditions = conditions.unwrap_or_default().iter();
    conditions.any(|c| c.type_ == "Ready" && c.status == "True")
}
