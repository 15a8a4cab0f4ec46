//! A controller that comes or goes changes nothing for members, and shows no trouble that is none.

use std::time::Duration;

use lockstep_e2e::socket_client::SocketClient;
use lockstep_e2e::until;
use serde_json::{Value, json};

use crate::stage::{SOON, Stage, connection, group};

/// Starts a worker of group `orders` and waits until it owns everything.
async fn worker(stage: &Stage) -> (lockstep_e2e::children::Child, SocketClient) {
    let (worker, client) = stage.worker();
    // The first fetch connects the application: before it the member stands by.
    until("the worker to own 4 partitions", SOON, async || {
        let body = json!({"max_messages": 1, "max_wait": "100ms"});
        client
            .post("/v1/fetch", &body)
            .await
            .map_err(|e| e.to_string())?;
        let status = stage.get("cg", "orders").await.unwrap()["status"].clone();
        if status["partitions"]["assigned"] == 4 {
            Ok(())
        } else {
            Err(status.to_string())
        }
    })
    .await
    .unwrap_or_else(|late| panic!("{late}\n{}", stage.logs()));
    (worker, client)
}

async fn fetched(stage: &Stage, client: &SocketClient, key: &str) -> Value {
    let jetstream = stage.jetstream().await;
    let subject = format!("orders.{key}");
    let stored = jetstream.publish(subject, "hello".into()).await.unwrap();
    stored.await.unwrap();
    let got = until(format!("message {key}"), SOON, async || {
        let body = json!({"max_messages": 1, "max_wait": "1s"});
        let answer = client.post("/v1/fetch", &body).await;
        let answer = answer.map_err(|e| e.to_string())?;
        let messages = answer.messages();
        messages
            .first()
            .cloned()
            .ok_or_else(|| answer.body.to_string())
    });
    let message = got.await.unwrap();
    let position = json!({
        "partition": message["partition"], "epoch": message["epoch"],
        "sequence": message["sequence"],
    });
    let ack = json!({"positions": [position], "wait": "COMMITTED"});
    let answer = client.post("/v1/ack", &ack).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.body);
    message
}

fn ready(object: &Value) -> Value {
    let conditions = object["status"]["conditions"].as_array().cloned();
    let conditions = conditions.unwrap_or_default();
    let ready = conditions.into_iter().find(|c| c["type"] == "Ready");
    ready.unwrap_or_default()
}

#[tokio::test]
async fn members_go_on_without_a_leader_and_the_next_one_shows_no_trouble() {
    let mut stage = Stage::new().await;
    stage.apply(&group("orders", "")).await;
    stage.ready("orders", "NoMembers").await;
    let (worker, client) = worker(&stage).await;
    let before = fetched(&stage, &client, "a").await;
    stage.ready("orders", "AsExpected").await;
    let shown = ready(&stage.get("cg", "orders").await.unwrap());

    stage.controllers[0].kill().unwrap();
    // Nobody leads: what is owned is read and committed all the same.
    let alone = fetched(&stage, &client, "a").await;
    assert_eq!(alone["epoch"], before["epoch"]);

    stage.controller("c2");
    until("c2 to coordinate", SOON, async || {
        let object = stage.get("cg", "orders").await.unwrap();
        let now = ready(&object);
        assert_eq!(
            (&now["status"], &now["lastTransitionTime"]),
            (&shown["status"], &shown["lastTransitionTime"]),
            "a fail-over is no trouble of the group: {object}"
        );
        if object["status"]["coordinator"] == "c2" {
            Ok(())
        } else {
            Err(object["status"].to_string())
        }
    })
    .await
    .unwrap_or_else(|late| panic!("{late}\n{}", stage.logs()));
    let after = fetched(&stage, &client, "a").await;
    assert_eq!(
        after["epoch"],
        before["epoch"],
        "nothing moved\n{}\n{}",
        stage.logs(),
        worker.tail()
    );
}

