use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::wire::proto::{self, PayloadEncoding, publish_request};

fn refused<T: std::fmt::Debug>(read: Result<T, JsonError>) -> (String, String) {
    let error = read.expect_err("this must be refused");
    (error.field, error.sentence)
}

#[test]
fn every_field_of_a_fetch_is_read() {
    let read = fetch_request(
        br#"{"max_messages": 10, "max_wait": "5s", "batch_wait": "5ms", "max_bytes": 1048576,
            "partitions": [0, 3], "payload_encoding": "TEXT"}"#,
    )
    .unwrap();
    assert_eq!(read.max_messages, Some(10));
    assert_eq!(read.max_wait.unwrap().seconds, 5);
    assert_eq!(read.batch_wait.unwrap().nanos, 5_000_000);
    assert_eq!(read.max_bytes, Some(1_048_576));
    assert_eq!(read.partitions, [0, 3]);
    assert_eq!(read.payload_encoding(), PayloadEncoding::Text);
}

#[test]
fn an_empty_body_is_an_empty_object() {
    for body in [&b""[..], b" \n", b"{}"] {
        assert_eq!(fetch_request(body).unwrap(), proto::FetchRequest::default());
    }
}

#[test]
fn every_field_of_an_ack_is_read_and_has_its_default() {
    let read = ack_request(
        br#"{"positions": [{"partition": 1, "epoch": 2, "sequence": 18446744073709551615}]}"#,
    )
    .unwrap();
    assert_eq!(read.positions[0].sequence, u64::MAX);
    assert_eq!(read.mode(), proto::ack_request::Mode::UpTo);
    assert_eq!(read.wait(), proto::ack_request::Wait::Accepted);
    let read = ack_request(br#"{"positions": [], "mode": "EACH", "wait": "COMMITTED"}"#).unwrap();
    assert_eq!(read.mode(), proto::ack_request::Mode::Each);
    assert_eq!(read.wait(), proto::ack_request::Wait::Committed);
}

#[test]
fn every_field_of_a_publish_is_read() {
    let read = publish_request(
        br#"{"key": "customer-42", "payload": "aGk=", "id": "o-1",
            "headers": {"traceparent": "00-1", "x": ["a", "b"]},
            "derived_from": {"partition": 1, "epoch": 2, "sequence": 3}}"#,
    )
    .unwrap();
    assert_eq!(
        read.to,
        Some(publish_request::To::Key("customer-42".into()))
    );
    assert_eq!(&read.payload[..], b"hi");
    assert_eq!(read.headers["traceparent"].values, ["00-1"]);
    assert_eq!(read.headers["x"].values, ["a", "b"]);
    assert_eq!(read.id.as_deref(), Some("o-1"));
    assert_eq!(read.derived_from.unwrap().sequence, 3);
    let read = publish_request(
        br#"{"subject": "a.b", "payload": "gr\u00fcn", "payload_encoding": "TEXT"}"#,
    )
    .unwrap();
    assert_eq!(read.payload, "grün".as_bytes());
}

