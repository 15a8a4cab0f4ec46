//! What a manifest may look like, before any rule.

use serde_json::{Value, json};

use super::super::{read, read_groups};
use super::{accepted, orders, refused, with};

fn said_of(path: &str, value: Value) -> Vec<String> {
    refused(&with(&[(path, value)]))
}

#[test]
fn an_unknown_field_is_refused_with_the_name_that_was_meant() {
    let at_each_level = [
        ("spek", "spec"),
        ("metadata.nmae", "metadata.name"),
        ("metadata.anotations", "metadata.annotations"),
        ("spec.deliver", "spec.delivery"),
        ("spec.delivery.maxInflight", "spec.delivery.maxInFlight"),
        ("spec.delivery.retry.backof", "spec.delivery.retry.backoff"),
        (
            "spec.source.stream.create.subject",
            "spec.source.stream.create.subjects",
        ),
        (
            "spec.membership.assignor.typ",
            "spec.membership.assignor.type",
        ),
    ];
    for (given, meant) in at_each_level {
        let said = said_of(given, json!(1));
        let sentence = format!("{given} is not a known field; did you mean {meant}?");
        assert!(said.contains(&sentence), "{said:?}");
    }
}

#[test]
fn an_unknown_field_within_a_list_is_refused_with_its_place() {
    let said = refused(&with(&[
        (
            "spec.source",
            json!({ "partitions": [{ "partition": 0, "stream": "A" },
            { "partition": 1, "stream": "B", "filter": "b.>" }] }),
        ),
        ("spec.partitioning.partitions", json!(2)),
    ]));
    assert_eq!(
        said,
        [
            "spec.source.partitions[1].filter is not a known field; did you mean \
          spec.source.partitions[1].filterSubject?"
        ]
    );
}

#[test]
fn a_name_like_none_that_is_known_gets_all_of_them() {
    assert_eq!(
        said_of("spec.partitioning.xyz", json!(1)),
        [
            "spec.partitioning.xyz is not a known field; known in spec.partitioning are keyTokens, \
          partitions"
        ]
    );
}

