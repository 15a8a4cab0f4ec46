//! The rules of reading a partition.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lockstep::nats::{
    Broken, Connection, GateClosed, Options, PartitionReader, ReadEvent, ReadPlan, Role, Stopped,
};
use lockstep_e2e::proxy::{Mode, Proxy};
use lockstep_e2e::{NatsCluster, until};
use serde_json::json;

use super::setting::{
    SOON, api, connect, connect_to, consumers, news, next, open, orders, plan, publish,
    publish_bytes, read, sequences, servers,
};

/// Waits for the reader's only consumer; its name.
async fn consumer(server: &NatsCluster) -> String {
    let url = server.url();
    let found = until("the reader's consumer", SOON, async || {
        let mut names = consumers(&url, "orders").await;
        match names.len() {
            1 => Ok(names.remove(0)),
            _ => Err(format!("{names:?}")),
        }
    });
    found.await.unwrap()
}

async fn delete_consumer(server: &NatsCluster) {
    let name = consumer(server).await;
    let call = format!("CONSUMER.DELETE.orders.{name}");
    let answer = api(&server.url(), &call, &json!(null)).await;
    assert_eq!(answer["success"], true, "{answer}");
}

// P101, P102
#[tokio::test]
async fn a_partition_is_read_from_where_it_was_left_and_in_order() {
    let server = servers().await;
    let connection = connect(&server).await;
    orders(&server, &connection, 30).await;
    publish(&connection, "orders.1.k", 1..=5).await;
    publish(&connection, "orders.0.k", 31..=40).await;
    let mut reader = open(&connection, plan(11));
    let messages = read(&mut reader, 30).await;
    let expected: Vec<u64> = (11..=30).chain(36..=45).collect();
    assert_eq!(sequences(&messages), expected);
    assert_eq!(messages.last().unwrap().pending, 0);
    reader.close().await;
    assert_eq!(consumers(&server.url(), "orders").await, [""; 0]);
}

// P105
#[tokio::test]
async fn a_consumer_deleted_before_its_first_message_is_made_anew_at_the_same_place() {
    let server = servers().await;
    let connection = connect(&server).await;
    orders(&server, &connection, 10).await;
    let mut reader = open(&connection, plan(11));
    delete_consumer(&server).await;
    let mut seen = Vec::new();
    let event = news(&mut reader, &mut seen).await;
    assert!(
        matches!(
            event,
            ReadEvent::Restarted {
                why: Broken::Gone(_)
            }
        ),
        "{event:?}"
    );
    publish(&connection, "orders.0.k", 11..=12).await;
    assert_eq!(sequences(&read(&mut reader, 2).await), [11, 12]);
    assert_eq!(seen, [0; 0]);
}

// P105, P106
#[tokio::test]
async fn a_consumer_deleted_after_some_messages_is_made_anew_behind_them() {
    let server = servers().await;
    let connection = connect(&server).await;
    orders(&server, &connection, 10).await;
    let mut reader = open(&connection, plan(1));
    assert_eq!(read(&mut reader, 10).await.len(), 10);
    delete_consumer(&server).await;
    publish(&connection, "orders.0.k", 11..=12).await;
    let mut seen = Vec::new();
    let event = news(&mut reader, &mut seen).await;
    assert!(matches!(event, ReadEvent::Restarted { .. }), "{event:?}");
    assert_eq!(sequences(&read(&mut reader, 2).await), [11, 12]);
    assert_eq!(seen, [0; 0]);
    // The one that was deleted by somebody else has a successor of the next attempt.
    assert!(consumer(&server).await.ends_with("-2"));
}

/// Lets the server send a message that never arrives.
async fn lose(proxy: &Proxy, direct: &Connection, server: &NatsCluster, number: u64) {
    let name = consumer(server).await;
    proxy.set(Mode::LoseToClient);
    publish(direct, "orders.0.k", [number]).await;
    let url = server.url();
    let sent = until("the delivery of a message", SOON, async || {
        let call = format!("CONSUMER.INFO.orders.{name}");
        let info = api(&url, &call, &json!(null)).await;
        match info["delivered"]["consumer_seq"].as_u64() {
            Some(sent) if sent == number => Ok(()),
            _ => Err(info.to_string()),
        }
    });
    sent.await.unwrap();
    proxy.set(Mode::Pass);
}

