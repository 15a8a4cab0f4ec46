//! What a valid group says, and what only a conversion finds wrong.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::{Storage, ValidGroup};
use super::{accepted, raw, refused, with};
use crate::group::partitioning::{partition_of, partition_of_subject};
use crate::group::{AssignorSetting, Partition, PartitionSource, Source, StartFrom};

fn source(of: &Value, partitions: u32) -> Value {
    with(&[
        ("spec.source", of.clone()),
        ("spec.partitioning.partitions", json!(partitions)),
    ])
}

fn filters(group: &ValidGroup) -> Vec<(String, Option<String>)> {
    Partition::all(group.partitions())
        .filter_map(|partition| group.source.of(partition))
        .map(|PartitionSource { stream, filter }| (stream, filter))
        .collect()
}

#[test]
fn a_created_stream_has_a_transform_and_a_filter_on_what_is_stored() {
    let group = accepted(&with(&[("spec.partitioning.partitions", json!(2))]));
    assert_eq!(group.group.to_string(), "default/orders");
    assert_eq!(
        filters(&group),
        [
            ("ORDERS".to_owned(), Some("orders.0.*".to_owned())),
            ("ORDERS".to_owned(), Some("orders.1.*".to_owned())),
        ]
    );
    let [stream] = &*group.create else {
        panic!("{:?}", group.create)
    };
    let transform = stream.transform.as_ref().unwrap();
    assert_eq!(
        (&*stream.name, &*stream.subjects),
        ("ORDERS", &["orders.*".to_owned()][..])
    );
    assert_eq!(
        transform.destination,
        "orders.{{partition(2,1)}}.{{wildcard(1)}}"
    );
    assert_eq!(stream.storage, Storage::File);
    assert_eq!(
        (stream.max_age, stream.max_bytes, stream.replicas),
        (None, None, None)
    );
    let Source::Stream {
        transform: Some(transform),
        ..
    } = &group.source
    else {
        panic!()
    };
    assert_eq!(transform.key_tokens, [1]);
}

#[test]
fn a_key_has_one_partition_whoever_computes_it() {
    // What the core computes for a key is what the server computes from the transform: the tokens
    // of the *subject's* wildcards for the one, of the transform's source for the other.
    let group = accepted(&with(&[
        (
            "spec.source.stream.create.subjects",
            json!(["orders.*.*", "returns.*.*"]),
        ),
        ("spec.partitioning.keyTokens", json!([2])),
    ]));
    let transform = group.create[0].transform.as_ref().unwrap();
    assert_eq!(transform.source, "*.*.*");
    assert!(
        transform.destination.contains("{{partition(8,3)}}"),
        "{}",
        transform.destination
    );
    let Source::Stream {
        transform: Some(own),
        ..
    } = &group.source
    else {
        panic!()
    };
    assert_eq!(own.key_tokens, [2]);
    let of_server = partition_of(["b"], 8);
    assert_eq!(
        partition_of_subject(&group.source, "returns.a.b"),
        of_server
    );
    assert_eq!(partition_of_subject(&group.source, "orders.x.b"), of_server);
}

#[test]
fn a_derived_stream_takes_each_subject_over_and_nothing_else() {
    let derived = json!({ "stream": "OLD", "subjects": ["orders.*.*", "returns.*.*"],
                          "maxAge": "1h", "maxBytes": "1Gi", "replicas": 3, "storage": "Memory" });
    let group = accepted(&with(&[
        ("spec.source", json!({ "derived": derived })),
        ("spec.partitioning.keyTokens", json!([2])),
        ("spec.partitioning.partitions", json!(2)),
    ]));
    assert_eq!(
        filters(&group)[1],
        ("OLD_orders".to_owned(), Some("*.1.*.*".to_owned()))
    );
    assert_eq!(group.source.origin(), Some("OLD"));
    let [stream] = &*group.create else {
        panic!("{:?}", group.create)
    };
    assert_eq!(stream.name, "OLD_orders");
    assert!(stream.subjects.is_empty() && stream.transform.is_none());
    assert_eq!(
        (stream.storage, stream.replicas),
        (Storage::Memory, Some(3))
    );
    assert_eq!(
        (stream.max_age, stream.max_bytes),
        (Some(Duration::from_hours(1)), Some(1 << 30))
    );
    let origin = stream.origin.as_ref().unwrap();
    assert_eq!(origin.stream, "OLD");
    let stored = |name: &str| {
        let stored = "{{partition(2,2)}}.{{wildcard(1)}}.{{wildcard(2)}}";
        (format!("{name}.*.*"), format!("{name}.{stored}"))
    };
    assert_eq!(origin.transforms, [stored("orders"), stored("returns")]);
    assert_eq!(
        partition_of_subject(&group.source, "returns.a.b"),
        partition_of(["b"], 2)
    );
}

