//! What a pod's life says of its member, and what people are told of pods.

use serde_json::json;

use super::{group, workload};
use crate::stage::Stage;

const NODE: &str = r"apiVersion: v1
kind: Node
metadata: {name: node-1}
";

/// A pod with a worker on that node.
fn pod(name: &str) -> String {
    format!(
        r"apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{lockstep.dev/consumer-group: orders}}}}
spec:
  nodeName: node-1
  containers: [{{name: app, image: none}}]
  initContainers: [{{name: lockstep-worker, image: none, restartPolicy: Always}}]
"
    )
}

impl Stage {
    /// Writes a status, as a kubelet would.
    async fn says(&self, object: &str, status: &serde_json::Value) {
        let patch = json!({ "status": status }).to_string();
        self.kubectl(&["patch", object, "--subresource=status", "-p", &patch])
            .await;
    }

    async fn worker_is(&self, pod: &str, state: &serde_json::Value) {
        let worker = json!([{
            "name": "lockstep-worker", "image": "none", "imageID": "", "ready": true,
            "restartCount": 0, "state": state,
        }]);
        let status = json!({ "phase": "Running", "initContainerStatuses": worker });
        self.says(&format!("pod/{pod}"), &status).await;
    }

    /// A group whose members are pods on a node that is ready.
    async fn with_a_node() -> Self {
        let stage = Self::with_workloads().await;
        stage.apply(NODE).await;
        let ready = json!([{ "type": "Ready", "status": "True", "reason": "Test", "message": "" }]);
        stage
            .says("node/node-1", &json!({ "conditions": ready }))
            .await;
        stage
            .apply(&workload("Deployment", "app", "orders", 0))
            .await;
        stage.apply(&group("Deployment", "app", "")).await;
        stage.number(("cg", "orders"), "/spec/replicas", 0).await;
        stage
    }

    /// A pod whose worker runs on a node that is ready, and that worker.
    async fn living(&self, name: &str) -> super::Member {
        self.apply(&pod(name)).await;
        self.worker_is(name, &json!({ "running": {} })).await;
        let object = self.get("pod", name).await.unwrap();
        let uid = object["metadata"]["uid"].as_str().unwrap().to_owned();
        self.member(name, &["--pod-uid", &uid, "--node-name", "node-1"])
    }
}

#[tokio::test]
async fn a_pod_that_was_seen_to_end_is_not_waited_for() {
    let stage = Stage::with_a_node().await;
    let (a, b) = (stage.living("a").await, stage.living("b").await);
    stage.all_owned_by(&["a", "b"]).await;
    let text = stage.event("a", "PartitionsAssigned").await;
    assert!(text.contains("ConsumerGroup orders"), "{text}");

    // b's worker dies without a word, and its pod ends gracefully: the session timeout is a minute.
    drop(b);
    let began = tokio::time::Instant::now();
    stage.kubectl(&["delete", "pod", "b", "--wait=false"]).await;
    stage
        .worker_is("b", &json!({ "terminated": { "exitCode": 0 } }))
        .await;
    stage.all_owned_by(&["a"]).await;
    let took = began.elapsed();
    assert!(
        took.as_secs() < 45,
        "its session timeout was waited for: {took:?}"
    );
    drop(a);
}

#[tokio::test]
async fn a_pod_that_is_being_deleted_lets_go_although_its_worker_was_not_told() {
    let stage = Stage::with_a_node().await;
    let (a, b) = (stage.living("a").await, stage.living("b").await);
    stage.all_owned_by(&["a", "b"]).await;
    // Without a kubelet nobody drains b, and its worker lives on.
    stage.kubectl(&["delete", "pod", "b", "--wait=false"]).await;
    stage.all_owned_by(&["a"]).await;
    drop((a, b));
}

#[tokio::test]
async fn pods_without_a_worker_are_named() {
    let stage = Stage::with_workloads().await;
    stage
        .apply(&workload("Deployment", "app", "orders", 1))
        .await;
    stage.apply(&group("Deployment", "app", "")).await;
    let pods = stage.has_pods("app", 1).await;
    let text = stage.event("orders", "UninjectedPods").await;
    assert!(text.contains(&pods[0]), "{text}");
}
