//! A hundred members that lose their connections at once, again and again.

use std::collections::BTreeSet;
use std::time::Duration;

use super::baseline::{self, Held};
use super::readers::Readers;
use super::stage::{RECOVERED, Stage};
use crate::auditor::Progress;
use crate::network::Node;
use crate::scene::Outcome;
use crate::until::until;

/// Members in all.
const MEMBERS: usize = 100;

/// How often all connections are closed.
const STORMS: u32 = 3;

/// A consumer that nobody knows any more lives for 40 s; then there is a margin.
const FORGOTTEN: Duration = Duration::from_secs(90);

/// Who the readers are in the network.
const CROWD: &str = "crowd";

/// Members, consumers and connections are the same afterwards as before.
pub(super) async fn reconnect(stage: &mut Stage) -> Outcome<()> {
    let own: Vec<String> = stage.scene.members.keys().cloned().collect();
    let names: Vec<String> = (own.len()..MEMBERS).map(|_| stage.new_name("r")).collect();
    let url = stage
        .scene
        .servers
        .urls_for(&Node::client(CROWD))?
        .join(",");
    let histories = stage.scene.path("history");
    let group = stage.scene.manifest.name.clone();
    let readers = Readers::start(&names, &url, &group, &histories)?;
    everybody_owns(stage, MEMBERS).await?;
    stage.goes_on().await?;
    let before = baseline::held(&stage.scene.servers, &stage.admin).await?;
    for _ in 0..STORMS {
        if let Some(network) = &stage.scene.servers.network {
            network.cut(CROWD);
            for name in &own {
                network.cut(name);
            }
        }
        stage.goes_on().await?;
    }
    returns_to(stage, &before).await?;
    readers.close().await?;
    everybody_owns(stage, own.len()).await?;
    stage.goes_on().await
}

async fn everybody_owns(stage: &Stage, members: usize) -> Outcome<()> {
    let all = |now: &Progress| {
        let owners: BTreeSet<String> = now.owners().into_values().collect();
        now.is_settled() && owners.len() == members
    };
    let what = format!("{members} owners");
    stage.scene.bucket_shows(&what, RECOVERED, all).await?;
    Ok(())
}

async fn returns_to(stage: &Stage, before: &Held) -> Outcome<()> {
    let back = until("the baseline", FORGOTTEN, async || {
        let now = baseline::held(&stage.scene.servers, &stage.admin).await?;
        if now == *before {
            Ok(())
        } else {
            Err(stage.failed(format!("{now:?} after {before:?}")))
        }
    });
    Ok(back.await?)
}