#[test]
fn what_a_derived_stream_cannot_take_over_is_refused_at_its_field() {
    let path = "spec.source.derived.subjects";
    for (subjects, sentence) in [
        (
            json!(["a.>"]),
            format!("{path} has no wildcard *; the key is a token of the subject, as in orders.*"),
        ),
        (
            json!(["a.*", "a.b"]),
            format!("{path} a.b overlaps with a.*; a stream takes a message once"),
        ),
    ] {
        let derived = json!({ "derived": { "stream": "S", "subjects": subjects } });
        let said = refused(&with(&[("spec.source", derived)]));
        assert!(said.contains(&sentence), "{said:?} lacks {sentence:?}");
    }
}

#[test]
fn streams_are_made_one_per_partition() {
    let create = json!({ "maxAge": "1h", "maxBytes": "1Gi", "replicas": 3, "storage": "Memory" });
    let of = json!({ "streams": { "pattern": "orders-{partition}", "create": create } });
    let group = accepted(&source(&of, 2));
    assert_eq!(
        filters(&group),
        [("orders-0".to_owned(), None), ("orders-1".to_owned(), None)]
    );
    let second = &group.create[1];
    assert_eq!(
        (&*second.name, &*second.subjects),
        ("orders-1", &["orders.1.>".to_owned()][..])
    );
    assert_eq!(second.transform, None);
    assert_eq!(second.max_age, Some(Duration::from_hours(1)));
    assert_eq!(
        (second.max_bytes, second.replicas),
        (Some(1 << 30), Some(3))
    );
    let existing = accepted(&source(
        &json!({ "streams": { "pattern": "o-{partition}" } }),
        2,
    ));
    assert!(existing.create.is_empty());
}

#[test]
fn a_list_is_read_in_the_order_of_its_numbers() {
    let of = json!({ "partitions": [
        { "partition": 1, "stream": "B" },
        { "partition": 0, "stream": "A", "filterSubject": "a.>" },
    ] });
    assert_eq!(
        filters(&accepted(&source(&of, 2))),
        [
            ("A".to_owned(), Some("a.>".to_owned())),
            ("B".to_owned(), None)
        ]
    );
}

#[test]
fn settings_are_plain_values() {
    let group = accepted(&with(&[
        ("metadata.namespace", json!("shop")),
        ("spec.partitioning.partitions", json!(500)),
        (
            "spec.delivery",
            json!({ "maxInFlight": 7, "batchWait": "5ms", "onFailure": "Skip" }),
        ),
        ("spec.membership.processingTimeout", json!("1m30s")),
        (
            "spec.membership.assignor",
            json!({ "type": "Manual", "map": { "a": [1, 0], "b": [2] } }),
        ),
        (
            "spec.startFrom",
            json!({ "policy": "Time", "time": "1970-01-01T00:00:01.5Z" }),
        ),
        ("spec.paused", json!(true)),
        ("spec.pausedPartitions", json!([3])),
    ]));
    assert_eq!(group.group.to_string(), "shop/orders");
    assert_eq!(
        (group.delivery.max_in_flight, group.delivery.buffer_bytes),
        (7, 16 << 20)
    );
    assert_eq!(group.delivery.commit_interval, Duration::from_millis(500));
    assert_eq!(group.membership.processing_timeout, Duration::from_secs(90));
    assert_eq!(group.membership.session_timeout, Duration::from_secs(20));
    let StartFrom::Time { time } = group.start_from else {
        panic!("{:?}", group.start_from)
    };
    assert_eq!(time.0, 1_500_000_000);
    let AssignorSetting::Manual { map } = &group.membership.assignor else {
        panic!()
    };
    assert_eq!(map["a"].iter().map(|p| p.0).collect::<Vec<_>>(), [0, 1]);
    assert!(group.pause.all && group.pause.partitions.contains(&Partition(3)));
}

#[test]
fn what_acts_in_kubernetes_only_is_accepted_and_named() {
    assert_eq!(
        accepted(&super::orders()).ignored_without_kubernetes(),
        [""; 0]
    );
    let group = accepted(&with(&[
        ("spec.connectionRef.name", json!("nats")),
        (
            "spec.scaleTargetRef",
            json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "a" }),
        ),
        ("spec.replicas", json!(2)),
        ("spec.autoscaling", json!({})),
        ("spec.worker", json!({ "logLevel": "debug" })),
    ]));
    assert_eq!(
        group.ignored_without_kubernetes(),
        [
            "spec.connectionRef",
            "spec.scaleTargetRef",
            "spec.replicas",
            "spec.autoscaling",
            "spec.worker"
        ]
    );
}

