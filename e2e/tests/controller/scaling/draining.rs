//! A target shrinks by draining: partitions move first. Without a kubelet the workers of pods that are
//! gone live on and would join again, so what is looked at is the moment of scaling.

use super::{Member, group, workload};
use crate::stage::Stage;

#[tokio::test]
async fn a_deployment_shrinks_by_those_whose_partitions_have_moved() {
    let stage = Stage::with_workloads().await;
    stage
        .apply(&workload("Deployment", "app", "orders", 3))
        .await;
    stage.apply(&group("Deployment", "app", "")).await;
    let pods = stage.has_pods("app", 3).await;
    let ids: Vec<&str> = pods.iter().map(String::as_str).collect();
    let _members: Vec<Member> = ids.iter().map(|id| stage.member(id, &[])).collect();
    stage.all_owned_by(&ids).await;
    let owned = stage.owned().await;
    let most = owned.iter().max_by_key(|(_, partitions)| *partitions);
    let stays = most.unwrap().0.clone();

    stage.scale("cg/orders", 1).await;
    stage.number(("deploy", "app"), "/spec/replicas", 1).await;
    let text = stage.event("orders", "TargetScaled").await;
    assert!(
        text.contains("from 3 to 1; 2 members were drained first"),
        "{text}"
    );
    // Exactly those went that were drained, and not the one that had most.
    assert_eq!(stage.has_pods("app", 1).await, std::slice::from_ref(&stays));
    let pod = stage.get("pod", &stays).await.unwrap();
    let cost = "/metadata/annotations/controller.kubernetes.io~1pod-deletion-cost";
    assert_eq!(pod.pointer(cost), None, "{pod}");
}

#[tokio::test]
async fn a_stateful_set_shrinks_by_its_highest_ordinals() {
    let stage = Stage::with_workloads().await;
    stage
        .apply(&workload("StatefulSet", "app", "orders", 3))
        .await;
    stage.apply(&group("StatefulSet", "app", "")).await;
    assert_eq!(stage.has_pods("app", 3).await, ["app-0", "app-1", "app-2"]);
    let ids = ["app-0", "app-1", "app-2"];
    let _members = ids.map(|id| stage.member(id, &[]));
    stage.all_owned_by(&ids).await;
    stage.scale("cg/orders", 1).await;
    stage.number(("sts", "app"), "/spec/replicas", 1).await;
    let text = stage.event("orders", "TargetScaled").await;
    assert!(text.contains("2 members were drained first"), "{text}");
    assert_eq!(stage.has_pods("app", 1).await, ["app-0"]);
}

#[tokio::test]
async fn a_target_goes_to_nothing_without_waiting() {
    let stage = Stage::with_workloads().await;
    stage
        .apply(&workload("Deployment", "app", "orders", 1))
        .await;
    stage.apply(&group("Deployment", "app", "")).await;
    let pods = stage.has_pods("app", 1).await;
    let _member = stage.member(&pods[0], &[]);
    stage.all_owned_by(&[&pods[0]]).await;
    let began = tokio::time::Instant::now();
    stage.scale("cg/orders", 0).await;
    stage.number(("deploy", "app"), "/spec/replicas", 0).await;
    let took = began.elapsed();
    assert!(took.as_secs() < 30, "it waited for nobody: {took:?}");
}
