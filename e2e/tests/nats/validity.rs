//! Positions that do not fit their stream (any more).

use std::path::Path;

use lockstep::group::validity::Validity;
use lockstep::group::{Mark, Sequence};
use lockstep::nats::{
    Connection, GateClosed, PartitionReader, ReadEvent, ReadPlan, Stopped, streams,
};
use lockstep_e2e::{NatsCluster, NatsServer};
use serde_json::json;

use super::setting::{
    api, connect, news, next, open_checked, orders, plan, publish, read, sequences, servers,
};

/// The mark at this message.
async fn mark(connection: &Connection, sequence: u64) -> Option<Mark> {
    let message = streams::message_at(connection, "orders", Sequence(sequence));
    message.await.unwrap().map(|message| Mark {
        seq: message.sequence,
        ts: message.timestamp,
    })
}

fn stopped_by(event: &ReadEvent) -> Validity {
    match event {
        ReadEvent::Stopped {
            why: Stopped::Gate(GateClosed::Invalid(validity)),
        } => *validity,
        event => panic!("{event:?}"),
    }
}

// P109
#[tokio::test]
async fn a_start_beyond_the_end_is_a_truncation_and_not_an_endless_wait() {
    let server = servers().await;
    let connection = connect(&server).await;
    orders(&server, &connection, 10).await;
    let mut reader = open_checked(&connection, plan(12), None).await;
    let event = news(&mut reader, &mut Vec::new()).await;
    assert_eq!(stopped_by(&event), Validity::Truncated);
    // The end itself is no truncation.
    let mut reader = open_checked(&connection, plan(11), mark(&connection, 10).await).await;
    publish(&connection, "orders.0.k", [11]).await;
    assert_eq!(sequences(&read(&mut reader, 1).await), [11]);
}

// P110
#[tokio::test]
async fn a_start_below_the_first_message_names_how_many_are_lost() {
    let server = servers().await;
    let connection = connect(&server).await;
    orders(&server, &connection, 10).await;
    let mark = mark(&connection, 2).await;
    let purge = json!({ "seq": 6 });
    api(&server.url(), "STREAM.PURGE.orders", &purge).await;
    let mut reader = open_checked(&connection, plan(3), mark).await;
    let event = news(&mut reader, &mut Vec::new()).await;
    let overtaken = Validity::Overtaken {
        lost: 3,
        first: Sequence(6),
    };
    assert_eq!(stopped_by(&event), overtaken);
}

/// A reader that has read ten of thirty messages and has no room for more.
async fn lagging(servers: &NatsCluster, connection: &Connection) -> PartitionReader {
    orders(servers, connection, 30).await;
    let small = ReadPlan {
        window_messages: 10,
        ..plan(1)
    };
    let mut reader = open_checked(connection, small, None).await;
    let mut seen = Vec::new();
    while seen.len() < 10 {
        if let ReadEvent::Messages(messages) = next(&mut reader).await {
            seen.extend(sequences(&messages));
        }
    }
    assert_eq!(seen, (1..=10).collect::<Vec<u64>>());
    reader
}

// P110
#[tokio::test]
async fn a_reader_that_is_overtaken_while_it_reads_names_how_many_are_lost() {
    let server = servers().await;
    let connection = connect(&server).await;
    let mut reader = lagging(&server, &connection).await;
    let purge = json!({ "seq": 25 });
    api(&server.url(), "STREAM.PURGE.orders", &purge).await;
    reader.grant(10, 1 << 20);
    let mut seen = Vec::new();
    let event = news(&mut reader, &mut seen).await;
    let overtaken = Validity::Overtaken {
        lost: 14,
        first: Sequence(25),
    };
    assert_eq!(stopped_by(&event), overtaken);
    assert_eq!(seen, [0; 0]);
}

#[tokio::test]
async fn a_message_deleted_before_it_was_read_stops_nobody() {
    let server = servers().await;
    let connection = connect(&server).await;
    let mut reader = lagging(&server, &connection).await;
    for sequence in [15, 16, 20] {
        let delete = json!({ "seq": sequence });
        api(&server.url(), "STREAM.MSG.DELETE.orders", &delete).await;
    }
    reader.grant(10, 1 << 20);
    let rest: Vec<u64> = (11..=30).filter(|n| ![15, 16, 20].contains(n)).collect();
    assert_eq!(sequences(&read(&mut reader, rest.len()).await), rest);
}

// P109
#[tokio::test]
async fn a_stream_made_anew_under_a_reader_stops_it() {
    let server = servers().await;
    let connection = connect(&server).await;
    orders(&server, &connection, 5).await;
    let mut reader = open_checked(&connection, plan(1), None).await;
    assert_eq!(read(&mut reader, 5).await.len(), 5);
    streams::delete(&connection, "orders").await.unwrap();
    orders(&server, &connection, 9).await;
    let mut seen = Vec::new();
    let event = loop {
        match news(&mut reader, &mut seen).await {
            ReadEvent::Restarted { .. } | ReadEvent::Waiting { .. } => {}
            event => break event,
        }
    };
    assert_eq!(stopped_by(&event), Validity::Recreated);
    assert_eq!(seen, [0; 0]);
}

// P109
#[tokio::test]
async fn a_stream_restored_from_an_older_copy_stops_its_reader_although_it_was_not_made_anew() {
    // Copies of a store make sense for a single server.
    let mut server = NatsCluster::of(NatsServer::start().await.unwrap());
    let connection = connect(&server).await;
    orders(&server, &connection, 5).await;
    server.servers[0].stop().await.unwrap();
    let copies = tempfile::tempdir().unwrap();
    copy(&server.servers[0].store_dir(), copies.path());
    server.restart().await.unwrap();
    connection.up().await;
    publish(&connection, "orders.0.k", 6..=8).await;
    let mut reader = open_checked(&connection, plan(1), None).await;
    assert_eq!(read(&mut reader, 8).await.len(), 8);
    // Back to five messages; then as many others as there were, and more: 6 to 9 are used again.
    server.servers[0].stop().await.unwrap();
    std::fs::remove_dir_all(server.servers[0].store_dir()).unwrap();
    copy(copies.path(), &server.servers[0].store_dir());
    server.restart().await.unwrap();
    let writer = connect(&server).await;
    publish(&writer, "orders.0.k", 106..=109).await;
    let mut seen = Vec::new();
    let event = loop {
        match news(&mut reader, &mut seen).await {
            ReadEvent::Restarted { .. } | ReadEvent::Waiting { .. } => {}
            event => break event,
        }
    };
    assert_eq!(stopped_by(&event), Validity::Truncated);
    assert_eq!(seen, [0; 0], "messages of another history were handed over");
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
