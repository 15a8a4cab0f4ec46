//! The rules for changes: what a group's offsets belong to stays, the rest may change.

use lockstep::crd::rules::{self, Rule};
use serde_json::{Value, json};

use super::stage::{Edits, Kind, Stage, with};

/// A rule with an object that is stored, and changes of it.
pub(crate) struct Change {
    kind: Kind,
    pub(crate) rule: Rule,
    stored: Edits,
    right: Vec<Edits>,
    wrong: Vec<Edits>,
}

/// The cases of all rules for changes.
pub(crate) fn all() -> Vec<Change> {
    [of_groups(), of_sources(), of_others()]
        .into_iter()
        .flatten()
        .collect()
}

fn one(path: &'static str, value: Value) -> Edits {
    vec![(path, value)]
}

fn group(rule: Rule, stored: Edits, right: Vec<Edits>, wrong: Vec<Edits>) -> Change {
    Change {
        kind: Kind::ConsumerGroup,
        rule,
        stored,
        right,
        wrong,
    }
}

fn of_groups() -> Vec<Change> {
    let duration = json!({ "policy": "Duration", "duration": "24h" });
    vec![
        group(
            rules::CONNECTION_IMMUTABLE,
            vec![],
            vec![one("spec.connectionRef", json!({ "name": "default" }))],
            vec![
                one("spec.connectionRef.name", json!("other")),
                one("spec.connectionRef.namespace", json!("other")),
            ],
        ),
        group(
            rules::PARTITIONING_IMMUTABLE,
            vec![],
            vec![one("spec.paused", json!(true))],
            vec![
                one("spec.partitioning.partitions", json!(9)),
                one("spec.partitioning.keyTokens", json!([1])),
            ],
        ),
        group(
            rules::START_FROM_IMMUTABLE,
            vec![],
            // Left out, it is what it is by default: no change.
            vec![one("spec.startFrom", Value::Null)],
            vec![
                one("spec.startFrom.policy", json!("Latest")),
                one("spec.startFrom", duration),
            ],
        ),
    ]
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn of_sources() -> Vec<Change> {
    let source = |of: Value| one("spec.source", of);
    let limits = |path: &'static str, of: Value| one(path, of);
    let entries = json!([{ "partition": 0, "stream": "A" }, { "partition": 1, "stream": "B" }]);
    let swapped = json!([{ "partition": 0, "stream": "B" }, { "partition": 1, "stream": "A" }]);
    vec![
        group(
            rules::SOURCE_FORM_IMMUTABLE,
            vec![],
            vec![one("spec.onGap", json!("Stop"))],
            vec![source(json!({ "streams": { "pattern": "s-{partition}" } }))],
        ),
        group(
            rules::STREAM_IMMUTABLE,
            source(json!({ "stream": { "name": "S", "subjectPattern": "a.{partition}" } })),
            vec![vec![]],
            vec![
                one("spec.source.stream.name", json!("T")),
                one("spec.source.stream.subjectPattern", json!("b.{partition}")),
                source(json!({ "stream": { "name": "S", "create": { "subjects": ["a.*"] } } })),
            ],
        ),
        group(
            rules::STREAM_CREATE_IMMUTABLE,
            vec![],
            vec![
                limits("spec.source.stream.create.maxAge", json!("1h")),
                limits("spec.source.stream.create.maxBytes", json!("1Gi")),
                limits("spec.source.stream.create.replicas", json!(3)),
            ],
            vec![
                one("spec.source.stream.create.subjects", json!(["x.*"])),
                one("spec.source.stream.create.storage", json!("Memory")),
            ],
        ),
        group(
            rules::DERIVED_IMMUTABLE,
            source(json!({ "derived": { "stream": "S", "subjects": ["a.*"] } })),
            vec![one("spec.delivery.batch", json!(7))],
            vec![
                one("spec.source.derived.subjects", json!(["b.*"])),
                one("spec.source.derived.maxAge", json!("1h")),
            ],
        ),
        group(
            rules::STREAMS_IMMUTABLE,
            source(json!({ "streams": { "pattern": "s-{partition}", "create": {} } })),
            vec![
                limits("spec.source.streams.create.maxAge", json!("1h")),
                limits("spec.source.streams.create.maxBytes", json!("1Gi")),
                limits("spec.source.streams.create.replicas", json!(3)),
            ],
            vec![
                one("spec.source.streams.pattern", json!("t-{partition}")),
                one("spec.source.streams.create", Value::Null),
                one("spec.source.streams.create.storage", json!("Memory")),
            ],
        ),
        group(
            rules::PARTITIONS_IMMUTABLE,
            vec![
                ("spec.source", json!({ "partitions": entries })),
                ("spec.partitioning.partitions", json!(2)),
            ],
            vec![one("spec.pausedPartitions", json!([1]))],
            vec![one("spec.source.partitions", swapped)],
        ),
    ]
}

fn of_others() -> Vec<Change> {
    let connection = |rule: Rule, stored: Edits, right: Vec<Edits>, wrong: Vec<Edits>| Change {
        kind: Kind::NatsConnection,
        rule,
        stored,
        right,
        wrong,
    };
    vec![
        connection(
            rules::DOMAIN_IMMUTABLE,
            vec![],
            vec![one("spec.servers", json!(["nats://other:4222"]))],
            vec![one("spec.jetstreamDomain", json!("hub"))],
        ),
        connection(
            rules::DOMAIN_IMMUTABLE,
            one("spec.jetstreamDomain", json!("hub")),
            vec![one("spec.workerSecretName", json!("workers"))],
            vec![
                one("spec.jetstreamDomain", json!("leaf")),
                one("spec.jetstreamDomain", Value::Null),
            ],
        ),
        connection(
            rules::PREFIX_IMMUTABLE,
            one("spec.bucket", json!({ "prefix": "mine" })),
            vec![one("spec.bucket.replicas", json!(3))],
            vec![
                one("spec.bucket.prefix", json!("other")),
                one("spec.bucket", Value::Null),
            ],
        ),
        Change {
            kind: Kind::OffsetReset,
            rule: rules::RESET_IMMUTABLE,
            stored: vec![],
            right: vec![one("metadata.labels", json!({ "why": "audit" }))],
            wrong: vec![
                one("spec.to.policy", json!("Latest")),
                one("spec.groupRef.name", json!("other")),
                one("spec.partitions", json!([1])),
                one("spec.dryRun", json!(true)),
                one("spec.ttlAfterFinished", json!("1h")),
            ],
        },
    ]
}

#[tokio::test]
async fn what_offsets_belong_to_cannot_be_changed_and_the_rest_can() {
    let stage = Stage::start().await;
    let mut trouble = Vec::new();
    for (at, case) in all().into_iter().enumerate() {
        let mut manifest = with(case.kind, &case.stored);
        manifest["metadata"]["name"] = json!(format!("case-{at}"));
        let stored = stage.create(case.kind, &manifest).await;
        let said = case.rule.message;
        for edits in &case.right {
            if let Err(error) = stage.try_change(case.kind, &stored, edits).await {
                trouble.push(format!("{said:?}: refuses {edits:?}: {error}"));
            }
        }
        for edits in &case.wrong {
            match stage.try_change(case.kind, &stored, edits).await {
                Ok(_) => trouble.push(format!("{said:?}: accepts {edits:?}")),
                Err(error) if error.contains(said) => {}
                Err(error) => trouble.push(format!("{said:?}: of {edits:?} it says {error}")),
            }
        }
    }
    assert!(trouble.is_empty(), "{}", trouble.join("\n"));
}
