//! What happens to the group, in order.

use std::time::Duration;

use lockstep_e2e::Scene;
use lockstep_e2e::checker::Expectations;
use lockstep_e2e::scene::{Application, Manifest, Outcome, SceneError};

use crate::screen::Screen;
use crate::table;

/// How long a change may take: the session timeout of 6 s, the pace of moves for balance (10 s),
/// and a busy machine.
const SETTLED: Duration = Duration::from_secs(60);

/// Keys and messages per second of the order stream.
const KEYS: usize = 40;
const RATE: u32 = 200;

/// How much load each scene of the script sees after it has settled: five seconds of it.
const AFTERMATH: u64 = 5 * RATE as u64;

pub(crate) fn manifest() -> Manifest {
    Manifest {
        partitions: 8,
        ..Manifest::default()
    }
}

/// Within a commit interval of 100 ms, and the seconds that a busy machine may add to it, a
/// partition acknowledges far fewer.
pub(crate) fn expect() -> Expectations {
    Expectations {
        in_flight: 1,
        uncommitted: 200,
        ..Expectations::default()
    }
}

pub(crate) async fn play(scene: &mut Scene, screen: &mut Screen) -> Outcome<()> {
    set_up(scene, screen).await?;
    join(scene, screen).await?;
    leave(scene, screen).await?;
    kill_member(scene, screen).await?;
    kill_coordinator(scene, screen).await?;
    screen.say("The publisher stops; what it published is being finished.")?;
    scene.stop_publishing().await?;
    watched(scene, screen, scene.all_committed(SETTLED)).await
}

async fn set_up(scene: &mut Scene, screen: &mut Screen) -> Outcome<()> {
    screen.say("A nats-server, coordinators c1 and c2, and the group `orders` of 8 partitions.")?;
    scene.add_coordinator("c1")?;
    scene.group_exists().await?;
    scene.add_coordinator("c2")?;
    screen.say("Three workers, w1 to w3, with a Python application behind each socket.")?;
    for name in ["w1", "w2", "w3"] {
        scene.add_member(name, Application::Ok)?;
    }
    scene.publish(KEYS, RATE).await?;
    scene.note("the start")?;
    screen.say(&format!(
        "A publisher: {RATE} orders per second, of {KEYS} customers."
    ))?;
    settle(scene, screen, &["w1", "w2", "w3"]).await
}

async fn join(scene: &mut Scene, screen: &mut Screen) -> Outcome<()> {
    event(scene, screen, "w4 joins")?;
    scene.add_member("w4", Application::Ok)?;
    settle(scene, screen, &["w1", "w2", "w3", "w4"]).await
}

async fn leave(scene: &mut Scene, screen: &mut Screen) -> Outcome<()> {
    event(scene, screen, "w1 leaves cleanly (SIGTERM)")?;
    scene.remove_member("w1").await?;
    settle(scene, screen, &["w2", "w3", "w4"]).await
}

async fn kill_member(scene: &mut Scene, screen: &mut Screen) -> Outcome<()> {
    event(
        scene,
        screen,
        "w2 is killed (kill -9), worker and application",
    )?;
    // Dropping it is SIGKILL to both.
    scene.members.remove("w2");
    settle(scene, screen, &["w3", "w4"]).await
}

async fn kill_coordinator(scene: &mut Scene, screen: &mut Screen) -> Outcome<()> {
    let active = scene.progress().coordinator().map(str::to_owned);
    let active = active.ok_or_else(|| SceneError::new("nobody coordinates the group"))?;
    event(
        scene,
        screen,
        &format!("the active coordinator, {active}, is killed (kill -9)"),
    )?;
    scene.coordinators.remove(&active);
    let other = |name: Option<&str>| name.is_some_and(|name| name != active);
    let taken = scene.bucket_shows("take-over", SETTLED, |now| other(now.coordinator()));
    watched(scene, screen, async { taken.await.map(|_| ()) }).await?;
    aftermath(scene, screen).await
}

fn event(scene: &mut Scene, screen: &mut Screen, name: &str) -> Outcome<()> {
    scene.note(name)?;
    screen.say(&format!("EVENT: {name}."))
}

/// Waits until exactly these members own the partitions, and lets the load run on for a while.
async fn settle(scene: &mut Scene, screen: &mut Screen, members: &[&str]) -> Outcome<()> {
    let settled = scene.settles_on(members, SETTLED);
    watched(scene, screen, settled).await?;
    aftermath(scene, screen).await
}

async fn aftermath(scene: &Scene, screen: &mut Screen) -> Outcome<()> {
    let run_on = async {
        scene.published_more(AFTERMATH).await;
        Ok(())
    };
    watched(scene, screen, run_on).await
}

/// Shows the table while something is waited for.
async fn watched(
    scene: &Scene,
    screen: &mut Screen,
    waited_for: impl Future<Output = Outcome<()>>,
) -> Outcome<()> {
    let mut waited_for = std::pin::pin!(waited_for);
    let mut ticks = tokio::time::interval(screen.refresh());
    loop {
        tokio::select! {
            ended = &mut waited_for => return ended,
            _ = ticks.tick() => screen.table(&table::of(scene).await?)?,
        }
    }
}