// P104
#[tokio::test]
async fn a_lost_tail_is_noticed_by_its_heartbeat_and_read_again() {
    let server = servers().await;
    let direct = connect(&server).await;
    orders(&server, &direct, 5).await;
    let proxy = Proxy::before(&server.servers[0]).await.unwrap();
    let connection = connect_to(&proxy.url()).await;
    let mut reader = open(&connection, plan(1));
    assert_eq!(read(&mut reader, 5).await.len(), 5);
    lose(&proxy, &direct, &server, 6).await;
    let mut seen = Vec::new();
    let event = news(&mut reader, &mut seen).await;
    let lost = Broken::TailLost { ours: 5, theirs: 6 };
    assert!(
        matches!(&event, ReadEvent::Restarted { why } if *why == lost),
        "{event:?}"
    );
    assert_eq!(sequences(&read(&mut reader, 1).await), [6]);
    assert_eq!(seen, [0; 0]);
}

// P103
#[tokio::test]
async fn a_lost_message_in_the_middle_is_a_gap_and_read_again() {
    let server = servers().await;
    let direct = connect(&server).await;
    orders(&server, &direct, 5).await;
    let proxy = Proxy::before(&server.servers[0]).await.unwrap();
    let connection = connect_to(&proxy.url()).await;
    let mut reader = open(&connection, plan(1));
    assert_eq!(read(&mut reader, 5).await.len(), 5);
    lose(&proxy, &direct, &server, 6).await;
    publish(&direct, "orders.0.k", [7]).await;
    let mut seen = Vec::new();
    let event = news(&mut reader, &mut seen).await;
    let gap = Broken::Gap { due: 6, came: 7 };
    assert!(
        matches!(&event, ReadEvent::Restarted { why } if *why == gap),
        "{event:?}"
    );
    assert_eq!(sequences(&read(&mut reader, 2).await), [6, 7]);
    assert_eq!(seen, [0; 0]);
}

#[tokio::test]
async fn messages_that_the_client_dropped_are_read_again() {
    let server = servers().await;
    let direct = connect(&server).await;
    orders(&server, &direct, 40).await;
    // A subscription that holds 8 messages drops what comes while nobody takes it.
    let options = Options {
        subscription_capacity: 8,
        ..Options::for_url(server.url())
    };
    let connection = Connection::connect(&options, &Role::Coordinator, "slow")
        .await
        .unwrap();
    connection.up().await;
    let mut reader = open(&connection, plan(1));
    let mut seen = Vec::new();
    let mut gaps = 0;
    while seen.len() < 40 {
        match next(&mut reader).await {
            ReadEvent::Messages(messages) => {
                for message in &messages {
                    reader.grant(1, message.size);
                }
                seen.extend(sequences(&messages));
            }
            ReadEvent::Restarted {
                why: Broken::Gap { .. } | Broken::TailLost { .. },
            } => gaps += 1,
            ReadEvent::Idle { .. } | ReadEvent::Pending(_) | ReadEvent::Waiting { .. } => {}
            event @ (ReadEvent::Restarted { .. } | ReadEvent::Stopped { .. }) => {
                panic!("{event:?}")
            }
        }
    }
    let all: Vec<u64> = (1..=40).collect();
    assert_eq!(seen, all);
    assert!(gaps > 0, "nothing was dropped: the test shows nothing");
}

#[tokio::test]
async fn a_restart_of_the_server_costs_neither_a_message_nor_a_duplicate() {
    let mut server = servers().await;
    let connection = connect(&server).await;
    orders(&server, &connection, 20).await;
    let mut reader = open(&connection, plan(1));
    let mut all = sequences(&read(&mut reader, 20).await);
    server.restart().await.unwrap();
    connection.up().await;
    publish(&connection, "orders.0.k", 21..=25).await;
    let event = news(&mut reader, &mut all).await;
    assert!(matches!(event, ReadEvent::Restarted { .. }), "{event:?}");
    while all.len() < 25 {
        all.extend(sequences(&read(&mut reader, 1).await));
    }
    let expected: Vec<u64> = (1..=25).collect();
    assert_eq!(all, expected);
}

