//! kill -9 of each kind of process.

use std::time::Duration;

use lockstep_e2e::auditor::Progress;
use lockstep_e2e::checker::Expectations;
use lockstep_e2e::scene::{Application, Manifest, Outcome};
use lockstep_e2e::until::until_sync;
use lockstep_e2e::{NatsCluster, Scene};

use crate::{KEYS, SETTLED, busy, expect};

// P134, P135
#[tokio::test]
async fn a_killed_worker_loses_nothing_and_comes_back_under_its_name() -> Outcome<()> {
    let mut scene = busy(&["w1", "w2", "w3"]).await?;
    scene.note("w2 is killed")?;
    scene.member("w2")?.worker.kill()?;
    scene.settles_on(&["w1", "w3"], SETTLED).await?;
    scene.published_more(100).await;

    scene.note("w2 is started again")?;
    scene.member("w2")?.restart_worker()?;
    scene.settles_on(&["w1", "w2", "w3"], SETTLED).await?;
    scene.published_more(100).await;
    let verdict = scene.ends_well(&expect()).await?;
    assert!(
        verdict.unclean_grants > 0,
        "the death was not noticed as unclean\n{verdict}"
    );
    Ok(())
}

#[tokio::test]
async fn who_dies_once_gets_its_partitions_back_and_who_dies_twice_only_by_need() -> Outcome<()> {
    let mut scene = busy(&["w1", "w2"]).await?;
    let owners = scene.progress().owners();
    let epochs = scene.progress().epochs();
    scene.member("w1")?.restart_worker()?;
    let has_moved = |now: &Progress| now.epochs() != epochs;
    scene.bucket_shows("new epochs", SETTLED, has_moved).await?;
    scene.published_more(100).await;
    assert_eq!(
        scene.progress().owners(),
        owners,
        "others got what only its own restart touched"
    );

    scene.member("w1")?.restart_worker()?;
    scene.settles_on(&["w2"], SETTLED).await?;
    scene.published_more(100).await;
    scene.remove_member("w2").await?;
    scene.settles_on(&["w1"], SETTLED).await?;
    scene.published_more(100).await;
    scene.ends_well(&expect()).await?;
    Ok(())
}

#[tokio::test]
async fn with_a_window_of_sixteen_order_survives_kills_as_well() -> Outcome<()> {
    let manifest = Manifest {
        max_in_flight: 16,
        ..Manifest::default()
    };
    let mut scene = Scene::start(manifest).await?;
    // Slow enough that there is always something in hand.
    let slow = Application::Slow(Duration::from_millis(4));
    for member in ["w1", "w2", "w3"] {
        scene.add_member(member, slow.clone())?;
    }
    scene.settles_on(&["w1", "w2", "w3"], SETTLED).await?;
    scene.publish(KEYS, 500).await?;
    for _ in 0..4 {
        scene.published_more(300).await;
        scene.member("w1")?.restart_application()?;
    }
    scene.member("w2")?.worker.kill()?;
    scene.settles_on(&["w1", "w3"], SETTLED).await?;
    scene.published_more(300).await;
    let wide = Expectations {
        in_flight: 16,
        uncommitted: 500,
        ..expect()
    };
    let verdict = scene.ends_well(&wide).await?;
    assert!(
        verdict.redeliveries > 0,
        "nothing was in flight?\n{verdict}"
    );
    Ok(())
}

#[tokio::test]
async fn a_killed_application_is_handed_again_what_it_held() -> Outcome<()> {
    let mut scene = busy(&["w1", "w2"]).await?;
    let epochs = scene.progress().epochs();
    for _ in 0..5 {
        scene.published_more(60).await;
        scene.member("w1")?.restart_application()?;
    }
    scene.published_more(100).await;
    let verdict = scene.ends_well(&expect()).await?;
    assert_eq!(
        scene.progress().epochs(),
        epochs,
        "an application's restart moved partitions"
    );
    // At most one per partition in flight, each time.
    assert!(verdict.redeliveries <= 5 * 6, "{verdict}");
    assert_eq!(verdict.duplicates, 0, "{verdict}");
    Ok(())
}

