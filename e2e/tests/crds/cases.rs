//! Each rule for new objects: what it lets pass, and what it refuses.

use lockstep::crd::rules::{self, Rule};
use serde_json::{Value, json};

use super::stage::{Edits, Kind};

/// A rule with objects that it is about.
pub(crate) struct Case {
    pub(crate) kind: Kind,
    pub(crate) rule: Rule,
    pub(crate) right: Vec<Edits>,
    pub(crate) wrong: Vec<Edits>,
}

/// The cases of all rules for new objects.
pub(crate) fn all() -> Vec<Case> {
    [
        source_forms(),
        source_details(),
        starts(),
        membership(),
        delivery(),
        scaling(),
        connections(),
        resets(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn group(rule: Rule, right: Vec<Edits>, wrong: Vec<Edits>) -> Case {
    Case {
        kind: Kind::ConsumerGroup,
        rule,
        right,
        wrong,
    }
}

fn list(entries: &[u32]) -> (&'static str, Value) {
    let entry = |p: &u32| json!({ "partition": p, "stream": format!("S{p}") });
    let entries: Vec<Value> = entries.iter().map(entry).collect();
    ("spec.source", json!({ "partitions": entries }))
}

fn count(partitions: u32) -> (&'static str, Value) {
    ("spec.partitioning.partitions", json!(partitions))
}

fn pattern(pattern: &str) -> (&'static str, Value) {
    let stream = json!({ "name": "S", "subjectPattern": pattern });
    ("spec.source", json!({ "stream": stream }))
}

fn streams(pattern: &str) -> (&'static str, Value) {
    let streams = json!({ "pattern": pattern });
    ("spec.source", json!({ "streams": streams }))
}

fn target(kind: &str) -> (&'static str, Value) {
    let target = json!({ "apiVersion": "apps/v1", "kind": kind, "name": "app" });
    ("spec.scaleTargetRef", target)
}

fn one(path: &'static str, value: Value) -> Edits {
    vec![(path, value)]
}

fn source_forms() -> Vec<Case> {
    let named = |name: &str| one("metadata.name", json!(name));
    let pattern = |of: &str| vec![pattern(of)];
    vec![
        group(
            rules::NAME,
            vec![named(&"n".repeat(40))],
            vec![named(&"n".repeat(41)), named("a.b")],
        ),
        group(
            rules::SOURCE_ONE_FORM,
            vec![vec![], vec![streams("s-{partition}")]],
            vec![
                one("spec.source", json!({})),
                one("spec.source.streams", json!({ "pattern": "s-{partition}" })),
            ],
        ),
        group(
            rules::STREAMS_PATTERN,
            vec![vec![streams("s-{partition}")]],
            vec![vec![streams("s-partition")]],
        ),
        group(
            rules::STREAM_CREATE_OR_PATTERN,
            vec![pattern("a.{partition}")],
            vec![
                one("spec.source", json!({ "stream": { "name": "S" } })),
                one("spec.source.stream.subjectPattern", json!("a.{partition}")),
            ],
        ),
        group(
            rules::SUBJECT_PATTERN_TOKEN,
            vec![pattern("{partition}.>"), pattern("a.*.{partition}.b")],
            vec![
                pattern("a.>"),
                pattern("a.x{partition}"),
                pattern("{partition}.{partition}"),
            ],
        ),
    ]
}

fn source_details() -> Vec<Case> {
    let keys = || ("spec.partitioning.keyTokens", json!([1]));
    let sequence = || {
        (
            "spec.startFrom",
            json!({ "policy": "Sequence", "sequence": 5 }),
        )
    };
    let derived = || {
        let derived = json!({ "stream": "S", "subjects": ["a.*"] });
        ("spec.source", json!({ "derived": derived }))
    };
    vec![
        group(
            rules::PARTITIONS_COUNT,
            vec![vec![list(&[1, 0]), count(2)]],
            vec![
                vec![list(&[0, 1]), count(3)],
                vec![list(&[0, 1, 2]), count(2)],
            ],
        ),
        group(
            rules::PARTITIONS_RANGE,
            vec![vec![list(&[0, 1]), count(2)]],
            vec![vec![list(&[0, 2]), count(2)]],
        ),
        group(
            rules::KEY_TOKENS_PLACE,
            vec![vec![keys()], vec![derived(), keys()]],
            vec![
                vec![pattern("a.{partition}"), keys()],
                vec![streams("s-{partition}"), keys()],
            ],
        ),
        group(
            rules::PAUSED_RANGE,
            vec![one("spec.pausedPartitions", json!([0, 7]))],
            vec![one("spec.pausedPartitions", json!([0, 8]))],
        ),
        group(
            rules::START_SEQUENCE_PLACE,
            vec![vec![sequence()], vec![derived(), sequence()]],
            vec![vec![streams("s-{partition}"), sequence()]],
        ),
    ]
}

fn starts() -> Vec<Case> {
    let policies = [
        (rules::START_SEQUENCE, "Sequence", "sequence", json!(5)),
        (
            rules::START_TIME,
            "Time",
            "time",
            json!("2026-01-31T12:00:00Z"),
        ),
        (rules::START_DURATION, "Duration", "duration", json!("1h")),
    ];
    let start = |policy: &str, field: Option<(&str, &Value)>| {
        let mut start = json!({ "policy": policy });
        if let Some((name, value)) = field {
            start[name] = value.clone();
        }
        one("spec.startFrom", start)
    };
    let cases = policies.iter().map(|(rule, policy, field, value)| {
        group(
            *rule,
            vec![start(policy, Some((field, value))), start("Latest", None)],
            vec![start(policy, None), start("Latest", Some((field, value)))],
        )
    });
    cases.collect()
}

fn membership() -> Vec<Case> {
    let heartbeat = |of: &str| ("spec.membership.heartbeatInterval", json!(of));
    let session = |of: &str| ("spec.membership.sessionTimeout", json!(of));
    let rebalance = |of: &str| one("spec.membership.rebalanceTimeout", json!(of));
    let assignor = |of: Value| one("spec.membership.assignor", of);
    vec![
        group(
            rules::FOUR_HEARTBEATS,
            vec![vec![session("12s")]],
            vec![vec![session("11s999ms")]],
        ),
        group(
            rules::HEARTBEAT_RANGE,
            vec![vec![heartbeat("500ms")]],
            vec![vec![heartbeat("499ms")]],
        ),
        group(
            rules::SESSION_RANGE,
            vec![vec![heartbeat("1s"), session("6s")], vec![session("30m")]],
            vec![
                vec![heartbeat("1s"), session("5s")],
                vec![session("30m1ms")],
            ],
        ),
        group(
            rules::REBALANCE_RANGE,
            vec![rebalance("1s"), rebalance("1h")],
            vec![rebalance("999ms"), rebalance("61m")],
        ),
        group(
            rules::ASSIGNOR_MAP,
            vec![assignor(json!({ "type": "Manual", "map": { "a": [0] } }))],
            vec![
                assignor(json!({ "type": "Manual" })),
                assignor(json!({ "type": "Range", "map": { "a": [0] } })),
            ],
        ),
    ]
}

fn delivery() -> Vec<Case> {
    let bytes = |of: &str| one("spec.delivery.buffer.bytes", json!(of));
    let failing = |of: &str| ("spec.delivery.onFailure", json!(of));
    let letters = || ("spec.delivery.deadLetter", json!({ "subject": "dlq" }));
    let backoff = |initial: &str, max: &str| {
        let backoff = json!({ "initial": initial, "max": max });
        one("spec.delivery.retry.backoff", backoff)
    };
    vec![
        group(
            rules::DEAD_LETTER,
            vec![
                vec![failing("Skip")],
                vec![failing("DeadLetter"), letters()],
            ],
            vec![vec![failing("DeadLetter")], vec![letters()]],
        ),
        group(
            rules::BUFFER_RANGE,
            vec![bytes("64Ki"), bytes("1Gi")],
            vec![bytes("63Ki"), bytes("1025Mi")],
        ),
        group(
            rules::BACKOFF_ORDER,
            vec![backoff("1s", "1s")],
            vec![backoff("2s", "1s")],
        ),
    ]
}

fn scaling() -> Vec<Case> {
    let auto = |of: Value| ("spec.autoscaling", of);
    let scaled = |of: Value| vec![target("Deployment"), auto(of)];
    let old = || ("spec.scaleTargetRef.apiVersion", json!("v1"));
    let replicas = || ("spec.replicas", json!(3));
    let both = json!({ "lag": { "targetDrain": "5m", "targetPerReplica": 1 } });
    vec![
        group(
            rules::SCALE_TARGET_KIND,
            vec![vec![target("Deployment")], vec![target("StatefulSet")]],
            vec![vec![target("DaemonSet")], vec![target("Deployment"), old()]],
        ),
        group(
            rules::REPLICAS_TARGET,
            vec![vec![target("Deployment"), replicas()]],
            vec![vec![replicas()]],
        ),
        group(
            rules::AUTOSCALING_TARGET,
            vec![scaled(json!({})), vec![auto(json!({ "mode": "Off" }))]],
            vec![vec![auto(json!({}))]],
        ),
        group(
            rules::MAX_REPLICAS,
            vec![scaled(json!({ "maxReplicas": 64 }))],
            vec![scaled(json!({ "maxReplicas": 65 }))],
        ),
        group(
            rules::MIN_MAX_REPLICAS,
            vec![scaled(json!({ "minReplicas": 0, "maxReplicas": 2 }))],
            vec![scaled(json!({ "minReplicas": 3, "maxReplicas": 2 }))],
        ),
        group(
            rules::LAG_TARGET,
            vec![scaled(json!({ "lag": { "targetDrain": "5m" } }))],
            vec![scaled(json!({ "lag": {} })), scaled(both)],
        ),
    ]
}

fn connections() -> Vec<Case> {
    let auth = |of: Value| one("spec.auth", of);
    let right = [
        json!({ "creds": { "name": "s" } }),
        json!({ "nkey": { "name": "s", "key": "seed" } }),
        json!({ "userPassword": { "name": "s" } }),
        json!({ "token": { "name": "s" } }),
    ];
    vec![Case {
        kind: Kind::NatsConnection,
        rule: rules::AUTH_ONE_FORM,
        right: right.map(auth).into_iter().chain([vec![]]).collect(),
        wrong: vec![
            auth(json!({})),
            auth(json!({ "creds": { "name": "s" }, "token": { "name": "s" } })),
        ],
    }]
}

fn resets() -> Vec<Case> {
    let policies = [
        (
            rules::RESET_SEQUENCES,
            "Sequence",
            "sequences",
            json!([{ "partition": 0, "sequence": 5 }]),
        ),
        (
            rules::RESET_TIME,
            "Time",
            "time",
            json!("2026-01-31T12:00:00Z"),
        ),
        (rules::RESET_DURATION, "Duration", "duration", json!("1h")),
        (rules::RESET_SHIFT, "Shift", "shiftBy", json!(-10)),
    ];
    let to = |policy: &str, field: Option<(&str, &Value)>| {
        let mut to = json!({ "policy": policy });
        if let Some((name, value)) = field {
            to[name] = value.clone();
        }
        one("spec.to", to)
    };
    let cases = policies.iter().map(|(rule, policy, field, value)| Case {
        kind: Kind::OffsetReset,
        rule: *rule,
        right: vec![to(policy, Some((field, value))), to("Latest", None)],
        wrong: vec![to(policy, None), to("Latest", Some((field, value)))],
    });
    cases.collect()
}
