//! `publish`

use futures_util::StreamExt;
use lockstep::group::{Meta, PartitionSource, Source};
use lockstep::nats::streams;
use serde_json::json;

use crate::plant::{Plant, refused};

/// A message as it is stored.
async fn stored(
    plant: &Plant,
    stream: &str,
    sequence: u64,
) -> async_nats::jetstream::message::StreamMessage {
    let client = plant.server.connect().await.unwrap();
    let stream = async_nats::jetstream::new(client)
        .get_stream(stream)
        .await
        .unwrap();
    stream.get_raw_message(sequence).await.unwrap()
}

async fn make(plant: &Plant, stream: &str, subject: &str) {
    let plan = streams::StreamPlan::plain(stream, vec![subject.to_owned()]);
    streams::create(&plant.connection, &plan).await.unwrap();
}

async fn has_source(plant: &Plant, source: Source) {
    let meta = Meta {
        source,
        ..plant.meta().await
    };
    plant.put_meta(&meta).await;
}

#[tokio::test]
async fn a_message_is_stored_under_its_key_with_its_headers_and_its_id() {
    let plant = Plant::new().await;
    let client = plant.server.connect().await.unwrap();
    let mut sent = client.subscribe("orders.c").await.unwrap();
    client.flush().await.unwrap();
    let line = "publish orders --key c --data 5€ --header trace=t1 --header trace=t2 --id o-1";
    assert_eq!(
        plant.ok(line).await,
        "partition=2 sequence=1 duplicate=false\n"
    );
    assert_eq!(
        plant.ok(line).await,
        "partition=2 sequence=1 duplicate=true\n"
    );
    let message = stored(&plant, "ORDERS", 1).await;
    assert_eq!(message.subject.as_str(), "orders.2.c");
    assert_eq!(message.payload, "5€".as_bytes());
    // The client keeps one header of a name when it reads a stored message; the wire has both.
    let sent = sent.next().await.unwrap().headers.unwrap();
    let traces: Vec<&str> = sent
        .get_all("trace")
        .map(async_nats::HeaderValue::as_str)
        .collect();
    assert_eq!(traces, ["t1", "t2"]);
    assert_eq!(message.headers.get("Nats-Msg-Id").unwrap().as_str(), "o-1");
    assert_eq!(plant.stream().await.messages, 1);
}

#[tokio::test]
async fn programs_get_json() {
    let plant = Plant::new().await;
    let json = plant.json("publish orders --key a --data x -o json").await;
    let expected = json!({"partition": 0, "stream": "ORDERS", "sequence": 1, "duplicate": false});
    assert_eq!(json, expected);
}

#[tokio::test]
async fn a_thousand_lines_are_a_thousand_messages_in_order() {
    let plant = Plant::new().await;
    let input: String = (0..1000).map(|n| format!("line {n}\r\n")).collect();
    let finished = plant
        .run_with("publish orders --key b --lines --id batch", &input)
        .await;
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    let expected: String = (1..=1000)
        .map(|n| format!("partition=1 sequence={n} duplicate=false\n"))
        .collect();
    assert_eq!(finished.stdout, expected);
    for n in [0, 499, 999] {
        let message = stored(&plant, "ORDERS", n + 1).await;
        assert_eq!(message.payload, format!("line {n}").as_bytes());
    }
    // The same again, after who knows what: nothing is stored twice, the new line is.
    let input = format!("{input}one more");
    let finished = plant
        .run_with("publish orders --key b --lines --id batch", &input)
        .await;
    assert_eq!(
        finished
            .stdout
            .lines()
            .filter(|l| l.ends_with("duplicate=true"))
            .count(),
        1000
    );
    assert_eq!(plant.stream().await.messages, 1001);
    assert_eq!(
        stored(&plant, "ORDERS", 1001).await.payload,
        "one more".as_bytes()
    );
}

#[tokio::test]
async fn a_file_and_standard_input_are_taken_as_they_are() {
    let plant = Plant::new().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("body");
    std::fs::write(&path, b"\x00\xffraw\n").unwrap();
    plant
        .ok(&format!("publish orders --key a --file {}", path.display()))
        .await;
    assert_eq!(
        stored(&plant, "ORDERS", 1).await.payload,
        &b"\x00\xffraw\n"[..]
    );
    let finished = plant
        .run_with("publish orders --key a --file -", "two\nlines\n")
        .await;
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert_eq!(
        stored(&plant, "ORDERS", 2).await.payload,
        &b"two\nlines\n"[..]
    );
    let missing = folder.path().join("missing");
    let line = format!("publish orders --key a --file {}", missing.display());
    plant.fails(&line, 2, &["missing", "readable file"]).await;
}