#[test]
fn what_is_not_supported_yet_is_refused_by_name() {
    let cases = [
        (
            "spec.delivery.push",
            json!({ "port": 1 }),
            "spec.delivery.push is not supported yet",
        ),
        (
            "spec.delivery.order",
            json!("Key"),
            "spec.delivery.order: Key is not supported yet",
        ),
        (
            "spec.delivery.order",
            json!("None"),
            "spec.delivery.order: None is not supported yet",
        ),
        (
            "spec.delivery.onFailure",
            json!("DeadLetter"),
            "spec.delivery.onFailure: DeadLetter is not supported yet",
        ),
        (
            "spec.delivery.deadLetter",
            json!({ "subject": "d" }),
            "spec.delivery.deadLetter is not supported yet",
        ),
    ];
    for (path, value, sentence) in cases {
        let said = refused(&with(&[(path, value)]));
        assert!(
            said.contains(&sentence.to_owned()),
            "{said:?} lacks {sentence:?}"
        );
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn what_no_expression_checks_is_found_all_the_same() {
    let subjects = "spec.source.stream.create.subjects";
    let letters =
        |subject: &str| json!({ "onFailure": "DeadLetter", "deadLetter": { "subject": subject } });
    let pair = |a: &str, b: &str| {
        json!({ "partitions": [
            { "partition": 0, "stream": "S", "filterSubject": a },
            { "partition": 1, "stream": "S", "filterSubject": b }] })
    };
    let cases = [
        (
            vec![(subjects, json!(["orders"]))],
            "spec.source.stream.create.subjects has no wildcard *; the key is a token of the subject, as in orders.*",
        ),
        (
            vec![("spec.partitioning.keyTokens", json!([2]))],
            "spec.partitioning.keyTokens names wildcard 2, and the subject has one wildcard *",
        ),
        (
            vec![(subjects, json!(["a.*", "a.*.b"]))],
            "spec.source.stream.create.subjects differ in shape",
        ),
        (
            vec![(subjects, json!(["a.*", "*.b"]))],
            "spec.source.stream.create.subjects *.b overlaps with a.*; a stream takes a message once",
        ),
        (
            vec![(subjects, json!(["a.>.*"]))],
            "spec.source.stream.create.subjects a.>.* has > before its end",
        ),
        (
            vec![("spec.source.stream.create.maxAge", json!("99ms"))],
            "spec.source.stream.create.maxAge is 99ms; the servers take 100ms and more",
        ),
        (
            vec![("spec.source.stream.create.maxBytes", json!("9999999999Gi"))],
            "spec.source.stream.create.maxBytes is 9999999999Gi, more than a stream can have",
        ),
        (
            vec![
                ("spec.source", pair("a.>", "a.b")),
                ("spec.partitioning.partitions", json!(2)),
            ],
            "spec.source.partitions has partitions 0 and 1 share messages of stream S",
        ),
        (
            vec![(
                "spec.source",
                json!({ "streams": { "pattern": "{partition}", "create": {} } }),
            )],
            "spec.source.streams.pattern is only a number",
        ),
        (
            vec![("spec.delivery", letters("orders.dead"))],
            "spec.delivery.deadLetter.subject is orders.dead, which the group itself reads (orders.*)",
        ),
        (
            vec![("spec.delivery", letters("orders.7.dead"))],
            "spec.delivery.deadLetter.subject is orders.7.dead, which the group itself reads (orders.{partition}.*)",
        ),
        (
            vec![("spec.membership.processingTimeout", json!("0s"))],
            "spec.membership.processingTimeout is zero",
        ),
        (
            vec![(
                "spec.membership.assignor",
                json!({ "type": "Manual", "map": { "a": [8] } }),
            )],
            "spec.membership.assignor.map.a names partition 8; the last is 7",
        ),
        (
            vec![(
                "spec.membership.assignor",
                json!({ "type": "Manual", "map": { "a": [1], "b": [1] } }),
            )],
            "spec.membership.assignor.map.b names partition 1, which a has already",
        ),
        (
            vec![("metadata.name", json!("Orders"))],
            "metadata.name is refused: group name \"Orders\" is not valid",
        ),
        (
            vec![("metadata.namespace", json!("a.b"))],
            "metadata.namespace is refused: namespace \"a.b\" is not valid",
        ),
    ];
    for (edits, beginning) in cases {
        let said = refused(&with(&edits));
        assert!(
            said.iter().any(|s| s.starts_with(beginning)),
            "{said:?} lacks {beginning:?}"
        );
    }
}

#[test]
fn an_object_that_was_stored_before_a_form_became_stricter_is_refused_and_not_guessed_at() {
    // The API server keeps what was valid once; such an object never passed the schema of today.
    let old = raw(&with(&[
        ("spec.membership.sessionTimeout", json!("20 seconds")),
        ("spec.delivery.buffer.bytes", json!("16MB")),
    ]));
    let said: Vec<_> = ValidGroup::try_from(&old)
        .unwrap_err()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        said,
        [
            "spec.delivery.buffer.bytes is \"16MB\", which is not a size",
            "spec.membership.sessionTimeout is \"20 seconds\", which is not a duration",
        ]
    );
}
