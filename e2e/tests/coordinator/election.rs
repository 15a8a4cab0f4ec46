//! Who coordinates, among several.

use std::collections::BTreeMap;
use std::time::Duration;

use lockstep::coordinator::provision::Missing;
use lockstep::group::decide::{Aspect, Trouble};
use lockstep::group::{CandidateDocument, Term};
use lockstep::nats::{EntryValue, KeyFilter};
use lockstep::wire::{self, keys::Key};
use lockstep_e2e::{process, until};

use super::stage::{Member, SESSION, SOON, Stage, editions, group, keep_history, manifest};

#[tokio::test]
async fn a_candidate_that_stops_on_purpose_is_succeeded_at_once() {
    // P43
    let stage = Stage::new().await;
    let first = stage.with_group("c1", &manifest("orders")).await;
    let second = stage
        .start("c2", Missing::Refuse, &[group(&manifest("orders"))])
        .await;
    second.ready().await;
    let before = stage.document("orders").await;
    first.stop().await.unwrap();
    let soon = tokio::time::timeout(SESSION / 2, second.coordinates("default/orders"));
    soon.await.expect("it waited for the session timeout");
    let after = stage.document("orders").await;
    assert_eq!(after.term, before.term.of_the_successor());
    // P37: otherwise unchanged.
    assert_eq!(
        (after.epoch, &after.partitions),
        (before.epoch, &before.partitions)
    );
    second.stop().await.unwrap();
}

#[tokio::test]
async fn the_last_word_of_a_candidate_is_left() {
    // P43
    let stage = Stage::new().await;
    let only = stage.with_group("c1", &manifest("orders")).await;
    only.stop().await.unwrap();
    let bucket = stage.bucket("orders").await;
    let candidates = bucket.list(&KeyFilter::AllCandidates).await.unwrap();
    let [candidate] = &candidates[..] else {
        panic!("{candidates:?}");
    };
    let EntryValue::Put(bytes) = &candidate.value else {
        panic!("it is deleted");
    };
    let says: CandidateDocument = wire::candidate::decode(bytes).unwrap();
    assert!(says.left, "{says:?}");
}

#[tokio::test]
async fn a_killed_coordinator_is_succeeded_after_its_session_timeout() {
    // P35
    let stage = Stage::new().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("orders.yaml");
    std::fs::write(&file, manifest("orders")).unwrap();
    let (file, url) = (file.display().to_string(), stage.server.url());
    let start = |id: &str| {
        let arguments = [
            "coordinator",
            "--create",
            "--id",
            id,
            "--session-timeout",
            "2s",
            "--nats-url",
            &url,
            &file,
        ];
        let output = folder.path().join(format!("{id}.log"));
        process::start_lockstep(&arguments, &output).unwrap()
    };
    let mut first = start("c1");
    process::wait_for_line(&first, "ready: coordinator c1 of default/orders", SOON)
        .await
        .unwrap();
    let mut second = start("c2");
    process::wait_for_line(&second, "ready: coordinator c2", SOON)
        .await
        .unwrap();
    let before = stage
        .sees("orders", "the first term", |d| d.term == Term(1))
        .await;
    first.kill().unwrap();
    let after = stage
        .sees("orders", "a successor", |d| d.holder != before.holder)
        .await;
    assert_eq!(after.term, Term(2));
    // SIGTERM: a clean end, and exit code 0.
    let ended = second.terminate(Duration::from_secs(10)).await.unwrap();
    assert_eq!(ended.code(), Some(0), "{}", second.tail());
}

