//! What happens to coordinators, and to the time that everybody reads.

use std::time::Duration;

use super::stage::{RECOVERED, Stage};
use crate::children::Child;
use crate::scene::Outcome;

/// A day, in seconds.
const DAY: i64 = 86_400;

/// The holder stands still until another one leads; it wakes, and has nothing to say any more.
pub(super) async fn paused(stage: &mut Stage) -> Outcome<()> {
    let holder = stage.scene.progress().coordinator().map(str::to_owned);
    let holder = holder.ok_or_else(|| stage.failed("nobody coordinates"))?;
    let unclean = stage.unclean_grants()?;
    change(stage, &holder, Child::pause)?;
    let another = stage
        .scene
        .bucket_shows("another coordinator", RECOVERED, |now| {
            now.coordinator().is_some_and(|name| name != holder)
        });
    another.await?;
    change(stage, &holder, Child::resume)?;
    stage.goes_on().await?;
    if stage.scene.progress().coordinator() == Some(&holder) {
        return Err(stage.failed("the sleeper came back to power"));
    }
    stage.no_death_since(unclean, "a coordinator's sleep")
}

fn change(
    stage: &mut Stage,
    name: &str,
    what: impl FnOnce(&mut Child) -> std::io::Result<()>,
) -> Outcome<()> {
    Ok(stage
        .scene
        .coordinators
        .get_mut(name)
        .map_or(Ok(()), what)?)
}

/// Years ahead, years back, and to the truth again; longer than a session each time.
pub(super) async fn clock_jumps(stage: &mut Stage) -> Outcome<()> {
    let unclean = stage.unclean_grants()?;
    for ahead in [3650 * DAY, -3650 * DAY, 0] {
        stage.wall_clock.set(ahead)?;
        stage.lasts(Duration::from_secs(7)).await;
        stage.goes_on().await?;
    }
    stage.no_death_since(unclean, "a jump of the wall clock")
}
