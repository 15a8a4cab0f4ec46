//! What goes wrong is said, with the words of whoever refused, and never looks as if all were well.

use lockstep_e2e::{NatsServer, until};

use crate::stage::{SOON, Stage, connection, group};

#[tokio::test]
async fn a_connection_that_cannot_be_made_says_why_and_heals() {
    let mut stage = Stage::without_controller().await;
    stage.controller("c1");
    stage.nats.kill().unwrap();
    stage.apply(&connection("default", &stage.nats.url())).await;
    stage.apply(&group("orders", "")).await;
    stage
        .condition(("nconn", "default"), "Ready", ("False", "Unreachable"))
        .await;
    stage
        .condition(
            ("cg", "orders"),
            "ConnectionReady",
            ("False", "Unreachable"),
        )
        .await;
    stage
        .condition(("cg", "orders"), "Ready", ("False", "ConnectionNotReady"))
        .await;
    stage.nats.restart().await.unwrap();
    stage.ready("orders", "NoMembers").await;
}

#[tokio::test]
async fn a_missing_secret_is_named_and_its_coming_noticed() {
    let mut stage = Stage::without_controller().await;
    let guarded = NatsServer::options()
        .config(
            "authorization { users: [{user: me, password: secret}, {user: me, password: other}] }",
        )
        .start();
    let guarded = guarded.await;
    let guarded = match guarded {
        Ok(server) => server,
        Err(_) => NatsServer::options()
            .config("authorization { user: me, password: secret }")
            .start()
            .await
            .unwrap(),
    };
    stage.controller("c1");
    let yaml = format!(
        "apiVersion: lockstep.dev/v1alpha1\n\
         kind: NatsConnection\n\
         metadata: {{name: default}}\n\
         spec: {{servers: [\"{}\"], auth: {{userPassword: {{name: nats}}}}}}\n",
        guarded.url()
    );
    stage.apply(&yaml).await;
    let ready = |status, reason| (("nconn", "default"), "Ready", (status, reason));
    let (object, condition, wanted) = ready("False", "SecretNotFound");
    let text = stage.condition(object, condition, wanted).await;
    assert!(text.contains("Secret nats"), "{text}");
    let secret = |password: &str| {
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: nats}}\n\
             stringData: {{username: me, password: {password}}}\n"
        )
    };
    stage.apply(&secret("wrong")).await;
    let (object, condition, wanted) = ready("False", "AuthorizationViolation");
    stage.condition(object, condition, wanted).await;
    stage.apply(&secret("secret")).await;
    let (object, condition, wanted) = ready("True", "AsExpected");
    stage.condition(object, condition, wanted).await;
}

#[tokio::test]
async fn what_another_manager_has_is_left_alone() {
    let stage = Stage::new().await;
    let manifest = stage.api.folder().join("standalone.yaml");
    std::fs::write(&manifest, group("orders", "")).unwrap();
    let (path, url) = (manifest.display().to_string(), stage.nats.url());
    let made = ["group", "create", &path, "--nats-url", &url];
    let made = lockstep_e2e::process::run_lockstep(&made).await.unwrap();
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    let before = stage
        .stream("KV_lockstep_default_orders")
        .await
        .unwrap()
        .state;
    stage.apply(&group("orders", "")).await;
    let text = stage
        .condition(("cg", "orders"), "Ready", ("False", "OwnershipConflict"))
        .await;
    assert!(
        text.contains("standalone") && text.contains("adopt-from"),
        "{text}"
    );
    stage
        .condition(("cg", "orders"), "Stalled", ("True", "OwnershipConflict"))
        .await;
    let after = stage
        .stream("KV_lockstep_default_orders")
        .await
        .unwrap()
        .state;
    assert_eq!(
        after.last_sequence, before.last_sequence,
        "something was written"
    );
    stage
        .kubectl(&[
            "annotate",
            "cg",
            "orders",
            "lockstep.dev/adopt-from=standalone",
        ])
        .await;
    stage.ready("orders", "NoMembers").await;
    stage.event("orders", "Adopted").await;
}

