//! Writes whose end is not known, and watches that fall behind.

use std::time::Duration;

use lockstep::coordinator::Settings;
use lockstep::coordinator::provision::Missing;
use lockstep_e2e::proxy::{Mode, Proxy};
use lockstep_e2e::until;

use super::stage::{
    Member, SESSION, SOON, Stage, editions, group, keep_history, manifest, owners, settings,
};

#[tokio::test]
async fn a_write_whose_acknowledgement_is_lost_is_looked_up_and_adopted() {
    // P23 P25
    let stage = Stage::new().await;
    let proxy = Proxy::before(&stage.server).await.unwrap();
    let yaml =
        manifest("orders").replace("initialRebalanceDelay: 500ms", "initialRebalanceDelay: 3s");
    let groups = [group(&yaml)];
    // The delay goes on for two intervals of the coordinator's beats (2 s) after the last one that
    // came back: it ends although none comes back any more. // P44
    let patient = Settings {
        session_timeout: Duration::from_secs(16),
        ..settings("c1", Missing::Make)
    };
    let running = stage.start_as(&proxy.url(), patient, &groups).await;
    running.coordinates("default/orders").await;
    stage.sees("orders", "the seed", |d| d.seeded).await;
    keep_history(&stage, "orders").await;
    let bucket = stage.bucket("orders").await;
    let meta = stage.meta("orders").await;
    let before = stage.document("orders").await;
    // Seen, but not yet granted anything: the delay runs on the coordinator's own clock.
    let member = Member::start(&bucket, &meta.bucket, "m1");
    tokio::time::sleep(Duration::from_millis(1500)).await;
    proxy.set(Mode::LoseToClient);
    let granted = stage
        .sees("orders", "the grant", |d| member.owns(d).len() == 4)
        .await;
    assert_eq!(
        granted.term, before.term,
        "it was written by the coordinator that is cut off"
    );
    proxy.set(Mode::Pass);
    proxy.cut();
    // It knows its own write, and goes on from there.
    let second = Member::start(&bucket, &meta.bucket, "m2");
    let after = stage
        .sees("orders", "the second member", |d| {
            d.members.contains_key(&second.incarnation)
        })
        .await;
    assert!(after.epoch > granted.epoch);
    assert_eq!(
        after.term, before.term,
        "it took its own write for another's"
    );
    let editions = editions(&stage, "orders").await;
    for (grant, owners) in owners(&editions) {
        assert_eq!(owners.len(), 1, "{grant:?} has owners {owners:?}");
    }
    let first_epochs: Vec<_> = granted.partitions.iter().map(|a| a.epoch).collect();
    let now: Vec<_> = after.partitions.iter().map(|a| a.epoch).collect();
    assert_eq!(now, first_epochs, "nothing was granted twice");
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_coordinator_that_was_cut_off_evicts_nobody_when_it_is_back() {
    // P40 P44
    let stage = Stage::new().await;
    let proxy = Proxy::before(&stage.server).await.unwrap();
    let groups = [group(&manifest("orders"))];
    let running = stage
        .start_through(&proxy.url(), "c1", Missing::Make, &groups)
        .await;
    running.coordinates("default/orders").await;
    let bucket = stage.bucket("orders").await;
    let meta = stage.meta("orders").await;
    let member = Member::start(&bucket, &meta.bucket, "m1");
    let before = stage
        .sees("orders", "an owner", |d| member.owns(d).len() == 4)
        .await;
    proxy.set(Mode::Freeze);
    let cut_off = until("it stops planning", SOON, async || {
        if running.status("default/orders").coordinates {
            Err("it goes on")
        } else {
            Ok(())
        }
    });
    // It looks at its clock when its session timeout has passed twice, without any event.
    let noticed = tokio::time::timeout(SESSION * 8, cut_off).await;
    noticed.expect("it never noticed").unwrap();
    // Longer than the members' session timeout.
    tokio::time::sleep(Duration::from_secs(6)).await;
    proxy.set(Mode::Pass);
    proxy.cut();
    running.coordinates("default/orders").await;
    let after = stage
        .sees("orders", "a new term", |d| d.term > before.term)
        .await;
    assert_eq!(after.partitions, before.partitions, "somebody was evicted");
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_restarted_server_changes_nothing() {
    let mut stage = Stage::new().await;
    let running = stage.with_group("c1", &manifest("orders")).await;
    let bucket = stage.bucket("orders").await;
    let meta = stage.meta("orders").await;
    let member = Member::start(&bucket, &meta.bucket, "m1");
    let before = stage
        .sees("orders", "an owner", |d| member.owns(d).len() == 4)
        .await;
    stage.server.kill().unwrap();
    stage.server.restart().await.unwrap();
    let second = Member::start(&bucket, &meta.bucket, "m2");
    let after = stage
        .sees("orders", "the second member", |d| {
            d.members.contains_key(&second.incarnation)
        })
        .await;
    let kept = |d: &lockstep::group::GroupDocument| member.owns(d);
    assert_eq!(kept(&after), kept(&before));
    running.stop().await.unwrap();
}
