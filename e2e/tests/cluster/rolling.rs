//! Evictions and rolling updates: what does not have to move stays where it is, what moves stands still shortly.

use std::collections::BTreeMap;

use lockstep_e2e::cluster::{Kind, System, images, inside};

use lockstep_e2e::scene::Outcome;
use serde_json::json;

use crate::stage::{ends_without_a_trace, is_patient, paused_shortly, quick, running};

/// Each partition's owner and epoch.
fn held(system: &System) -> BTreeMap<u32, (String, u64)> {
    let progress = system.progress();
    let owners = progress.owners().into_iter();
    let held = owners.zip(progress.epochs());
    held.map(|((partition, owner), epoch)| (partition, (owner, epoch)))
        .collect()
}

async fn roll(system: &System, kind: &str) {
    let restart = ["rollout", "restart", kind, "orders"];
    system.kubectl(&restart).await.unwrap();
    let rolled = ["rollout", "status", kind, "orders", "--timeout=100s"];
    system.kubectl(&rolled).await.unwrap();
}

#[test]
fn of_a_stateful_set_only_the_partitions_of_the_replaced_pod_move() {
    inside(&images(), async |node| {
        let mut system = running(node, &quick(Kind::StatefulSet, 3)).await;
        is_patient(&system).await;
        // Only the last pod is replaced.
        let last = r#"{"spec": {"updateStrategy": {"rollingUpdate": {"partition": 2}}}}"#;
        system
            .kubectl(&["patch", "statefulset", "orders", "-p", last])
            .await
            .unwrap();
        let before = held(&system);
        system.mark("one pod is replaced").unwrap();
        roll(&system, "statefulset").await;
        system.settles(3).await.unwrap();
        system.handles(100).await.unwrap();
        let after = held(&system);
        for (partition, (owner, epoch)) in &before {
            let (now, at) = &after[partition];
            assert_eq!(now, owner, "partition {partition} did not come back");
            let moved = at > epoch;
            assert_eq!(
                moved,
                owner == "orders-2",
                "partition {partition} of {owner}"
            );
        }
        // All of them, one after the other.
        let all = r#"{"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}"#;
        system
            .kubectl(&["patch", "statefulset", "orders", "-p", all])
            .await
            .unwrap();
        system.mark("all pods are replaced").unwrap();
        roll(&system, "statefulset").await;
        system.settles(3).await.unwrap();
        system.handles(100).await.unwrap();
        let verdict = ends_without_a_trace(&mut system).await;
        paused_shortly(&verdict, "one pod is replaced");
        paused_shortly(&verdict, "all pods are replaced");
    });
}

const BUDGET: &str = "
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: orders, namespace: default}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: orders}}}
";

/// What `kubectl drain` does to each pod. (The client library would try again until it may.)
async fn evict(system: &System, pod: &str) -> Outcome<String> {
    let eviction = json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod},
    });
    let file = system.node.folder().join("eviction.json");
    std::fs::write(&file, eviction.to_string())?;
    let path = format!("/api/v1/namespaces/default/pods/{pod}/eviction");
    let file = file.display().to_string();
    system
        .kubectl(&["create", "--raw", &path, "-f", &file])
        .await
}

#[test]
fn a_deployment_is_evicted_within_its_budget_and_rolled_without_a_trace() {
    inside(&images(), async |node| {
        let mut system = running(node, &quick(Kind::Deployment, 3)).await;
        is_patient(&system).await;
        system.apply(BUDGET).await.unwrap();
        let counted = "--for=jsonpath={.status.disruptionsAllowed}=1";
        let counted = ["wait", "pdb", "orders", counted, "--timeout=60s"];
        system.kubectl(&counted).await.unwrap();
        let pods = system.pods().await.unwrap();
        evict(&system, &pods[0]).await.unwrap();
        let refused = evict(&system, &pods[1]).await.unwrap_err().to_string();
        assert!(refused.contains("disruption budget"), "{refused}");
        system.settles(3).await.unwrap();
        system.handles(100).await.unwrap();
        system.mark("all pods are replaced").unwrap();
        roll(&system, "deployment").await;
        system.settles(3).await.unwrap();
        system.handles(100).await.unwrap();
        let verdict = ends_without_a_trace(&mut system).await;
        paused_shortly(&verdict, "all pods are replaced");
    });
}