#[tokio::test]
async fn lost_state_is_not_made_anew_until_that_is_accepted() {
    let stage = Stage::new().await;
    stage.apply(&group("orders", "")).await;
    stage.ready("orders", "NoMembers").await;
    let id = |object: &serde_json::Value| object["status"]["bucket"]["id"].clone();
    let before = id(&stage.get("cg", "orders").await.unwrap());
    let jetstream = stage.jetstream().await;
    jetstream
        .delete_stream("KV_lockstep_default_orders")
        .await
        .unwrap();
    stage
        .condition(("cg", "orders"), "Provisioned", ("False", "StateLost"))
        .await;
    stage
        .kubectl(&[
            "annotate",
            "cg",
            "orders",
            "lockstep.dev/accept-state-loss=true",
        ])
        .await;
    stage.ready("orders", "NoMembers").await;
    let after = id(&stage.get("cg", "orders").await.unwrap());
    assert_ne!(before, after);
}

#[tokio::test]
async fn a_stream_that_is_missing_or_of_the_wrong_kind_is_named() {
    let stage = Stage::new().await;
    let yaml = |name: &str| {
        group(name, "")
            .replace(
                &format!("create: {{subjects: [\"{name}.*\"]}}"),
                &format!("subjectPattern: \"{name}.{{partition}}.>\""),
            )
            .replace(", keyTokens: [1]", "")
    };
    stage.apply(&yaml("absent")).await;
    stage
        .condition(("cg", "absent"), "Provisioned", ("False", "StreamNotFound"))
        .await;
    let jetstream = stage.jetstream().await;
    let config = async_nats::jetstream::stream::Config {
        name: "WORK".to_owned(),
        subjects: vec!["work.>".to_owned()],
        retention: async_nats::jetstream::stream::RetentionPolicy::WorkQueue,
        ..Default::default()
    };
    jetstream.create_stream(config).await.unwrap();
    stage.apply(&yaml("work")).await;
    stage
        .condition(
            ("cg", "work"),
            "Provisioned",
            ("False", "UnsupportedRetention"),
        )
        .await;
    // One that works beside them.
    stage.apply(&group("orders", "")).await;
    stage.ready("orders", "NoMembers").await;
}

#[tokio::test]
async fn subjects_that_another_stream_has_are_named_with_the_servers_words() {
    let stage = Stage::new().await;
    let jetstream = stage.jetstream().await;
    let config = async_nats::jetstream::stream::Config {
        name: "TAKEN".to_owned(),
        subjects: vec!["orders.*".to_owned()],
        ..Default::default()
    };
    jetstream.create_stream(config).await.unwrap();
    stage.apply(&group("orders", "")).await;
    let text = stage
        .condition(("cg", "orders"), "Provisioned", ("False", "SubjectOverlap"))
        .await;
    assert!(text.contains("overlap"), "{text}");
    jetstream.delete_stream("TAKEN").await.unwrap();
    stage.ready("orders", "NoMembers").await;
}

#[tokio::test]
async fn nothing_is_written_for_a_group_that_is_to_be_left_alone() {
    let stage = Stage::new().await;
    let yaml = group("orders", "").replace(
        "metadata: {name: orders}",
        "metadata: {name: orders, annotations: {lockstep.dev/reconcile: disabled}}",
    );
    stage.apply(&yaml).await;
    stage.apply(&group("other", "")).await;
    stage.ready("other", "NoMembers").await;
    let object = stage.get("cg", "orders").await.unwrap();
    assert!(object["status"].is_null(), "{}", object["status"]);
    assert!(stage.stream("ORDERS").await.is_none());
    stage
        .kubectl(&["annotate", "cg", "orders", "lockstep.dev/reconcile-"])
        .await;
    stage.ready("orders", "NoMembers").await;
}

