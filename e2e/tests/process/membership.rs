//! Members that join, leave, and claim each other's names.

use std::time::Duration;

use lockstep_e2e::scene::{Application, Manifest, Outcome, SceneError};
use lockstep_e2e::until::until_sync;
use lockstep_e2e::{NatsCluster, NatsServer, Scene, children};

use crate::{KEYS, SETTLED, busy, busy_with, expect};

// P135
#[tokio::test]
async fn sigterm_hands_over_cleanly() -> Outcome<()> {
    let mut scene = busy(&["w1", "w2", "w3"]).await?;
    scene.note("w2 leaves")?;
    scene.remove_member("w2").await?;
    scene
        .settles_on(&["w1", "w3"], Duration::from_secs(5))
        .await?;
    scene.published_more(100).await;
    let verdict = scene.ends_well(&expect()).await?;
    assert_eq!(
        (verdict.duplicates, verdict.unclean_grants),
        (0, 0),
        "{verdict}"
    );
    Ok(())
}

// P133, P135
#[tokio::test]
async fn one_becomes_five_becomes_two_under_load() -> Outcome<()> {
    let manifest = Manifest {
        partitions: 10,
        ..Manifest::default()
    };
    let mut scene = busy_with(manifest, &["w1"]).await?;
    scene.note("four join")?;
    for name in ["w2", "w3", "w4", "w5"] {
        scene.add_member(name, Application::Ok)?;
    }
    scene
        .settles_on(&["w1", "w2", "w3", "w4", "w5"], SETTLED)
        .await?;
    let mut shares: std::collections::BTreeMap<String, u32> = std::collections::BTreeMap::new();
    for owner in scene.progress().owners().into_values() {
        *shares.entry(owner).or_default() += 1;
    }
    assert!(
        shares.values().all(|share| *share == 2),
        "unbalanced: {shares:?}"
    );
    scene.published_more(150).await;

    scene.note("three leave")?;
    for name in ["w1", "w3", "w5"] {
        scene.remove_member(name).await?;
    }
    scene.settles_on(&["w2", "w4"], SETTLED).await?;
    scene.published_more(150).await;
    let verdict = scene.ends_well(&expect()).await?;
    assert_eq!(
        (verdict.duplicates, verdict.unclean_grants),
        (0, 0),
        "{verdict}"
    );
    Ok(())
}

#[tokio::test]
async fn a_second_process_of_a_name_waits_until_the_first_is_dead() -> Outcome<()> {
    let mut scene = busy(&["w1", "w2"]).await?;
    let epochs = scene.progress().epochs();
    scene.add_twin("twin", "w1", Application::Ok)?;
    let is_listed = |now: &lockstep_e2e::auditor::Progress| {
        let members = now
            .document
            .iter()
            .flat_map(|document| document.members.values());
        members.filter(|entry| entry.id.as_str() == "w1").count() == 2
    };
    scene
        .bucket_shows("the twin among the members", SETTLED, is_listed)
        .await?;
    scene.published_more(300).await;
    assert_eq!(
        scene.progress().epochs(),
        epochs,
        "the twin disturbed the holder"
    );

    scene.note("the first is killed")?;
    scene.member("w1")?.kill()?;
    let taken_over = |now: &lockstep_e2e::auditor::Progress| {
        now.owners().values().any(|owner| owner == "w1") && now.epochs() != epochs
    };
    scene
        .bucket_shows("the twin as owner", SETTLED, taken_over)
        .await?;
    scene.published_more(100).await;
    scene.ends_well(&expect()).await?;
    Ok(())
}

#[tokio::test]
async fn a_coordinator_that_is_told_to_stop_hands_the_group_over() -> Outcome<()> {
    let mut scene = busy(&["w1", "w2"]).await?;
    scene.add_coordinator("c2")?;
    scene
        .bucket_shows("second candidate", SETTLED, |now| now.candidates.len() == 2)
        .await?;
    let epochs = scene.progress().epochs();
    let mut leaving = scene
        .coordinators
        .remove("c1")
        .ok_or_else(|| SceneError::new("no c1"))?;
    let status = leaving.terminate(Duration::from_secs(10)).await?;
    assert!(
        status.success(),
        "{}\n{}",
        children::describe(status),
        leaving.tail()
    );
    scene
        .bucket_shows("take-over", SETTLED, |now| now.coordinator() == Some("c2"))
        .await?;
    assert_eq!(
        scene.progress().epochs(),
        epochs,
        "a step-down moved partitions"
    );
    scene.add_member("w3", Application::Ok)?;
    scene.settles_on(&["w1", "w2", "w3"], SETTLED).await?;
    let verdict = scene.ends_well(&expect()).await?;
    assert_eq!(
        (verdict.duplicates, verdict.unclean_grants),
        (0, 0),
        "{verdict}"
    );
    Ok(())
}

#[tokio::test]
async fn everything_can_be_started_before_the_server() -> Outcome<()> {
    let server = NatsCluster::of(NatsServer::start().await?);
    let mut scene = Scene::prepare(Manifest::default(), server).await?;
    scene.servers.kill()?;
    scene.add_coordinator("c1")?;
    for member in ["w1", "w2"] {
        scene.add_member(member, Application::Ok)?;
    }
    // They live, and say what they wait for.
    for name in ["c1", "w1", "w2"] {
        let log = scene.path(&format!("{name}.log"));
        until_sync(format!("complaint of {name}"), SETTLED, || {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            if said.contains("NATS") {
                Ok(())
            } else {
                Err(said)
            }
        })
        .await?;
    }
    scene.servers.restart().await?;
    scene.group_exists().await?;
    scene.settles_on(&["w1", "w2"], SETTLED).await?;
    scene.publish(KEYS, 200).await?;
    scene.published(200).await;
    scene.ends_well(&expect()).await?;
    Ok(())
}
