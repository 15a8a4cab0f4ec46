//! Credentials and servers that change, and a server that forgets everything.

use lockstep_e2e::{NatsServer, until};

use crate::stage::{SOON, Stage, connection, group};

fn guarded(url: &str) -> String {
    format!(
        "apiVersion: lockstep.dev/v1alpha1\n\
         kind: NatsConnection\n\
         metadata: {{name: default}}\n\
         spec: {{servers: [\"{url}\"], auth: {{userPassword: {{name: nats}}}}}}\n"
    )
}

fn secret(user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: nats}}\n\
         stringData: {{username: {user}, password: secret}}\n"
    )
}

async fn two_users() -> NatsServer {
    let users = "authorization { users: [\n\
                 {user: old, password: secret}\n{user: new, password: secret}\n] }";
    NatsServer::options().config(users).start().await.unwrap()
}

/// Who is connected, by the server's word.
async fn users(nats: &NatsServer) -> Vec<String> {
    let connections = nats.inspect("/connz?auth=true").await.unwrap();
    let all = connections["connections"].as_array().cloned();
    let all = all.unwrap_or_default().into_iter();
    all.map(|c| c["authorized_user"].as_str().unwrap_or_default().to_owned())
        .collect()
}

#[tokio::test]
async fn rotated_credentials_are_used_without_a_restart() {
    let mut stage = Stage::without_controller().await;
    let nats = two_users().await;
    stage.controller("c1");
    stage.apply(&secret("old")).await;
    stage.apply(&guarded(&nats.url())).await;
    stage.apply(&group("orders", "")).await;
    stage.ready("orders", "NoMembers").await;
    assert_eq!(users(&nats).await, ["old"]);
    let term = stage.get("cg", "orders").await.unwrap()["status"]["term"].clone();
    stage.apply(&secret("new")).await;
    // Secrets are read every 60 s.
    until("the new user", SOON * 2, async || {
        let users = users(&nats).await;
        if users == ["new"] {
            Ok(())
        } else {
            Err(format!("{users:?}"))
        }
    })
    .await
    .unwrap_or_else(|late| panic!("{late}\n{}", stage.logs()));
    stage
        .condition(("nconn", "default"), "Ready", ("True", "AsExpected"))
        .await;
    stage.ready("orders", "NoMembers").await;
    let object = stage.get("cg", "orders").await.unwrap();
    assert_eq!(object["status"]["term"], term, "nobody took over");
    assert!(stage.controllers[0].is_running());
}

#[tokio::test]
async fn a_secret_that_goes_while_the_connection_is_up_hinders_no_clean_up() {
    let mut stage = Stage::without_controller().await;
    let nats = two_users().await;
    stage.controller("c1");
    stage.apply(&secret("old")).await;
    stage.apply(&guarded(&nats.url())).await;
    stage
        .apply(&group("orders", "  deletionPolicy: Delete\n"))
        .await;
    stage.ready("orders", "NoMembers").await;
    stage.kubectl(&["delete", "secret", "nats"]).await;
    stage
        .kubectl(&["delete", "cg", "orders", "--timeout=60s"])
        .await;
    stage.event("orders", "CleanedUp").await;
}

#[tokio::test]
async fn groups_follow_their_connection_to_other_servers() {
    let stage = Stage::new().await;
    stage.apply(&group("orders", "")).await;
    stage.ready("orders", "NoMembers").await;
    let text = stage.event("orders", "Provisioned").await;
    assert!(text.contains("ORDERS"), "{text}");
    // Another server, where nothing is: that is a loss, not a new beginning.
    let other = NatsServer::start().await.unwrap();
    stage.apply(&connection("default", &other.url())).await;
    stage
        .condition(("cg", "orders"), "Provisioned", ("False", "StateLost"))
        .await;
    stage
        .condition(("cg", "orders"), "Ready", ("False", "Provisioning"))
        .await;
    stage.apply(&connection("default", &stage.nats.url())).await;
    stage.ready("orders", "NoMembers").await;
}

#[tokio::test]
async fn a_server_that_comes_back_empty_is_a_loss_that_has_to_be_accepted() {
    let mut stage = Stage::new().await;
    stage.apply(&group("orders", "")).await;
    stage.ready("orders", "NoMembers").await;
    let epoch = |object: &serde_json::Value| object["status"]["epoch"].as_i64().unwrap();
    let before = until("an epoch", SOON, async || {
        let object = stage.get("cg", "orders").await.unwrap();
        let status = object["status"].clone();
        if status["epoch"].is_i64() {
            Ok(epoch(&object))
        } else {
            Err(status.to_string())
        }
    });
    let before = before.await.unwrap();
    stage.nats.restart_empty().await.unwrap();
    let text = stage
        .condition(("cg", "orders"), "Provisioned", ("False", "StateLost"))
        .await;
    assert!(text.contains("accept-state-loss=true"), "{text}");
    stage
        .condition(("cg", "orders"), "Ready", ("False", "Provisioning"))
        .await;
    stage.event("orders", "StateLost").await;
    assert!(stage.stream("KV_lockstep_default_orders").await.is_none());
    let accept = "lockstep.dev/accept-state-loss=true";
    stage.kubectl(&["annotate", "cg", "orders", accept]).await;
    stage.ready("orders", "NoMembers").await;
    assert!(stage.stream("ORDERS").await.is_some());
    let object = stage.get("cg", "orders").await.unwrap();
    assert!(epoch(&object) > before, "epochs go on above: {object}");
    let annotations = &object["metadata"]["annotations"];
    assert!(
        annotations["lockstep.dev/accept-state-loss"].is_null(),
        "it is accepted once: {annotations}"
    );
}
