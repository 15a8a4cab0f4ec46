//! Targets that are not this group's alone.

use serde_json::json;

use super::{group, named_group, workload};
use crate::stage::Stage;

#[tokio::test]
async fn a_target_whose_pods_are_not_of_the_group_is_left_alone() {
    let stage = Stage::with_workloads().await;
    stage.apply(&workload("Deployment", "app", "", 1)).await;
    stage
        .apply(&group("Deployment", "app", "  replicas: 3\n"))
        .await;
    let of = ("cg", "orders");
    let wanted = ("False", "TargetNotInGroup");
    let words = stage.condition(of, "ScalingActive", wanted).await;
    assert!(
        words.contains("lockstep.dev/consumer-group: orders"),
        "{words}"
    );
    assert_eq!(stage.replicas("deploy", "app").await, json!(1));
    stage
        .apply(&workload("Deployment", "app", "orders", 1))
        .await;
    stage.number(("deploy", "app"), "/spec/replicas", 3).await;
}

#[tokio::test]
async fn of_two_groups_with_one_target_the_older_scales_it() {
    let stage = Stage::with_workloads().await;
    stage
        .apply(&workload("Deployment", "app", "orders", 1))
        .await;
    stage.apply(&group("Deployment", "app", "")).await;
    stage.number(("cg", "orders"), "/spec/replicas", 1).await;
    // Creation times are whole seconds, and of equals the name decides: the later one sorts behind.
    stage
        .apply(&named_group(
            "others",
            "Deployment",
            "app",
            "  replicas: 4\n",
        ))
        .await;
    stage
        .condition(
            ("cg", "others"),
            "ScalingActive",
            ("False", "TargetNotInGroup"),
        )
        .await;
    // Even when the pods become the younger group's.
    stage
        .apply(&workload("Deployment", "app", "others", 1))
        .await;
    let words = stage
        .condition(
            ("cg", "others"),
            "ScalingActive",
            ("False", "ScalerConflict"),
        )
        .await;
    assert!(words.contains("ConsumerGroup orders"), "{words}");
    assert_eq!(stage.replicas("deploy", "app").await, json!(1));
    stage.kubectl(&["delete", "cg", "orders"]).await;
    stage.number(("deploy", "app"), "/spec/replicas", 4).await;
}

#[tokio::test]
async fn who_scales_the_target_itself_is_corrected_and_then_let_be() {
    let stage = Stage::with_workloads().await;
    stage
        .apply(&workload("Deployment", "app", "orders", 2))
        .await;
    stage.apply(&group("Deployment", "app", "")).await;
    let active = "ScalingActive";
    let of = ("cg", "orders");
    stage.number(of, "/spec/replicas", 2).await;
    stage.condition(of, active, ("True", "AsExpected")).await;
    for _ in 0..3 {
        stage.scale("deploy/app", 1).await;
        stage.number(("deploy", "app"), "/spec/replicas", 2).await;
        stage.has_pods("app", 2).await;
        // Corrected is not yet seen to be right: that is the next look, which a pod's change brings.
        stage
            .kubectl(&["label", "pods", "-l", "app=app", "looked=", "--overwrite"])
            .await;
        stage
            .kubectl(&["label", "pods", "-l", "app=app", "looked-"])
            .await;
        let seen = "a look at the target that is right";
        let ok = lockstep_e2e::until(seen, crate::stage::SOON, async || {
            let group = stage.get("cg", "orders").await.ok_or("no group")?;
            let right = group["status"]["replicas"] == json!(2);
            if right {
                Ok(())
            } else {
                Err(group["status"].to_string())
            }
        });
        ok.await.unwrap_or_else(|late| panic!("{late}"));
    }
    let text = stage.event("orders", "TargetScaledByOther").await;
    assert!(text.contains("kubectl"), "{text}");
    let words = stage
        .condition(of, active, ("False", "ScalerConflict"))
        .await;
    assert!(words.contains("kubectl"), "{words}");
    stage.scale("deploy/app", 1).await;
    stage.number(of, "/status/replicas", 1).await;
    assert_eq!(
        stage.replicas("deploy", "app").await,
        json!(1),
        "it is let be"
    );
}

#[tokio::test]
async fn an_hpa_on_the_target_stops_scaling_until_it_is_gone() {
    let stage = Stage::with_workloads().await;
    stage
        .apply(&workload("Deployment", "app", "orders", 1))
        .await;
    stage
        .kubectl(&["autoscale", "deployment", "app", "--min=1", "--max=5"])
        .await;
    stage
        .apply(&group("Deployment", "app", "  replicas: 3\n"))
        .await;
    let words = stage
        .condition(
            ("cg", "orders"),
            "ScalingActive",
            ("False", "ScalerConflict"),
        )
        .await;
    assert!(words.contains("HorizontalPodAutoscaler app"), "{words}");
    assert_eq!(stage.replicas("deploy", "app").await, json!(1));
    stage.kubectl(&["delete", "hpa", "app"]).await;
    stage.number(("deploy", "app"), "/spec/replicas", 3).await;
}
