//! What stays and what goes when an object is deleted.

use lockstep_e2e::until;

use crate::stage::{SOON, Stage, group};

async fn gone(stage: &Stage, kind: &str, name: &str) {
    until(
        format!("{kind} {name} to be gone"),
        SOON,
        async || match stage.get(kind, name).await {
            None => Ok(()),
            Some(object) => Err(object["metadata"].to_string()),
        },
    )
    .await
    .unwrap_or_else(|late| panic!("{late}\n{}", stage.logs()));
}

#[tokio::test]
async fn a_retained_group_is_taken_over_by_its_successor() {
    let stage = Stage::new().await;
    stage.apply(&group("orders", "")).await;
    stage.ready("orders", "NoMembers").await;
    let object = stage.get("cg", "orders").await.unwrap();
    assert!(
        object["metadata"]["finalizers"].is_null(),
        "{}",
        object["metadata"]
    );
    let bucket = object["status"]["bucket"]["id"].clone();
    stage
        .kubectl(&["delete", "cg", "orders", "--wait=false"])
        .await;
    gone(&stage, "cg", "orders").await;
    assert!(stage.stream("ORDERS").await.is_some());
    meta_is(&stage, "Deleted", |meta| meta["state"] == "Deleted").await;
    stage.apply(&group("orders", "")).await;
    stage.ready("orders", "NoMembers").await;
    stage.event("orders", "Adopted").await;
    let object = stage.get("cg", "orders").await.unwrap();
    assert_eq!(object["status"]["bucket"]["id"], bucket);
    assert_eq!(meta(&stage).await["state"], "Active");
}

/// Waits until the group's description satisfies a condition.
async fn meta_is(stage: &Stage, what: &str, is: impl Fn(&serde_json::Value) -> bool) {
    until(format!("meta to be {what}"), SOON, async || {
        let meta = meta(stage).await;
        if is(&meta) {
            Ok(())
        } else {
            Err(meta.to_string())
        }
    })
    .await
    .unwrap_or_else(|late| panic!("{late}\n{}", stage.logs()));
}

async fn meta(stage: &Stage) -> serde_json::Value {
    let stream = stage
        .jetstream()
        .await
        .get_stream("KV_lockstep_default_orders")
        .await
        .unwrap();
    let raw = stream.get_last_raw_message_by_subject("$KV.lockstep_default_orders.meta");
    serde_json::from_slice(&raw.await.unwrap().payload).unwrap()
}

#[tokio::test]
async fn a_group_that_went_while_nobody_looked_is_marked() {
    let mut stage = Stage::new().await;
    stage.apply(&group("orders", "")).await;
    stage.ready("orders", "NoMembers").await;
    stage.controllers[0].kill().unwrap();
    stage.kubectl(&["delete", "cg", "orders"]).await;
    stage.controller("c2");
    meta_is(&stage, "Deleted", |meta| meta["state"] == "Deleted").await;
}

#[tokio::test]
async fn delete_removes_what_was_made_and_nothing_else() {
    let stage = Stage::new().await;
    let jetstream = stage.jetstream().await;
    let config = async_nats::jetstream::stream::Config {
        name: "OTHER".to_owned(),
        subjects: vec!["other.*".to_owned()],
        ..Default::default()
    };
    jetstream.create_stream(config).await.unwrap();
    stage
        .apply(&group("orders", "  deletionPolicy: Delete\n"))
        .await;
    stage.ready("orders", "NoMembers").await;
    let object = stage.get("cg", "orders").await.unwrap();
    assert_eq!(object["metadata"]["finalizers"][0], "lockstep.dev/cleanup");
    stage
        .kubectl(&["delete", "cg", "orders", "--wait=false"])
        .await;
    gone(&stage, "cg", "orders").await;
    assert!(stage.stream("ORDERS").await.is_none());
    assert!(stage.stream("KV_lockstep_default_orders").await.is_none());
    assert!(stage.stream("OTHER").await.is_some());
}

#[tokio::test]
async fn cleaning_up_is_given_up_when_nats_is_gone() {
    let mut stage = Stage::without_controller().await;
    stage.controller_with("c1", &["--cleanup-timeout", "5s"]);
    stage
        .apply(&crate::stage::connection("default", &stage.nats.url()))
        .await;
    stage
        .apply(&group("orders", "  deletionPolicy: Delete\n"))
        .await;
    stage.ready("orders", "NoMembers").await;
    stage.nats.kill().unwrap();
    stage
        .kubectl(&["delete", "cg", "orders", "--wait=false"])
        .await;
    gone(&stage, "cg", "orders").await;
    let text = stage.event("orders", "CleanupIncomplete").await;
    assert!(text.contains("ORDERS"), "{text}");
}

