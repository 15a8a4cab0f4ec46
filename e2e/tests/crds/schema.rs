//! Bounds, defaults, and what the rules may cost.

use serde_json::{Value, json};

use super::stage::{Edits, Kind, Stage, set, smallest, with};

/// An edit that the schema refuses, and a part of what it says.
#[expect(clippy::too_many_lines, reason = "a table")]
fn beyond_bounds() -> Vec<(Edits, &'static str)> {
    let one = |path: &'static str, value: Value| vec![(path, value)];
    let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "n".repeat(254) });
    vec![
        (
            one("spec.partitioning.partitions", json!(0)),
            "greater than or equal to 1",
        ),
        (
            one("spec.partitioning.partitions", json!(1025)),
            "less than or equal to 1024",
        ),
        (
            one("spec.partitioning.keyTokens", json!([])),
            "at least 1 items",
        ),
        (
            one("spec.partitioning.keyTokens", json!([33])),
            "less than or equal to 32",
        ),
        (
            one("spec.replicas", json!(1025)),
            "less than or equal to 1024",
        ),
        (
            one("spec.membership.maxMembers", json!(0)),
            "greater than or equal to 1",
        ),
        (
            one("spec.delivery.maxInFlight", json!(10001)),
            "less than or equal to 10000",
        ),
        (
            one("spec.source.stream.create.subjects", json!([])),
            "at least 1 items",
        ),
        (
            one("spec.source.stream.create.subjects", json!(["a.*", "a.*"])),
            "Duplicate value",
        ),
        (
            one("spec.source.stream.create.subjects", json!(["a b"])),
            "should match",
        ),
        (
            one("spec.source.stream.create.storage", json!("Tape")),
            "Unsupported value",
        ),
        (
            one("spec.source.stream.create.replicas", json!(6)),
            "less than or equal to 5",
        ),
        (one("spec.source.stream.name", json!("A.B")), "should match"),
        (
            one("spec.source.stream.name", json!("n".repeat(129))),
            "may not be more than 128",
        ),
        (
            one("spec.membership.heartbeatInterval", json!("1d")),
            "should match",
        ),
        (
            one("spec.membership.heartbeatInterval", json!("")),
            "heartbeatInterval",
        ),
        (
            one("spec.delivery.buffer.bytes", json!("1.5Mi")),
            "should match",
        ),
        (
            one("spec.delivery.push", json!({ "port": 0 })),
            "greater than or equal to 1",
        ),
        (
            one("spec.pausedPartitions", json!([1, 1])),
            "Duplicate value",
        ),
        (
            one("spec.onTruncation", json!("Ignore")),
            "Unsupported value",
        ),
        (
            one(
                "spec.startFrom",
                json!({ "policy": "Time", "time": "yesterday" }),
            ),
            "date-time",
        ),
        (
            one("spec.scaleTargetRef", target),
            "may not be more than 253",
        ),
        (one("spec.source", Value::Null), "Required value"),
        (one("spec.partitioning", Value::Null), "Required value"),
    ]
}

#[tokio::test]
async fn values_beyond_the_bounds_are_refused() {
    let stage = Stage::start().await;
    let mut trouble = Vec::new();
    for (edits, part) in beyond_bounds() {
        let manifest = with(Kind::ConsumerGroup, &edits);
        match stage.try_create(Kind::ConsumerGroup, &manifest).await {
            Ok(_) => trouble.push(format!("{edits:?} is accepted")),
            Err(error) if error.contains(part) => {}
            Err(error) => trouble.push(format!("of {edits:?} it says {error}, not {part:?}")),
        }
    }
    for servers in [
        json!([]),
        json!(["http://a:4222"]),
        json!(["nats://user:word@a:4222"]),
    ] {
        let manifest = with(Kind::NatsConnection, &[("spec.servers", servers.clone())]);
        if stage
            .try_create(Kind::NatsConnection, &manifest)
            .await
            .is_ok()
        {
            trouble.push(format!("servers {servers} are accepted"));
        }
    }
    assert!(trouble.is_empty(), "{}", trouble.join("\n"));
}