#[tokio::test]
async fn a_half_open_connection_is_noticed_and_what_was_missed_is_read() {
    let server = servers().await;
    let direct = connect(&server).await;
    orders(&server, &direct, 3).await;
    let proxy = Proxy::before(&server.servers[0]).await.unwrap();
    let connection = connect_to(&proxy.url()).await;
    let mut reader = open(&connection, plan(1));
    assert_eq!(read(&mut reader, 3).await.len(), 3);
    proxy.set(Mode::Freeze);
    publish(&direct, "orders.0.k", [4]).await;
    let mut seen = Vec::new();
    let event = news(&mut reader, &mut seen).await;
    assert!(
        matches!(
            event,
            ReadEvent::Restarted {
                why: Broken::Silent(_)
            }
        ),
        "{event:?}"
    );
    let down = until("the connection to be given up", SOON, async || {
        if connection.is_up() {
            Err("up")
        } else {
            Ok(())
        }
    });
    down.await.unwrap();
    proxy.cut();
    proxy.set(Mode::Pass);
    assert_eq!(sequences(&read(&mut reader, 1).await), [4]);
}

// P105, P109
#[tokio::test]
async fn the_gate_is_asked_after_every_creation_and_nothing_passes_before_its_word() {
    let server = servers().await;
    let connection = connect(&server).await;
    orders(&server, &connection, 3).await;
    let asked = Arc::new(AtomicU32::new(0));
    let at_the_gate = Arc::clone(&asked);
    let mut reader = PartitionReader::open(&connection, plan(1), move |delivered| {
        let nth = at_the_gate.fetch_add(1, Ordering::Relaxed);
        async move {
            match (nth, delivered) {
                (0, None) => Err(GateClosed::Unknown("the stream did not answer".to_owned())),
                (1, None) => Ok(()),
                (_, Some(mark)) if mark.seq.0 == 3 => Err(GateClosed::NotOurs),
                (_, delivered) => panic!("asked {nth} times, delivered {delivered:?}"),
            }
        }
    });
    // It cannot say yet: asked again, and nothing delivered.
    let event = next(&mut reader).await;
    assert!(matches!(event, ReadEvent::Waiting { .. }), "{event:?}");
    assert_eq!(sequences(&read(&mut reader, 3).await), [1, 2, 3]);
    assert_eq!(asked.load(Ordering::Relaxed), 2);
    // After the lease is over nothing is delivered, although there would be something.
    delete_consumer(&server).await;
    publish(&connection, "orders.0.k", 4..=5).await;
    let mut seen = Vec::new();
    let event = news(&mut reader, &mut seen).await;
    assert!(matches!(event, ReadEvent::Restarted { .. }), "{event:?}");
    let event = news(&mut reader, &mut seen).await;
    let closed = Stopped::Gate(GateClosed::NotOurs);
    assert!(
        matches!(&event, ReadEvent::Stopped { why } if *why == closed),
        "{event:?}"
    );
    assert!(reader.next().await.is_none());
    assert_eq!(seen, [0; 0]);
    assert_eq!(consumers(&server.url(), "orders").await, [""; 0]);
}

// P102, P108
#[tokio::test]
async fn no_more_is_taken_from_the_server_than_the_window_holds() {
    let server = servers().await;
    let connection = connect(&server).await;
    orders(&server, &connection, 50).await;
    let narrow = ReadPlan {
        window_messages: 10,
        ..plan(1)
    };
    let mut reader = open(&connection, narrow);
    let mut taken = Vec::new();
    while taken.len() < 10 {
        if let ReadEvent::Messages(messages) = next(&mut reader).await {
            taken.extend(messages);
        }
    }
    assert_eq!(taken.len(), 10);
    let name = consumer(&server).await;
    let info = api(
        &server.url(),
        &format!("CONSUMER.INFO.orders.{name}"),
        &json!(null),
    )
    .await;
    assert_eq!(info["delivered"]["consumer_seq"], 10, "{info}");
    assert_eq!(info["num_waiting"], 0, "{info}");
    // Room for four: four come.
    let bytes = taken[..4].iter().map(|message| message.size).sum();
    reader.grant(4, bytes);
    let ReadEvent::Messages(more) = next(&mut reader).await else {
        panic!("no messages");
    };
    assert_eq!(sequences(&more)[0], 11);
    let waiting = until("the window to be full", SOON, async || {
        let call = format!("CONSUMER.INFO.orders.{name}");
        let info = api(&server.url(), &call, &json!(null)).await;
        if info["num_waiting"] == 0 {
            Ok(info)
        } else {
            Err(info)
        }
    });
    assert_eq!(waiting.await.unwrap()["delivered"]["consumer_seq"], 14);
}

