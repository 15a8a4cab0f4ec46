//! What goes wrong with a cluster, made on purpose.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node as NodeObject;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::System;
use super::system::Pod;
use crate::scene::{Outcome, SceneError};

/// How often a node's Lease is renewed: well within the grace period that the test cluster gives.
const RENEW_EVERY: Duration = Duration::from_secs(3);

/// A second Node object, cordoned, that only a Lease keeps ready. Without it the loss of the only
/// node is a disruption of the whole zone, and Kubernetes evicts nothing. Dropping it ends the Lease.
#[derive(Debug)]
pub struct GhostNode {
    _renewing: JoinSet<()>,
}

// === impl GhostNode ===

impl GhostNode {
    /// Adds it, ready.
    pub async fn start(client: Client) -> Outcome<Self> {
        let nodes: Api<NodeObject> = Api::all(client.clone());
        let node = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "ghost"},
            "spec": {"unschedulable": true},
        });
        nodes
            .create(&PostParams::default(), &serde_json::from_value(node)?)
            .await?;
        let now = jiff::Timestamp::now().to_string();
        let ready = json!({"status": {"conditions": [{
            "type": "Ready",
            "status": "True",
            "reason": "Ghost",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }]}});
        let patch = Patch::Merge(ready);
        nodes
            .patch_status("ghost", &PatchParams::default(), &patch)
            .await?;
        renew(&client).await?;
        let mut renewing = JoinSet::new();
        renewing.spawn(async move {
            loop {
                tokio::time::sleep(RENEW_EVERY).await;
                // The next renewal makes good for one that failed.
                drop(renew(&client).await);
            }
        });
        Ok(Self {
            _renewing: renewing,
        })
    }
}

async fn renew(client: &Client) -> Result<(), kube::Error> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "ghost"},
        "spec": {
            "holderIdentity": "ghost",
            "leaseDurationSeconds": 40,
            "renewTime": format!("{:.6}", jiff::Timestamp::now()),
        },
    });
    let manager = PatchParams::apply("ghost").force();
    leases
        .patch("ghost", &manager, &Patch::Apply(lease))
        .await?;
    Ok(())
}

// === impl System ===

impl System {
    /// Kills the NATS server; what it had stored stays.
    pub fn stop_nats(&mut self) -> Outcome<()> {
        Ok(self.nats.kill()?)
    }

    /// Drops everything that a pod sends to NATS, until [`Self::heal`].
    pub async fn cut_from_nats(&self, pod: &Pod) -> Outcome<()> {
        let rule = format!(
            "add table ip cut; add chain ip cut in {{ type filter hook input priority 0; }}; \
             add rule ip cut in ip saddr {} tcp dport 4222 drop",
            pod.address
        );
        self.on_the_node(&["nft", &rule]).await
    }

    /// Lets through again what was cut.
    pub async fn heal(&self) -> Outcome<()> {
        self.on_the_node(&["nft", "delete table ip cut"]).await
    }

    /// Kills the first process of a pod's container with a signal such as `KILL`.
    pub async fn signal(&self, pod: &str, container: &str, signal: &str) -> Outcome<()> {
        self.signal_in("default", pod, container, signal).await
    }

    /// As [`Self::signal`], in another namespace.
    pub async fn signal_in(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
        signal: &str,
    ) -> Outcome<()> {
        let pid = self.pid_of(namespace, pod, container).await?;
        self.on_the_node(&["kill", &format!("-{signal}"), &pid])
            .await
    }

    /// Takes a container's memory away until the kernel kills it.
    pub async fn exhaust_memory(&self, pod: &str, container: &str) -> Outcome<()> {
        let pid = self.pid_of("default", pod, container).await?;
        // Version 2 kills at once; version 1 refuses what it cannot free, so the limit goes down in
        // steps until nothing is left for the next allocation.
        let script = format!(
            "cgroup=$(sed -n 's/^0:://p' /proc/{pid}/cgroup); \
             if [ -e /sys/fs/cgroup$cgroup/memory.max ]; then \
               echo 1M > /sys/fs/cgroup$cgroup/memory.max; exit; fi; \
             cgroup=/sys/fs/cgroup/memory$(sed -n 's/^[0-9]*:memory://p' /proc/{pid}/cgroup); \
             limit=67108864; \
             while [ -e /proc/{pid} ] && [ $limit -gt 4096 ]; do \
               echo $limit 2> /dev/null > $cgroup/memory.limit_in_bytes && limit=$((limit - 65536)) \
                 || break; \
             done"
        );
        self.on_the_node(&["bash", "-c", &script]).await
    }

    async fn on_the_node(&self, command: &[&str]) -> Outcome<()> {
        let done = self.node.run(command).await?;
        if done.code == Some(0) {
            return Ok(());
        }
        let text = format!("{command:?}: {}{}", done.stdout, done.stderr);
        Err(SceneError::new(text))
    }

    /// The pid, as the node numbers it, of the first process of a pod's container.
    async fn pid_of(&self, namespace: &str, pod: &str, container: &str) -> Outcome<String> {
        let ask = ["get", "pod", pod, "-n", namespace, "-o", "json"];
        let pod: Value = serde_json::from_str(&self.kubectl(&ask).await?)?;
        let lists =
            ["initContainerStatuses", "containerStatuses"].map(|l| pod["status"][l].clone());
        let mut all = lists.iter().filter_map(Value::as_array).flatten();
        let id = all.find(|status| status["name"] == container);
        let id = id.and_then(|status| status["containerID"].as_str());
        let id = id.unwrap_or_default().trim_start_matches("containerd://");
        let list = ["ctr", "-n", "k8s.io", "task", "ls"];
        let tasks = self.node.run(&list).await?.stdout;
        let mut lines = tasks.lines();
        let line = lines.find(|line| !id.is_empty() && line.starts_with(id));
        let pid = line.and_then(|line| line.split_whitespace().nth(1));
        pid.map(str::to_owned)
            .ok_or_else(|| SceneError::new(format!("no process of {container}: {tasks}")))
    }
}