#[tokio::test]
async fn other_sources_get_the_partition_in_the_subject() {
    let plant = Plant::new().await;
    make(&plant, "FLAT", "flat.>").await;
    for p in 0..2 {
        make(&plant, &format!("each-{p}"), &format!("each.{p}.>")).await;
    }
    has_source(
        &plant,
        Source::Stream {
            stream: "FLAT".to_owned(),
            partitions: 4,
            filter: "flat.{partition}.>".to_owned(),
            transform: None,
        },
    )
    .await;
    assert_eq!(
        plant.ok("publish orders --key c --data x").await,
        "partition=2 sequence=1 duplicate=false\n"
    );
    assert_eq!(stored(&plant, "FLAT", 1).await.subject.as_str(), "flat.2.c");

    let each = |subjects: &str| Source::Streams {
        pattern: "each-{partition}".to_owned(),
        partitions: 2,
        subjects: subjects.to_owned(),
    };
    has_source(&plant, each("each.{partition}.>")).await;
    assert_eq!(plant.ok("publish orders --key b.x --data x").await, {
        let partition = plant.ok("partition-of orders b.x").await;
        format!(
            "partition={} sequence=1 duplicate=false\n",
            partition.trim()
        )
    });
    has_source(&plant, each("")).await;
    plant
        .fails(
            "publish orders --key b --data x",
            2,
            &["does not say which subject"],
        )
        .await;

    has_source(
        &plant,
        Source::List(vec![PartitionSource {
            stream: "FLAT".to_owned(),
            filter: Some("flat.list.>".to_owned()),
        }]),
    )
    .await;
    assert_eq!(
        plant.ok("publish orders --key q --data x").await,
        "partition=0 sequence=2 duplicate=false\n"
    );
}

#[tokio::test]
async fn what_cannot_be_published_is_said_with_what_to_do() {
    let plant = Plant::new().await;
    plant
        .fails(
            "publish orders --key a.b --data x",
            2,
            &["does not fit the subject orders.*"],
        )
        .await;
    plant
        .fails(
            "publish orders --key a --data x --header a:b=c",
            2,
            &["header"],
        )
        .await;
    plant
        .fails(
            "publish nobody --key a --data x",
            1,
            &["there is no group default/nobody"],
        )
        .await;
    for line in [
        "publish orders --key a..b --data x",
        "publish orders --key * --data x",
        "publish orders --key a --data x --lines",
        "publish orders --key a",
        "publish orders --data x",
        "publish orders --key a --data x --header nonsense",
    ] {
        let finished = plant.run(line).await;
        assert_eq!(
            (finished.code, finished.stdout.as_str()),
            (Some(2), ""),
            "{line}: {finished:?}"
        );
    }
    assert_eq!(plant.stream().await.messages, 0);

    streams::delete(&plant.connection, "ORDERS").await.unwrap();
    plant
        .fails(
            "publish orders --key a --data x",
            1,
            &["no stream takes orders.a"],
        )
        .await;
    // Another stream has the subject now: the group would never see the message.
    make(&plant, "OTHER", "orders.*").await;
    let line = "publish orders --key a --data x";
    plant
        .fails(line, 1, &["stored in stream OTHER", "does not read"])
        .await;
}

#[tokio::test]
async fn a_message_that_is_too_large_is_refused_by_its_size() {
    let server = lockstep_e2e::NatsServer::options()
        .max_payload(65_536)
        .start()
        .await
        .unwrap();
    let plant = Plant::on(server, lockstep::nats::Options::for_url).await;
    let input = "x".repeat(70_000);
    let finished = plant
        .run_with("publish orders --key a --file -", &input)
        .await;
    refused(
        "a large message",
        &finished,
        1,
        &["server takes 65536", "nothing was published"],
    );
    let lines = format!("small\n{input}\nsmall\n");
    let finished = plant
        .run_with("publish orders --key a --lines", &lines)
        .await;
    // In order or not at all: the third line is not published.
    assert_eq!(finished.code, Some(1));
    assert_eq!(finished.stdout, "partition=0 sequence=1 duplicate=false\n");
    assert!(finished.stderr.contains("line 2:"), "{}", finished.stderr);
    assert_eq!(plant.stream().await.messages, 1);
}