#[test]
fn a_wrong_body_is_refused_by_the_name_of_the_field() {
    let field = |read: Result<proto::AckRequest, JsonError>| refused(read).0;
    for (body, expected) in [
        ("{", "body"),
        (r"[]", "body"),
        (r#""x""#, "body"),
        (r#"{"positions": []} x"#, "body"),
        ("{}", "positions"),
        (r#"{"positions": 3}"#, "positions"),
        (
            r#"{"positions": [{"partition": 1, "epoch": 2}]}"#,
            "positions[0].sequence",
        ),
        (
            r#"{"positions": [{"partition": 1, "epoch": 2, "sequence": 1}, {"partition": -1, "epoch": 2, "sequence": 3}]}"#,
            "positions[1].partition",
        ),
        (
            r#"{"positions": [{"partition": 1, "epoch": "2", "sequence": 3}]}"#,
            "positions[0].epoch",
        ),
        (
            r#"{"positions": [{"partition": 1, "epoch": 2, "sequence": 3, "seq": 1}]}"#,
            "positions[0].seq",
        ),
        (r#"{"positions": [], "mode": "UPTO"}"#, "mode"),
        (r#"{"positions": [], "mode": 1}"#, "mode"),
        (r#"{"positions": [], "positions": []}"#, "positions"),
        (r#"{"position": []}"#, "position"),
    ] {
        assert_eq!(field(ack_request(body.as_bytes())), expected, "{body}");
    }
}

#[test]
fn no_request_takes_a_field_that_it_does_not_know() {
    let position = r#"{"partition": 1, "epoch": 2, "sequence": 3}"#;
    let with = |fields: &str| format!("{{{fields}\"extra\": 1}}").into_bytes();
    let errors = [
        fetch_request(&with("")).err(),
        ack_request(&with(r#""positions": [], "#)).err(),
        nack_request(&with(r#""messages": [], "error": "", "#)).err(),
        publish_request(&with(r#""key": "a", "payload": "", "#)).err(),
        pause_request(&with("")).err(),
        resume_request(&with("")).err(),
        drain_request(&with("")).err(),
    ];
    for error in errors {
        assert_eq!(error.map(|error| error.field).as_deref(), Some("extra"));
    }
    let inner = position.replace('}', r#", "extra": 1}"#);
    let derived = format!(r#"{{"key": "a", "payload": "", "derived_from": {inner}}}"#);
    let (field, _) = refused(publish_request(derived.as_bytes()));
    assert_eq!(field, "derived_from.extra");
}

#[test]
fn a_refusal_says_what_to_change() {
    let (_, sentence) = refused(ack_request(br#"{"position": []}"#));
    assert_eq!(
        sentence,
        "is not a field of this request; expected one of positions, mode, wait"
    );
    let (field, sentence) = refused(fetch_request(br#"{"max_wait": 5}"#));
    assert_eq!(field, "max_wait");
    assert!(sentence.contains("expected a string"), "{sentence}");
    let (field, sentence) = refused(fetch_request(br#"{"max_wait": "5 parsecs"}"#));
    assert_eq!(field, "max_wait");
    assert!(sentence.contains(r#"as in "250ms" or "5s""#), "{sentence}");
    let (field, _) = refused(fetch_request(br#"{"partitions": []}"#));
    assert_eq!(field, "partitions");
    let (field, sentence) = refused(publish_request(br#"{"key": "a", "payload": "h!"}"#));
    assert_eq!(field, "payload");
    assert!(sentence.contains("payload_encoding"), "{sentence}");
    assert_eq!(refused(publish_request(br#"{"payload": ""}"#)).0, "key");
    let both = br#"{"key": "a", "subject": "b", "payload": ""}"#;
    assert_eq!(refused(publish_request(both)).0, "subject");
    let header = br#"{"key": "a", "payload": "", "headers": {"x": 3}}"#;
    assert_eq!(refused(publish_request(header)).0, "headers.x");
}

#[test]
fn a_refusal_is_short_however_long_the_body_is() {
    let body = format!("{{\"{}\": 1}}", "ü".repeat(1_000_000));
    let (field, sentence) = refused(ack_request(body.as_bytes()));
    assert!(
        field.len() < 200 && sentence.len() < 600,
        "{field} {sentence}"
    );
}

#[test]
fn durations_are_read_as_people_write_them() {
    for (text, millis) in [
        ("250ms", 250),
        ("5s", 5_000),
        ("1.5s", 1_500),
        ("2m", 120_000),
        ("1h30m", 5_400_000),
        ("0s", 0),
    ] {
        assert_eq!(
            parse_duration(text).unwrap(),
            Duration::from_millis(millis),
            "{text}"
        );
    }
    for wrong in [
        "",
        "5",
        "s",
        "5 s",
        "-5s",
        "5d",
        "1..5s",
        "5.s",
        ".5s",
        "1e3s",
        "9999999999999s",
        "5s ",
        "5\u{fc}s",
    ] {
        assert!(parse_duration(wrong).is_err(), "{wrong:?} was taken");
    }
}

fn message(payload: &'static [u8]) -> proto::Message {
    let header = proto::HeaderValues {
        values: vec!["a".into(), "b".into()],
    };
    proto::Message {
        partition: 3,
        epoch: 7,
        sequence: 18_446_744_073_709_551_615,
        stream: "ORDERS".into(),
        subject: "orders.3.customer-42".into(),
        key: "customer-42".into(),
        payload: payload.into(),
        headers: [("x".to_owned(), header)].into(),
        timestamp: Some(prost_types::Timestamp {
            seconds: 1_767_225_600,
            nanos: 5,
        }),
        attempt: 1,
        deadline: None,
    }
}

#[test]
fn a_fetched_message_looks_like_this() {
    let answer = proto::FetchResponse {
        messages: vec![message(b"hi")],
        redelivered: 1,
    };
    let golden = concat!(
        r#"{"messages":[{"partition":3,"epoch":7,"sequence":18446744073709551615,"#,
        r#""stream":"ORDERS","subject":"orders.3.customer-42","key":"customer-42","#,
        r#""payload":"aGk=","headers":{"x":["a","b"]},"#,
        r#""timestamp":"2026-01-01T00:00:00.000000005Z","attempt":1,"deadline":null}],"#,
        r#""redelivered":1}"#,
        "\n"
    );
    let text = String::from_utf8(fetch(&answer, PayloadEncoding::Base64)).unwrap();
    assert_eq!(text, golden);
}

#[test]
fn text_is_given_as_text_only_where_asked_for_and_where_it_is_text() {
    let answer = proto::FetchResponse {
        messages: vec![message("grün".as_bytes()), message(b"\xff")],
        redelivered: 0,
    };
    let json: serde_json::Value =
        serde_json::from_slice(&fetch(&answer, PayloadEncoding::Text)).unwrap();
    assert_eq!(json["messages"][0]["payload"], "grün");
    assert_eq!(json["messages"][0]["payload_encoding"], "TEXT");
    assert_eq!(json["messages"][1]["payload"], "/w==");
    assert_eq!(json["messages"][1]["payload_encoding"], "BASE64");
}

#[test]
fn the_other_answers_look_like_this() {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let result = proto::AckResult {
        partition: 3,
        epoch: 7,
        sequence: 41,
        status: proto::ack_result::Status::NotOwned.into(),
        committed: 0,
    };
    assert_eq!(
        text(ack(&proto::AckResponse {
            results: vec![result]
        })),
        "{\"results\":[{\"partition\":3,\"epoch\":7,\"sequence\":41,\"status\":\"NOT_OWNED\",\
         \"committed\":0}]}\n"
    );
    assert_eq!(
        text(publish(&proto::PublishResponse {
            stream: "ORDERS".into(),
            sequence: 9,
            partition: None,
            duplicate: true,
        })),
        "{\"stream\":\"ORDERS\",\"sequence\":9,\"partition\":null,\"duplicate\":true}\n"
    );
    assert_eq!(
        text(problem(&proto::ErrorDetail {
            code: "bad-request".into(),
            message: "mode is not valid".into(),
            hint: "correct it".into(),
            field: "mode".into(),
            retry_after: None,
        })),
        "{\"code\":\"bad-request\",\"message\":\"mode is not valid\",\"hint\":\"correct it\",\
         \"field\":\"mode\"}\n"
    );
}

#[test]
fn a_status_looks_like_this() {
    let answer = proto::StatusResponse {
        group: "shop/orders".into(),
        member_id: "a".into(),
        incarnation: "k3v9".into(),
        state: proto::status_response::State::Active.into(),
        epoch: 12,
        lease_remaining: Some(prost_types::Duration {
            seconds: 13,
            nanos: 250_000_000,
        }),
        partitions: vec![proto::PartitionStatus {
            partition: 3,
            epoch: 7,
            state: proto::partition_status::State::Feeding.into(),
            position: 42,
            committed: 40,
            in_flight: 2,
            ..Default::default()
        }],
        nats: Some(proto::NatsStatus {
            connected: true,
            server: "n1".into(),
            version: "2.15.2".into(),
        }),
        ..Default::default()
    };
    let json: serde_json::Value = serde_json::from_slice(&status(&answer)).unwrap();
    assert_eq!(json["state"], "ACTIVE");
    assert_eq!(json["lease_remaining"], "13.25s");
    assert_eq!(json["partitions"][0]["state"], "FEEDING");
    assert_eq!(json["partitions"][0]["pending"], serde_json::Value::Null);
    assert_eq!(json["nats"]["version"], "2.15.2");
    assert_eq!(json["epoch"], 12);
}

#[test]
fn an_event_is_named_by_its_type() {
    let seen = proto::WatchResponse {
        time: Some(prost_types::Timestamp {
            seconds: 0,
            nanos: 0,
        }),
        event: Some(proto::watch_response::Event::Revoking(proto::Revoking {
            partitions: vec![proto::PartitionEpoch {
                partition: 3,
                epoch: 7,
            }],
            deadline: None,
        })),
    };
    let (name, body) = event(&seen);
    assert_eq!(name, "Revoking");
    assert_eq!(
        body,
        "{\"time\":\"1970-01-01T00:00:00.000000000Z\",\"revoking\":{\"partitions\":\
         [{\"partition\":3,\"epoch\":7}],\"deadline\":null}}"
    );
}

/// Bodies that are nearly right: the fields of the requests with any values.
fn nearly() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec![
        "positions",
        "messages",
        "mode",
        "wait",
        "partition",
        "epoch",
        "sequence",
        "payload",
        "key",
        "subject",
        "headers",
        "max_wait",
        "partitions",
        "timeout",
        "payload_encoding",
        "x",
        "",
    ]);
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|b| b.to_string()),
        any::<i128>().prop_map(|n| n.to_string()),
        any::<f64>().prop_map(|n| format!("{n:?}")),
        ".*".prop_map(|s: String| serde_json::Value::from(s).to_string()),
        Just("\"5s\"".to_owned()),
        Just("\"EACH\"".to_owned()),
    ];
    leaf.prop_recursive(4, 32, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|l| format!("[{}]", l.join(","))),
            prop::collection::vec((name.clone(), inner), 0..6).prop_map(|m| {
                let fields: Vec<String> = m.iter().map(|(k, v)| format!("\"{k}\":{v}")).collect();
                format!("{{{}}}", fields.join(","))
            }),
        ]
    })
}

/// Reads the body as each request; what is refused must name a field and say something.
fn read_as_all(body: &[u8]) {
    let errors = [
        fetch_request(body).err(),
        ack_request(body).err(),
        nack_request(body).err(),
        publish_request(body).err(),
        pause_request(body).err(),
        resume_request(body).err(),
        drain_request(body).err(),
    ];
    for error in errors.into_iter().flatten() {
        assert!(!error.sentence.is_empty());
        // An unknown field may be called "".
        assert!(
            !error.field.is_empty() || error.sentence.starts_with("is not a field"),
            "{error:?}"
        );
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(body in prop::collection::vec(any::<u8>(), 0..200)) {
        read_as_all(&body);
    }

    #[test]
    fn any_json_is_read_or_refused(body in nearly()) {
        read_as_all(body.as_bytes());
    }

    #[test]
    fn any_text_is_a_duration_or_refused(text in "[0-9.hmsnu]{0,30}") {
        drop(parse_duration(&text));
    }

    #[test]
    fn a_duration_that_is_written_is_read_back(seconds in 0_i64..1_000_000_000, nanos in 0..1_000_000_000) {
        let text = super::values::duration_text(&prost_types::Duration { seconds, nanos });
        let read = parse_duration(&text).unwrap();
        prop_assert_eq!(read, Duration::new(seconds.unsigned_abs(), nanos.unsigned_abs()));
    }
}

#[test]
fn every_request_in_the_documentation_is_read() {
    let text = include_str!("../../../docs/application.md");
    let mut seen = Vec::new();
    for block in text.split("\n```json ").skip(1) {
        let (path, rest) = block.split_once('\n').unwrap();
        let body = rest.split("\n```").next().unwrap().as_bytes();
        let error = match path {
            "/v1/fetch" => fetch_request(body).err(),
            "/v1/ack" => ack_request(body).err(),
            "/v1/nack" => nack_request(body).err(),
            "/v1/publish" => publish_request(body).err(),
            "/v1/pause" => pause_request(body).err(),
            "/v1/resume" => resume_request(body).err(),
            "/v1/drain" => drain_request(body).err(),
            other => panic!("{other} takes no body"),
        };
        assert_eq!(error, None, "{path}");
        seen.push(path);
    }
    seen.dedup();
    assert_eq!(seen.len(), 7, "an example of each: {seen:?}");
}
