//! Coordinators, workers and applications as processes over a real server, in trouble. What the
//! applications saw is judged by the history checker.

mod applications;
mod damage;
mod kills;
mod membership;
mod suspension;

use std::time::Duration;

use lockstep_e2e::scene::{Application, Manifest, Outcome};
use lockstep_e2e::{Scene, checker::Expectations};

/// How long an assignment may take to settle: the session timeout of 6 s, the pace of moves for
/// balance (10 s), and a busy machine.
const SETTLED: Duration = Duration::from_secs(45);

/// Keys of the load; many more than partitions.
const KEYS: usize = 24;

/// Messages per second of the load.
const RATE: u32 = 150;

/// What the default manifest promises: a window of one; and in the commit interval of 100 ms a
/// partition acknowledges far fewer than its share of a few seconds' load.
fn expect() -> Expectations {
    Expectations {
        in_flight: 1,
        uncommitted: 200,
        ..Expectations::default()
    }
}

/// A group whose members all own something, under load.
async fn busy(members: &[&str]) -> Outcome<Scene> {
    busy_with(Manifest::default(), members).await
}

async fn busy_with(manifest: Manifest, members: &[&str]) -> Outcome<Scene> {
    let mut scene = Scene::start(manifest).await?;
    for member in members {
        scene.add_member(member, Application::Ok)?;
    }
    scene.settles_on(members, SETTLED).await?;
    scene.publish(KEYS, RATE).await?;
    scene.published(200).await;
    Ok(scene)
}
