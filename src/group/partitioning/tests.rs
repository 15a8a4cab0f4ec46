use proptest::prelude::*;

use super::*;

fn key(text: &str) -> Key {
    text.parse().unwrap()
}

fn created(subjects: &[&str], key_tokens: &[u32], filter: &str) -> Source {
    Source::Stream {
        stream: "ORDERS".into(),
        partitions: 12,
        filter: filter.into(),
        transform: Some(Transform {
            subjects: subjects.iter().map(|s| (*s).into()).collect(),
            key_tokens: key_tokens.into(),
            origin: None,
        }),
    }
}

fn patterned(filter: &str) -> Source {
    let (stream, filter) = ("ORDERS".into(), filter.into());
    Source::Stream {
        stream,
        partitions: 12,
        filter,
        transform: None,
    }
}

fn spread() -> Source {
    Source::Streams {
        pattern: "orders-{partition}".into(),
        partitions: 12,
        subjects: "orders.{partition}.>".into(),
    }
}

fn listed(filters: &[Option<&str>]) -> Source {
    let entry = |(n, filter): (usize, Option<&str>)| PartitionSource {
        stream: format!("S{n}"),
        filter: filter.map(Into::into),
    };
    Source::List(filters.iter().copied().enumerate().map(entry).collect())
}

fn subject(source: &Source, text: &str) -> String {
    address(source, &key(text)).unwrap().subject
}

// P6
#[test]
fn hashes_are_those_that_real_servers_compute() {
    // Measured on nats-server 2.11.11, 2.12.8 and 2.15.1.
    for (tokens, expected, partition) in [
        (vec!["a", "b"], 0x4d25_05ca, 6),
        (vec!["customer-42", "order-7"], 0x7e76_5a62, 6),
        (vec!["ab", "c"], 0x1a47_e90b, 11),
        (vec!["a", "bc"], 0x1a47_e90b, 11),
        (vec!["größe", "ü"], 0xfb81_7ee5, 9),
    ] {
        assert_eq!(hash(tokens.iter().copied()), expected, "{tokens:?}");
        assert_eq!(partition_of(tokens, 12), Some(Partition(partition)));
    }
}

#[test]
fn the_hash_of_nothing_is_the_basis_and_no_partitions_hold_no_key() {
    assert_eq!(hash([]), 0x811c_9dc5);
    assert_eq!(partition_of(["a"], 0), None);
    assert_eq!(
        address(&listed(&[]), &key("a")),
        Err(KeyError::NoPartitions)
    );
}

#[test]
fn where_the_server_computes_the_partition_the_publisher_does_not_write_it() {
    let source = created(&["orders.*"], &[1], "orders.{partition}.*");
    let to = address(&source, &key("customer-42")).unwrap();
    assert_eq!(to.subject, "orders.customer-42");
    assert_eq!(to.stream, "ORDERS");
    assert_eq!(
        partition_of_subject(&source, &to.subject),
        Some(to.partition)
    );
    assert_eq!(partition_of_subject(&source, "orders.a.b"), None);
}

#[test]
fn only_the_chosen_tokens_choose_the_partition() {
    let one = created(&["orders.*.*"], &[1], "orders.{partition}.*.*");
    let both = created(&["orders.*.*"], &[1, 2], "orders.{partition}.*.*");
    let of = |source, text| address(source, &key(text)).unwrap().partition;
    assert_eq!(of(&one, "a.b"), of(&one, "a.c"));
    assert_eq!(of(&one, "a.b"), partition_of(["a"], 12).unwrap());
    assert_eq!(of(&both, "a.b"), Partition(6));
    assert_eq!(of(&both, "ab.c"), Partition(11));
    assert_eq!(
        partition_of_subject(&both, "orders.ab.c"),
        Some(Partition(11))
    );
}

#[test]
fn of_several_subjects_the_key_fills_the_one_that_it_fits() {
    let source = created(&["orders.*", "returns.*.*"], &[1], "x.{partition}.*");
    assert_eq!(subject(&source, "a"), "orders.a");
    assert_eq!(subject(&source, "a.b"), "returns.a.b");
    let error = address(&source, &key("a.b.c")).unwrap_err().to_string();
    assert!(error.contains("orders.* or returns.*.*"), "{error}");
}

#[test]
fn a_pattern_gets_the_partition_and_the_key() {
    assert_eq!(
        subject(&patterned("orders.{partition}.>"), "a.b"),
        "orders.6.a.b"
    );
    assert_eq!(subject(&patterned("orders.{partition}.*"), "ab"), {
        let p = partition_of(["ab"], 12).unwrap();
        format!("orders.{p}.ab")
    });
    assert_eq!(subject(&patterned("*.{partition}.x.*"), "a.b"), "a.6.x.b");
    assert_eq!(subject(&patterned("orders.{partition}"), "a.b"), "orders.6");
    assert!(address(&patterned("orders.{partition}.*"), &key("a.b")).is_err());
    assert!(address(&patterned("orders.{partition}.*.*"), &key("a")).is_err());
}

#[test]
fn with_a_stream_per_partition_the_subject_and_the_stream_name_agree() {
    let to = address(&spread(), &key("a.b")).unwrap();
    assert_eq!(
        (to.stream.as_str(), to.subject.as_str()),
        ("orders-6", "orders.6.a.b")
    );
}