#[tokio::test]
async fn coordinators_that_come_and_go_never_both_write() {
    // P37 P39
    let stage = Stage::new().await;
    let manifest = manifest("orders");
    let mut running = vec![stage.with_group("c0", &manifest).await];
    keep_history(&stage, "orders").await;
    let bucket = stage.bucket("orders").await;
    let id = stage.meta("orders").await.bucket;
    let mut members = Vec::new();
    for round in 1..=6 {
        let next = stage
            .start(&format!("c{round}"), Missing::Refuse, &[group(&manifest)])
            .await;
        next.ready().await;
        running.push(next);
        members.push(Member::start(&bucket, &id, &format!("m{round}")));
        if round % 2 == 0 {
            running.remove(0).stop().await.unwrap();
            drop(members.remove(0));
        }
        let name = members.last().unwrap().incarnation.clone();
        stage
            .sees("orders", "the newest member", |d| {
                d.members.contains_key(&name)
            })
            .await;
    }
    let editions = editions(&stage, "orders").await;
    assert!(editions.len() > 6, "{} editions", editions.len());
    let mut holders = BTreeMap::new();
    for pair in editions.windows(2) {
        let (old, new) = (&pair[0], &pair[1]);
        assert!(old.term <= new.term, "a lower term wrote: {old:?} {new:?}");
        assert!(old.epoch <= new.epoch, "an epoch fell: {old:?} {new:?}");
        let holder = holders.entry(new.term).or_insert(new.holder.clone());
        assert_eq!(*holder, new.holder, "two wrote under term {}", new.term);
        let fell = old
            .partitions
            .iter()
            .zip(&new.partitions)
            .any(|(o, n)| n.epoch < o.epoch);
        assert!(!fell, "a partition's epoch fell");
    }
    for (grant, owners) in super::stage::owners(&editions) {
        assert_eq!(owners.len(), 1, "{grant:?} has owners {owners:?}");
    }
    for it in running {
        it.stop().await.unwrap();
    }
}

#[tokio::test]
async fn another_managers_group_is_refused_and_nothing_is_written() {
    // P34
    let stage = Stage::new().await;
    let first = stage.with_group("c1", &manifest("orders")).await;
    first.stop().await.unwrap();
    let bucket = stage.bucket("orders").await;
    let entry = bucket.get(&Key::Meta).await.unwrap().unwrap();
    let mut meta = stage.meta("orders").await;
    meta.manager = "kubernetes/1234".to_owned();
    let bytes = wire::meta::encode(&meta).unwrap();
    let stored = bucket
        .replace(&Key::Meta, bytes.into(), entry.revision)
        .await;
    assert!(
        matches!(stored, lockstep::nats::CasOutcome::Stored(_)),
        "{stored:?}"
    );
    let last = bucket.look().await.unwrap().last;
    let refused = stage
        .start("c2", Missing::Make, &[group(&manifest("orders"))])
        .await;
    let error = refused.refusal().await.to_string();
    assert!(error.starts_with("OwnershipConflict"), "{error}");
    assert!(error.contains("lockstep group adopt"), "{error}");
    assert_eq!(
        bucket.look().await.unwrap().last,
        last,
        "something was written"
    );
}

#[tokio::test]
async fn a_group_that_is_adopted_by_another_manager_is_left_alone_from_then_on() {
    // P34
    let stage = Stage::new().await;
    let running = stage.with_group("c1", &manifest("orders")).await;
    let bucket = stage.bucket("orders").await;
    let entry = bucket.get(&Key::Meta).await.unwrap().unwrap();
    let mut meta = stage.meta("orders").await;
    meta.manager = "kubernetes/1234".to_owned();
    let bytes = wire::meta::encode(&meta).unwrap();
    let stored = bucket
        .replace(&Key::Meta, bytes.into(), entry.revision)
        .await;
    assert!(
        matches!(stored, lockstep::nats::CasOutcome::Stored(_)),
        "{stored:?}"
    );
    running
        .has_trouble(
            "default/orders",
            Aspect::CoordinatorReady,
            Trouble::OwnershipConflict,
        )
        .await;
    let before = stage.document("orders").await;
    let member = Member::start(&bucket, &meta.bucket, "m1");
    let beats = until("heartbeats", SOON, async || {
        let key = Key::Member(member.incarnation.clone());
        let entry = bucket.get(&key).await.unwrap();
        let Some(EntryValue::Put(bytes)) = entry.map(|e| e.value) else {
            return Err("none");
        };
        let says = wire::member::decode(&bytes).unwrap();
        if says.beat.0 > 4 { Ok(()) } else { Err("few") }
    });
    beats.await.unwrap();
    assert_eq!(stage.document("orders").await, before);
    running.stop().await.unwrap();
}