#[tokio::test]
async fn a_connection_stays_as_long_as_a_group_needs_it_to_clean_up() {
    let stage = Stage::new().await;
    stage
        .apply(&group("orders", "  deletionPolicy: Delete\n"))
        .await;
    stage.ready("orders", "NoMembers").await;
    until("the finalizer of the connection", SOON, async || {
        let object = stage.get("nconn", "default").await.unwrap();
        let finalizers = object["metadata"]["finalizers"].clone();
        if finalizers[0] == "lockstep.dev/cleanup" {
            Ok(())
        } else {
            Err(finalizers.to_string())
        }
    })
    .await
    .unwrap_or_else(|late| panic!("{late}\n{}", stage.logs()));
    stage
        .kubectl(&["delete", "nconn", "default", "--wait=false"])
        .await;
    stage
        .kubectl(&["delete", "cg", "orders", "--wait=false"])
        .await;
    gone(&stage, "cg", "orders").await;
    gone(&stage, "nconn", "default").await;
    assert!(stage.stream("ORDERS").await.is_none());
}

#[tokio::test]
async fn an_object_that_is_made_anew_at_once_is_not_taken_for_a_deleted_one() {
    let stage = Stage::new().await;
    for round in 0..3 {
        stage.apply(&group("orders", "")).await;
        stage.ready("orders", "NoMembers").await;
        // Deleted and made anew before anybody can have looked.
        stage.kubectl(&["delete", "cg", "orders"]).await;
        stage.apply(&group("orders", "  paused: true\n")).await;
        stage.ready("orders", "Paused").await;
        let uid = stage.get("cg", "orders").await.unwrap()["metadata"]["uid"].clone();
        meta_is(&stage, &format!("active in round {round}"), |meta| {
            meta["state"] == "Active" && meta["group_uid"] == uid
        })
        .await;
    }
}

#[tokio::test]
async fn a_namespace_that_ends_is_hindered_by_nothing() {
    let mut stage = Stage::without_controller().await;
    stage.controller_with("c1", &["--cleanup-timeout", "10s"]);
    stage.kubectl(&["create", "namespace", "shop"]).await;
    let within = |yaml: String, name: &str| {
        yaml.replace(
            &format!("metadata: {{name: {name}}}"),
            &format!("metadata: {{name: {name}, namespace: shop}}"),
        )
    };
    let nats = crate::stage::connection("default", &stage.nats.url());
    stage.apply(&within(nats, "default")).await;
    let yaml = group("orders", "  deletionPolicy: Delete\n");
    stage.apply(&within(yaml.clone(), "orders")).await;
    let ask = ["get", "cg", "-n", "shop", "-o", "json"];
    let finalizers = async || {
        let all: serde_json::Value = serde_json::from_str(&stage.kubectl(&ask).await).unwrap();
        let items = all["items"].as_array().unwrap().iter();
        let of = items.map(|item| item["metadata"]["finalizers"].clone());
        of.collect::<Vec<_>>()
    };
    until("a finalizer", SOON, async || {
        let finalizers = finalizers().await;
        if finalizers == [serde_json::json!(["lockstep.dev/cleanup"])] {
            Ok(())
        } else {
            Err(format!("{finalizers:?}"))
        }
    })
    .await
    .unwrap_or_else(|late| panic!("{late}\n{}", stage.logs()));
    // Nobody here deletes what is in a namespace that ends: this is the namespace controller's part.
    stage
        .kubectl(&["delete", "namespace", "shop", "--wait=false"])
        .await;
    stage
        .kubectl(&["delete", "nconn", "--all", "-n", "shop", "--wait=false"])
        .await;
    stage
        .kubectl(&["delete", "cg", "--all", "-n", "shop", "--timeout=60s"])
        .await;
    until("an empty namespace", SOON, async || {
        let ask = ["get", "cg,nconn", "-n", "shop", "-o", "name"];
        let left = stage.kubectl(&ask).await;
        if left.trim().is_empty() {
            Ok(())
        } else {
            Err(left)
        }
    })
    .await
    .unwrap_or_else(|late| panic!("{late}\n{}", stage.logs()));
}
