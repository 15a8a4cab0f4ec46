//! Each rule that joins fields: something it lets pass, something it refuses, in the words that the
//! definition has.

use serde_json::{Value, json};

use super::super::definitions;
use super::super::rules::{self, Rule};
use super::{accepted, refused, with};

type Edits = Vec<(&'static str, Value)>;

struct Case {
    rule: Rule,
    path: &'static str,
    right: Vec<Edits>,
    wrong: Vec<Edits>,
}

fn case(rule: Rule, path: &'static str, right: Vec<Edits>, wrong: Vec<Edits>) -> Case {
    Case {
        rule,
        path,
        right,
        wrong,
    }
}

fn list(entries: &[u32]) -> (&'static str, Value) {
    let entries: Vec<_> = entries
        .iter()
        .map(|p| json!({ "partition": p, "stream": format!("S{p}") }))
        .collect();
    ("spec.source", json!({ "partitions": entries }))
}

fn count(partitions: u32) -> (&'static str, Value) {
    ("spec.partitioning.partitions", json!(partitions))
}

fn pattern(pattern: &str) -> (&'static str, Value) {
    (
        "spec.source",
        json!({ "stream": { "name": "S", "subjectPattern": pattern } }),
    )
}

fn target(kind: &str) -> (&'static str, Value) {
    (
        "spec.scaleTargetRef",
        json!({ "apiVersion": "apps/v1", "kind": kind, "name": "app" }),
    )
}

fn membership(field: &'static str, value: &str) -> Edits {
    vec![(field, json!(value))]
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn source_cases() -> Vec<Case> {
    let streams = || {
        (
            "spec.source",
            json!({ "streams": { "pattern": "s-{partition}" } }),
        )
    };
    vec![
        case(
            rules::NAME,
            "metadata.name",
            vec![vec![("metadata.name", json!("n".repeat(40)))]],
            vec![
                vec![("metadata.name", json!("n".repeat(41)))],
                vec![("metadata.name", json!("a.b"))],
            ],
        ),
        case(
            rules::SOURCE_ONE_FORM,
            "spec.source",
            vec![vec![], vec![streams()]],
            vec![
                vec![("spec.source", json!({}))],
                vec![("spec.source.streams", json!({ "pattern": "s-{partition}" }))],
            ],
        ),
        case(
            rules::STREAMS_PATTERN,
            "spec.source.streams",
            vec![vec![streams()]],
            vec![vec![(
                "spec.source",
                json!({ "streams": { "pattern": "s-partition" } }),
            )]],
        ),
        case(
            rules::STREAM_CREATE_OR_PATTERN,
            "spec.source.stream",
            vec![vec![pattern("a.{partition}")]],
            vec![
                vec![("spec.source", json!({ "stream": { "name": "S" } }))],
                vec![("spec.source.stream.subjectPattern", json!("a.{partition}"))],
            ],
        ),
        case(
            rules::SUBJECT_PATTERN_TOKEN,
            "spec.source.stream",
            vec![
                vec![pattern("{partition}.>")],
                vec![pattern("a.*.{partition}.b")],
            ],
            vec![
                vec![pattern("a.>")],
                vec![pattern("a.x{partition}")],
                vec![pattern("{partition}.{partition}")],
            ],
        ),
        case(
            rules::PARTITIONS_COUNT,
            "spec",
            vec![vec![list(&[1, 0]), count(2)]],
            vec![
                vec![list(&[0, 1]), count(3)],
                vec![list(&[0, 1, 2]), count(2)],
            ],
        ),
        case(
            rules::PARTITIONS_RANGE,
            "spec",
            vec![vec![list(&[0, 1]), count(2)]],
            vec![vec![list(&[0, 2]), count(2)]],
        ),
        case(
            rules::KEY_TOKENS_PLACE,
            "spec",
            vec![vec![("spec.partitioning.keyTokens", json!([1]))]],
            vec![
                vec![
                    pattern("a.{partition}"),
                    ("spec.partitioning.keyTokens", json!([1])),
                ],
                vec![streams(), ("spec.partitioning.keyTokens", json!([1]))],
            ],
        ),
        case(
            rules::PAUSED_RANGE,
            "spec",
            vec![vec![("spec.pausedPartitions", json!([7]))]],
            vec![vec![("spec.pausedPartitions", json!([8]))]],
        ),
        case(
            rules::START_SEQUENCE_PLACE,
            "spec",
            vec![vec![(
                "spec.startFrom",
                json!({ "policy": "Sequence", "sequence": 5 }),
            )]],
            vec![vec![
                streams(),
                (
                    "spec.startFrom",
                    json!({ "policy": "Sequence", "sequence": 5 }),
                ),
            ]],
        ),
    ]
}

fn start_cases() -> Vec<Case> {
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
    let start = |policy: &str, field: Option<(&str, &Value)>| -> Edits {
        let mut start = json!({ "policy": policy });
        if let Some((name, value)) = field {
            start[name] = value.clone();
        }
        vec![("spec.startFrom", start)]
    };
    policies
        .iter()
        .map(|(rule, policy, field, value)| {
            case(
                *rule,
                "spec.startFrom",
                vec![start(policy, Some((field, value))), start("Latest", None)],
                vec![start(policy, None), start("Latest", Some((field, value)))],
            )
        })
        .collect()
}

fn membership_cases() -> Vec<Case> {
    let (heartbeat, session, rebalance) = (
        "spec.membership.heartbeatInterval",
        "spec.membership.sessionTimeout",
        "spec.membership.rebalanceTimeout",
    );
    let path = "spec.membership";
    vec![
        case(
            rules::FOUR_HEARTBEATS,
            path,
            vec![membership(session, "12s")],
            vec![membership(session, "11s999ms")],
        ),
        case(
            rules::HEARTBEAT_RANGE,
            path,
            vec![membership(heartbeat, "500ms")],
            vec![membership(heartbeat, "499ms")],
        ),
        case(
            rules::SESSION_RANGE,
            path,
            vec![
                vec![(heartbeat, json!("1s")), (session, json!("6s"))],
                membership(session, "30m"),
            ],
            vec![
                vec![(heartbeat, json!("1s")), (session, json!("5s"))],
                membership(session, "30m1ms"),
            ],
        ),
        case(
            rules::REBALANCE_RANGE,
            path,
            vec![membership(rebalance, "1s"), membership(rebalance, "1h")],
            vec![membership(rebalance, "999ms"), membership(rebalance, "61m")],
        ),
        case(
            rules::ASSIGNOR_MAP,
            "spec.membership.assignor",
            vec![vec![(
                "spec.membership.assignor",
                json!({ "type": "Manual", "map": { "a": [0] } }),
            )]],
            vec![
                vec![("spec.membership.assignor", json!({ "type": "Manual" }))],
                vec![(
                    "spec.membership.assignor",
                    json!({ "type": "Range", "map": { "a": [0] } }),
                )],
            ],
        ),
    ]
}

fn delivery_cases() -> Vec<Case> {
    let bytes = "spec.delivery.buffer.bytes";
    let backoff = |initial: &str, max: &str| -> Edits {
        vec![(
            "spec.delivery.retry.backoff",
            json!({ "initial": initial, "max": max }),
        )]
    };
    vec![
        // That both are given would be right; it is refused for another reason, see `golden`.
        case(
            rules::DEAD_LETTER,
            "spec.delivery",
            vec![vec![("spec.delivery.onFailure", json!("Skip"))]],
            vec![
                vec![("spec.delivery.onFailure", json!("DeadLetter"))],
                vec![("spec.delivery.deadLetter", json!({ "subject": "dlq" }))],
            ],
        ),
        case(
            rules::BUFFER_RANGE,
            "spec.delivery.buffer",
            vec![membership(bytes, "64Ki"), membership(bytes, "1Gi")],
            vec![membership(bytes, "63Ki"), membership(bytes, "1025Mi")],
        ),
        case(
            rules::BACKOFF_ORDER,
            "spec.delivery.retry.backoff",
            vec![backoff("1s", "1s")],
            vec![backoff("2s", "1s")],
        ),
    ]
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn scaling_cases() -> Vec<Case> {
    let scaled = |edits: Edits| [vec![target("Deployment")], edits].concat();
    vec![
        case(
            rules::SCALE_TARGET_KIND,
            "spec.scaleTargetRef",
            vec![vec![target("Deployment")], vec![target("StatefulSet")]],
            vec![
                vec![target("DaemonSet")],
                scaled(vec![("spec.scaleTargetRef.apiVersion", json!("v1"))]),
            ],
        ),
        case(
            rules::REPLICAS_TARGET,
            "spec",
            vec![scaled(vec![("spec.replicas", json!(3))])],
            vec![vec![("spec.replicas", json!(3))]],
        ),
        case(
            rules::AUTOSCALING_TARGET,
            "spec",
            vec![
                scaled(vec![("spec.autoscaling", json!({}))]),
                vec![("spec.autoscaling", json!({ "mode": "Off" }))],
            ],
            vec![vec![("spec.autoscaling", json!({}))]],
        ),
        case(
            rules::MAX_REPLICAS,
            "spec",
            vec![scaled(vec![(
                "spec.autoscaling",
                json!({ "maxReplicas": 64 }),
            )])],
            vec![scaled(vec![(
                "spec.autoscaling",
                json!({ "maxReplicas": 65 }),
            )])],
        ),
        case(
            rules::MIN_MAX_REPLICAS,
            "spec.autoscaling",
            vec![scaled(vec![(
                "spec.autoscaling",
                json!({ "minReplicas": 0, "maxReplicas": 2 }),
            )])],
            vec![scaled(vec![(
                "spec.autoscaling",
                json!({ "minReplicas": 3, "maxReplicas": 2 }),
            )])],
        ),
        case(
            rules::LAG_TARGET,
            "spec.autoscaling.lag",
            vec![scaled(vec![(
                "spec.autoscaling",
                json!({ "lag": { "targetDrain": "5m" } }),
            )])],
            vec![
                scaled(vec![("spec.autoscaling", json!({ "lag": {} }))]),
                scaled(vec![(
                    "spec.autoscaling",
                    json!({ "lag": { "targetDrain": "5m", "targetPerReplica": 1 } }),
                )]),
            ],
        ),
    ]
}

fn cases() -> Vec<Case> {
    [
        source_cases(),
        start_cases(),
        membership_cases(),
        delivery_cases(),
        scaling_cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[test]
fn each_rule_lets_pass_what_is_right_and_refuses_what_is_wrong_in_its_own_words() {
    for Case {
        rule,
        path,
        right,
        wrong,
    } in cases()
    {
        for edits in right {
            accepted(&with(&edits));
        }
        for edits in wrong {
            let said = refused(&with(&edits));
            let sentence = format!("{path}: {}", rule.message);
            assert!(
                said.contains(&sentence),
                "{said:?} lacks {sentence:?} for {edits:?}"
            );
        }
    }
}

/// The rules of one kind's definition, each with the path of the schema that has it.
pub(super) fn rules_of(kind: usize) -> Vec<(String, String, String)> {
    fn walk(schema: &Value, path: &str, found: &mut Vec<(String, String, String)>) {
        for rule in schema["x-kubernetes-validations"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let text = |name: &str| rule[name].as_str().unwrap().to_owned();
            found.push((path.to_owned(), text("rule"), text("message")));
        }
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            let dot = if path.is_empty() { "" } else { "." };
            walk(schema, &format!("{path}{dot}{name}"), found);
        }
    }
    let mut found = Vec::new();
    walk(&definitions()[kind].schema, "", &mut found);
    found
}

#[test]
fn each_rule_of_the_definition_is_held_here_too() {
    let cases = cases();
    for (path, rule, message) in rules_of(0)
        .iter()
        .filter(|(_, rule, _)| !rule.contains("oldSelf"))
    {
        let held = cases.iter().find(|case| case.rule.message == message);
        let held = held.unwrap_or_else(|| panic!("no case for {message:?}"));
        assert_eq!(held.rule.rule, rule);
        // The API server reports the name rule at the root; here it names the field.
        let at = if path.is_empty() {
            "metadata.name"
        } else {
            path
        };
        assert_eq!(held.path, at, "{message}");
    }
    let declared = rules_of(0)
        .into_iter()
        .map(|(_, _, message)| message)
        .collect::<Vec<_>>();
    for case in &cases {
        assert!(
            declared.iter().any(|m| m == case.rule.message),
            "{} is lost",
            case.rule.message
        );
    }
}

#[test]
fn the_other_kinds_have_their_rules() {
    let messages = |kind| {
        rules_of(kind)
            .into_iter()
            .map(|rule| rule.2)
            .collect::<Vec<_>>()
    };
    let connection = [
        rules::DOMAIN_IMMUTABLE,
        rules::PREFIX_IMMUTABLE,
        rules::AUTH_ONE_FORM,
    ];
    let reset = [
        rules::RESET_IMMUTABLE,
        rules::RESET_SEQUENCES,
        rules::RESET_TIME,
        rules::RESET_DURATION,
        rules::RESET_SHIFT,
    ];
    assert_eq!(messages(1), connection.map(|rule| rule.message));
    assert_eq!(messages(2), reset.map(|rule| rule.message));
}
