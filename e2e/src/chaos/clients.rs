//! What happens to members, and to their paths to the servers.

use std::time::Duration;

use super::stage::{SOON, Stage};
use crate::children::Child;
use crate::history::{self, Record};
use crate::proxy::Mode;
use crate::scene::{Application, Outcome, SceneError};
use crate::until::{until, until_sync};

/// Bytes of what a member is told that are lost, each time.
const LOST: u64 = 700;

/// How long a wave of members stays.
const WAVE: Duration = Duration::from_secs(4);

/// How many waves come and go.
const WAVES: u32 = 2;

/// How many members a wave has.
const WAVE_SIZE: u32 = 7;

pub(super) async fn cut_off(stage: &mut Stage) -> Outcome<()> {
    path_fails(stage, Mode::Freeze).await
}

pub(super) async fn deaf(stage: &mut Stage) -> Outcome<()> {
    path_fails(stage, Mode::HoldToClient).await
}

pub(super) async fn mute(stage: &mut Stage) -> Outcome<()> {
    path_fails(stage, Mode::HoldToServer).await
}

fn set(stage: &Stage, member: &str, mode: Mode) {
    if let Some(network) = &stage.scene.servers.network {
        network.set(member, mode);
    }
}

/// The member loses its partitions to others; then what was held back arrives.
async fn path_fails(stage: &mut Stage, mode: Mode) -> Outcome<()> {
    let victim = stage.an_owner()?;
    set(stage, &victim, mode);
    stage.owned_by_others(&[&victim]).await?;
    stage.goes_on().await?;
    set(stage, &victim, Mode::Pass);
    stage.goes_on().await
}

/// Holes in what a member is told, in the middle of messages; nothing else happens to it.
pub(super) async fn bytes_lost(stage: &mut Stage) -> Outcome<()> {
    for _ in 0..5 {
        let victim = stage.an_owner()?;
        if let Some(network) = &stage.scene.servers.network {
            network.lose(&victim, LOST);
        }
        stage.goes_on().await?;
    }
    Ok(())
}

/// A slow application stands still with messages in hand; its worker is cut off, and others take
/// over. Then it acknowledges.
pub(super) async fn late_acknowledgements(stage: &mut Stage) -> Outcome<()> {
    let victim = stage.an_owner()?;
    let member = stage.scene.member(&victim)?;
    member.application_will(Application::Slow(Duration::from_millis(500)));
    member.restart_application()?;
    let log = stage.scene.path(&format!("history/{victim}.jsonl"));
    let before = refused(&log)?;
    let known = history::read(&log)?.len();
    let holds = until("message in hand", SOON, async || {
        application(stage, &victim, Child::pause)?;
        let records = history::read(&log)?;
        if records.len() > known && matches!(records.last(), Some(Record::Seen { .. })) {
            return Ok(());
        }
        application(stage, &victim, Child::resume)?;
        Err(SceneError::new("it is between two messages"))
    });
    holds.await?;
    set(stage, &victim, Mode::Freeze);
    stage.owned_by_others(&[&victim]).await?;
    let dropped = stage.members_said("clean=false");
    set(stage, &victim, Mode::Pass);
    stage.members_say("clean=false", dropped).await?;
    application(stage, &victim, Child::resume)?;
    let noticed = until_sync("refused acknowledgement", SOON, || match refused(&log) {
        Ok(now) if now > before => Ok(()),
        Ok(_) => Err(SceneError::new("none is refused")),
        Err(error) => Err(error),
    });
    noticed.await.map_err(|late| stage.failed(late))?;
    let member = stage.scene.member(&victim)?;
    member.application_will(Application::Ok);
    member.restart_application()?;
    stage.goes_on().await
}

fn application(
    stage: &mut Stage,
    member: &str,
    what: impl FnOnce(&mut Child) -> std::io::Result<()>,
) -> Outcome<()> {
    let application = stage.scene.member(member)?.application.as_mut();
    Ok(application.map_or(Ok(()), what)?)
}

fn refused(log: &std::path::Path) -> Outcome<usize> {
    let records = history::read(log)?;
    let refused = records
        .iter()
        .filter(|record| matches!(record, Record::Refused(_)));
    Ok(refused.count())
}

pub(super) async fn churn(stage: &mut Stage) -> Outcome<()> {
    for _ in 0..WAVES {
        let names: Vec<String> = (0..WAVE_SIZE).map(|_| stage.new_name("x")).collect();
        for name in &names {
            stage.scene.add_member(name, Application::Ok)?;
        }
        stage.lasts(WAVE).await;
        for name in &names {
            stage.scene.member(name)?.ask_to_leave()?;
        }
        for name in &names {
            stage.scene.remove_member(name).await?;
        }
    }
    stage.goes_on().await
}
