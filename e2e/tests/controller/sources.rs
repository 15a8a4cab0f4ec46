//! All forms of a source, and what of them cannot change.

use lockstep_e2e::until;

use crate::stage::{SOON, Stage, group};

fn with_source(name: &str, source: &str, partitions: u32) -> String {
    format!(
        "apiVersion: lockstep.dev/v1alpha1\nkind: ConsumerGroup\nmetadata: {{name: {name}}}\n\
         spec:\n  source: {source}\n  partitioning: {{partitions: {partitions}}}\n"
    )
}

#[tokio::test]
async fn one_stream_per_partition_is_made_and_stamped() {
    let stage = Stage::new().await;
    let source = "{streams: {pattern: \"bills-{partition}\", create: {maxAge: 1h}}}";
    stage.apply(&with_source("bills", source, 3)).await;
    stage.ready("bills", "NoMembers").await;
    for number in 0..3 {
        let info = stage.stream(&format!("bills-{number}")).await.unwrap();
        assert_eq!(info.config.subjects, [format!("bills.{number}.>")]);
        assert_eq!(info.config.max_age.as_secs(), 3600);
        let owner = info.config.metadata.get("lockstep.group");
        assert_eq!(owner.unwrap(), "default/bills");
    }
    let object = stage.get("cg", "bills").await.unwrap();
    let resources = object["status"]["natsResources"].as_array().unwrap();
    assert_eq!(resources.len(), 3);
    assert!(
        resources.iter().all(|r| r["created"] == true),
        "{resources:?}"
    );
}

#[tokio::test]
async fn a_list_of_partitions_reads_streams_that_are_there() {
    let stage = Stage::new().await;
    let jetstream = stage.jetstream().await;
    for name in ["WEST", "EAST"] {
        let config = async_nats::jetstream::stream::Config {
            name: name.to_owned(),
            subjects: vec![format!("{}.>", name.to_lowercase())],
            ..Default::default()
        };
        jetstream.create_stream(config).await.unwrap();
    }
    let source = "{partitions: [{partition: 0, stream: WEST}, \
                  {partition: 1, stream: EAST, filterSubject: \"east.a.>\"}]}";
    stage.apply(&with_source("regions", source, 2)).await;
    stage.ready("regions", "NoMembers").await;
    let object = stage.get("cg", "regions").await.unwrap();
    let resources = object["status"]["natsResources"].as_array().unwrap();
    assert_eq!(resources.len(), 2);
    assert!(
        resources.iter().all(|r| r["created"] == false),
        "{resources:?}"
    );
    // One of them goes: that is said, and nothing is made in its place.
    jetstream.delete_stream("EAST").await.unwrap();
    stage
        .kubectl(&[
            "patch",
            "cg",
            "regions",
            "--type=merge",
            "-p",
            "{\"spec\":{\"paused\":true}}",
        ])
        .await;
    let text = stage
        .condition(
            ("cg", "regions"),
            "Provisioned",
            ("False", "StreamNotFound"),
        )
        .await;
    assert!(text.contains("EAST"), "{text}");
    stage
        .condition(("cg", "regions"), "Ready", ("False", "StreamNotFound"))
        .await;
    assert!(stage.stream("EAST").await.is_none());
}

