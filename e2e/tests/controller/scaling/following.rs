//! The target follows `spec.replicas`.

use serde_json::{Value, json};

use super::{group, workload};
use crate::stage::Stage;

#[tokio::test]
async fn replicas_are_adopted_from_the_target_and_then_followed_by_it() {
    let stage = Stage::with_workloads().await;
    stage.apply(&group("Deployment", "app", "")).await;
    let words = stage
        .condition(
            ("cg", "orders"),
            "ScalingActive",
            ("False", "TargetNotInGroup"),
        )
        .await;
    assert!(words.contains("Deployment app"), "{words}");
    assert_eq!(stage.replicas("cg", "orders").await, Value::Null);

    stage
        .apply(&workload("Deployment", "app", "orders", 0))
        .await;
    stage.number(("cg", "orders"), "/spec/replicas", 0).await;
    let fields = stage
        .kubectl(&["get", "cg", "orders", "-o", "json", "--show-managed-fields"])
        .await;
    let object: Value = serde_json::from_str(&fields).unwrap();
    let managers = object["metadata"]["managedFields"].as_array().unwrap();
    let adopter = managers
        .iter()
        .find(|entry| !entry["fieldsV1"]["f:spec"]["f:replicas"].is_null());
    assert_eq!(adopter.unwrap()["manager"], "lockstep-scale");

    stage.scale("cg/orders", 2).await;
    stage.number(("deploy", "app"), "/spec/replicas", 2).await;
    stage.number(("cg", "orders"), "/status/replicas", 2).await;
    let object = stage.get("cg", "orders").await.unwrap();
    assert_eq!(object["status"]["selector"], "app=app");
    assert!(object["status"]["lastScaleTime"].is_string(), "{object}");
    stage
        .condition(("cg", "orders"), "ScalingActive", ("True", "AsExpected"))
        .await;
    let text = stage.event("orders", "TargetScaled").await;
    assert!(text.contains("from 0 to 2"), "{text}");

    // Unset again, they are adopted again.
    let patch = r#"[{"op": "remove", "path": "/spec/replicas"}]"#;
    stage
        .kubectl(&["patch", "cg", "orders", "--type=json", "-p", patch])
        .await;
    stage.number(("cg", "orders"), "/spec/replicas", 2).await;
}

#[tokio::test]
async fn more_than_the_partitions_is_shown_and_never_written_back() {
    let stage = Stage::with_workloads().await;
    stage
        .apply(&workload("Deployment", "app", "orders", 1))
        .await;
    // A group that is paused is scaled like any other.
    stage
        .apply(&group("Deployment", "app", "  paused: true\n"))
        .await;
    stage.number(("cg", "orders"), "/spec/replicas", 1).await;
    stage.scale("cg/orders", 9).await;
    let words = stage
        .condition(
            ("cg", "orders"),
            "ScalingLimited",
            ("True", "PartitionLimit"),
        )
        .await;
    assert!(words.contains("4 partitions"), "{words}");
    stage.number(("deploy", "app"), "/spec/replicas", 4).await;
    assert_eq!(stage.replicas("cg", "orders").await, json!(9));
    stage.scale("cg/orders", 4).await;
    stage
        .condition(("cg", "orders"), "ScalingLimited", ("False", "AsExpected"))
        .await;
}

#[tokio::test]
async fn an_autoscaler_is_not_supported_and_replicas_are_followed_all_the_same() {
    let stage = Stage::with_workloads().await;
    stage
        .apply(&workload("Deployment", "app", "orders", 1))
        .await;
    let autoscaling = "  autoscaling: {maxReplicas: 4}\n";
    stage.apply(&group("Deployment", "app", autoscaling)).await;
    stage
        .condition(("cg", "orders"), "ScalingActive", ("False", "NotSupported"))
        .await;
    stage.scale("cg/orders", 2).await;
    stage.number(("deploy", "app"), "/spec/replicas", 2).await;
}