#[tokio::test]
async fn a_connection_of_another_namespace_needs_its_grant() {
    let stage = Stage::new().await;
    stage.kubectl(&["create", "namespace", "shop"]).await;
    let yaml = group(
        "orders",
        "  connectionRef: {name: default, namespace: default}\n",
    )
    .replace(
        "metadata: {name: orders}",
        "metadata: {name: orders, namespace: shop}",
    );
    stage.apply(&yaml).await;
    let ready = async |status: &'static str, reason: &'static str| {
        let found = until(format!("Ready={status} {reason}"), SOON, async || {
            let ask = ["get", "cg", "orders", "-n", "shop", "-o", "json"];
            let object: serde_json::Value =
                serde_json::from_str(&stage.kubectl(&ask).await).unwrap();
            let conditions = object["status"]["conditions"].as_array().cloned();
            let conditions = conditions.unwrap_or_default();
            let found = conditions.iter().any(|c| {
                c["type"] == "ConnectionReady" && c["status"] == status && c["reason"] == reason
            });
            if found {
                Ok(())
            } else {
                Err(object["status"].to_string())
            }
        });
        found
            .await
            .unwrap_or_else(|late| panic!("{late}\n{}", stage.logs()));
    };
    ready("False", "NotGranted").await;
    let granted = format!(
        "{}  allowedNamespaces: {{matchLabels: {{kubernetes.io/metadata.name: shop}}}}\n",
        connection("default", &stage.nats.url())
            .replace("spec: {servers: [", "spec:\n  servers: [")
            .replace("]}\n", "]\n")
    );
    stage.apply(&granted).await;
    ready("True", "AsExpected").await;
    // What was given can be taken back.
    let withdrawn = granted.replace("metadata.name: shop", "metadata.name: other");
    stage.apply(&withdrawn).await;
    ready("False", "NotGranted").await;
}

/// The newest write to a bucket that is not a sign of life.
async fn last_of(stage: &Stage, key: &str) -> u64 {
    let jetstream = stage.jetstream().await;
    let stream = jetstream.get_stream("KV_lockstep_default_orders").await;
    let subject = format!("$KV.lockstep_default_orders.{key}");
    let stream = stream.unwrap();
    let raw = stream.get_last_raw_message_by_subject(&subject);
    raw.await.unwrap().sequence
}

#[tokio::test]
async fn a_group_that_is_left_alone_from_now_on_is_no_longer_coordinated() {
    let stage = Stage::new().await;
    stage.apply(&group("orders", "")).await;
    stage.ready("orders", "NoMembers").await;
    stage
        .kubectl(&[
            "annotate",
            "cg",
            "orders",
            "lockstep.dev/reconcile=disabled",
        ])
        .await;
    silent(&stage).await;
    let before = (
        last_of(&stage, "meta").await,
        last_of(&stage, "group").await,
    );
    stage
        .kubectl(&[
            "patch",
            "cg",
            "orders",
            "--type=merge",
            "-p",
            "{\"spec\":{\"paused\":true}}",
        ])
        .await;
    // Another group that is done after it shows that its turn has passed.
    stage.apply(&group("other", "")).await;
    stage.ready("other", "NoMembers").await;
    assert_eq!(
        (
            last_of(&stage, "meta").await,
            last_of(&stage, "group").await
        ),
        before
    );
    stage
        .kubectl(&["annotate", "cg", "orders", "lockstep.dev/reconcile-"])
        .await;
    stage.ready("orders", "Paused").await;
}

/// Waits until no coordinator gives a sign of life any more.
async fn silent(stage: &Stage) {
    let mut last = (0, tokio::time::Instant::now());
    until("no sign of life of a coordinator", SOON, async || {
        let stream = stage.stream("KV_lockstep_default_orders").await.unwrap();
        let now = stream.state.last_sequence;
        if now != last.0 {
            last = (now, tokio::time::Instant::now());
        }
        // With a Lease of 3 s it would give one every second.
        if last.1.elapsed() > std::time::Duration::from_secs(4) {
            Ok(())
        } else {
            Err(format!("last write {now}"))
        }
    })
    .await
    .unwrap_or_else(|late| panic!("{late}\n{}", stage.logs()));
}