#[tokio::test]
async fn a_derived_stream_lives_and_goes_with_its_group() {
    let stage = Stage::new().await;
    let source = "{derived: {stream: OLD, subjects: [\"old.*\"]}}";
    let mut yaml = with_source("orders", source, 2);
    yaml.push_str("  deletionPolicy: Delete\n");
    stage.apply(&yaml).await;
    let text = stage
        .condition(("cg", "orders"), "Provisioned", ("False", "StreamNotFound"))
        .await;
    assert!(text.contains("OLD"), "{text}");
    assert!(stage.stream("OLD_orders").await.is_none());
    let jetstream = stage.jetstream().await;
    let config = async_nats::jetstream::stream::Config {
        name: "OLD".to_owned(),
        subjects: vec!["old.*".to_owned()],
        ..Default::default()
    };
    let origin = jetstream.create_stream(config).await.unwrap();
    for key in ["a", "b", "c"] {
        let sent = jetstream.publish(format!("old.{key}"), "x".into()).await;
        sent.unwrap().await.unwrap();
    }
    stage.ready("orders", "NoMembers").await;
    let derived = stage.stream("OLD_orders").await.unwrap();
    assert_eq!(
        derived.config.metadata.get("lockstep.group").unwrap(),
        "default/orders"
    );
    let object = stage.get("cg", "orders").await.unwrap();
    let resources = &object["status"]["natsResources"];
    assert_eq!(resources[0]["name"], "OLD_orders", "{resources}");
    assert_eq!(resources[0]["created"], true, "{resources}");
    // Nobody reads; what is left is known all the same, and so is its age.
    until("lag and age in the status", SOON, async || {
        let object = stage.get("cg", "orders").await.unwrap();
        let lag = object["status"]["lag"].clone();
        let old = lag["oldestSeconds"].as_i64().is_some_and(|age| age > 0);
        if lag["total"] == 3 && old {
            Ok(())
        } else {
            Err(lag)
        }
    })
    .await
    .unwrap();
    stage
        .kubectl(&["delete", "cg", "orders", "--timeout=60s"])
        .await;
    assert!(stage.stream("OLD_orders").await.is_none());
    assert_eq!(origin.get_info().await.unwrap().state.messages, 3);
}

#[tokio::test]
async fn what_is_not_built_yet_is_refused_by_name() {
    let stage = Stage::new().await;
    let reset = "apiVersion: lockstep.dev/v1alpha1\nkind: OffsetReset\nmetadata: {name: back}\n\
                 spec: {groupRef: {name: orders}, to: {policy: Earliest}}\n";
    stage.apply(reset).await;
    stage
        .condition(("ofr", "back"), "Complete", ("False", "NotSupported"))
        .await;
}

#[tokio::test]
async fn a_successor_that_wants_other_partitions_is_told_both_numbers() {
    let stage = Stage::new().await;
    stage.apply(&group("orders", "")).await;
    stage.ready("orders", "NoMembers").await;
    let id = stage.get("cg", "orders").await.unwrap()["status"]["bucket"]["id"].clone();
    stage.kubectl(&["delete", "cg", "orders"]).await;
    let other = group("orders", "").replace("partitions: 4", "partitions: 8");
    stage.apply(&other).await;
    let text = stage
        .condition(
            ("cg", "orders"),
            "Provisioned",
            ("False", "ImmutableMismatch"),
        )
        .await;
    assert!(
        text.contains('4') && text.contains('8') && text.contains("lockstep group delete"),
        "{text}"
    );
    stage
        .condition(("cg", "orders"), "Stalled", ("True", "ImmutableMismatch"))
        .await;
    stage.kubectl(&["delete", "cg", "orders"]).await;
    stage.apply(&group("orders", "")).await;
    stage.ready("orders", "NoMembers").await;
    let object = stage.get("cg", "orders").await.unwrap();
    assert_eq!(
        object["status"]["bucket"]["id"], id,
        "nothing was made anew"
    );
}

#[tokio::test]
async fn settings_of_the_bucket_that_somebody_changed_are_put_right() {
    let stage = Stage::new().await;
    stage.apply(&group("orders", "")).await;
    stage.ready("orders", "NoMembers").await;
    let bucket = "KV_lockstep_default_orders";
    let mut config = stage.stream(bucket).await.unwrap().config;
    let right = config.clone();
    config.max_age = std::time::Duration::from_secs(3600);
    let jetstream = stage.jetstream().await;
    jetstream.update_stream(config).await.unwrap();
    // Whatever is looked at in full: here after a change of the object.
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
    let text = stage.event("orders", "DriftRepaired").await;
    assert!(text.contains("lockstep_default_orders"), "{text}");
    until("the settings to be right", SOON, async || {
        let now = stage.stream(bucket).await.unwrap().config;
        if now.max_age == right.max_age {
            Ok(())
        } else {
            Err(format!("{now:?}"))
        }
    })
    .await
    .unwrap();
}
