//! Loss of state: never silently made anew. // P129

use lockstep::coordinator::Phase;
use lockstep::coordinator::provision::{Missing, ProvisionError};
use lockstep::group::decide::{Aspect, Trouble};
use lockstep::group::{BucketId, Epoch, Held, HoldState, Partition, Sequence};
use lockstep::nats::{Bucket, BucketError, BucketSettings};
use lockstep_e2e::until;

use super::stage::{Member, SOON, Stage, group, manifest};

#[tokio::test]
async fn a_missing_bucket_is_made_only_when_asked_for() {
    let stage = Stage::new().await;
    let refused = stage
        .start("c1", Missing::Refuse, &[group(&manifest("orders"))])
        .await;
    let error = refused.refusal().await;
    assert!(matches!(error, ProvisionError::NoBucket { .. }), "{error}");
    assert!(error.to_string().contains("--create"), "{error}");
    let name = "lockstep_default_orders";
    let opened = Bucket::open(&stage.connection, name).await;
    assert!(
        matches!(opened, Err(BucketError::Missing { .. })),
        "{opened:?}"
    );
}

#[tokio::test]
async fn a_bucket_that_vanishes_is_not_made_anew() {
    let stage = Stage::new().await;
    let running = stage.with_group("c1", &manifest("orders")).await;
    stage.bucket("orders").await.delete().await.unwrap();
    running
        .has_trouble("default/orders", Aspect::Provisioned, Trouble::StateLost)
        .await;
    assert_eq!(running.status("default/orders").phase, Phase::Stopped);
    let opened = Bucket::open(&stage.connection, "lockstep_default_orders").await;
    assert!(
        matches!(opened, Err(BucketError::Missing { .. })),
        "{opened:?}"
    );
    running.stop().await.unwrap();
}

#[tokio::test]
async fn another_bucket_under_the_same_name_is_lost_state_and_gets_no_word() {
    // P33
    let stage = Stage::new().await;
    let running = stage.with_group("c1", &manifest("orders")).await;
    let bucket = stage.bucket("orders").await;
    bucket.delete().await.unwrap();
    let settings = BucketSettings {
        replicas: 1,
        id: BucketId::new("another"),
        group_uid: String::new(),
        history: 1,
    };
    let made = Bucket::create(&stage.connection, bucket.name(), &settings).await;
    let (bucket, _) = made.unwrap();
    running
        .has_trouble("default/orders", Aspect::Provisioned, Trouble::StateLost)
        .await;
    // Beats that were on their way land; no document does.
    let document = bucket.get(&lockstep::wire::keys::Key::Group).await.unwrap();
    let meta = bucket.get(&lockstep::wire::keys::Key::Meta).await.unwrap();
    assert_eq!((document, meta), (None, None));
    running.stop().await.unwrap();
}

#[tokio::test]
async fn an_accepted_loss_begins_with_what_live_members_have_committed() {
    let stage = Stage::new().await;
    let first = stage.with_group("c1", &manifest("orders")).await;
    stage.publish("orders.a", 20).await;
    let before = stage.meta("orders").await;
    let bucket = stage.bucket("orders").await;
    let member = Member::start(&bucket, &before.bucket, "m1");
    let document = stage
        .sees("orders", "an owner", |d| member.owns(d).len() == 4)
        .await;
    let granted = document.partitions[1].epoch;
    member.says(|says| says.held = vec![held(1, granted, 13), held(2, granted, 7)]);
    first.stop().await.unwrap();
    bucket.delete().await.unwrap();

    let groups = [group(&manifest("orders"))];
    let second = stage.start("c2", Missing::MakeAfterLoss, &groups).await;
    second.coordinates("default/orders").await;
    stage.sees("orders", "the seed", |d| d.seeded).await;
    let after = stage.meta("orders").await;
    assert_ne!(after.bucket, before.bucket);
    let mut next = Vec::new();
    for partition in 0..4 {
        next.push(stage.offset("orders", partition).await.next_seq.0);
    }
    assert_eq!(next, [1, 13, 7, 1], "reported, or by startFrom");
    // P70 P71: above every epoch of the lost bucket.
    let document = stage.document("orders").await;
    assert!(
        document.partitions.iter().all(|a| a.epoch >= granted),
        "{document:?}"
    );
    second.stop().await.unwrap();
}

#[tokio::test]
async fn a_bucket_that_comes_back_goes_on() {
    // As after a restore of the stream: the same identity.
    let stage = Stage::new().await;
    let running = stage.with_group("c1", &manifest("orders")).await;
    let bucket = stage.bucket("orders").await;
    let (meta, document) = (stage.meta("orders").await, stage.document("orders").await);
    bucket.delete().await.unwrap();
    running
        .has_trouble("default/orders", Aspect::Provisioned, Trouble::StateLost)
        .await;
    let settings = BucketSettings {
        replicas: 1,
        id: meta.bucket.clone(),
        group_uid: String::new(),
        history: 1,
    };
    let (bucket, _) = Bucket::create(&stage.connection, bucket.name(), &settings)
        .await
        .unwrap();
    let meta_bytes = lockstep::wire::meta::encode(&meta).unwrap();
    let group_bytes = lockstep::wire::group::encode(&document).unwrap();
    for (key, bytes) in [
        (lockstep::wire::keys::Key::Meta, meta_bytes),
        (lockstep::wire::keys::Key::Group, group_bytes),
    ] {
        let put = bucket.put(&key, bytes.into(), None).await;
        assert!(
            matches!(put, lockstep::nats::PutOutcome::Stored(_)),
            "{put:?}"
        );
    }
    let well = until("the end of the trouble", SOON, async || {
        match running.trouble("default/orders", Aspect::Provisioned) {
            None => Ok(()),
            Some(trouble) => Err(trouble),
        }
    });
    well.await.unwrap();
    running.coordinates("default/orders").await;
    let after = stage.document("orders").await;
    assert!(after.term > document.term);
    // The commit records are gone: damage, and nothing is seeded again. // P13
    running
        .has_trouble("default/orders", Aspect::OffsetsValid, Trouble::OffsetLost)
        .await;
    running.stop().await.unwrap();
}

fn held(partition: u32, epoch: Epoch, committed: u64) -> Held {
    Held {
        partition: Partition(partition),
        epoch,
        state: HoldState::Feeding,
        position: Sequence(committed + 1),
        committed: Sequence(committed),
        in_flight: 1,
        pending: Some(3),
        head_attempts: 0,
    }
}
