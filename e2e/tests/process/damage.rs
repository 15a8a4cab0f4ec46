//! State that is refused, or damaged, under a running group.

use async_nats::jetstream;
use lockstep_e2e::checker::{Completeness, Expectations, judge};
use lockstep_e2e::scene::{Outcome, SceneError};
use lockstep_e2e::{history, until};

use crate::{SETTLED, busy, expect};

/// As on a full disk or in an account at its limit: the server answers, and stores nothing.
#[tokio::test]
async fn a_bucket_that_refuses_writes_stops_commits_until_it_takes_them_again() -> Outcome<()> {
    let mut scene = busy(&["w1", "w2"]).await?;
    let context = jetstream::new(scene.servers.connect().await?);
    let stream = format!("KV_{}", scene.manifest.bucket());
    let mut config = context
        .get_stream(&stream)
        .await?
        .cached_info()
        .config
        .clone();
    let epochs = scene.progress().epochs();

    config.max_bytes = 1;
    context.update_stream(&config).await?;
    let full_at = scene.progress().revision;
    // Longer than a lease and a session: messages go on being published.
    scene.published_more(150 * 8).await;
    let stored = scene.progress().revision - full_at;
    assert!(
        stored < 50,
        "{stored} revisions were stored in a full bucket"
    );

    config.max_bytes = -1;
    context.update_stream(&config).await?;
    scene.published_more(100).await;
    let verdict = scene.ends_well(&expect()).await?;
    assert_eq!(
        scene.progress().epochs(),
        epochs,
        "a full bucket moved partitions"
    );
    assert_eq!(verdict.duplicates, 0, "{verdict}");
    Ok(())
}

#[tokio::test]
async fn a_damaged_commit_record_stops_its_partition_and_no_other() -> Outcome<()> {
    const DAMAGED: u32 = 3;
    let mut scene = busy(&["w1", "w2"]).await?;
    let context = jetstream::new(scene.servers.connect().await?);
    let subject = format!("$KV.{}.offset.{DAMAGED}", scene.manifest.bucket());
    let damage = context
        .publish(subject.clone(), "not a record".into())
        .await?
        .await?
        .sequence;
    scene.published_more(300).await;
    scene.stop_publishing().await?;
    scene.all_committed_but(&[DAMAGED], SETTLED).await?;

    // Named, and not overwritten.
    let named = until("the damage in `group describe`", SETTLED, async || {
        let described = scene.describe().await?.to_string();
        if described.contains("OffsetLost") {
            Ok(())
        } else {
            Err(SceneError::new(described))
        }
    });
    named.await?;
    let stream = context
        .get_stream(format!("KV_{}", scene.manifest.bucket()))
        .await?;
    let record = stream.get_last_raw_message_by_subject(&subject).await?;
    assert_eq!(
        record.sequence, damage,
        "the damaged record was overwritten"
    );

    let rest = Expectations {
        completeness: Completeness::AllBut([DAMAGED].into()),
        ..expect()
    };
    let verdict = judge(&history::read_folder(&scene.path("history"))?, &rest);
    assert!(verdict.passed, "{verdict}");
    Ok(())
}
