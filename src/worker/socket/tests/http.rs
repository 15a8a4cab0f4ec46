//! JSON over HTTP.

use super::*;

#[tokio::test]
async fn a_fetch_is_asked_as_it_was_meant_and_answered_in_full() {
    let mut scene = Scene::start();
    let (socket, body) = (
        scene.socket(),
        r#"{"max_messages": 5, "partitions": [3], "payload_encoding": "TEXT"}"#,
    );
    let request = ask(
        &socket,
        Method::POST,
        "/v1/fetch",
        body.to_owned(),
        PATIENCE,
    );
    let answer = scene
        .answering(request, |command| {
            let Command::Fetch {
                session,
                options,
                reply,
            } = command
            else {
                panic!("{command:?}")
            };
            assert_eq!(session.as_str(), "default");
            assert_eq!(options.max_messages, Some(5));
            assert_eq!(options.max_bytes, Some(limits::DEFAULT_FETCH_BYTES));
            assert_eq!(options.max_wait, None);
            assert_eq!(options.partitions, Some([Partition(3)].into()));
            let messages = vec![delivered(41, b"hi")];
            let fetched = Fetched {
                messages,
                redelivered: 1,
            };
            reply.send(Ok(fetched)).unwrap();
        })
        .await;
    let answer = answer.unwrap();
    assert_eq!(answer.status, 200);
    let body = json(&answer);
    assert_eq!(body["redelivered"], 1);
    let message = &body["messages"][0];
    assert_eq!(message["payload"], "hi");
    assert_eq!(message["key"], "customer-42");
    assert_eq!(message["headers"]["x"][0], "1");
    assert_eq!(message["timestamp"], "1970-01-01T00:00:00.000000005Z");
    assert_eq!(message["attempt"], 2);
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a table: one row per mistake")]
async fn a_bad_request_names_its_field_and_reaches_nobody() {
    let mut scene = Scene::start();
    for (path, body, field) in [
        ("/v1/ack", "{", "body"),
        ("/v1/ack", "{}", "positions"),
        ("/v1/ack", r#"{"positions": []}"#, "positions"),
        (
            "/v1/ack",
            r#"{"positions": [{"partition": 3, "epoch": 0, "sequence": 1}]}"#,
            "positions[0].epoch",
        ),
        (
            "/v1/ack",
            r#"{"positions": [{"partition": 3, "sequence": 1}]}"#,
            "positions[0].epoch",
        ),
        (
            "/v1/nack",
            r#"{"messages": [{"partition": 3, "epoch": 1, "sequence": 0}], "error": ""}"#,
            "messages[0].sequence",
        ),
        (
            "/v1/nack",
            r#"{"messages": [{"partition": 3, "epoch": 1, "sequence": 1}], "error": "", "delay": "61m"}"#,
            "delay",
        ),
        ("/v1/fetch", r#"{"max_messages": 0}"#, "max_messages"),
        ("/v1/fetch", r#"{"max_messages": 10001}"#, "max_messages"),
        ("/v1/fetch", r#"{"max_bytes": 0}"#, "max_bytes"),
        ("/v1/fetch", r#"{"max_wait": "601s"}"#, "max_wait"),
        ("/v1/fetch", r#"{"batch_wait": "61s"}"#, "batch_wait"),
        ("/v1/publish", r#"{"key": "", "payload": ""}"#, "key"),
        (
            "/v1/publish",
            r#"{"subject": "a.*", "payload": ""}"#,
            "subject",
        ),
        (
            "/v1/publish",
            r#"{"subject": "a b", "payload": ""}"#,
            "subject",
        ),
        (
            "/v1/publish",
            r#"{"key": "a", "payload": "", "id": "a\nb"}"#,
            "id",
        ),
        (
            "/v1/publish",
            r#"{"key": "a", "payload": "", "headers": {"a b": "c"}}"#,
            "headers.a b",
        ),
        (
            "/v1/publish",
            r#"{"key": "a", "payload": "", "headers": {"a": "b\r\nc: d"}}"#,
            "headers.a",
        ),
        (
            "/v1/publish",
            r#"{"key": "a", "payload": "", "headers": {"nats-msg-id": "b"}}"#,
            "headers.nats-msg-id",
        ),
        (
            "/v1/publish",
            r#"{"key": "a", "payload": "", "id": "b", "derived_from": {"partition": 0, "epoch": 1, "sequence": 1}}"#,
            "derived_from",
        ),
        ("/v1/pause", r#"{"partitions": [-1]}"#, "partitions[0]"),
        ("/v1/resume", r#"{"partition": [1]}"#, "partition"),
        ("/v1/drain", r#"{"timeout": "2h"}"#, "timeout"),
    ] {
        let answer = scene.post(path, body).await;
        assert_eq!(answer.status, 400, "{path} {body}: {}", answer.body);
        let problem = json(&answer);
        assert_eq!(problem["code"], "bad-request", "{path} {body}");
        assert_eq!(problem["field"], field, "{path} {body}: {}", answer.body);
        let message = problem["message"].as_str().unwrap();
        assert!(message.starts_with(field), "{message}");
        assert!(!problem["hint"].as_str().unwrap().is_empty());
    }
    assert!(scene.commands.try_recv().is_err(), "nothing was asked");
}

#[tokio::test]
async fn what_the_member_refuses_has_its_status() {
    for (error, status, code, retry) in [
        (
            CallError::NotJoined {
                why: "no coordinator".into(),
            },
            503,
            "not-joined",
            true,
        ),
        (CallError::Draining, 503, "draining", true),
        (
            CallError::SessionConflict {
                session: "a".into(),
            },
            409,
            "session-conflict",
            false,
        ),
        (
            CallError::TooLarge { size: 9, limit: 8 },
            413,
            "too-large",
            false,
        ),
        (
            CallError::Unavailable {
                why: "no answer".into(),
            },
            503,
            "unavailable",
            true,
        ),
    ] {
        let mut scene = Scene::start();
        let socket = scene.socket();
        let request = raw(&socket, "/v1/ack", "", ONE);
        let expected = error.to_string();
        let answer = scene
            .answering(request, |command| {
                let Command::Ack { reply, .. } = command else {
                    panic!("{command:?}")
                };
                reply.send(Err(error)).unwrap();
            })
            .await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{answer}"
        );
        let lower = answer.to_lowercase();
        assert_eq!(lower.contains("retry-after: 1\r\n"), retry, "{answer}");
        assert!(
            lower.contains("content-type: application/problem+json"),
            "{answer}"
        );
        let problem: serde_json::Value =
            serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap();
        assert_eq!(problem["code"], code);
        assert_eq!(problem["message"], expected);
    }
}

/// A request with headers of its own, and the answer as it comes over the wire.
async fn raw(socket: &std::path::Path, path: &str, headers: &str, body: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = UnixStream::connect(socket).await.unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: w\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    let mut answer = String::new();
    tokio::time::timeout(PATIENCE, stream.read_to_string(&mut answer))
        .await
        .expect("an answer in time")
        .unwrap();
    answer
}

#[tokio::test]
async fn a_session_is_named_by_the_header() {
    let mut scene = Scene::start();
    let socket = scene.socket();
    let request = raw(&socket, "/v1/ack", "lockstep-session: thread-7\r\n", ONE);
    let answer = scene
        .answering(request, |command| {
            let Command::Ack { session, reply, .. } = command else {
                panic!("{command:?}")
            };
            assert_eq!(session.as_str(), "thread-7");
            reply.send(Ok(vec![])).unwrap();
        })
        .await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let long = format!("lockstep-session: {}\r\n", "x".repeat(129));
    for wrong in ["lockstep-session: \r\n", "lockstep-session: a b\r\n", &long] {
        let answer = raw(&socket, "/v1/ack", wrong, ONE).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
        assert!(answer.contains(r#""field":"lockstep-session""#), "{answer}");
    }
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_413_and_one_below_is_read() {
    let scene = Scene::start();
    let fits = " ".repeat(limits::MAX_BODY);
    assert_eq!(scene.post("/v1/ack", fits).await.status, 400);
    let answer = scene
        .post("/v1/ack", " ".repeat(limits::MAX_BODY + 1))
        .await;
    assert_eq!(answer.status, 413);
    assert_eq!(json(&answer)["code"], "too-large");
}

#[tokio::test]
async fn who_is_still_writing_a_body_beyond_the_limit_gets_to_read_the_answer() {
    let scene = Scene::start();
    let body = " ".repeat(2 * limits::MAX_BODY);
    let answer = raw(&scene.socket(), "/v1/ack", "", &body).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[tokio::test]
async fn unknown_paths_and_wrong_methods_say_what_there_is() {
    let scene = Scene::start();
    let answer = scene.get("/v2/fetch").await;
    assert_eq!(answer.status, 404);
    assert!(answer.body.contains("/v1/fetch"), "{}", answer.body);
    let answer = scene.get("/v1/fetch").await;
    assert_eq!(answer.status, 405);
    assert!(answer.body.contains("use POST"), "{}", answer.body);
}

#[tokio::test]
async fn events_come_as_server_sent_events() {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    let scene = Scene::start();
    let mut stream = UnixStream::connect(scene.socket()).await.unwrap();
    stream
        .write_all(b"GET /v1/events HTTP/1.1\r\nhost: w\r\n\r\n")
        .await
        .unwrap();
    let mut lines = BufReader::new(stream).lines();
    let mut seen = Vec::new();
    let reading = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line == "\r" || line.is_empty() {
                // The answer's head has come: the events that follow are heard.
                scene
                    .events
                    .send(MemberEvent::Committed {
                        partition: Partition(3),
                        epoch: Epoch(7),
                        next: Sequence(42),
                    })
                    .unwrap();
            }
            let done = line.starts_with("data:");
            seen.push(line);
            if done {
                break;
            }
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.unwrap();
    assert!(
        seen.iter()
            .any(|l| l.eq_ignore_ascii_case("content-type: text/event-stream")),
        "{seen:?}"
    );
    assert!(seen.contains(&"event: Committed".to_owned()), "{seen:?}");
    let data = seen.last().unwrap().strip_prefix("data: ").unwrap();
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["committed"]["committed"], 42);
    // An open stream does not keep the socket from closing.
    tokio::time::timeout(PATIENCE, scene.tasks.stop())
        .await
        .unwrap();
}