#[tokio::test]
async fn a_leader_that_ends_cleanly_hands_over_at_once() {
    let mut stage = Stage::without_controller().await;
    // So long that only a Lease that was given back can explain the hand-over.
    stage.controller_with("c1", &["--lease-duration", "120s"]);
    stage.apply(&connection("default", &stage.nats.url())).await;
    stage.apply(&group("orders", "")).await;
    stage.ready("orders", "NoMembers").await;
    stage.controller_with("c2", &["--lease-duration", "120s"]);
    let ended = stage.controllers[0].terminate(SOON).await.unwrap();
    assert!(ended.success(), "{ended:?}");
    until("c2 to coordinate", SOON, async || {
        let object = stage.get("cg", "orders").await.unwrap();
        if object["status"]["coordinator"] == "c2" {
            Ok(())
        } else {
            Err(object["status"].to_string())
        }
    })
    .await
    .unwrap_or_else(|late| panic!("{late}\n{}", stage.logs()));
}

#[tokio::test]
async fn an_object_that_cannot_be_read_says_so_and_hinders_nobody() {
    let stage = Stage::new().await;
    stage.apply(&group("broken", "")).await;
    stage.ready("broken", "NoMembers").await;
    let bucket = stage.get("cg", "broken").await.unwrap()["status"]["bucket"].clone();
    // As a later version of the definition might allow it.
    let loosened = json!([{
        "op": "replace",
        "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec",
        "value": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }]);
    let crd = "crd/consumergroups.lockstep.dev";
    let patch = loosened.to_string();
    stage
        .kubectl(&["patch", crd, "--type=json", "-p", &patch])
        .await;
    let broken = json!({"spec": {"partitioning": {"partitions": "many"}}}).to_string();
    let patched = until("the definition to be in force", SOON, async || {
        let ask = ["patch", "cg", "broken", "--type=merge", "-p", &broken];
        let finished = stage.api.kubectl(&ask).await.unwrap();
        if finished.code == Some(0) {
            Ok(())
        } else {
            Err(finished.stderr)
        }
    });
    patched.await.unwrap();
    let text = stage
        .condition(("cg", "broken"), "Ready", ("False", "InvalidSpec"))
        .await;
    assert!(text.contains("cannot be read"), "{text}");
    let object = stage.get("cg", "broken").await.unwrap();
    assert_eq!(object["status"]["bucket"], bucket, "what is known stays");
    // Saying it once is enough.
    let version = object["metadata"]["resourceVersion"].clone();
    stage.apply(&group("orders", "")).await;
    stage.ready("orders", "NoMembers").await;
    let object = stage.get("cg", "broken").await.unwrap();
    assert_eq!(object["metadata"]["resourceVersion"], version);
    let mended = json!({"spec": {"partitioning": {"partitions": 4}}}).to_string();
    stage
        .kubectl(&["patch", "cg", "broken", "--type=merge", "-p", &mended])
        .await;
    stage.ready("broken", "NoMembers").await;
    let object = stage.get("cg", "broken").await.unwrap();
    let stalled = object["status"]["conditions"].as_array().unwrap();
    let stalled = stalled.iter().find(|c| c["type"] == "Stalled");
    assert_eq!(stalled, None, "it is mended");
}

#[tokio::test]
async fn the_series_of_a_group_vanish_with_it() {
    let mut stage = Stage::without_controller().await;
    stage.controller_with("c1", &["--http-addr", "127.0.0.1:0"]);
    let address = until("the address of /metrics", SOON, async || {
        let said = std::fs::read_to_string(stage.controllers[0].output()).unwrap_or_default();
        let line = said.lines().find_map(|l| l.split_once(", http on "));
        line.map(|(_, address)| address.trim().to_owned())
            .ok_or(said)
    });
    let address = address.await.unwrap();
    stage.apply(&connection("default", &stage.nats.url())).await;
    stage.apply(&group("orders", "")).await;
    stage.ready("orders", "NoMembers").await;
    let shows = async || {
        let answer = lockstep_e2e::http::get(&address, "/metrics").await;
        answer.map_or_else(|e| e.to_string(), |(_, text)| text)
    };
    let of_group = "group=\"orders\"";
    until("series of the group", SOON, async || {
        let text = shows().await;
        if text.contains(of_group) {
            Ok(())
        } else {
            Err(text)
        }
    })
    .await
    .unwrap();
    stage.kubectl(&["delete", "cg", "orders"]).await;
    until(
        "no series of the group",
        Duration::from_secs(90),
        async || {
            let text = shows().await;
            if text.contains(of_group) {
                let left: Vec<&str> = text.lines().filter(|l| l.contains(of_group)).collect();
                Err(left.join("\n"))
            } else {
                Ok(())
            }
        },
    )
    .await
    .unwrap_or_else(|late| panic!("{late}\n{}", stage.logs()));
}
