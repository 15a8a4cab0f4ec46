//! What happens to the data stream by somebody's hand.

use std::process::Command;

use serde_json::{Value, json};

use super::api;
use super::stage::{RECOVERED, SOON, Stage};
use crate::auditor::Progress;
use crate::checker::{Completeness, Expectations};
use crate::children::Child;
use crate::scene::Outcome;
use crate::{clock, repository};

/// Keys of what is published into another history of the stream.
const NEW_KEYS: usize = 24;

/// Messages per second of it.
const NEW_RATE: u32 = 60;

pub(super) async fn consumers_deleted(stage: &mut Stage) -> Outcome<()> {
    let unclean = stage.unclean_grants()?;
    for _ in 0..2 {
        for stream in [stage.stream(), stage.bucket()] {
            for name in api::consumers(&stage.admin, &stream).await? {
                api::delete_consumer(&stage.admin, &stream, &name).await?;
            }
        }
        stage.goes_on().await?;
    }
    stage.no_death_since(unclean, "the loss of consumers")
}

/// Purged while every member is dead: what they had not read is gone, and they say so.
pub(super) async fn purged(stage: &mut Stage) -> Outcome<()> {
    let named = stage.members_said("MessagesLost");
    workers(stage, Child::kill)?;
    stage.scene.published_more(120).await;
    let stream = stage.stream();
    api::demand(
        &stage.admin,
        &format!("STREAM.PURGE.{stream}"),
        &Value::Null,
    )
    .await?;
    let first = number(stage, "/state/first_seq").await?;
    stage.expect.removed_below = stage.expect.removed_below.max(first);
    let members: Vec<String> = stage.scene.members.keys().cloned().collect();
    for name in &members {
        stage.scene.member(name)?.restart_worker()?;
    }
    stage.goes_on().await?;
    if stage.members_said("MessagesLost") == named {
        return Err(stage.failed("no member names what was lost"));
    }
    Ok(())
}

fn workers(stage: &mut Stage, what: impl Fn(&mut Child) -> std::io::Result<()>) -> Outcome<()> {
    let mut members = stage.scene.members.values_mut();
    Ok(members.try_for_each(|member| what(&mut member.worker))?)
}

async fn number(stage: &Stage, pointer: &str) -> Outcome<u64> {
    let facts = api::stream(&stage.admin, &stage.stream()).await?;
    let number = facts.pointer(pointer).and_then(Value::as_u64);
    number.ok_or_else(|| stage.failed(format!("no {pointer} in {facts}")))
}

/// Deleted and made anew as it was: sequences begin again at 1, and mean something else.
pub(super) async fn recreated(stage: &mut Stage) -> Outcome<()> {
    let stream = stage.stream();
    let facts = api::stream(&stage.admin, &stream).await?;
    stage.scene.stop_publishing().await?;
    api::demand(
        &stage.admin,
        &format!("STREAM.DELETE.{stream}"),
        &Value::Null,
    )
    .await?;
    let config = facts.get("config").cloned().unwrap_or_default();
    api::demand(&stage.admin, &format!("STREAM.CREATE.{stream}"), &config).await?;
    // Beyond the old positions, where the new sequences would pass for the next ones.
    stage.scene.turn_the_page();
    stage
        .scene
        .publish_as("new", NEW_KEYS, 10 * NEW_RATE)
        .await?;
    let beyond = facts.pointer("/state/last_seq").and_then(Value::as_u64);
    stage.scene.published(beyond.unwrap_or(0) + 60).await;
    stage.scene.stop_publishing().await?;
    stands_still(stage, &["StreamRecreated"]).await?;
    let ended = clock::boottime_ns();
    lifted_by(stage, "Earliest").await?;
    another_chapter(stage, ended).await
}

/// Restored to what it was some time ago: the newest sequences are used again.
pub(super) async fn restored(stage: &mut Stage) -> Outcome<()> {
    let stream = stage.stream();
    let copy = stage.scene.path("snapshot").display().to_string();
    nats(
        stage,
        &["stream", "backup", &stream, &copy, "--no-progress"],
    )?;
    stage.scene.published_more(120).await;
    stage.scene.stop_publishing().await?;
    stage.scene.all_committed(RECOVERED).await?;
    api::demand(
        &stage.admin,
        &format!("STREAM.DELETE.{stream}"),
        &Value::Null,
    )
    .await?;
    nats(stage, &["stream", "restore", &copy, "--no-progress"])?;
    // By version and way of restoring, the stream keeps its time of creation or gets another one.
    stands_still(stage, &["StreamRecreated", "StreamTruncated"]).await?;
    let ended = clock::boottime_ns();
    stage.scene.turn_the_page();
    let end = number(stage, "/state/last_seq").await? + 1;
    lifted_by(stage, "Latest").await?;
    // What is published before a position has moved to the end is passed over, as the policy says.
    let moved = |now: &Progress| now.committed.values().all(|next| *next <= end);
    let moved = stage
        .scene
        .bucket_shows("positions at the end", SOON, moved);
    moved.await?;
    another_chapter(stage, ended).await
}

/// Every partition names one of these reasons, and waits.
async fn stands_still(stage: &Stage, reasons: &[&str]) -> Outcome<()> {
    let partitions = usize::try_from(stage.setting.partitions).unwrap_or(usize::MAX);
    let all = |now: &Progress| {
        now.stopped.len() == partitions
            && now
                .stopped
                .values()
                .all(|why| reasons.contains(&why.as_str()))
    };
    let what = format!("{reasons:?} everywhere");
    stage.scene.bucket_shows(&what, RECOVERED, all).await?;
    Ok(())
}

/// Somebody has decided what is right for the data.
async fn lifted_by(stage: &mut Stage, policy: &str) -> Outcome<()> {
    policy.clone_into(&mut stage.scene.manifest.on_truncation);
    stage.scene.rewrite_manifest()?;
    stage.scene.coordinators.clear();
    let name = stage.new_name("c-after-");
    stage.scene.add_coordinator(&name)?;
    let leads = |now: &Progress| now.coordinator() == Some(&name);
    stage
        .scene
        .bucket_shows("another coordinator", SOON, leads)
        .await?;
    let group = stage.scene.manifest.name.clone();
    let lifted = stage.scene.lockstep(&["group", "resume", &group]).await?;
    if lifted.code != Some(0) {
        return Err(stage.failed(lifted.stderr));
    }
    let running = |now: &Progress| now.stopped.is_empty();
    stage
        .scene
        .bucket_shows("no stopped partition", SOON, running)
        .await?;
    Ok(())
}

/// Until then it ended anywhere; since then everything has to get through.
async fn another_chapter(stage: &mut Stage, ended: u64) -> Outcome<()> {
    stage.scene.publish_as("newer", NEW_KEYS, NEW_RATE).await?;
    stage.goes_on().await?;
    let first = Expectations {
        completeness: Completeness::Nothing,
        ..stage.expect.clone()
    };
    stage.first_chapter = Some((ended, first));
    stage.expect.removed_below = 0;
    stage.expect.moves_back = 1;
    Ok(())
}

/// The command line of NATS.
fn nats(stage: &Stage, arguments: &[&str]) -> Outcome<()> {
    let url = stage.scene.servers.url();
    let mut command = Command::new(repository().join("tools/bin/nats"));
    let ended = command.args(["--server", &url]).args(arguments).output()?;
    if ended.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    Err(stage.failed(format!("nats {}: {said}", json!(arguments))))
}
