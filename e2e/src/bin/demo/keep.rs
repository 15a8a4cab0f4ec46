//! `KEEP=1`: the group stays, with hints for trying things by hand.

use lockstep_e2e::scene::Outcome;
use lockstep_e2e::{Scene, process};

use crate::screen;

/// A slow stream, so that there is something to see.
const KEYS: usize = 10;
const RATE: u32 = 10;

/// Whether the group should be left running.
pub(crate) fn is_wanted() -> bool {
    std::env::var("KEEP").is_ok_and(|value| !value.is_empty() && value != "0")
}

/// Goes on until it is interrupted.
pub(crate) async fn running(scene: &mut Scene) -> Outcome<()> {
    scene.publish_as("guest", KEYS, RATE).await?;
    screen::hint(&hints(scene)?);
    tokio::signal::ctrl_c().await?;
    Ok(())
}

fn hints(scene: &Scene) -> Outcome<String> {
    let lockstep = process::lockstep()?;
    let lockstep = lockstep.display();
    let url = scene.servers.url();
    let group = &scene.manifest.name;
    let mut text = format!(
        "the group goes on at {RATE} orders per second, until Ctrl-C. In another terminal:\n\n  \
         export LOCKSTEP_NATS_URL={url}\n  \
         {lockstep} group describe {group} --watch\n  \
         {lockstep} group members {group}\n  \
         {lockstep} group pause {group} --partitions 0,1\n  \
         {lockstep} group resume {group}\n  \
         {lockstep} publish {group} --key customer-1 --data '{{\"key\":\"customer-1\",\"n\":1}}'\n  \
         tools/bin/nats --server {url} stream ls --all\n"
    );
    for (name, member) in &scene.members {
        let (socket, pid) = (member.socket(), member.worker.pid());
        text = format!(
            "{text}\n  curl --unix-socket {} http://{name}/v1/status\n  \
             kill {pid}      # {name} leaves\n  \
             kill -9 {pid}   # {name} dies\n",
            socket.display()
        );
    }
    Ok(format!(
        "{text}\n  logs and histories: {}",
        scene.path("").display()
    ))
}