// P136
#[tokio::test]
async fn without_its_coordinator_a_group_goes_on_and_another_takes_over() -> Outcome<()> {
    let mut scene = busy(&["w1", "w2"]).await?;
    scene.add_coordinator("c2")?;
    let two = |progress: &Progress| progress.candidates.len() == 2;
    scene.bucket_shows("second candidate", SETTLED, two).await?;
    assert_eq!(
        scene.progress().coordinator(),
        Some("c1"),
        "a live holder was pre-empted"
    );

    let epochs = scene.progress().epochs();
    scene.note("the coordinator is killed")?;
    scene.coordinators.remove("c1");
    scene
        .bucket_shows("take-over", SETTLED, |now| now.coordinator() == Some("c2"))
        .await?;
    assert_eq!(
        scene.progress().epochs(),
        epochs,
        "a take-over moved partitions"
    );

    scene.add_member("w3", Application::Ok)?;
    scene.settles_on(&["w1", "w2", "w3"], SETTLED).await?;
    scene.published_more(100).await;
    let verdict = scene.ends_well(&expect()).await?;
    assert_eq!(
        (verdict.duplicates, verdict.unclean_grants),
        (0, 0),
        "{verdict}"
    );
    Ok(())
}

// P136
#[tokio::test]
async fn with_no_coordinator_at_all_members_go_on_consuming() -> Outcome<()> {
    let mut scene = busy(&["w1", "w2"]).await?;
    scene.coordinators.clear();
    // Longer than every session timeout.
    let count = 150 * 8;
    scene.published_more(count).await;
    let verdict = scene.ends_well(&expect()).await?;
    assert_eq!(
        (verdict.duplicates, verdict.unclean_grants),
        (0, 0),
        "{verdict}"
    );
    Ok(())
}

#[tokio::test]
async fn a_killed_server_costs_only_its_own_absence() -> Outcome<()> {
    let mut scene = busy(&["w1", "w2"]).await?;
    let epochs = scene.progress().epochs();
    scene.note("the server is killed")?;
    scene.servers.kill()?;
    scene.servers.restart().await?;
    scene.published_more(150).await;

    // Longer than the session timeout: nobody's silence was their own fault.
    scene.note("the server is killed for longer than a session")?;
    scene.servers.kill()?;
    let back = lockstep_e2e::clock::now() + Duration::from_secs(9);
    until_sync("end of the outage", Duration::from_secs(20), || {
        if lockstep_e2e::clock::now() >= back {
            Ok(())
        } else {
            Err("too early")
        }
    })
    .await?;
    scene.servers.restart().await?;
    scene.published_more(150).await;
    let verdict = scene.ends_well(&expect()).await?;
    assert_eq!(
        scene.progress().epochs(),
        epochs,
        "an outage moved partitions"
    );
    assert_eq!(verdict.duplicates, 0, "{verdict}");
    Ok(())
}

#[tokio::test]
async fn three_servers_lose_the_leader_of_the_bucket_and_of_the_stream() -> Outcome<()> {
    let manifest = Manifest {
        replicas: 3,
        ..Manifest::default()
    };
    let bucket = format!("KV_{}", manifest.bucket());
    let mut scene = Scene::start_on(manifest, NatsCluster::start(3).await?).await?;
    for member in ["w1", "w2"] {
        scene.add_member(member, Application::Ok)?;
    }
    scene.settles_on(&["w1", "w2"], SETTLED).await?;
    scene.publish(KEYS, 100).await?;
    scene.published(200).await;
    for stream in [bucket.as_str(), "ORDERS"] {
        let leader = scene.servers.leader_of(stream).await?;
        scene.note(&format!("the leader of {stream} is killed"))?;
        scene.servers.servers[leader].kill()?;
        scene.published_more(100).await;
        scene.servers.servers[leader].restart().await?;
        scene.published_more(100).await;
    }
    scene.ends_well(&expect()).await?;
    Ok(())
}
