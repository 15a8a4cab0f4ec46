//! Processes that stand still, and wake up in another world.

use lockstep_e2e::scene::Outcome;

use crate::{SETTLED, busy, expect};

// P132, P137
#[tokio::test]
async fn a_worker_stopped_beyond_its_session_is_fenced_when_it_wakes() -> Outcome<()> {
    let mut scene = busy(&["w1", "w2", "w3"]).await?;
    scene.note("w2 is stopped")?;
    scene.member("w2")?.worker.pause()?;
    scene.settles_on(&["w1", "w3"], SETTLED).await?;
    scene.published_more(100).await;

    scene.note("w2 goes on")?;
    scene.member("w2")?.worker.resume()?;
    scene.published_more(100).await;
    scene.settles_on(&["w1", "w2", "w3"], SETTLED).await?;
    scene.published_more(100).await;
    scene.ends_well(&expect()).await?;
    Ok(())
}

#[tokio::test]
async fn a_worker_stopped_with_its_application_wakes_with_messages_in_hand() -> Outcome<()> {
    let mut scene = busy(&["w1", "w2"]).await?;
    let member = scene.member("w1")?;
    member.worker.pause()?;
    if let Some(application) = &mut member.application {
        application.pause()?;
    }
    scene.settles_on(&["w2"], SETTLED).await?;
    scene.published_more(50).await;
    let member = scene.member("w1")?;
    if let Some(application) = &mut member.application {
        application.resume()?;
    }
    member.worker.resume()?;
    scene.published_more(100).await;
    scene.settles_on(&["w1", "w2"], SETTLED).await?;
    scene.ends_well(&expect()).await?;
    Ok(())
}

#[tokio::test]
async fn a_coordinator_that_slept_evicts_nobody_when_it_wakes() -> Outcome<()> {
    let mut scene = busy(&["w1", "w2"]).await?;
    let epochs = scene.progress().epochs();
    let coordinator = scene.coordinators.get_mut("c1");
    coordinator.map_or(Ok(()), lockstep_e2e::children::Child::pause)?;
    // More than the session timeout of 6 s, in messages.
    scene.published_more(150 * 9).await;
    let coordinator = scene.coordinators.get_mut("c1");
    coordinator.map_or(Ok(()), lockstep_e2e::children::Child::resume)?;
    scene.published_more(150 * 3).await;
    let verdict = scene.ends_well(&expect()).await?;
    assert_eq!(scene.progress().epochs(), epochs, "sleep moved partitions");
    assert_eq!(
        (verdict.duplicates, verdict.unclean_grants),
        (0, 0),
        "{verdict}"
    );
    Ok(())
}

#[tokio::test]
async fn a_sleeping_coordinator_is_replaced_and_writes_no_more() -> Outcome<()> {
    let mut scene = busy(&["w1", "w2"]).await?;
    scene.add_coordinator("c2")?;
    scene
        .bucket_shows("second candidate", SETTLED, |now| now.candidates.len() == 2)
        .await?;
    let coordinator = scene.coordinators.get_mut("c1");
    coordinator.map_or(Ok(()), lockstep_e2e::children::Child::pause)?;
    scene
        .bucket_shows("take-over", SETTLED, |now| now.coordinator() == Some("c2"))
        .await?;
    let coordinator = scene.coordinators.get_mut("c1");
    coordinator.map_or(Ok(()), lockstep_e2e::children::Child::resume)?;
    scene.remove_member("w1").await?;
    scene.settles_on(&["w2"], SETTLED).await?;
    scene.published_more(100).await;
    assert_eq!(
        scene.progress().coordinator(),
        Some("c2"),
        "the sleeper came back to power"
    );
    let verdict = scene.ends_well(&expect()).await?;
    assert_eq!(
        (verdict.duplicates, verdict.unclean_grants),
        (0, 0),
        "{verdict}"
    );
    Ok(())
}
