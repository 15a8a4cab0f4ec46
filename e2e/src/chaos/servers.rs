//! What happens to servers.

use std::time::Duration;

use super::stage::{Servers, Stage};
use crate::nats_server::NatsServer;
use crate::scene::Outcome;

/// Longer than the session timeout of a stage.
const BEYOND_A_SESSION: Duration = Duration::from_secs(8);

/// Longer than a lease, shorter than a session.
const BEYOND_A_LEASE: Duration = Duration::from_secs(5);

pub(super) async fn stream_leader_killed(stage: &mut Stage) -> Outcome<()> {
    let stream = stage.stream();
    let leader = leader_of(stage, &stream).await?;
    killed(stage, leader).await
}

pub(super) async fn bucket_leader_killed(stage: &mut Stage) -> Outcome<()> {
    let bucket = stage.bucket();
    let leader = leader_of(stage, &bucket).await?;
    killed(stage, leader).await
}

pub(super) async fn meta_leader_killed(stage: &mut Stage) -> Outcome<()> {
    let leader = stage.scene.servers.meta_leader().await?;
    killed(stage, leader).await
}

pub(super) async fn follower_killed(stage: &mut Stage) -> Outcome<()> {
    let follower = follower(stage).await?;
    killed(stage, follower).await
}

pub(super) async fn stream_leader_isolated(stage: &mut Stage) -> Outcome<()> {
    let stream = stage.stream();
    let leader = leader_of(stage, &stream).await?;
    isolated(stage, leader).await
}

pub(super) async fn meta_leader_isolated(stage: &mut Stage) -> Outcome<()> {
    let leader = stage.scene.servers.meta_leader().await?;
    isolated(stage, leader).await
}

pub(super) async fn follower_isolated(stage: &mut Stage) -> Outcome<()> {
    let follower = follower(stage).await?;
    isolated(stage, follower).await
}

/// A single server leads everything, without saying so.
async fn leader_of(stage: &Stage, stream: &str) -> Outcome<usize> {
    match stage.setting.servers {
        Servers::One => Ok(0),
        Servers::Three => Ok(stage.scene.servers.leader_of(stream).await?),
    }
}

/// A server that leads neither the stream nor the bucket.
async fn follower(stage: &Stage) -> Outcome<usize> {
    let stream = leader_of(stage, &stage.stream()).await?;
    let bucket = leader_of(stage, &stage.bucket()).await?;
    let mut others = (0..stage.setting.servers.count()).filter(|i| *i != stream && *i != bucket);
    others
        .next()
        .ok_or_else(|| stage.failed("no server follows"))
}

/// Gone without a word, and back after the others have gone on without it.
async fn killed(stage: &mut Stage, server: usize) -> Outcome<()> {
    stage.scene.servers.servers[server].kill()?;
    match stage.setting.servers {
        Servers::One => stage.lasts(BEYOND_A_LEASE).await,
        Servers::Three => stage.goes_on().await?,
    }
    stage.scene.servers.servers[server].restart().await?;
    stage.goes_on().await
}

/// Cut off from the others, with a member that reaches nobody else. The others take that member's
/// partitions over, and go on; then everything that was said arrives.
async fn isolated(stage: &mut Stage, server: usize) -> Outcome<()> {
    let companion = stage.an_owner()?;
    stage.scene.servers.isolate(server, &[&companion]);
    stage.owned_by_others(&[&companion]).await?;
    stage.goes_on().await?;
    stage.scene.servers.heal();
    stage.goes_on().await
}

pub(super) async fn rolling_restart(stage: &mut Stage) -> Outcome<()> {
    for server in 0..stage.setting.servers.count() {
        stage.scene.servers.servers[server].stop().await?;
        stage.scene.servers.servers[server].restart().await?;
        stage.goes_on().await?;
    }
    Ok(())
}

pub(super) async fn all_killed(stage: &mut Stage) -> Outcome<()> {
    let unclean = stage.unclean_grants()?;
    stage.scene.servers.kill()?;
    stage.lasts(BEYOND_A_SESSION).await;
    stage.scene.servers.restart().await?;
    stage.goes_on().await?;
    nobody_died(stage, unclean)
}

pub(super) async fn all_frozen(stage: &mut Stage) -> Outcome<()> {
    let unclean = stage.unclean_grants()?;
    each(stage, NatsServer::pause)?;
    stage.lasts(BEYOND_A_SESSION).await;
    each(stage, NatsServer::resume)?;
    stage.goes_on().await?;
    nobody_died(stage, unclean)
}

fn each(
    stage: &mut Stage,
    mut what: impl FnMut(&mut NatsServer) -> std::io::Result<()>,
) -> Outcome<()> {
    Ok(stage
        .scene
        .servers
        .servers
        .iter_mut()
        .try_for_each(&mut what)?)
}

/// An outage of the only server is nobody's death. With three, members may be back at different
/// times.
fn nobody_died(stage: &Stage, unclean: usize) -> Outcome<()> {
    match stage.setting.servers {
        Servers::One => stage.no_death_since(unclean, "an outage"),
        Servers::Three => Ok(()),
    }
}

/// The disk below the stream's leader is full; it is freed, and the server restarted, as has to be
/// done after that.
pub(super) async fn disk_full(stage: &mut Stage) -> Outcome<()> {
    let stream = stage.stream();
    let server = leader_of(stage, &stream).await?;
    let no_disks = || stage.failed("the servers have no disks of their own");
    stage.disks.as_ref().ok_or_else(no_disks)?.fill(server)?;
    stage.lasts(BEYOND_A_SESSION).await;
    let no_disks = || stage.failed("the servers have no disks of their own");
    stage.disks.as_ref().ok_or_else(no_disks)?.free(server)?;
    stage.scene.servers.servers[server].restart().await?;
    stage.goes_on().await
}