#[test]
fn labels_and_annotations_may_have_any_name() {
    accepted(&with(&[
        ("metadata.labels", json!({ "whatever/you.like": "x" })),
        ("metadata.annotations", json!({ "a": "b" })),
    ]));
    let said = said_of("metadata.labels", json!({ "number": 1 }));
    assert_eq!(said, ["metadata.labels.number is 1; it has to be a text"]);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn a_value_that_is_not_allowed_is_refused_with_what_is() {
    let cases = [
        (
            "spec.partitioning.partitions",
            json!(0),
            "is 0; it has to be a whole number from 1 to 1024",
        ),
        (
            "spec.partitioning.partitions",
            json!(1025),
            "is 1025; it has to be a whole number from 1 to 1024",
        ),
        (
            "spec.partitioning.partitions",
            json!("8"),
            "is \"8\"; it has to be a whole number from 1 to 1024",
        ),
        (
            "spec.partitioning.partitions",
            json!(8.5),
            "is 8.5; it has to be a whole number from 1 to 1024",
        ),
        (
            "spec.partitioning.partitions",
            json!(u64::MAX),
            "is 18446744073709551615; it has to be a whole number from 1 to 1024",
        ),
        (
            "spec.paused",
            json!("yes"),
            "is \"yes\"; it has to be true or false",
        ),
        (
            "spec.onGap",
            json!("Latest"),
            "is \"Latest\"; it has to be one of Earliest, Stop",
        ),
        (
            "spec.delivery.onFailure",
            json!("block"),
            "is \"block\"; it has to be one of Block, DeadLetter, Skip",
        ),
        (
            "spec.delivery.fetchWait",
            json!("5 s"),
            "is \"5 s\"; it has to be a duration such as 250ms, 5s, 2m or 1h30m (168h for a week) of at most 24 characters",
        ),
        (
            "spec.delivery.fetchWait",
            json!(5),
            "is 5; it has to be a duration such as 250ms, 5s, 2m or 1h30m (168h for a week) of at most 24 characters",
        ),
        (
            "spec.delivery.buffer.bytes",
            json!("16MB"),
            "is \"16MB\"; it has to be a size such as 64Ki, 16Mi or 10Gi (in quotes if it has digits only) of at most 16 characters",
        ),
        (
            "spec.delivery.buffer",
            json!([1]),
            "is a list; it has to be a map of bytes, messages",
        ),
        (
            "spec.source.stream.name",
            json!("ORDERS.*"),
            "is \"ORDERS.*\"; it has to be a stream's name (no blanks and none of . * > / \\) of at most 128 characters",
        ),
        (
            "spec.source.stream.create.subjects",
            json!([]),
            "has 0 items; it has to be a list of 1 to 16 items",
        ),
        (
            "spec.source.stream.create.subjects",
            json!("orders.*"),
            "is \"orders.*\"; it has to be a list of 1 to 16 items",
        ),
        (
            "spec.pausedPartitions",
            json!([1, 2, 1]),
            "[2] is 1 again; it may be listed once",
        ),
        (
            "spec.partitioning.keyTokens",
            json!([0]),
            "[0] is 0; it has to be a whole number from 1 to 32",
        ),
        (
            "spec.membership.assignor",
            json!({ "type": "Manual", "map": { "a": [-1] } }),
            ".map.a[0] is -1; it has to be a whole number from 0 to 1023",
        ),
        (
            "spec.worker",
            json!({ "resources": { "limits": { "cpu": "lots" } } }),
            ".resources.limits.cpu is \"lots\"; it has to be a whole number or an amount such as 20m or 128Mi",
        ),
        (
            "metadata.name",
            json!(null),
            "is missing; it has to be a text",
        ),
        (
            "spec.source.stream.create.subjects",
            json!(null),
            "is missing; it has to be a list of 1 to 16 items",
        ),
    ];
    for (path, value, words) in cases {
        let gap = if words.starts_with(['[', '.']) {
            ""
        } else {
            " "
        };
        assert_eq!(said_of(path, value), [format!("{path}{gap}{words}")]);
    }
}

#[test]
fn a_time_is_rfc_3339() {
    let start = |time: &str| json!({ "policy": "Time", "time": time });
    accepted(&with(&[(
        "spec.startFrom",
        start("2026-01-31T12:00:00+01:00"),
    )]));
    assert_eq!(
        said_of("spec.startFrom", start("yesterday")),
        ["spec.startFrom.time is \"yesterday\"; it has to be a time such as 2026-01-31T12:00:00Z"]
    );
}

#[test]
fn all_problems_of_a_file_are_said_at_once() {
    let text = format!(
        "{}\n---\n{}\n",
        with(&[
            ("spec.delivery.batch", json!(0)),
            ("spec.pausedd", json!(true))
        ]),
        with(&[
            ("spec.membership.sessionTimeout", json!("5s")),
            ("metadata.name", json!("a.b"))
        ]),
    );
    let said = read_groups("two.yaml", &text).unwrap_err().to_string();
    assert_eq!(
        said,
        "two.yaml: document 1: spec.delivery.batch is 0; it has to be a whole number from 1 to 10000\n\
         two.yaml: document 1: spec.pausedd is not a known field; did you mean spec.paused?\n\
         two.yaml: document 2: metadata.name: the name of a ConsumerGroup must be a DNS label of at \
         most 40 characters (no dots)\n\
         two.yaml: document 2: spec.membership: sessionTimeout must be at least four heartbeatIntervals\n\
         two.yaml: document 2: spec.membership: sessionTimeout must be between 6s and 30m"
    );
}

#[test]
fn rules_are_looked_at_beside_the_schema_unless_a_name_is_misspelt() {
    let source = |field: &str| {
        with(&[
            (
                "spec.source.stream",
                json!({ "name": "S", field: "a.{partition}" }),
            ),
            ("spec.delivery.fetchWait", json!("soon")),
            ("spec.replicas", json!(3)),
        ])
    };
    let said = refused(&source("subjectPattern"));
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].starts_with("spec.delivery.fetchWait is \"soon\"; it has to be a duration"));
    assert!(said[1].starts_with("spec: replicas needs a scaleTargetRef"));
    let said = refused(&source("subjectPatern"));
    assert!(
        !said
            .iter()
            .any(|sentence| sentence.contains("exactly one of")),
        "{said:?}"
    );
}

