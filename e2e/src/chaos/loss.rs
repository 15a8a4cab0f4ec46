//! What happens to the bucket by somebody's hand.

use std::time::Duration;

use serde_json::{Value, json};

use super::api;
use super::stage::{RECOVERED, Stage};
use crate::clock;
use crate::scene::Outcome;

/// More than any scene publishes.
const EVERYTHING: u64 = 1_000_000;

/// Longer than a lease: whoever held one has none any more.
const BEYOND_A_LEASE: Duration = Duration::from_secs(6);

/// How long it is watched that nothing happens.
const WATCHED: Duration = Duration::from_secs(4);

/// What coordinators call it.
const STATE_LOST: &str = "StateLost";

/// Deleted: everybody stands still, nothing is made anew, until somebody accepts the loss.
pub(super) async fn deleted(stage: &mut Stage) -> Outcome<()> {
    lost(stage).await?;
    stands_still(stage).await?;
    let bucket = stage.bucket();
    let info = api::call(&stage.admin, &format!("STREAM.INFO.{bucket}"), &Value::Null).await?;
    if info.get("error").is_none() {
        return Err(stage.failed("the bucket was made anew by itself"));
    }
    accepted(stage).await
}

/// Deleted, and an empty one made in its place: no word is written into that. Members have seen
/// another bucket and dropped what they had (P33): nobody can report an offset any more, and the
/// group begins at `startFrom`.
pub(super) async fn recreated(stage: &mut Stage) -> Outcome<()> {
    stage.expect.uncommitted = EVERYTHING;
    lost(stage).await?;
    let bucket = stage.bucket();
    let config = json!({
        "name": bucket,
        "subjects": [format!("$KV.{}.>", stage.scene.manifest.bucket())],
        "retention": "limits", "storage": "file", "max_msgs_per_subject": 1,
        "num_replicas": stage.setting.servers.count(),
        "discard": "new", "allow_rollup_hdrs": true, "allow_direct": true,
        "allow_msg_ttl": true,
    });
    api::demand(&stage.admin, &format!("STREAM.CREATE.{bucket}"), &config).await?;
    stands_still(stage).await?;
    for key in ["meta", "group", "offset.0"] {
        let subject = format!("$KV.{}.{key}", stage.scene.manifest.bucket());
        let body = json!({ "last_by_subj": subject });
        let found = api::call(&stage.admin, &format!("STREAM.MSG.GET.{bucket}"), &body).await?;
        if found.get("message").is_some() {
            return Err(stage.failed(format!("{key} was written into a foreign bucket")));
        }
    }
    api::demand(
        &stage.admin,
        &format!("STREAM.DELETE.{bucket}"),
        &Value::Null,
    )
    .await?;
    accepted(stage).await
}

async fn lost(stage: &mut Stage) -> Outcome<()> {
    let said = stage.said(STATE_LOST);
    let bucket = stage.bucket();
    api::demand(
        &stage.admin,
        &format!("STREAM.DELETE.{bucket}"),
        &Value::Null,
    )
    .await?;
    stage.coordinators_say(STATE_LOST, said).await
}

/// Past the lease, nobody is handed anything.
async fn stands_still(stage: &Stage) -> Outcome<()> {
    stage.lasts(BEYOND_A_LEASE).await;
    let from = clock::boottime_ns();
    stage.lasts(WATCHED).await;
    let seen = stage.seen_after(from)?;
    match seen.first() {
        None => Ok(()),
        Some(seen) => Err(stage.failed(format!("handed over without a bucket: {seen:?}"))),
    }
}

/// A coordinator is started that accepts it; offsets come from what live members report.
async fn accepted(stage: &mut Stage) -> Outcome<()> {
    stage.scene.coordinators.clear();
    let before = stage.scene.audit_anew().await?;
    stage.expect.state_lost_after = Some(before);
    let name = stage.new_name("c-after-");
    stage.scene.accept_state_loss(&name)?;
    stage.scene.group_exists().await?;
    let leads = |now: &crate::auditor::Progress| now.coordinator() == Some(&name);
    stage
        .scene
        .bucket_shows("a coordinator", RECOVERED, leads)
        .await?;
    stage.goes_on().await
}
