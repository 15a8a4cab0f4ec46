//! No input makes the reader panic, and none is half accepted.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{ValidGroup, check_update, read, read_groups};
use super::{orders, raw, with};

const SEEDS: [&str; 4] = [
    include_str!("../../../examples/orders.yaml"),
    include_str!("../../../examples/existing-stream.yaml"),
    include_str!("../../../examples/many-streams.yaml"),
    include_str!("../../../examples/derived.yaml"),
];

/// Values that have gone wrong before, or would.
fn odd_value() -> impl Strategy<Value = Value> {
    let texts = prop::sample::select(vec![
        "",
        " ",
        ".",
        "*",
        ">",
        "a.>",
        "{partition}",
        "0s",
        "1h",
        "99999h99999h",
        "1Ki",
        "é",
        "\u{0}",
        "Manual",
        "Key",
        "2026-01-31T12:00:00Z",
        "2026-02-30T25:61:61Z",
        "9999999999Gi",
        "~",
        "null",
    ]);
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (0u64..2000).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        texts.prop_map(Value::from),
        "\\PC{0,40}".prop_map(Value::from),
        Just(json!([])),
        Just(json!({})),
        Just(json!([[], {}, 1, "a"])),
        Just(json!({ "a": { "b": [null] } })),
    ]
}

/// Every place of a value, as a JSON pointer.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(fields) => {
            fields
                .iter()
                .for_each(|(name, value)| places(value, &format!("{at}/{name}"), found));
        }
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(i, v)| places(v, &format!("{at}/{i}"), found));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Puts a value at one of the places of a manifest.
fn put(manifest: &mut Value, place: prop::sample::Index, value: Value) {
    let mut all = Vec::new();
    places(manifest, "", &mut all);
    let at: &String = place.get(&all);
    *manifest.pointer_mut(at).unwrap() = value;
}

fn full() -> Value {
    let group = raw(&with(&[
        ("spec.source.stream.create.maxAge", json!("1h")),
        ("spec.partitioning.keyTokens", json!([1])),
        (
            "spec.startFrom",
            json!({ "policy": "Duration", "duration": "1h" }),
        ),
        (
            "spec.membership.assignor",
            json!({ "type": "Manual", "map": { "a": [0, 1] } }),
        ),
        ("spec.pausedPartitions", json!([1])),
        ("spec.autoscaling", json!({ "mode": "Off" })),
        (
            "spec.worker",
            json!({ "resources": { "limits": { "cpu": 1, "memory": "1Gi" } } }),
        ),
        (
            "status",
            json!({ "epoch": 1, "members": { "count": 1 }, "lag": { "total": 3 } }),
        ),
        ("metadata.generation", json!(1)),
        ("metadata.creationTimestamp", json!("2026-01-31T12:00:00Z")),
        ("metadata.labels", json!({ "a": "b" })),
    ]));
    serde_json::to_value(group).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 256,
        failure_persistence: Some(Box::new(
            proptest::test_runner::FileFailurePersistence::WithSource("regressions"),
        )),
        ..ProptestConfig::default()
    })]

    #[test]
    fn arbitrary_text_is_read_or_refused(text in "\\PC{0,200}") {
        drop(read("any.yaml", &text));
    }

    #[test]
    fn arbitrary_bytes_in_a_manifest_are_read_or_refused(
        seed in 0usize..3,
        cut in any::<prop::sample::Index>(),
        bytes in prop::collection::vec(any::<u8>(), 0..8),
        skipped in 0usize..8,
    ) {
        let seed = SEEDS[seed].as_bytes();
        let at = cut.index(seed.len());
        let rest = (at + skipped).min(seed.len());
        let mutated = [&seed[..at], &bytes, &seed[rest..]].concat();
        drop(read_groups("mutated.yaml", &String::from_utf8_lossy(&mutated)));
    }

    #[test]
    fn a_manifest_with_odd_values_is_refused_with_sentences_or_valid(
        edits in prop::collection::vec((any::<prop::sample::Index>(), odd_value()), 1..4),
    ) {
        let mut manifest = full();
        for (place, value) in edits {
            put(&mut manifest, place, value);
        }
        match read_groups("odd.yaml", &manifest.to_string()) {
            Ok(groups) => prop_assert_eq!(groups.len(), 1),
            Err(error) => {
                prop_assert!(!error.problems.is_empty());
                for line in error.to_string().lines() {
                    prop_assert!(line.starts_with("odd.yaml: "), "{line:?}");
                }
            }
        }
    }

    #[test]
    fn what_fits_the_schema_fits_the_type(
        place in any::<prop::sample::Index>(), value in odd_value(),
    ) {
        let mut manifest = full();
        put(&mut manifest, place, value);
        if let Err(error) = read("fits.yaml", &manifest.to_string()) {
            // Only a type that is narrower than its schema would have no field to name.
            let nameless = error.problems.iter().any(|p| p.violation.path.is_empty());
            prop_assert!(!nameless, "{error}");
        }
    }

    #[test]
    fn conversion_and_comparison_take_any_typed_object(
        place in any::<prop::sample::Index>(), value in odd_value(),
    ) {
        let mut manifest = full();
        put(&mut manifest, place, value);
        if let Ok(group) = serde_json::from_value(manifest) {
            drop(ValidGroup::try_from(&group));
            drop(check_update(&raw(&orders()), &group));
            prop_assert_eq!(check_update(&group, &group), []);
        }
    }
}
