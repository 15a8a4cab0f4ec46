//! What cannot be read, in every key of the bucket.

use base64::Engine as _;
use bytes::Bytes;
use serde_json::{Value, json};

use super::api;
use super::stage::{RECOVERED, SOON, Stage};
use crate::scene::Outcome;
use crate::until::until;

/// Not a document.
const GARBAGE: &[u8] = b"\xff\x00{\"format\": 1, not a document";

/// The partition whose record is damaged.
const DAMAGED: u32 = 2;

pub(super) async fn everywhere(stage: &mut Stage) -> Outcome<()> {
    stage.scene.allow_garbage();
    harmless(stage).await?;
    for key in ["group", "meta"] {
        document(stage, key).await?;
    }
    commit_record(stage).await
}

/// Keys that nothing depends on, or whose writer will write again.
async fn harmless(stage: &mut Stage) -> Outcome<()> {
    let unclean = stage.unclean_grants()?;
    let mut keys: Vec<String> = [
        "member.nobody",
        "candidate.nobody",
        "reset.r1",
        "offset.999",
    ]
    .map(str::to_owned)
    .into();
    keys.extend(["offset.x", "nonsense", "a.b.c", "member.", "group.x"].map(str::to_owned));
    let live = stage.scene.progress();
    let members = live
        .document
        .iter()
        .flat_map(|document| document.members.keys());
    keys.extend(members.map(|incarnation| format!("member.{incarnation}")));
    keys.extend(
        live.candidates
            .keys()
            .map(|name| format!("candidate.{name}")),
    );
    for key in keys.iter().filter(|key| !key.ends_with('.')) {
        overwrite(stage, key, Bytes::from_static(GARBAGE)).await?;
    }
    stage.goes_on().await?;
    stage.no_death_since(unclean, "garbage in keys of members")
}

/// A document that everything follows: what runs goes on by what it knows, and nothing is written
/// over it.
async fn document(stage: &mut Stage, key: &str) -> Outcome<()> {
    let good = newest(stage, key).await?.1;
    let said = stage.said("StateDamaged");
    let damage = overwrite(stage, key, Bytes::from_static(GARBAGE)).await?;
    stage.coordinators_say("StateDamaged", said).await?;
    stage.scene.published_more(120).await;
    stage.scene.all_committed(RECOVERED).await?;
    stands(stage, key, damage).await?;
    overwrite(stage, key, good).await?;
    stage.goes_on().await
}

/// A commit record: its partition stops and is named, the others go on.
async fn commit_record(stage: &mut Stage) -> Outcome<()> {
    let key = format!("offset.{DAMAGED}");
    let damage = overwrite(stage, &key, Bytes::from_static(GARBAGE)).await?;
    stage.scene.published_more(120).await;
    stage.scene.all_committed_but(&[DAMAGED], RECOVERED).await?;
    let named = until("OffsetLost in `group describe`", SOON, async || {
        let described = stage.scene.describe().await?.to_string();
        if described.contains("OffsetLost") {
            Ok(())
        } else {
            Err(crate::scene::SceneError::new(described))
        }
    });
    named.await?;
    stands(stage, &key, damage).await?;
    let good = before(stage, &key, damage).await?;
    stage.expect.put_back.insert(DAMAGED);
    overwrite(stage, &key, good).await?;
    stage.goes_on().await
}

/// Writes past everybody, whatever stands there; the revision.
async fn overwrite(stage: &Stage, key: &str, value: Bytes) -> Outcome<u64> {
    let subject = format!("$KV.{}.{key}", stage.scene.manifest.bucket());
    let stored = until(format!("write of {key}"), SOON, async || {
        let answer = stage.admin.request(subject.clone(), value.clone()).await;
        let answer = answer.map_err(|error| error.to_string())?;
        let ack: Value = serde_json::from_slice(&answer.payload).unwrap_or_default();
        ack.get("seq")
            .and_then(Value::as_u64)
            .ok_or_else(|| ack.to_string())
    });
    Ok(stored.await?)
}

/// The newest value of a key, and its revision.
async fn newest(stage: &Stage, key: &str) -> Outcome<(u64, Bytes)> {
    let subject = format!("$KV.{}.{key}", stage.scene.manifest.bucket());
    let body = json!({ "last_by_subj": subject });
    let call = format!("STREAM.MSG.GET.{}", stage.bucket());
    let found = api::demand(&stage.admin, &call, &body).await?;
    let revision = found.pointer("/message/seq").and_then(Value::as_u64);
    Ok((revision.unwrap_or(0), data(&found)?))
}

/// What stood in a key before this revision.
async fn before(stage: &Stage, key: &str, revision: u64) -> Outcome<Bytes> {
    let subject = format!("$KV.{}.{key}", stage.scene.manifest.bucket());
    let call = format!("STREAM.MSG.GET.{}", stage.bucket());
    for earlier in (1..revision).rev() {
        let found = api::call(&stage.admin, &call, &json!({ "seq": earlier })).await?;
        if found
            .pointer("/message/subject")
            .is_some_and(|there| *there == subject)
        {
            return data(&found);
        }
    }
    Err(stage.failed(format!("nothing stood in {key}")))
}

fn data(found: &Value) -> Outcome<Bytes> {
    let text = found.pointer("/message/data").and_then(Value::as_str);
    let decoded = base64::engine::general_purpose::STANDARD.decode(text.unwrap_or_default())?;
    Ok(decoded.into())
}

/// Nobody has written over it.
async fn stands(stage: &Stage, key: &str, damage: u64) -> Outcome<()> {
    let (revision, _) = newest(stage, key).await?;
    if revision == damage {
        return Ok(());
    }
    Err(stage.failed(format!("damage in {key} was overwritten")))
}