#[test]
fn a_null_is_a_field_that_is_not_given() {
    let group = accepted(&with(&[
        ("spec.delivery", json!(null)),
        ("spec.replicas", json!(null)),
    ]));
    assert_eq!(group.delivery.batch, 100);
}

#[test]
fn a_kind_that_is_not_ours_is_refused() {
    let cases = [
        (
            "kind",
            json!("ConsumerGroups"),
            "kind is \"ConsumerGroups\"; did you mean ConsumerGroup?",
        ),
        (
            "kind",
            json!("Deployment"),
            "kind is \"Deployment\"; it has to be one of ConsumerGroup, NatsConnection, OffsetReset",
        ),
        (
            "kind",
            json!(null),
            "kind is missing; it has to be one of ConsumerGroup, NatsConnection, OffsetReset",
        ),
        (
            "apiVersion",
            json!("lockstep.dev/v1"),
            "apiVersion is \"lockstep.dev/v1\"; it has to be lockstep.dev/v1alpha1",
        ),
        (
            "apiVersion",
            json!(null),
            "apiVersion is missing; it has to be lockstep.dev/v1alpha1",
        ),
    ];
    for (path, value, sentence) in cases {
        assert_eq!(said_of(path, value), [sentence]);
    }
}

#[test]
fn a_file_without_a_group_and_one_that_is_no_yaml_are_refused() {
    for empty in ["", "---\n---\n", "# nothing\n"] {
        let said = read_groups("empty.yaml", empty).unwrap_err().to_string();
        assert_eq!(said, "empty.yaml: there is no ConsumerGroup in this file");
    }
    for broken in [
        "a: [",
        "a: 1\n b: 2",
        "spec: {a: 1, a: 2}",
        "{{{",
        "a: *nowhere",
    ] {
        let said = read_groups("broken.yaml", broken).unwrap_err().to_string();
        assert!(
            said.starts_with("broken.yaml: is not YAML that can be read: "),
            "{said}"
        );
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    assert!(read("list.yaml", "- 1\n- 2\n").is_err());
    assert!(read("text.yaml", "hello").is_err());
}

#[test]
fn a_file_made_to_exhaust_the_reader_is_refused() {
    let nested = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let maps = "{a: ".repeat(50_000);
    let lines = ('b'..='z').zip('a'..='y').map(|(name, of)| {
        let of = vec![format!("*{of}"); 5].join(",");
        format!("{name}: &{name} [{of}]")
    });
    let laughs = ["a: &a [x,x,x,x,x]".to_owned()].into_iter().chain(lines);
    let laughs = laughs.collect::<Vec<_>>().join("\n");
    for text in [nested, maps, laughs] {
        let said = read_groups("bomb.yaml", &text).unwrap_err().to_string();
        assert!(
            said.starts_with("bomb.yaml: is not YAML that can be read: "),
            "{said}"
        );
    }
}

#[test]
fn a_group_is_declared_once() {
    let text = format!("{}\n---\n{}\n", orders(), orders());
    let said = read_groups("twice.yaml", &text).unwrap_err().to_string();
    assert_eq!(
        said,
        "twice.yaml: document 2: metadata.name is default/orders again; a group is declared once"
    );
}

#[test]
fn what_kubectl_prints_can_be_read_back() {
    let group = accepted(&with(&[
        (
            "metadata.uid",
            json!("5e6b1f0c-0000-0000-0000-000000000000"),
        ),
        ("metadata.resourceVersion", json!("17")),
        ("metadata.generation", json!(2)),
        ("metadata.creationTimestamp", json!("2026-01-31T12:00:00Z")),
        (
            "metadata.managedFields",
            json!([{ "manager": "kubectl", "operation": "Apply" }]),
        ),
        (
            "status",
            json!({ "epoch": 7, "members": { "count": 3, "standby": 0 } }),
        ),
    ]));
    assert_eq!(group.group.to_string(), "default/orders");
}
