//! `group pause | resume | adopt | delete`

use std::collections::{BTreeMap, BTreeSet};

use lockstep::group::{
    Json, MemberState, MetaGeneration, Partition, Sequence, StopReason, Stopped,
};
use lockstep::nats::{Bucket, BucketError, EntryValue, StreamError, streams};
use lockstep::wire::keys::Key;

use crate::plant::{self, Plant, heartbeat, record};

fn these(numbers: &[u32]) -> BTreeSet<Partition> {
    numbers.iter().map(|p| Partition(*p)).collect()
}

/// Both members say that they have left.
async fn members_leave(plant: &Plant) {
    for (incarnation, id) in [("a1", "pod-a"), ("b1", "pod-b")] {
        let mut left = heartbeat(id, &[], 0);
        left.state = MemberState::Left;
        plant.put_member(incarnation, &left).await;
    }
}

async fn bucket_exists(plant: &Plant) -> bool {
    match Bucket::open(&plant.connection, "lockstep_default_orders").await {
        Ok(_) => true,
        Err(BucketError::Missing { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

async fn stream_exists(plant: &Plant) -> bool {
    match streams::info(&plant.connection, "ORDERS").await {
        Ok(_) => true,
        Err(StreamError::Missing { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

// P11, P15
#[tokio::test]
async fn pause_and_resume_write_the_next_generation_and_keep_everything_else() {
    let plant = Plant::new().await;
    let mut before = plant.meta().await;
    before
        .unknown
        .insert("of_a_newer_version".to_owned(), Json::Unsigned(5));
    plant.put_meta(&before).await;

    let said = plant.ok("group pause orders").await;
    assert_eq!(said, "group default/orders is paused as of generation 4\n");
    let paused = plant.meta().await;
    assert!(paused.pause.all);
    assert_eq!(paused.generation, MetaGeneration(4));

    let said = plant.ok("group pause orders").await;
    assert_eq!(said, "group default/orders was paused already\n");
    assert_eq!(plant.meta().await, paused);

    plant.ok("group resume orders").await;
    before.generation = MetaGeneration(5);
    assert_eq!(plant.meta().await, before);
}

#[tokio::test]
async fn partitions_are_paused_alone_and_a_wrong_one_changes_nothing() {
    let plant = Plant::new().await;
    plant.ok("group pause orders --partitions 0,3").await;
    assert_eq!(plant.meta().await.pause.partitions, these(&[0, 3]));
    let json = plant.json("group describe orders -o json").await;
    assert_eq!(json["partitions"][3]["state"], "paused");
    plant.ok("group resume orders --partitions 3").await;
    let meta = plant.meta().await;
    assert_eq!(meta.pause.partitions, these(&[0]));
    plant
        .fails(
            "group pause orders --partitions 1,4",
            2,
            &["no partition 4", "0 to 3"],
        )
        .await;
    assert_eq!(plant.meta().await, meta);
}

#[tokio::test]
async fn changes_at_the_same_time_are_all_made() {
    let plant = Plant::new().await;
    let one = async |p: u32| {
        plant
            .ok(&format!("group pause orders --partitions {p}"))
            .await
    };
    tokio::join!(one(0), one(1), one(2), one(3));
    let meta = plant.meta().await;
    assert_eq!(meta.pause.partitions, these(&[0, 1, 2, 3]));
    assert_eq!(meta.generation, MetaGeneration(7));
}

#[tokio::test]
async fn resume_lifts_what_stands_still() {
    let plant = Plant::new().await;
    let stream = plant.stream().await;
    for p in [1, 2] {
        let mut stopped = record(p, "a1", 9, &stream);
        stopped.stopped = Some(Stopped {
            seq: Sequence(9),
            reason: StopReason::MessageStuck,
            detail: String::new(),
            generation: MetaGeneration(3),
        });
        plant.put_record(p, &stopped).await;
    }
    plant.ok("group resume orders --partitions 2,3").await;
    let lifted = BTreeMap::from([(Partition(2), MetaGeneration(4))]);
    assert_eq!(plant.meta().await.resumed, lifted);
    plant.ok("group resume orders").await;
    let lifted = BTreeMap::from([
        (Partition(1), MetaGeneration(5)),
        (Partition(2), MetaGeneration(4)),
    ]);
    assert_eq!(plant.meta().await.resumed, lifted);
    let said = plant.ok("group resume orders").await;
    assert_eq!(said, "group default/orders was resumed already\n");
}

#[tokio::test]
async fn a_group_of_a_cluster_is_changed_only_after_it_was_adopted() {
    let plant = Plant::new().await;
    let mut meta = plant.meta().await;
    "kubernetes/cluster-1".clone_into(&mut meta.manager);
    plant.put_meta(&meta).await;
    for (line, instead) in [
        ("group pause orders", "kubectl patch"),
        ("group resume orders", "kubectl patch"),
        ("group delete orders", "delete the ConsumerGroup object"),
    ] {
        plant
            .fails(line, 1, &["managed by kubernetes/cluster-1", instead])
            .await;
    }
    assert_eq!(plant.meta().await, meta);
    let said = plant.ok("group adopt orders").await;
    assert_eq!(
        said,
        "group default/orders is managed by standalone as of generation 4\n"
    );
    assert_eq!(plant.meta().await.manager, "standalone");
    let said = plant.ok("group adopt orders").await;
    assert_eq!(
        said,
        "group default/orders was managed by standalone already\n"
    );
    plant.ok("group pause orders").await;
}

#[tokio::test]
async fn a_damaged_description_is_never_written_over() {
    let plant = Plant::new().await;
    for damage in ["nonsense", "{\"format\":2}"] {
        plant.put(&Key::Meta, damage).await;
        for command in ["pause", "resume", "adopt"] {
            let line = format!("group {command} orders");
            plant.fails(&line, 1, &["key meta", "damaged"]).await;
        }
        let entry = plant.bucket.get(&Key::Meta).await.unwrap().unwrap();
        assert_eq!(entry.value, EntryValue::Put(damage.into()));
    }
}

#[tokio::test]
async fn a_group_with_running_members_is_not_deleted() {
    let plant = Plant::new().await;
    plant
        .fails(
            "group delete orders",
            1,
            &["running members (pod-a, pod-b)", "stop them"],
        )
        .await;
    assert!(bucket_exists(&plant).await && stream_exists(&plant).await);
}

#[tokio::test]
async fn delete_takes_the_bucket_and_the_stream_that_was_made_for_the_group() {
    let plant = Plant::new().await;
    members_leave(&plant).await;
    let said = plant.ok("group delete orders").await;
    assert_eq!(
        said,
        "group default/orders is deleted\nstream ORDERS is deleted\n"
    );
    assert!(!bucket_exists(&plant).await && !stream_exists(&plant).await);
}

#[tokio::test]
async fn delete_keeps_the_stream_when_told_to() {
    let plant = Plant::new().await;
    members_leave(&plant).await;
    plant.ok("group delete orders --keep-stream").await;
    assert!(!bucket_exists(&plant).await && stream_exists(&plant).await);
}

#[tokio::test]
async fn delete_keeps_a_stream_that_another_group_reads() {
    let plant = Plant::new().await;
    members_leave(&plant).await;
    let meta = plant.meta().await;
    plant::empty_group(&plant.connection, "shop/audit", &meta).await;
    let finished = plant.run("group delete orders").await;
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert_eq!(
        finished.stderr,
        "stream ORDERS stays: group shop/audit reads it\n"
    );
    assert!(!bucket_exists(&plant).await && stream_exists(&plant).await);
}

#[tokio::test]
async fn delete_touches_nothing_while_it_cannot_know_who_else_reads_the_stream() {
    let plant = Plant::new().await;
    members_leave(&plant).await;
    let meta = plant.meta().await;
    let other = plant::empty_group(&plant.connection, "shop/audit", &meta).await;
    let outcome = other.put(&Key::Meta, "nonsense".into(), None).await;
    assert!(matches!(outcome, lockstep::nats::PutOutcome::Stored(_)));
    plant
        .fails(
            "group delete orders",
            1,
            &["nothing was deleted", "shop/audit"],
        )
        .await;
    assert!(bucket_exists(&plant).await && stream_exists(&plant).await);
    plant.ok("group delete orders --keep-stream").await;
    assert!(!bucket_exists(&plant).await && stream_exists(&plant).await);
}
