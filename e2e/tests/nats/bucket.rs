//! The bucket: its settings, and how each write ends.

use std::time::Duration;

use lockstep::group::{BucketId, Incarnation, Partition, Revision};
use lockstep::nats::{
    Bucket, BucketError, BucketSettings, CasOutcome, EntryValue, KeyFilter, PutOutcome,
};
use lockstep::wire::keys::Key;
use lockstep_e2e::until;

use super::setting::{SOON, bucket, connect, servers, settings};

fn offset(partition: u32) -> Key {
    Key::Offset(Partition(partition))
}

fn member() -> Key {
    Key::Member("m1".parse::<Incarnation>().unwrap())
}

// P10
#[tokio::test]
async fn a_bucket_is_made_as_it_should_be_and_opened_again() {
    let server = servers().await;
    let connection = connect(&server).await;
    connection.check_version().await.unwrap();
    let name = "lockstep_default_orders";
    let missing = Bucket::open(&connection, name).await;
    assert!(matches!(missing, Err(BucketError::Missing { .. })));
    let (_, made) = Bucket::create(&connection, name, &settings(1))
        .await
        .unwrap();
    assert_eq!(made.id, Some(BucketId::new("b1")));
    assert_eq!(made.differences, []);
    let (_, opened) = Bucket::open(&connection, name).await.unwrap();
    assert_eq!(opened, made);
    // The same again is no error; another identity is.
    let (_, again) = Bucket::create(&connection, name, &settings(1))
        .await
        .unwrap();
    assert_eq!(again, made);
    let other = BucketSettings {
        id: BucketId::new("b2"),
        ..settings(1)
    };
    let taken = Bucket::create(&connection, name, &other).await;
    assert!(matches!(taken, Err(BucketError::Taken { .. })), "{taken:?}");
    let names = Bucket::names(&connection, "lockstep").await.unwrap();
    assert_eq!(names, [name]);
}

// P22, P23
#[tokio::test]
async fn a_write_is_stored_only_over_the_revision_that_it_names() {
    let server = servers().await;
    let connection = connect(&server).await;
    let bucket = bucket(&server, &connection).await;
    let write = |text: &'static str, at| {
        let bucket = bucket.clone();
        async move { bucket.replace(&offset(0), text.into(), Revision(at)).await }
    };
    assert_eq!(write("a", 0).await, CasOutcome::Stored(Revision(1)));
    let stands_at = Some(Revision(1));
    assert_eq!(write("b", 0).await, CasOutcome::Conflict { stands_at });
    assert_eq!(write("b", 1).await, CasOutcome::Stored(Revision(2)));
    let entry = bucket.get(&offset(0)).await.unwrap().unwrap();
    assert_eq!(entry.revision, Revision(2));
    assert_eq!(entry.value, EntryValue::Put("b".into()));
    assert_eq!(bucket.get(&offset(1)).await.unwrap(), None);
}

// P12
#[tokio::test]
async fn a_write_with_a_time_to_live_goes_and_one_without_stays() {
    let server = servers().await;
    let connection = connect(&server).await;
    let bucket = bucket(&server, &connection).await;
    let ttl = Some(Duration::from_secs(1));
    let put = bucket.put(&member(), "1".into(), ttl).await;
    assert_eq!(put, PutOutcome::Stored(Revision(1)));
    let put = bucket.put(&Key::Group, "g".into(), None).await;
    assert_eq!(put, PutOutcome::Stored(Revision(2)));
    let gone = until("the member's key to go", SOON, async || {
        match bucket.get(&member()).await.unwrap() {
            None => Ok(()),
            Some(entry) => Err(format!("{entry:?}")),
        }
    });
    gone.await.unwrap();
    assert!(bucket.get(&Key::Group).await.unwrap().is_some());
}

// P14
#[tokio::test]
async fn a_deleted_key_is_a_marker_and_never_absent() {
    let server = servers().await;
    let connection = connect(&server).await;
    let bucket = bucket(&server, &connection).await;
    let stored = bucket.replace(&Key::Group, "g".into(), Revision(0)).await;
    assert_eq!(stored, CasOutcome::Stored(Revision(1)));
    let client = server.connect().await.unwrap();
    let mut headers = async_nats::HeaderMap::new();
    headers.insert("KV-Operation", "DEL");
    let subject = format!("$KV.{}.group", bucket.name());
    let jetstream = async_nats::jetstream::new(client);
    let deleted = jetstream.publish_with_headers(subject, headers, "".into());
    deleted.await.unwrap().await.unwrap();
    let entry = bucket.get(&Key::Group).await.unwrap().unwrap();
    assert_eq!(entry.value, EntryValue::Marker);
}

#[tokio::test]
async fn keys_are_listed_by_kind_and_without_a_consumer() {
    let server = servers().await;
    let connection = connect(&server).await;
    let bucket = bucket(&server, &connection).await;
    for partition in 0..40 {
        let key = offset(partition);
        let stored = bucket.replace(&key, "x".into(), Revision(0)).await;
        assert!(matches!(stored, CasOutcome::Stored(_)));
    }
    let ttl = Some(Duration::from_secs(60));
    let put = bucket.put(&member(), "1".into(), ttl).await;
    assert!(matches!(put, PutOutcome::Stored(_)));
    let offsets = bucket.list(&KeyFilter::AllOffsets).await.unwrap();
    assert_eq!(offsets.len(), 40);
    let members = bucket.list(&KeyFilter::AllMembers).await.unwrap();
    assert_eq!(members.len(), 1);
    assert_eq!(members[0].key, member());
    let all = bucket.list(&KeyFilter::Everything).await.unwrap();
    assert_eq!(all.len(), 41);
}
