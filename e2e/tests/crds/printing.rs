//! What `kubectl` makes of the kinds: columns, short names, the scale, explanations.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::stage::{Kind, Stage, smallest, with};

fn condition(kind: &str, status: &str, reason: &str) -> Value {
    json!({
        "type": kind, "status": status, "reason": reason, "message": "said so",
        "lastTransitionTime": "2026-01-31T12:00:00Z",
    })
}

async fn show_status(stage: &Stage, kind: Kind, name: &str, status: Value) {
    let patch = Patch::Merge(json!({ "status": status }));
    let api = stage.api(kind);
    api.patch_status(name, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// The cells of a line of a table.
fn cells(table: &str, line: usize) -> Vec<&str> {
    table
        .lines()
        .nth(line)
        .unwrap_or_default()
        .split_whitespace()
        .collect()
}

#[tokio::test]
async fn groups_are_shown_with_what_people_ask_for_first() {
    let stage = Stage::start().await;
    stage
        .create(Kind::ConsumerGroup, &smallest(Kind::ConsumerGroup))
        .await;
    let status = json!({
        "observedGeneration": 1, "conditions": [condition("Ready", "True", "AsExpected")],
        "replicas": 3, "selector": "lockstep.dev/consumer-group=orders",
        "members": { "count": 2, "standby": 0, "list": [] },
        "partitions": { "total": 8, "assigned": 7, "stopped": 0 },
        "lag": { "total": 41 }, "coordinator": "controller-a",
    });
    show_status(&stage, Kind::ConsumerGroup, "orders", status).await;
    let table = stage.kubectl(&["get", "cg"]).await.unwrap();
    let columns = [
        "NAME",
        "STREAM",
        "PARTITIONS",
        "ASSIGNED",
        "REPLICAS",
        "MEMBERS",
        "LAG",
        "STATE",
        "AGE",
    ];
    assert_eq!(cells(&table, 0), columns, "{table}");
    let row = ["orders", "ORDERS", "8", "7", "3", "2", "41", "AsExpected"];
    assert_eq!(cells(&table, 1)[..8], row, "{table}");
    let wide = stage.kubectl(&["get", "cg", "-o", "wide"]).await.unwrap();
    let more = [&columns[..], &["COORDINATOR", "CONNECTION"]].concat();
    assert_eq!(cells(&wide, 0), more, "{wide}");
    assert_eq!(cells(&wide, 1)[9..], ["controller-a", "default"], "{wide}");
}

#[tokio::test]
async fn short_names_and_the_category_name_the_kinds() {
    let stage = Stage::start().await;
    for kind in [Kind::ConsumerGroup, Kind::NatsConnection, Kind::OffsetReset] {
        stage.create(kind, &smallest(kind)).await;
    }
    let ready = json!({
        "conditions": [condition("Ready", "False", "Unreachable")], "serverVersion": "2.15.2",
        "groups": 1,
    });
    show_status(&stage, Kind::NatsConnection, "default", ready).await;
    let table = stage.kubectl(&["get", "nconn"]).await.unwrap();
    assert_eq!(
        cells(&table, 0),
        ["NAME", "READY", "REASON", "VERSION", "GROUPS", "AGE"]
    );
    assert_eq!(
        cells(&table, 1)[..5],
        ["default", "False", "Unreachable", "2.15.2", "1"]
    );
    let table = stage.kubectl(&["get", "ofr"]).await.unwrap();
    assert!(
        table.contains("again") && table.contains("Earliest"),
        "{table}"
    );
    let all = stage
        .kubectl(&["get", "lockstep", "-o", "name"])
        .await
        .unwrap();
    let mut all: Vec<&str> = all.lines().collect();
    all.sort_unstable();
    let expected = [
        "consumergroup.lockstep.dev/orders",
        "natsconnection.lockstep.dev/default",
        "offsetreset.lockstep.dev/again",
    ];
    assert_eq!(all, expected);
}

#[tokio::test]
async fn a_group_is_scaled_as_a_deployment_is() {
    let stage = Stage::start().await;
    let kind = Kind::ConsumerGroup;
    let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "app" });
    let edits = [("spec.scaleTargetRef", target), ("spec.replicas", json!(1))];
    stage.create(kind, &with(kind, &edits)).await;
    let status = json!({ "replicas": 1, "selector": "lockstep.dev/consumer-group=orders" });
    show_status(&stage, kind, "orders", status).await;
    stage
        .kubectl(&["scale", "cg/orders", "--replicas=3"])
        .await
        .unwrap();
    let scale = stage.api(kind).get_scale("orders").await.unwrap();
    assert_eq!(scale.spec.unwrap().replicas, Some(3));
    let status = scale.status.unwrap();
    assert_eq!(status.replicas, 1);
    assert_eq!(
        status.selector.as_deref(),
        Some("lockstep.dev/consumer-group=orders")
    );
    let error = stage
        .kubectl(&["scale", "cg/orders", "--replicas=1025"])
        .await
        .unwrap_err();
    assert!(error.contains("less than or equal to 1024"), "{error}");
}

#[tokio::test]
async fn a_status_changes_no_spec_and_a_spec_no_status() {
    let stage = Stage::start().await;
    let kind = Kind::ConsumerGroup;
    let stored = stage.create(kind, &smallest(kind)).await;
    show_status(&stage, kind, "orders", json!({ "replicas": 2 })).await;
    let patch = Patch::Merge(json!({ "spec": { "paused": true }, "status": { "replicas": 9 } }));
    let api = stage.api(kind);
    let changed = api
        .patch("orders", &PatchParams::default(), &patch)
        .await
        .unwrap();
    assert_eq!(changed.data["status"]["replicas"], 2);
    assert_eq!(changed.metadata.generation, Some(2));
    assert_eq!(stored["metadata"]["generation"], 1);
}

#[tokio::test]
async fn each_field_is_explained() {
    let stage = Stage::start().await;
    let told = stage
        .kubectl(&["explain", "cg.spec.delivery"])
        .await
        .unwrap();
    assert!(
        told.contains("How messages are handed to the application."),
        "{told}"
    );
    for field in ["maxInFlight", "onFailure", "buffer", "deadLetter"] {
        assert!(told.contains(field), "{field} in {told}");
    }
    assert!(told.contains("enum: Block, DeadLetter, Skip"), "{told}");
    for (path, part) in [
        (
            "cg.spec.source.stream.create",
            "Where the stream keeps its messages",
        ),
        ("cg.status.conditions.reason", "Why, in one word."),
        ("nconn.spec.auth.creds", "user.creds"),
        ("ofr.spec.to", "Shift"),
    ] {
        let told = stage.kubectl(&["explain", path]).await.unwrap();
        assert!(told.contains(part), "{path}: no {part:?} in {told}");
        assert!(!told.contains("<no description>"), "{path}: {told}");
        assert!(!told.contains('`'), "{path} shows marks of code: {told}");
    }
}
