//! The limit of consumers that a server puts on a stream which states none: 1,000 from 2.15 on.

use super::api;
use super::stage::{SOON, Stage};
use crate::scene::{Outcome, SceneError};
use crate::until::until;

/// More than any server allows unasked.
const MOST: usize = 1_200;

/// Consumers of the group's readers begin like this.
const OURS: &str = "ls-";

/// Others take every consumer there is; the group's own are deleted, and cannot be made again.
/// When there is room, it goes on where it was.
pub(super) async fn consumers(stage: &mut Stage) -> Outcome<()> {
    let stream = stage.stream();
    let own = api::consumers(&stage.admin, &stream).await?;
    let unclean = stage.unclean_grants()?;
    take_all(stage, &stream).await?;
    for name in &own {
        api::delete_consumer(&stage.admin, &stream, name).await?;
        // The reader may be faster; then it has its consumer back.
        api::make_consumer(&stage.admin, &stream, &format!("thief-{name}")).await?;
    }
    let starved = until("a reader without a consumer", SOON, async || {
        let left = ours(stage, &stream).await?;
        if left < own.len() {
            Ok(())
        } else {
            Err(SceneError::new(format!("{left} have one")))
        }
    });
    starved.await?;
    stage.scene.published_more(120).await;
    if stage.members_said("maximum consumers limit") == 0 {
        return Err(stage.failed("nobody names the lack of consumers"));
    }
    give_back(stage, &stream).await?;
    stage.goes_on().await?;
    stage.no_death_since(unclean, "a lack of consumers")
}

async fn ours(stage: &Stage, stream: &str) -> Outcome<usize> {
    let names = api::consumers(&stage.admin, stream).await?;
    Ok(names.iter().filter(|name| name.starts_with(OURS)).count())
}

/// Makes consumers until the server has enough.
async fn take_all(stage: &Stage, stream: &str) -> Outcome<()> {
    for number in 0..MOST {
        let made = api::make_consumer(&stage.admin, stream, &format!("other-{number}")).await?;
        if made.get("error").is_some() {
            return Ok(());
        }
    }
    Err(stage.failed(format!("the server allows {MOST} consumers")))
}

async fn give_back(stage: &Stage, stream: &str) -> Outcome<()> {
    let names = api::consumers(&stage.admin, stream).await?;
    for name in names.iter().filter(|name| !name.starts_with(OURS)) {
        api::delete_consumer(&stage.admin, stream, name).await?;
    }
    Ok(())
}
