//! Applications that are slow, hang, crash, or cannot stand one message.

use std::time::Duration;

use lockstep_e2e::checker::{Completeness, Expectations};
use lockstep_e2e::publisher::partition_of;
use lockstep_e2e::scene::{Application, Manifest, Outcome};
use lockstep_e2e::{Scene, children};

use crate::{KEYS, SETTLED, busy, expect};

#[tokio::test]
async fn a_slow_application_holds_up_only_itself() -> Outcome<()> {
    let mut scene = Scene::start(Manifest::default()).await?;
    scene.add_member("w1", Application::Ok)?;
    scene.add_member("slow", Application::Slow(Duration::from_millis(40)))?;
    scene.settles_on(&["w1", "slow"], SETTLED).await?;
    scene.publish(KEYS, 40).await?;
    scene.published(200).await;
    scene.note("the slow one leaves")?;
    scene.remove_member("slow").await?;
    scene.settles_on(&["w1"], SETTLED).await?;
    let verdict = scene.ends_well(&expect()).await?;
    assert_eq!(
        (verdict.duplicates, verdict.unclean_grants),
        (0, 0),
        "{verdict}"
    );
    Ok(())
}

#[tokio::test]
async fn whoever_has_to_let_go_is_given_the_time_to_finish() -> Outcome<()> {
    let manifest = Manifest {
        partitions: 4,
        rebalance_timeout: "15s".to_owned(),
        ..Manifest::default()
    };
    let mut scene = Scene::start(manifest).await?;
    // A message of each partition in hand, for more than three seconds.
    scene.add_member("slow", Application::Slow(Duration::from_millis(800)))?;
    scene.settles_on(&["slow"], SETTLED).await?;
    scene.publish(KEYS, 4).await?;
    scene.published(8).await;
    scene.add_member("w1", Application::Ok)?;
    scene.settles_on(&["slow", "w1"], SETTLED).await?;
    scene.stop_publishing().await?;
    scene.all_committed(2 * SETTLED).await?;
    let verdict = scene.verdict_is_good(&expect())?;
    assert_eq!(
        (verdict.duplicates, verdict.unclean_grants),
        (0, 0),
        "{verdict}"
    );
    Ok(())
}

#[tokio::test]
async fn a_hanging_application_loses_its_partitions_to_another() -> Outcome<()> {
    let manifest = Manifest {
        processing_timeout: "3s".to_owned(),
        ..Manifest::default()
    };
    let mut scene = Scene::start(manifest).await?;
    scene.add_member("w1", Application::Ok)?;
    scene.add_member("hangs", Application::HangAfter(20))?;
    scene.settles_on(&["w1", "hangs"], SETTLED).await?;
    scene.publish(KEYS, 60).await?;
    scene.published(400).await;
    scene.stop_publishing().await?;
    scene.all_committed(SETTLED).await?;
    let verdict = scene.verdict_is_good(&expect())?;
    assert!(verdict.unclean_grants > 0, "{verdict}");
    Ok(())
}

#[tokio::test]
async fn a_crash_looping_application_makes_progress_between_its_crashes() -> Outcome<()> {
    let mut scene = busy(&["w1"]).await?;
    scene.add_member("crashes", Application::CrashAfter(25))?;
    scene.settles_on(&["w1", "crashes"], SETTLED).await?;
    for _ in 0..6 {
        let member = scene.member("crashes")?;
        if let Some(application) = &mut member.application {
            let status = application.wait(SETTLED).await?;
            assert_eq!(status.code(), Some(1), "{}", children::describe(status));
        }
        member.restart_application()?;
    }
    let member = scene.member("crashes")?;
    member.application_will(Application::Ok);
    member.restart_application()?;
    scene.published_more(100).await;
    let verdict = scene.ends_well(&expect()).await?;
    assert!(
        verdict.redeliveries > 0,
        "the crashes left nothing un-acknowledged?\n{verdict}"
    );
    Ok(())
}

/// The key that nobody can process, and its partition.
fn poison(manifest: &Manifest) -> (String, u32) {
    let key = "customer-3".to_owned();
    let partition = partition_of(&key, manifest.partitions);
    (key, partition)
}

async fn poisoned(manifest: Manifest) -> Outcome<Scene> {
    let (key, _) = poison(&manifest);
    let mut scene = Scene::start(manifest).await?;
    for name in ["w1", "w2"] {
        scene.add_member(name, Application::Poison(key.clone()))?;
    }
    scene.settles_on(&["w1", "w2"], SETTLED).await?;
    scene.publish(KEYS, 60).await?;
    scene.published(240).await;
    scene.stop_publishing().await?;
    Ok(scene)
}

#[tokio::test]
async fn a_poison_message_stops_its_partition_and_no_other() -> Outcome<()> {
    let manifest = Manifest {
        max_attempts: 3,
        ..Manifest::default()
    };
    let (_, partition) = poison(&manifest);
    let mut scene = poisoned(manifest).await?;
    let is_stopped = |now: &lockstep_e2e::auditor::Progress| now.stopped.contains_key(&partition);
    scene
        .bucket_shows("stopped partition", SETTLED, is_stopped)
        .await?;
    scene.all_committed_but(&[partition], SETTLED).await?;
    assert_eq!(scene.progress().stopped[&partition], "MessageStuck");
    assert_eq!(
        scene.progress().stopped.len(),
        1,
        "{:?}",
        scene.progress().stopped
    );
    let stopped = Expectations {
        completeness: Completeness::AllBut([partition].into()),
        ..expect()
    };
    let verdict = scene.verdict_is_good(&stopped)?;
    assert!(
        verdict.redeliveries >= 2,
        "three attempts were allowed\n{verdict}"
    );

    // Mended, and lifted: everything gets through after all.
    for name in ["w1", "w2"] {
        let member = scene.member(name)?;
        member.application_will(Application::Ok);
        member.restart_application()?;
    }
    let lifted = scene.lockstep(&["group", "resume", "orders"]).await?;
    assert_eq!(lifted.code, Some(0), "{}", lifted.stderr);
    scene.ends_well(&expect()).await?;
    Ok(())
}

#[tokio::test]
async fn a_poison_message_is_skipped_where_the_policy_says_so() -> Outcome<()> {
    let manifest = Manifest {
        max_attempts: 2,
        on_failure: "Skip".to_owned(),
        ..Manifest::default()
    };
    let (key, _) = poison(&manifest);
    let scene = poisoned(manifest).await?;
    scene.all_committed(SETTLED).await?;
    let skipping = Expectations {
        given_up: [key].into(),
        ..expect()
    };
    scene.verdict_is_good(&skipping)?;
    Ok(())
}