// P107
#[tokio::test]
async fn a_message_larger_than_the_window_comes_by_itself_and_in_its_place() {
    let server = servers().await;
    let connection = connect(&server).await;
    orders(&server, &connection, 3).await;
    publish_bytes(&connection, "orders.0.k", vec![b'x'; 300_000]).await;
    publish(&connection, "orders.0.k", 5..=6).await;
    let small = ReadPlan {
        window_bytes: 64 * 1024,
        ..plan(1)
    };
    let mut reader = open(&connection, small);
    let messages = read(&mut reader, 6).await;
    assert_eq!(sequences(&messages), [1, 2, 3, 4, 5, 6]);
    assert_eq!(messages[3].payload.len(), 300_000);
}

// P101
#[tokio::test]
async fn a_name_in_use_is_never_shared_but_passed_over() {
    let server = servers().await;
    let connection = connect(&server).await;
    orders(&server, &connection, 3).await;
    // The name of a first attempt, as another reader would have it.
    let probe = open(&connection, plan(1));
    let name = consumer(&server).await;
    probe.close().await;
    let config = json!({
        "stream_name": "orders", "action": "create",
        "config": {
            "name": name, "ack_policy": "none", "deliver_policy": "by_start_sequence",
            "opt_start_seq": 1, "filter_subject": "orders.0.>", "mem_storage": true,
            "num_replicas": 1, "inactive_threshold": 40_000_000_000_u64
        }
    });
    let call = format!("CONSUMER.CREATE.orders.{name}.orders.0.>");
    let made = api(&server.url(), &call, &config).await;
    assert!(made["error"].is_null(), "{made}");
    let mut reader = open(&connection, plan(1));
    assert_eq!(sequences(&read(&mut reader, 3).await), [1, 2, 3]);
    let names = consumers(&server.url(), "orders").await;
    let second = format!("{}-2", name.trim_end_matches("-1"));
    assert!(names.contains(&second), "{names:?}");
}

#[tokio::test]
async fn an_idle_partition_says_how_far_it_was_looked_through() {
    let server = servers().await;
    let connection = connect(&server).await;
    orders(&server, &connection, 2).await;
    publish(&connection, "orders.1.k", 1..=7).await;
    let mut reader = open(&connection, plan(1));
    assert_eq!(read(&mut reader, 2).await.len(), 2);
    loop {
        if let ReadEvent::Idle { scanned_to } = next(&mut reader).await
            && scanned_to.0 == 9
        {
            break;
        }
    }
    let mark = lockstep::nats::mark_of_idle_position(
        &connection,
        "orders",
        lockstep::group::Sequence(999),
    );
    assert_eq!(mark.await.unwrap().unwrap().seq.0, 9);
}

#[tokio::test]
async fn a_stream_of_one_partition_is_read_without_a_filter() {
    let server = servers().await;
    let connection = connect(&server).await;
    orders(&server, &connection, 5).await;
    let whole = ReadPlan {
        filter: None,
        ..plan(1)
    };
    let mut reader = open(&connection, whole);
    assert_eq!(sequences(&read(&mut reader, 5).await), [1, 2, 3, 4, 5]);
    let name = consumer(&server).await;
    let info = api(
        &server.url(),
        &format!("CONSUMER.INFO.orders.{name}"),
        &json!(null),
    )
    .await;
    assert!(info["config"]["filter_subject"].is_null(), "{info}");
    assert_eq!(info["config"]["ack_policy"], "none");
    assert_eq!(info["config"]["mem_storage"], true);
    assert_eq!(info["config"]["num_replicas"], 1);
}
