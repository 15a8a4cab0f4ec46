//! Documents that cannot be understood: what depends on them stops, nothing is overwritten, the rest
//! runs on. // P14

use lockstep::coordinator::Phase;
use lockstep::coordinator::provision::Missing;
use lockstep::group::Partition;
use lockstep::group::decide::{Aspect, Trouble};
use lockstep::nats::{Bucket, CasOutcome, EntryValue, PutOutcome};
use lockstep::wire::keys::Key;
use lockstep_e2e::until;

use super::stage::{Member, SOON, Stage, group, manifest};

const GARBAGE: &[u8] = b"{\"format\": 1, \"term\": \"many\"";

async fn damage(bucket: &Bucket, key: &Key) {
    let put = bucket.put(key, GARBAGE.into(), None).await;
    assert!(matches!(put, PutOutcome::Stored(_)), "{put:?}");
}

async fn is_still_damaged(bucket: &Bucket, key: &Key) {
    let entry = bucket.get(key).await.unwrap().unwrap();
    assert_eq!(
        entry.value,
        EntryValue::Put(GARBAGE.into()),
        "{key} was overwritten"
    );
}

#[tokio::test]
async fn many_groups_run_although_one_description_is_damaged() {
    let stage = Stage::new().await;
    let names: Vec<String> = (0..20).map(|n| format!("orders{n}")).collect();
    let groups: Vec<_> = names.iter().map(|name| group(&manifest(name))).collect();
    let first = stage.start("c1", Missing::Make, &groups).await;
    first.ready().await;
    for name in &names {
        first.coordinates(&format!("default/{name}")).await;
    }
    first.stop().await.unwrap();
    let bucket = stage.bucket("orders7").await;
    damage(&bucket, &Key::Meta).await;
    let second = stage.start("c2", Missing::Refuse, &groups).await;
    second.ready().await;
    second
        .has_trouble(
            "default/orders7",
            Aspect::CoordinatorReady,
            Trouble::StateDamaged,
        )
        .await;
    assert_eq!(second.status("default/orders7").phase, Phase::Stopped);
    for name in names.iter().filter(|name| *name != "orders7") {
        second.coordinates(&format!("default/{name}")).await;
    }
    is_still_damaged(&bucket, &Key::Meta).await;
    second.stop().await.unwrap();
}

#[tokio::test]
async fn a_damaged_group_document_stops_its_group_until_somebody_mends_it() {
    let stage = Stage::new().await;
    let running = stage.with_group("c1", &manifest("orders")).await;
    let bucket = stage.bucket("orders").await;
    let good = stage.value("orders", &Key::Group).await;
    damage(&bucket, &Key::Group).await;
    running
        .has_trouble(
            "default/orders",
            Aspect::CoordinatorReady,
            Trouble::StateDamaged,
        )
        .await;
    let meta = stage.meta("orders").await;
    let member = Member::start(&bucket, &meta.bucket, "m1");
    let another = stage
        .start("c2", Missing::Refuse, &[group(&manifest("orders"))])
        .await;
    another
        .has_trouble(
            "default/orders",
            Aspect::CoordinatorReady,
            Trouble::StateDamaged,
        )
        .await;
    is_still_damaged(&bucket, &Key::Group).await;
    // Mended by hand, it goes on.
    let entry = bucket.get(&Key::Group).await.unwrap().unwrap();
    let mended = bucket
        .replace(&Key::Group, good.into(), entry.revision)
        .await;
    assert!(matches!(mended, CasOutcome::Stored(_)), "{mended:?}");
    stage
        .sees("orders", "an owner", |d| member.owns(d) == [0, 1, 2, 3])
        .await;
    running.stop().await.unwrap();
    another.stop().await.unwrap();
}

#[tokio::test]
async fn a_deleted_document_is_damage_and_no_beginning() {
    // P14: a delete marker is never "not there".
    let stage = Stage::new().await;
    let running = stage.with_group("c1", &manifest("orders")).await;
    let client = stage.server.connect().await.unwrap();
    let mut headers = async_nats::HeaderMap::new();
    headers.insert("KV-Operation", "DEL");
    let context = async_nats::jetstream::new(client);
    let subject = "$KV.lockstep_default_orders.group";
    let sent = context
        .publish_with_headers(subject, headers, "".into())
        .await
        .unwrap();
    let revision = sent.await.unwrap().sequence;
    running
        .has_trouble(
            "default/orders",
            Aspect::CoordinatorReady,
            Trouble::StateDamaged,
        )
        .await;
    let bucket = stage.bucket("orders").await;
    let entry = bucket.get(&Key::Group).await.unwrap().unwrap();
    assert_eq!(
        (entry.revision.0, entry.value),
        (revision, EntryValue::Marker)
    );
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_damaged_heartbeat_is_ignored() {
    let stage = Stage::new().await;
    let running = stage.with_group("c1", &manifest("orders")).await;
    let bucket = stage.bucket("orders").await;
    damage(&bucket, &Key::Member("broken".parse().unwrap())).await;
    damage(&bucket, &Key::Candidate("broken".parse().unwrap())).await;
    damage(&bucket, &Key::Foreign("somebody.elses".to_owned())).await;
    let meta = stage.meta("orders").await;
    let member = Member::start(&bucket, &meta.bucket, "m1");
    let document = stage
        .sees("orders", "an owner", |d| member.owns(d).len() == 4)
        .await;
    assert_eq!(document.members.len(), 1);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_damaged_commit_record_is_not_granted_and_the_others_are() {
    let stage = Stage::new().await;
    let first = stage.with_group("c1", &manifest("orders")).await;
    stage.sees("orders", "the seed", |d| d.seeded).await;
    first.stop().await.unwrap();
    let bucket = stage.bucket("orders").await;
    let key = Key::Offset(Partition(2));
    damage(&bucket, &key).await;
    let meta = stage.meta("orders").await;
    let member = Member::start(&bucket, &meta.bucket, "m1");
    let second = stage
        .start("c2", Missing::Refuse, &[group(&manifest("orders"))])
        .await;
    stage
        .sees("orders", "the others", |d| member.owns(d) == [0, 1, 3])
        .await;
    second
        .has_trouble("default/orders", Aspect::OffsetsValid, Trouble::OffsetLost)
        .await;
    is_still_damaged(&bucket, &key).await;
    let waited = until("a decision more", SOON, async || {
        if second.status("default/orders").coordinates {
            Ok(())
        } else {
            Err("none")
        }
    });
    waited.await.unwrap();
    second.stop().await.unwrap();
}
