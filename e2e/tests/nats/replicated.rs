//! Three servers, three replicas: where the answers differ from those of a single server.

use lockstep::group::{Partition, Revision};
use lockstep::nats::{
    Bucket, CasOutcome, Connection, EntryValue, Options, ReadEvent, Role, streams,
};
use lockstep::wire::keys::Key;
use lockstep_e2e::{NatsCluster, until};

use super::setting::{SOON, next, open, plan, publish, read, sequences, settings};

const BUCKET: &str = "lockstep_default_orders";

async fn connect(cluster: &NatsCluster) -> Connection {
    let options = Options::for_url(cluster.url());
    let connection = Connection::connect(&options, &Role::Coordinator, "test")
        .await
        .unwrap();
    tokio::time::timeout(SOON, connection.up()).await.unwrap();
    connection
}

async fn bucket(cluster: &NatsCluster, connection: &Connection) -> Bucket {
    let made = until("the bucket", SOON, async || {
        Bucket::create(connection, BUCKET, &settings(3)).await
    });
    let (bucket, facts) = made.await.unwrap();
    assert_eq!((facts.replicas, facts.differences), (3, vec![]));
    cluster.leader_of(&format!("KV_{BUCKET}")).await.unwrap();
    bucket
}

// P24
#[tokio::test]
async fn of_two_equal_writes_at_once_one_is_stored_and_the_other_is_no_fence() {
    let cluster = NatsCluster::start(3).await.unwrap();
    let connection = connect(&cluster).await;
    let bucket = bucket(&cluster, &connection).await;
    let key = Key::Offset(Partition(0));
    let mut stands_at = Revision(0);
    let mut busy = 0;
    for round in 0..60 {
        let value = || format!("{round}").into();
        let (one, two) = tokio::join!(
            bucket.replace(&key, value(), stands_at),
            bucket.replace(&key, value(), stands_at)
        );
        let mut stored = Vec::new();
        for outcome in [one, two] {
            match outcome {
                CasOutcome::Stored(revision) => stored.push(revision),
                CasOutcome::Conflict { stands_at } => assert!(stands_at.is_some()),
                CasOutcome::Busy => busy += 1,
                outcome @ (CasOutcome::Unknown { .. } | CasOutcome::Refused { .. }) => {
                    panic!("{outcome:?}")
                }
            }
        }
        assert_eq!(stored.len(), 1, "round {round}");
        stands_at = stored[0];
    }
    // A loser that was told "busy" and asks again learns that it has lost, and to what.
    assert!(
        busy > 0,
        "no write met another in flight: the test shows nothing"
    );
    let late = bucket.replace(&key, "late".into(), Revision(0)).await;
    let expected = CasOutcome::Conflict {
        stands_at: Some(stands_at),
    };
    assert_eq!(late, expected);
}

// P25
#[tokio::test]
async fn the_loss_of_the_leader_makes_writes_unknown_and_never_twofold() {
    let mut cluster = NatsCluster::start(3).await.unwrap();
    let connection = connect(&cluster).await;
    let bucket = bucket(&cluster, &connection).await;
    let key = Key::Offset(Partition(0));
    let stored = bucket.replace(&key, "0".into(), Revision(0)).await;
    let CasOutcome::Stored(mut stands_at) = stored else {
        panic!("{stored:?}");
    };
    let leader = cluster.leader_of(&format!("KV_{BUCKET}")).await.unwrap();
    cluster.servers[leader].kill().unwrap();
    // Each write is sent again until it is known to have landed, and read where it is not known.
    for round in 1..=20_u32 {
        let text = round.to_string();
        let landed = until(format!("write {round}"), 2 * SOON, async || {
            match bucket.replace(&key, text.clone().into(), stands_at).await {
                CasOutcome::Stored(revision) => Ok(revision),
                outcome @ (CasOutcome::Conflict { .. }
                | CasOutcome::Busy
                | CasOutcome::Unknown { .. }
                | CasOutcome::Refused { .. }) => match bucket.get(&key).await {
                    Ok(Some(entry)) if entry.value == EntryValue::Put(text.clone().into()) => {
                        Ok(entry.revision)
                    }
                    read => Err(format!("{outcome:?}, then {read:?}")),
                },
            }
        });
        let revision = landed.await.unwrap();
        assert!(revision > stands_at, "{revision} after {stands_at}");
        stands_at = revision;
    }
    let entry = bucket.get(&key).await.unwrap().unwrap();
    assert_eq!(entry.value, EntryValue::Put("20".into()));
}

#[tokio::test]
async fn a_reader_survives_the_loss_of_the_server_that_has_its_consumer() {
    let mut cluster = NatsCluster::start(3).await.unwrap();
    let connection = connect(&cluster).await;
    let made = until("the stream", SOON, async || {
        let plan = streams::StreamPlan {
            replicas: 3,
            ..streams::StreamPlan::plain("orders", vec!["orders.>".to_owned()])
        };
        streams::create(&connection, &plan).await
    });
    made.await.unwrap();
    cluster.leader_of("orders").await.unwrap();
    publish(&connection, "orders.0.k", 1..=30).await;
    let mut reader = open(&connection, plan(1));
    let mut all = sequences(&read(&mut reader, 30).await);
    let holder = until("the consumer's server", SOON, async || {
        for (index, server) in cluster.servers.iter().enumerate() {
            let page = server.inspect("/jsz?consumers=true").await;
            let page = page.map_err(|error| error.to_string())?.to_string();
            if page.contains("\"ls-") && page.contains(&format!("\"leader\":\"{}\"", server.name()))
            {
                return Ok(index);
            }
        }
        Err("none".to_owned())
    });
    let holder = holder.await.unwrap();
    cluster.servers[holder].kill().unwrap();
    let writer = connect(&cluster).await;
    for number in 31..=35 {
        let published = until(format!("message {number}"), 2 * SOON, async || {
            let message = lockstep::nats::Outgoing {
                subject: "orders.0.k".to_owned(),
                headers: Vec::new(),
                payload: number.to_string().into(),
                id: Some(format!("id-{number}")),
            };
            match lockstep::nats::publish(&writer, message).await {
                lockstep::nats::PublishOutcome::Stored { .. } => Ok(()),
                outcome => Err(format!("{outcome:?}")),
            }
        });
        published.await.unwrap();
    }
    while all.len() < 35 {
        match next(&mut reader).await {
            ReadEvent::Messages(messages) => all.extend(sequences(&messages)),
            ReadEvent::Idle { .. }
            | ReadEvent::Pending(_)
            | ReadEvent::Restarted { .. }
            | ReadEvent::Waiting { .. } => {}
            event @ ReadEvent::Stopped { .. } => panic!("{event:?}"),
        }
    }
    assert_eq!(all, (1..=35).collect::<Vec<u64>>());
}
