//! Watches: what was there, what changes, and what happens to them.

use std::time::Duration;

use bytes::Bytes;
use lockstep::group::{Incarnation, Partition, Revision};
use lockstep::nats::{Bucket, CasOutcome, EntryValue, KeyFilter, PutOutcome, Watch, WatchEvent};
use lockstep::wire::keys::Key;

use super::setting::{SOON, bucket, connect, consumers, servers, settings};

fn incarnation() -> Incarnation {
    "m1".parse().unwrap()
}

async fn next(watch: &mut Watch) -> WatchEvent {
    let next = tokio::time::timeout(SOON, watch.next()).await;
    next.expect("nothing came from the watch")
        .expect("the watch ended")
}

/// What comes until everything has been loaded: keys and values.
async fn load(watch: &mut Watch) -> Vec<(Key, Bytes)> {
    let mut loaded = Vec::new();
    loop {
        match next(watch).await {
            WatchEvent::Entry(entry) => loaded.push(entry_of(entry)),
            WatchEvent::Loaded => return loaded,
            WatchEvent::Restarted { .. } | WatchEvent::Gone { .. } => loaded.clear(),
        }
    }
}

fn entry_of(entry: lockstep::nats::Entry) -> (Key, Bytes) {
    match entry.value {
        EntryValue::Put(value) => (entry.key, value),
        EntryValue::Marker => panic!("a marker at {}", entry.key),
    }
}

async fn put(bucket: &Bucket, key: &Key, value: &'static str) -> Revision {
    match bucket.put(key, value.into(), None).await {
        PutOutcome::Stored(revision) => revision,
        outcome => panic!("{outcome:?}"),
    }
}

// P28, P29
#[tokio::test]
async fn a_watch_loads_the_newest_values_and_then_sees_ones_own_writes_come_back() {
    let server = servers().await;
    let connection = connect(&server).await;
    let bucket = bucket(&server, &connection).await;
    put(&bucket, &Key::Meta, "old").await;
    put(&bucket, &Key::Meta, "m").await;
    put(&bucket, &Key::Group, "g").await;
    put(&bucket, &Key::Offset(Partition(0)), "o").await;
    let mut watch = bucket.watch(&KeyFilter::of_a_member(&incarnation()));
    let loaded = load(&mut watch).await;
    assert_eq!(loaded, [(Key::Meta, "m".into()), (Key::Group, "g".into())]);
    let own = Key::Member(incarnation());
    let revision = put(&bucket, &own, "1").await;
    let WatchEvent::Entry(echo) = next(&mut watch).await else {
        panic!("no echo");
    };
    assert_eq!((echo.key.clone(), echo.revision), (own, revision));
}

#[tokio::test]
async fn a_watch_of_an_empty_bucket_is_loaded_at_once() {
    let server = servers().await;
    let connection = connect(&server).await;
    let bucket = bucket(&server, &connection).await;
    let mut watch = bucket.watch(&KeyFilter::of_a_coordinator());
    let loaded = tokio::time::timeout(Duration::from_secs(5), load(&mut watch)).await;
    assert_eq!(loaded.expect("never loaded"), []);
}

// P29
#[tokio::test]
async fn a_watch_survives_a_restart_of_the_server_and_begins_anew() {
    let mut server = servers().await;
    let connection = connect(&server).await;
    let bucket = bucket(&server, &connection).await;
    put(&bucket, &Key::Group, "1").await;
    let mut watch = bucket.watch(&KeyFilter::of_a_coordinator());
    assert_eq!(load(&mut watch).await, [(Key::Group, "1".into())]);
    server.restart().await.unwrap();
    connection.up().await;
    let restarted = next(&mut watch).await;
    assert!(
        matches!(restarted, WatchEvent::Restarted { .. }),
        "{restarted:?}"
    );
    assert_eq!(load(&mut watch).await, [(Key::Group, "1".into())]);
    put(&bucket, &Key::Group, "2").await;
    let WatchEvent::Entry(entry) = next(&mut watch).await else {
        panic!("no entry");
    };
    assert_eq!(entry_of(entry), (Key::Group, "2".into()));
}

// P29
#[tokio::test]
async fn a_watch_says_that_its_bucket_was_replaced_by_beginning_anew_below_what_it_knew() {
    let server = servers().await;
    let connection = connect(&server).await;
    let bucket = bucket(&server, &connection).await;
    for _ in 0..50 {
        put(&bucket, &Key::Group, "before").await;
    }
    let mut watch = bucket.watch(&KeyFilter::of_a_coordinator());
    load(&mut watch).await;
    bucket.delete().await.unwrap();
    let (bucket, _) = Bucket::create(&connection, bucket.name(), &settings(1))
        .await
        .unwrap();
    let stored = bucket
        .replace(&Key::Group, "after".into(), Revision(0))
        .await;
    assert_eq!(stored, CasOutcome::Stored(Revision(1)));
    let restarted = next(&mut watch).await;
    assert!(
        matches!(restarted, WatchEvent::Restarted { .. }),
        "{restarted:?}"
    );
    assert_eq!(load(&mut watch).await, [(Key::Group, "after".into())]);
}

#[tokio::test]
async fn a_watch_says_that_its_bucket_is_gone() {
    let server = servers().await;
    let connection = connect(&server).await;
    let bucket = bucket(&server, &connection).await;
    put(&bucket, &Key::Group, "g").await;
    let mut watch = bucket.watch(&KeyFilter::of_a_coordinator());
    load(&mut watch).await;
    bucket.delete().await.unwrap();
    loop {
        match next(&mut watch).await {
            WatchEvent::Gone { .. } => break,
            WatchEvent::Restarted { .. } => {}
            event @ (WatchEvent::Entry(_) | WatchEvent::Loaded) => panic!("{event:?}"),
        }
    }
}

#[tokio::test]
async fn a_watch_that_is_dropped_leaves_no_consumer_behind() {
    let server = servers().await;
    let connection = connect(&server).await;
    let bucket = bucket(&server, &connection).await;
    let mut watch = bucket.watch(&KeyFilter::of_a_coordinator());
    load(&mut watch).await;
    let stream = format!("KV_{}", bucket.name());
    assert_eq!(consumers(&server.url(), &stream).await.len(), 1);
    drop(watch);
    let gone =
        lockstep_e2e::until(
            "the consumer to go",
            Duration::from_secs(10),
            async || match consumers(&server.url(), &stream).await.len() {
                0 => Ok(()),
                left => Err(left),
            },
        );
    gone.await.unwrap();
}