#[tokio::test]
async fn what_is_left_out_is_filled_in() {
    let stage = Stage::start().await;
    let kind = Kind::ConsumerGroup;
    let stored = stage.create(kind, &smallest(kind)).await;
    let spec = &stored["spec"];
    assert_eq!(spec["connectionRef"], json!({ "name": "default" }));
    assert_eq!(spec["startFrom"], json!({ "policy": "Earliest" }));
    assert_eq!(spec["source"]["stream"]["create"]["storage"], "File");
    assert_eq!(spec["deletionPolicy"], "Retain");
    assert_eq!(
        (&spec["onTruncation"], &spec["onGap"]),
        (&json!("Stop"), &json!("Earliest"))
    );
    assert_eq!(
        (&spec["paused"], &spec["pausedPartitions"]),
        (&json!(false), &json!([]))
    );
    let delivery = json!({
        "order": "Partition", "maxInFlight": 1, "batch": 100, "fetchWait": "5s", "batchWait": "5ms",
        "buffer": { "messages": 5000, "bytes": "16Mi" },
        "retry": { "maxAttempts": 5, "backoff": { "initial": "200ms", "max": "30s", "factor": 2 } },
        "onFailure": "Block",
    });
    assert_eq!(spec["delivery"], delivery);
    let membership = json!({
        "assignor": { "type": "Sticky" }, "heartbeatInterval": "3s", "sessionTimeout": "20s",
        "rebalanceTimeout": "60s", "processingTimeout": "5m", "initialRebalanceDelay": "3s",
        "rebalanceDelay": "1s", "maxMembers": 64,
    });
    assert_eq!(spec["membership"], membership);
    // What a controller resolves, or adopts from the target, has no default.
    for absent in ["replicas", "worker", "autoscaling", "scaleTargetRef"] {
        assert!(spec.get(absent).is_none(), "{absent}: {}", spec[absent]);
    }
    // A part that is given gets the rest of itself, down to the leaves.
    let edits = [
        ("metadata.name", json!("part")),
        ("spec.delivery.retry", json!({ "backoff": { "factor": 3 } })),
    ];
    let part = stage.try_create(kind, &with(kind, &edits)).await.unwrap();
    let backoff = json!({ "initial": "200ms", "max": "30s", "factor": 3 });
    let retry = json!({ "maxAttempts": 5, "backoff": backoff });
    assert_eq!(part["spec"]["delivery"]["retry"], retry);
    let connection = stage
        .create(Kind::NatsConnection, &smallest(Kind::NatsConnection))
        .await;
    assert_eq!(
        connection["spec"]["bucket"],
        json!({ "prefix": "lockstep" })
    );
    assert_eq!(connection["spec"]["requestTimeout"], "5s");
    let reset = stage
        .create(Kind::OffsetReset, &smallest(Kind::OffsetReset))
        .await;
    assert_eq!(reset["spec"]["dryRun"], false);
}

/// A group with as much in it as the schema allows: 1,024 partitions, longest words.
fn largest() -> Value {
    let all: Vec<u32> = (0..1024).collect();
    let subject = |p: &u32| {
        let long = "s".repeat(248);
        json!({ "partition": p, "stream": "S".repeat(128), "filterSubject": format!("{p:04}.{long}") })
    };
    let map: Vec<(String, Value)> = all
        .iter()
        .map(|p| (format!("app-{p}"), json!([p])))
        .collect();
    let mut manifest = smallest(Kind::ConsumerGroup);
    let entries: Vec<Value> = all.iter().map(subject).collect();
    set(
        &mut manifest,
        "spec.source",
        json!({ "partitions": entries }),
    );
    set(&mut manifest, "spec.partitioning.partitions", json!(1024));
    set(&mut manifest, "spec.pausedPartitions", json!(all));
    set(&mut manifest, "spec.membership.maxMembers", json!(1024));
    let map: serde_json::Map<String, Value> = map.into_iter().collect();
    let assignor = json!({ "type": "Manual", "map": map });
    set(&mut manifest, "spec.membership.assignor", assignor);
    let target = json!({ "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "app" });
    set(&mut manifest, "spec.scaleTargetRef", target);
    set(
        &mut manifest,
        "spec.autoscaling",
        json!({ "maxReplicas": 1024 }),
    );
    manifest
}

#[tokio::test]
async fn the_largest_group_is_within_what_rules_may_cost() {
    let stage = Stage::start().await;
    let kind = Kind::ConsumerGroup;
    let stored = stage.create(kind, &largest()).await;
    // A change runs the rules for changes as well: over 1,024 entries twice.
    let paused = [("spec.paused", json!(true))];
    stage.try_change(kind, &stored, &paused).await.unwrap();
    let mut entries = stored["spec"]["source"]["partitions"].clone();
    entries[1023]["stream"] = json!("other");
    let changed = [("spec.source.partitions", entries)];
    let error = stage.try_change(kind, &stored, &changed).await.unwrap_err();
    assert!(error.contains("source.partitions is immutable"), "{error}");
}
