//! What of a group may change.

use serde_json::{Value, json};

use super::super::check_update;
use super::super::rules::{self, Rule};
use super::{orders, raw, with};

fn change(old: &Value, edits: &[(&str, Value)]) -> Vec<String> {
    let mut new = old.clone();
    for (path, value) in edits {
        super::set(&mut new, path, value.clone());
    }
    let found = check_update(&raw(old), &raw(&new));
    found.iter().map(ToString::to_string).collect()
}

#[track_caller]
fn forbidden(old: &Value, edits: &[(&str, Value)], rule: Rule) {
    let path = if rule == rules::CONNECTION_IMMUTABLE {
        "spec.connectionRef"
    } else {
        "spec"
    };
    assert_eq!(change(old, edits), [format!("{path}: {}", rule.message)]);
}

#[track_caller]
fn allowed(old: &Value, edits: &[(&str, Value)]) {
    assert_eq!(change(old, edits), [""; 0]);
}

#[test]
fn what_offsets_belong_to_cannot_change() {
    let orders = orders();
    let stream = "spec.source.stream";
    forbidden(
        &orders,
        &[("spec.connectionRef.name", json!("x"))],
        rules::CONNECTION_IMMUTABLE,
    );
    forbidden(
        &orders,
        &[("spec.partitioning.partitions", json!(9))],
        rules::PARTITIONING_IMMUTABLE,
    );
    forbidden(
        &orders,
        &[("spec.partitioning.keyTokens", json!([1]))],
        rules::PARTITIONING_IMMUTABLE,
    );
    forbidden(
        &orders,
        &[("spec.startFrom.policy", json!("Latest"))],
        rules::START_FROM_IMMUTABLE,
    );
    forbidden(
        &orders,
        &[(&format!("{stream}.name"), json!("X"))],
        rules::STREAM_IMMUTABLE,
    );
    forbidden(
        &orders,
        &[(
            "spec.source",
            json!({ "streams": { "pattern": "s-{partition}" } }),
        )],
        rules::SOURCE_FORM_IMMUTABLE,
    );
    forbidden(
        &orders,
        &[(&format!("{stream}.create.subjects"), json!(["x.*"]))],
        rules::STREAM_CREATE_IMMUTABLE,
    );
    forbidden(
        &orders,
        &[(&format!("{stream}.create.storage"), json!("Memory"))],
        rules::STREAM_CREATE_IMMUTABLE,
    );
}

#[test]
fn an_existing_streams_pattern_cannot_change() {
    let source = json!({ "stream": { "name": "S", "subjectPattern": "a.{partition}" } });
    let old = with(&[("spec.source", source)]);
    let path = "spec.source.stream.subjectPattern";
    forbidden(
        &old,
        &[(path, json!("b.{partition}"))],
        rules::STREAM_IMMUTABLE,
    );
    let made = json!({ "name": "S", "create": { "subjects": ["a.*"] } });
    forbidden(
        &old,
        &[("spec.source.stream", made)],
        rules::STREAM_IMMUTABLE,
    );
}

#[test]
fn other_sources_cannot_change_either() {
    let derived = with(&[(
        "spec.source",
        json!({ "derived": { "stream": "S", "subjects": ["a.*"] } }),
    )]);
    forbidden(
        &derived,
        &[("spec.source.derived.maxAge", json!("1h"))],
        rules::DERIVED_IMMUTABLE,
    );
    let two = |subjects: Value| [("spec.source.derived.subjects", subjects)];
    forbidden(
        &derived,
        &two(json!(["a.*", "b.*"])),
        rules::DERIVED_IMMUTABLE,
    );
    let mut both = derived.clone();
    super::set(
        &mut both,
        "spec.source.derived.subjects",
        json!(["a.*", "b.*"]),
    );
    allowed(&both, &two(json!(["b.*", "a.*"])));
    let streams = with(&[(
        "spec.source",
        json!({ "streams": { "pattern": "s-{partition}", "create": { "maxAge": "1h" } } }),
    )]);
    let path = "spec.source.streams";
    for edit in [
        (format!("{path}.pattern"), json!("t-{partition}")),
        (format!("{path}.create.storage"), json!("Memory")),
        (format!("{path}.create"), json!(null)),
    ] {
        forbidden(&streams, &[(&edit.0, edit.1)], rules::STREAMS_IMMUTABLE);
    }
    allowed(&streams, &[(&format!("{path}.create.maxAge"), json!("2h"))]);
    let list = with(&[(
        "spec.source",
        json!({ "partitions": [
        { "partition": 0, "stream": "A" }, { "partition": 1, "stream": "B" }] }),
    )]);
    let swapped = json!([{ "partition": 0, "stream": "B" }, { "partition": 1, "stream": "A" }]);
    forbidden(
        &list,
        &[("spec.source.partitions", swapped)],
        rules::PARTITIONS_IMMUTABLE,
    );
    let reordered = json!([{ "partition": 1, "stream": "B" }, { "partition": 0, "stream": "A" }]);
    allowed(&list, &[("spec.source.partitions", reordered)]);
}

#[test]
fn everything_else_may_change() {
    let orders = orders();
    let create = "spec.source.stream.create";
    allowed(&orders, &[]);
    allowed(&orders, &[(&format!("{create}.maxAge"), json!("1h"))]);
    allowed(&orders, &[(&format!("{create}.maxBytes"), json!("1Gi"))]);
    allowed(&orders, &[(&format!("{create}.replicas"), json!(3))]);
    allowed(
        &orders,
        &[("spec.startFrom", json!({ "policy": "Earliest" }))],
    );
    allowed(
        &orders,
        &[
            ("spec.paused", json!(true)),
            ("spec.pausedPartitions", json!([1])),
        ],
    );
    allowed(
        &orders,
        &[
            ("spec.delivery.batch", json!(1)),
            ("spec.membership.maxMembers", json!(2)),
        ],
    );
}

#[test]
fn each_rule_for_changes_is_tried_here() {
    let here = include_str!("update.rs");
    let of_changes = super::rules::rules_of(0)
        .into_iter()
        .filter(|(_, rule, _)| rule.contains("oldSelf"));
    let tried = [
        ("CONNECTION_IMMUTABLE", rules::CONNECTION_IMMUTABLE),
        ("PARTITIONING_IMMUTABLE", rules::PARTITIONING_IMMUTABLE),
        ("START_FROM_IMMUTABLE", rules::START_FROM_IMMUTABLE),
        ("SOURCE_FORM_IMMUTABLE", rules::SOURCE_FORM_IMMUTABLE),
        ("STREAM_IMMUTABLE", rules::STREAM_IMMUTABLE),
        ("STREAM_CREATE_IMMUTABLE", rules::STREAM_CREATE_IMMUTABLE),
        ("DERIVED_IMMUTABLE", rules::DERIVED_IMMUTABLE),
        ("STREAMS_IMMUTABLE", rules::STREAMS_IMMUTABLE),
        ("PARTITIONS_IMMUTABLE", rules::PARTITIONS_IMMUTABLE),
    ];
    let mut count = 0;
    for (_, rule, message) in of_changes {
        let (name, _) = tried
            .iter()
            .find(|(_, known)| known.rule == rule)
            .expect(&message);
        assert!(
            here.matches(&format!("rules::{name}")).count() >= 2,
            "{name} is not tried"
        );
        count += 1;
    }
    assert_eq!(count, tried.len());
}