#[test]
fn a_source_that_does_not_say_its_subjects_is_not_guessed_at() {
    let mut unknown = spread();
    if let Source::Streams { subjects, .. } = &mut unknown {
        subjects.clear();
    }
    let sentence = address(&unknown, &key("a.b")).unwrap_err().to_string();
    assert!(
        sentence.contains("partition 6 (stream orders-6)"),
        "{sentence}"
    );
    assert_eq!(partition_of_key(&unknown, &key("a.b")), Ok(Partition(6)));
    assert!(matches!(
        address(&listed(&[None]), &key("a")),
        Err(KeyError::NoSubject {
            partition: Partition(0),
            ..
        })
    ));
}

#[test]
fn a_list_says_each_partitions_subject() {
    let source = listed(&[Some("eu.>"), Some("us.orders.*")]);
    assert_eq!(
        partition_of_subject(&source, "us.orders.7"),
        Some(Partition(1))
    );
    assert_eq!(partition_of_subject(&source, "asia.7"), None);
    let to = address(&source, &key("k1")).unwrap();
    assert_eq!(
        partition_of_subject(&source, &to.subject),
        Some(to.partition)
    );
    assert_eq!(to.stream, format!("S{}", to.partition));
}

#[test]
fn a_number_that_no_filter_matches_names_no_partition() {
    let source = patterned("orders.{partition}.>");
    assert_eq!(
        partition_of_subject(&source, "orders.7.a"),
        Some(Partition(7))
    );
    for wrong in [
        "orders.07.a",
        "orders.+7.a",
        "orders.12.a",
        "orders.x.a",
        "orders.7",
        "o.7.a",
    ] {
        assert_eq!(partition_of_subject(&source, wrong), None, "{wrong}");
    }
}

#[test]
fn the_key_of_a_stored_message_is_what_fills_the_wildcards() {
    let p = Partition(6);
    let source = created(&["orders.*.*"], &[1, 2], "orders.{partition}.*.*");
    assert_eq!(key_of_stored(&source, p, "orders.6.a.b"), "a.b");
    assert_eq!(key_of_stored(&spread(), p, "orders.6.a.b"), "a.b");
    assert_eq!(
        key_of_stored(&patterned("orders.{partition}"), p, "orders.6"),
        "orders.6"
    );
    assert_eq!(key_of_stored(&listed(&[None]), Partition(0), "a.b"), "a.b");
    let listed = listed(&[Some("a.*.c.>")]);
    assert_eq!(key_of_stored(&listed, Partition(0), "a.b.c.d.e"), "b.d.e");
}

#[test]
fn a_subject_of_another_partition_is_its_own_key() {
    let source = patterned("{partition}.orders.>");
    assert_eq!(key_of_stored(&source, Partition(6), "6.orders.a"), "a");
    for other in [
        "7.orders.a",
        "06.orders.a",
        "+6.orders.a",
        "x.orders.a",
        "6.orders",
        "6",
    ] {
        assert_eq!(key_of_stored(&source, Partition(6), other), other);
    }
    assert_eq!(key_of_stored(&source, Partition(0), "0.orders.a"), "a");
    let joined = patterned("orders-{partition}.*");
    assert_eq!(key_of_stored(&joined, Partition(6), "orders-6.a"), "a");
    assert_eq!(
        key_of_stored(&joined, Partition(6), "orders-7.a"),
        "orders-7.a"
    );
}

#[test]
fn a_key_that_cannot_be_in_a_subject_is_refused_with_a_sentence() {
    for wrong in [
        "", ".", "a.", ".a", "a..b", "a b", "a\tb", "a\u{0}b", "*", "a.>", "a*b", "a\u{a0}b",
    ] {
        let error = wrong.parse::<Key>().unwrap_err().to_string();
        assert!(
            error.contains("cannot be part of a subject"),
            "{wrong:?}: {error}"
        );
    }
    assert!("größe.ü-1_2$".parse::<Key>().is_ok());
    let long = "x".repeat(MAX_SUBJECT);
    assert!(matches!(
        address(&spread(), &key(&long)),
        Err(KeyError::TooLong { .. })
    ));
    assert!(matches!(
        format!("{long}x").parse::<Key>(),
        Err(KeyError::TooLong { .. })
    ));
}

fn sources() -> impl Strategy<Value = Source> {
    prop_oneof![
        Just(created(&["orders.*"], &[1], "orders.{partition}.*")),
        Just(created(&["orders.*", "r.*.*"], &[1], "x.{partition}.*")),
        Just(patterned("orders.{partition}.>")),
        Just(patterned("orders.{partition}")),
        Just(spread()),
        Just(listed(&[Some("a.>"), Some("b.*"), None])),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: Some(Box::new(
            proptest::test_runner::FileFailurePersistence::WithSource("regressions"),
        )),
        ..ProptestConfig::default()
    })]

    #[test]
    fn what_is_published_by_key_is_read_in_the_partition_of_the_key(
        source in sources(),
        text in "[a-z0-9ü]{1,5}(\\.[a-z0-9]{1,5}){0,2}",
    ) {
        if let Ok(to) = address(&source, &key(&text)) {
            prop_assert_eq!(partition_of_subject(&source, &to.subject), Some(to.partition));
            prop_assert_eq!(partition_of_key(&source, &key(&text)), Ok(to.partition));
            prop_assert_eq!(source.of(to.partition).map(|s| s.stream), Some(to.stream));
        }
    }

    #[test]
    fn no_text_makes_it_panic(source in sources(), text in ".{0,40}", p in 0_u32..20) {
        let _ = partition_of_subject(&source, &text);
        let _ = key_of_stored(&source, Partition(p), &text);
        if let Ok(key) = text.parse::<Key>() {
            drop(address(&source, &key));
        }
    }
}
