//! Replicas, and pods as evidence: against a real API server whose workloads make pods. There is no
//! kubelet, so the pods stay Pending; members are workers that carry their names.

mod conflicts;
mod draining;
mod evidence;
mod following;

use std::path::PathBuf;

use lockstep_e2e::children::Child;
use lockstep_e2e::process;
use lockstep_e2e::socket_client::SocketClient;
use lockstep_e2e::until;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::stage::{SOON, Stage};

/// A worker under a pod's name, and its application, which asks for messages all the time.
pub(crate) struct Member {
    _worker: Child,
    _application: JoinSet<()>,
}

/// Group `orders` of four partitions with this target.
fn group(kind: &str, target: &str, more: &str) -> String {
    named_group("orders", kind, target, more)
}

/// As everywhere, but patient: nobody is to die here.
fn named_group(name: &str, kind: &str, target: &str, more: &str) -> String {
    let target =
        format!("  scaleTargetRef: {{apiVersion: apps/v1, kind: {kind}, name: {target}}}\n{more}");
    crate::stage::group(name, &target)
        .replace("sessionTimeout: 6s", "sessionTimeout: 60s")
        .replace("rebalanceTimeout: 5s", "rebalanceTimeout: 60s")
}

/// A workload whose pods are members of this group; of none if it is empty.
pub(crate) fn workload(kind: &str, name: &str, group: &str, replicas: u32) -> String {
    let label = match group {
        "" => String::new(),
        group => format!(", lockstep.dev/consumer-group: {group}"),
    };
    let more = match kind {
        "StatefulSet" => "serviceName: none\n  podManagementPolicy: Parallel",
        _ => "revisionHistoryLimit: 1",
    };
    format!(
        r"apiVersion: apps/v1
kind: {kind}
metadata: {{name: {name}}}
spec:
  replicas: {replicas}
  {more}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}{label}}}}}
    spec: {{containers: [{{name: app, image: none}}]}}
"
    )
}

impl Stage {
    /// The stage with kube-controller-manager: workloads make pods.
    async fn with_workloads() -> Self {
        let mut stage = Self::without_controller().await;
        stage.api.start_workloads().await.unwrap();
        stage.controller("c1");
        let connection = crate::stage::connection("default", &stage.nats.url());
        stage.apply(&connection).await;
        stage
    }

    /// Waits until a number of an object is this one.
    pub(crate) async fn number(&self, (kind, name): (&str, &str), pointer: &str, wanted: u64) {
        let what = format!("{pointer} of {kind} {name} to be {wanted}");
        let found = until(what, SOON, async || {
            let object = self.get(kind, name).await.ok_or("no such object")?;
            match object.pointer(pointer) {
                Some(number) if *number == json!(wanted) => Ok(()),
                other => Err(format!("it is {other:?}: {}", object["status"])),
            }
        });
        found
            .await
            .unwrap_or_else(|late| panic!("{late}\n{}", self.logs()));
    }

    pub(crate) async fn scale(&self, what: &str, replicas: u32) {
        self.kubectl(&["scale", what, &format!("--replicas={replicas}")])
            .await;
    }

    async fn replicas(&self, kind: &str, name: &str) -> Value {
        self.get(kind, name).await.unwrap()["spec"]["replicas"].clone()
    }

    /// Names of a workload's pods that are not going, in order.
    async fn pods(&self, app: &str) -> Vec<String> {
        let selector = format!("app={app}");
        let text = self
            .kubectl(&["get", "pods", "-l", &selector, "-o", "json"])
            .await;
        let all: Value = serde_json::from_str(&text).unwrap();
        let items = all["items"].as_array().into_iter().flatten();
        let live = items.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        let names = live.map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    /// Waits until a workload has so many pods.
    pub(crate) async fn has_pods(&self, app: &str, count: usize) -> Vec<String> {
        let found = until(format!("{count} pods of {app}"), SOON, async || {
            let pods = self.pods(app).await;
            if pods.len() == count {
                Ok(pods)
            } else {
                Err(format!("{pods:?}"))
            }
        });
        found
            .await
            .unwrap_or_else(|late| panic!("{late}\n{}", self.logs()))
    }

    /// A member of group `orders` under a pod's name.
    pub(crate) fn member(&self, id: &str, more: &[&str]) -> Member {
        let socket: PathBuf = self.api.folder().join(format!("{id}.sock"));
        let path = socket.display().to_string();
        let url = self.nats.url();
        let mut arguments = vec!["worker", "--group", "orders", "--socket", &path];
        arguments.extend(["--nats-url", &url, "--member-id", id]);
        arguments.extend(more);
        let output = self.api.folder().join(format!("{id}.log"));
        let worker = process::start_lockstep(&arguments, &output).unwrap();
        let client = SocketClient::new(&socket);
        let mut application = JoinSet::new();
        application.spawn(async move {
            let body = json!({ "max_messages": 1, "max_wait": "1s" });
            loop {
                if client.post("/v1/fetch", &body).await.is_err() {
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                }
            }
        });
        Member {
            _worker: worker,
            _application: application,
        }
    }

    /// How many partitions each member owns, by the group's status.
    async fn owned(&self) -> Vec<(String, u64)> {
        let group = self.get("cg", "orders").await.unwrap();
        let list = group["status"]["members"]["list"].as_array().cloned();
        let list = list.unwrap_or_default();
        let of = list.iter().map(|member| {
            let id = member["id"].as_str().unwrap().to_owned();
            (id, member["partitions"].as_u64().unwrap())
        });
        of.collect()
    }

    /// Waits until all partitions are with these members and with nobody else.
    pub(crate) async fn all_owned_by(&self, ids: &[&str]) {
        let found = until(format!("partitions with {ids:?}"), SOON, async || {
            let owned = self.owned().await;
            let mut owners: Vec<&str> = owned
                .iter()
                .filter(|(_, partitions)| *partitions > 0)
                .map(|(id, _)| id.as_str())
                .collect();
            owners.sort_unstable();
            let mut wanted = ids.to_vec();
            wanted.sort_unstable();
            let all = owned.iter().map(|(_, partitions)| partitions).sum::<u64>() == 4;
            if owners == wanted && all {
                Ok(())
            } else {
                Err(format!("{owned:?}"))
            }
        });
        found
            .await
            .unwrap_or_else(|late| panic!("{late}\n{}", self.logs()));
    }
}
