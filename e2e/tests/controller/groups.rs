//! From `kubectl apply` to a group that works.

use std::time::Duration;

use lockstep_e2e::children::Child;
use lockstep_e2e::until;

use crate::stage::{SOON, Stage, connection, group};

#[tokio::test]
async fn an_applied_group_is_provided_coordinated_and_used() {
    let stage = Stage::new().await;
    stage
        .condition(("nconn", "default"), "Ready", ("True", "AsExpected"))
        .await;
    stage.apply(&group("orders", "")).await;
    stage.ready("orders", "NoMembers").await;
    stage
        .condition(("cg", "orders"), "Provisioned", ("True", "AsExpected"))
        .await;
    stage
        .condition(("cg", "orders"), "CoordinatorReady", ("True", "AsExpected"))
        .await;
    let info = stage.stream("ORDERS").await.expect("the stream was made");
    assert_eq!(
        info.config.metadata.get("lockstep.group").unwrap(),
        "default/orders"
    );
    stage.event("orders", "Provisioned").await;

    let _worker = consumes_one(&stage).await;
    stage.ready("orders", "AsExpected").await;
    let object = stage.get("cg", "orders").await.unwrap();
    assert_eq!(
        object["status"]["selector"],
        "lockstep.dev/consumer-group=orders"
    );
    let shown = until(
        "members in the status",
        Duration::from_secs(60),
        async || {
            let object = stage.get("cg", "orders").await.unwrap();
            let status = &object["status"];
            let well = status["members"]["count"] == 1 && status["partitions"]["assigned"] == 4;
            if well {
                Ok(())
            } else {
                Err(status.to_string())
            }
        },
    );
    shown.await.unwrap();
}

/// A worker by hand that gets one message.
async fn consumes_one(stage: &Stage) -> Child {
    let (worker, client) = stage.worker();
    let jetstream = stage.jetstream().await;
    jetstream
        .publish("orders.a", "hello".into())
        .await
        .unwrap()
        .await
        .unwrap();
    let message = stage.handed_over(&client).await;
    assert_eq!(
        message["subject"],
        "orders.0.a".replace('0', &message["partition"].to_string())
    );
    worker
}

#[tokio::test]
async fn a_change_of_what_may_change_is_made_and_drift_is_put_right() {
    let stage = Stage::new().await;
    stage.apply(&group("orders", "")).await;
    stage.ready("orders", "NoMembers").await;
    let with_age = group("orders", "").replace("[\"orders.*\"]", "[\"orders.*\"], maxAge: 1h");
    stage.apply(&with_age).await;
    let hour = Duration::from_secs(3600);
    until("the new age", SOON, async || {
        let age = stage.stream("ORDERS").await.unwrap().config.max_age;
        if age == hour {
            Ok(())
        } else {
            Err(format!("{age:?}"))
        }
    })
    .await
    .unwrap();
    // Somebody changes it: the next look, here after a reconnect, puts it right.
    let jetstream = stage.jetstream().await;
    let mut config = stage.stream("ORDERS").await.unwrap().config;
    config.max_age = Duration::from_secs(1800);
    jetstream.update_stream(config).await.unwrap();
    let paused = format!("{with_age}  paused: true\n");
    stage.apply(&paused).await;
    stage.ready("orders", "Paused").await;
    assert_eq!(stage.stream("ORDERS").await.unwrap().config.max_age, hour);
    let text = stage.event("orders", "DriftRepaired").await;
    assert!(
        text.contains("ORDERS") && text.contains("max_age"),
        "{text}"
    );
}

#[tokio::test]
async fn an_existing_stream_is_used_and_never_altered() {
    let stage = Stage::new().await;
    let jetstream = stage.jetstream().await;
    let config = async_nats::jetstream::stream::Config {
        name: "EVENTS".to_owned(),
        subjects: vec!["events.>".to_owned()],
        ..Default::default()
    };
    jetstream.create_stream(config).await.unwrap();
    let before = stage.stream("EVENTS").await.unwrap().config;
    let yaml = group("events", "").replace(
        "create: {subjects: [\"events.*\"]}",
        "subjectPattern: \"events.{partition}.>\"",
    );
    let yaml = yaml.replace(", keyTokens: [1]", "");
    stage.apply(&yaml).await;
    stage.ready("events", "NoMembers").await;
    assert_eq!(stage.stream("EVENTS").await.unwrap().config, before);
    let object = stage.get("cg", "events").await.unwrap();
    let resources = &object["status"]["natsResources"];
    assert_eq!(resources[0]["name"], "EVENTS");
    assert_eq!(resources[0]["created"], false);
}

#[tokio::test]
async fn a_quiet_group_is_not_written() {
    let stage = Stage::new().await;
    stage.apply(&group("orders", "")).await;
    stage.ready("orders", "NoMembers").await;
    let version = async || {
        let object = stage.get("cg", "orders").await.unwrap();
        object["metadata"]["resourceVersion"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    // The status settles; then nothing more is written although it is reported every 15 s.
    let mut last = (version().await, std::time::Duration::ZERO);
    let start = tokio::time::Instant::now();
    until("a status that stays", Duration::from_secs(90), async || {
        let now = (version().await, start.elapsed());
        if now.0 != last.0 {
            last = now.clone();
        }
        let quiet = now.1.saturating_sub(last.1);
        if quiet >= Duration::from_secs(20) {
            Ok(())
        } else {
            Err(format!("quiet for {quiet:?}"))
        }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn when_the_leader_is_killed_another_one_takes_over() {
    let mut stage = Stage::new().await;
    stage.apply(&group("orders", "")).await;
    stage.ready("orders", "NoMembers").await;
    stage.controller("c2");
    stage.controllers[0].kill().unwrap();
    until("c2 to coordinate", SOON, async || {
        let object = stage.get("cg", "orders").await.unwrap();
        let coordinator = object["status"]["coordinator"].clone();
        if coordinator == "c2" {
            Ok(())
        } else {
            Err(coordinator.to_string())
        }
    })
    .await
    .unwrap_or_else(|late| panic!("{late}\n{}", stage.logs()));
    stage.ready("orders", "NoMembers").await;
    stage.apply(&connection("other", &stage.nats.url())).await;
    stage
        .condition(("nconn", "other"), "Ready", ("True", "AsExpected"))
        .await;
}
