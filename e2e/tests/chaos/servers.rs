//! Servers that are killed, and parted from each other.

use lockstep_e2e::checker::Expectations;
use lockstep_e2e::nats_server::Options;
use lockstep_e2e::scene::{Application, Manifest, Outcome};
use lockstep_e2e::{NatsCluster, Scene};

use crate::SETTLED;

#[tokio::test]
async fn a_leader_is_killed_and_another_is_isolated_with_a_client() -> Outcome<()> {
    let manifest = Manifest {
        replicas: 3,
        max_in_flight: 16,
        ..Manifest::default()
    };
    let cluster = NatsCluster::divisible(3, vec![Options::default(); 3]).await?;
    let mut scene = Scene::start_on(manifest, cluster).await?;
    for member in ["w1", "w2", "w3"] {
        scene.add_member(member, Application::Ok)?;
    }
    scene.settles_on(&["w1", "w2", "w3"], SETTLED).await?;
    scene.publish(24, 100).await?;
    scene.published(200).await;
    let leader = scene.servers.leader_of("ORDERS").await?;
    scene.note("the leader of ORDERS is killed")?;
    scene.servers.servers[leader].kill()?;
    scene.published_more(100).await;
    scene.servers.servers[leader].restart().await?;
    scene.published_more(100).await;
    let leader = scene.servers.leader_of("ORDERS").await?;
    scene.note("the leader of ORDERS is isolated")?;
    scene.servers.isolate(leader, &["w1"]);
    scene.published_more(1000).await;
    scene.servers.heal();
    scene.published_more(100).await;
    let wide = Expectations {
        in_flight: 16,
        uncommitted: 500,
        ..Expectations::default()
    };
    let verdict = scene.ends_well(&wide).await?;
    println!("{verdict}");
    Ok(())
}
