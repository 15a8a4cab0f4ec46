//! What Kubernetes says when a namespace's or a pod's own limits leave no room for the worker, and what
//! helps: docs/kubernetes.md quotes it.

use serde_json::{Value, json};

use crate::stage::{SOON, Stage};

/// What people are told.
const DOCS: &str = include_str!("../../../docs/kubernetes.md");

#[tokio::test]
async fn what_limits_refuse_is_quoted_and_cured() {
    let stage = Stage::new().await;
    a_limit_range(&stage).await;
    a_quota_of_everything_but_a_cpu_limit_is_met(&stage).await;
    a_quota_that_asks_for_a_limit(&stage).await;
    resources_of_the_pod(&stage).await;
}

/// A namespace with a group, in which pods are refused with words that the documentation has, and let in
/// with this annotation.
async fn is_refused_and_cured(stage: &Stage, namespace: &str, pod: &Value, cure: (&str, &str)) {
    let manifest = crate::stage::pod(namespace, "p", pod);
    // The API server takes a moment to learn of a namespace's limits.
    let refused = lockstep_e2e::until("a refusal", SOON, async || {
        let tried = stage.try_apply(&manifest, &["--dry-run=server"]).await;
        if tried.code == Some(0) {
            Err(tried.stdout)
        } else {
            Ok(tried.stderr)
        }
    });
    let said = refused.await.unwrap();
    let quoted = DOCS.lines().filter_map(|line| line.strip_prefix("  > "));
    let found = quoted.filter(|quote| said.contains(quote)).count();
    assert_eq!(found, 1, "not quoted: {said}");
    let mut cured = pod.clone();
    cured["metadata"]["annotations"] = json!({ format!("lockstep.dev/{}", cure.0): cure.1 });
    stage.makes(namespace, "p", &cured).await;
}

async fn namespace(stage: &Stage, name: &str, with: &Value) {
    stage.namespace_with_group(name).await;
    stage.answers(name).await;
    stage.apply(&with.to_string()).await;
}

async fn a_limit_range(stage: &Stage) {
    let least = json!({"type": "Container", "min": {"cpu": "50m"}, "max": {"cpu": "1"},
        "default": {"cpu": "1"}, "defaultRequest": {"cpu": "100m"}});
    let range = json!({"apiVersion": "v1", "kind": "LimitRange",
        "metadata": {"name": "least", "namespace": "ranged"}, "spec": {"limits": [least]}});
    namespace(stage, "ranged", &range).await;
    is_refused_and_cured(stage, "ranged", &json!({}), ("worker-cpu-request", "50m")).await;
}

/// A namespace with this quota, of which nothing is used yet.
async fn quota(stage: &Stage, name: &str, hard: &Value) {
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": name}, "spec": {"hard": hard}});
    namespace(stage, name, &quota).await;
    // Nobody else counts here: there is no controller-manager.
    let mut used = hard.clone();
    for amount in used.as_object_mut().unwrap().values_mut() {
        *amount = "0".into();
    }
    let counted = json!({"status": {"hard": hard, "used": used}}).to_string();
    let patch = ["patch", "quota", "-n", name, "q", "--subresource=status"];
    stage
        .kubectl(&[&patch[..], &["--type=merge", "-p", &counted]].concat())
        .await;
}

async fn a_quota_of_everything_but_a_cpu_limit_is_met(stage: &Stage) {
    let hard = json!({"requests.cpu": "1", "requests.memory": "1Gi", "limits.memory": "1Gi"});
    quota(stage, "counted", &hard).await;
    let app = json!({"name": "app", "image": "a", "resources": {
        "requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "64Mi"}}});
    let pod = crate::stage::pod("counted", "p", &json!({"spec": {"containers": [app]}}));
    // The API server takes a moment to learn of a quota's status.
    let let_in = lockstep_e2e::until("a pod within the quota", SOON, async || {
        let said = stage.try_apply(&pod, &[]).await;
        if said.code == Some(0) {
            Ok(())
        } else {
            Err(said.stderr)
        }
    });
    let_in.await.unwrap();
}

async fn a_quota_that_asks_for_a_limit(stage: &Stage) {
    quota(stage, "limited", &json!({"limits.cpu": "2"})).await;
    let app = json!({"name": "app", "image": "a", "resources": {"limits": {"cpu": "100m"}}});
    let pod = json!({"spec": {"containers": [app]}});
    is_refused_and_cured(stage, "limited", &pod, ("worker-cpu-limit", "100m")).await;
}

async fn resources_of_the_pod(stage: &Stage) {
    let app = json!({"name": "app", "image": "a", "resources": {"requests": {"cpu": "90m"}}});
    let whole = json!({"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}});
    let pod = json!({"spec": {"containers": [app], "resources": whole}});
    stage.makes("shop", "whole", &pod).await; // the worker asks for nothing of its own
    let mut asks = pod.clone();
    asks["metadata"]["annotations"] = json!({"lockstep.dev/worker-cpu-request": "20m"});
    is_refused_and_cured(stage, "shop", &asks, ("worker-cpu-request", "10m")).await;
}
