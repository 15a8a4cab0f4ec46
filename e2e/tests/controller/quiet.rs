//! Who has nothing to do is quiet: few writes to the API server, few beats in NATS.

use std::time::Duration;

use futures_util::StreamExt;
use lockstep_e2e::clock;
use lockstep_e2e::{http, process, until};

use crate::stage::{LEASE, SOON, Stage, group};

/// Beats of a coordinator whose Lease lasts 3 s.
const OFTEN: Duration = Duration::from_millis(375);
const RARELY: Duration = Duration::from_millis(1500);

/// So many are counted.
const BEATS: u32 = 5;

/// Groups that are there.
const GROUPS: usize = 8;

/// More looks than there are groups: each was looked at.
const LOOKS: f64 = 12.0;

impl Stage {
    /// A metric of the first controller, over all its labels that contain this.
    async fn metric(&self, name: &str, label: &str) -> Result<f64, String> {
        let ready = process::wait_for_line(&self.controllers[0], "http on ", SOON).await;
        let ready = ready.map_err(|late| late.to_string())?;
        let address = ready.rsplit(' ').next().unwrap().to_owned();
        let (_, text) = http::get(&address, "/metrics")
            .await
            .map_err(|error| error.to_string())?;
        let lines = text.lines().filter(|line| line.starts_with(name));
        let of = lines.filter(|line| line.contains(label));
        let values = of.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        Ok(values.sum())
    }

    /// The versions of all groups; each write makes another one.
    async fn versions(&self) -> String {
        let path = "jsonpath={.items[*].metadata.resourceVersion}";
        self.kubectl(&["get", "cg", "-o", path]).await
    }
}

#[tokio::test]
async fn settled_groups_are_looked_at_and_not_written() {
    let mut stage = Stage::without_controller().await;
    stage.controller_with("c1", &["--http-addr", "127.0.0.1:0"]);
    let connection = crate::stage::connection("default", &stage.nats.url());
    stage.apply(&connection).await;
    for n in 0..GROUPS {
        stage.apply(&group(&format!("g{n}"), "")).await;
    }
    for n in 0..GROUPS {
        stage.ready(&format!("g{n}"), "NoMembers").await;
    }
    let looks = async || {
        stage
            .metric("lockstep_reconcile_total", "ConsumerGroup")
            .await
    };
    let mut quiet_since = (stage.versions().await, looks().await.unwrap());
    // Each of them was looked at once more, and nothing was written: neither of them nor of others.
    let quiet = until("looks without a write", SOON * 2, async || {
        let (versions, looks) = (stage.versions().await, looks().await?);
        if versions != quiet_since.0 {
            quiet_since = (versions, looks);
            return Err("a group was written".to_owned());
        }
        let since = looks - quiet_since.1;
        if since >= LOOKS {
            Ok(())
        } else {
            Err(format!("{since} looks since the last write"))
        }
    });
    quiet
        .await
        .unwrap_or_else(|late| panic!("{late}\n{}", stage.logs()));
}

/// A group without members has nobody whose time its coordinator counts. // P44a
#[tokio::test]
async fn a_coordinator_beats_rarely_while_nobody_is_there_and_often_when_somebody_is() {
    assert_eq!(LEASE, "3s");
    let stage = Stage::new().await;
    stage.apply(&group("orders", "")).await;
    stage.ready("orders", "NoMembers").await;
    let client = async_nats::connect(stage.nats.url()).await.unwrap();
    let subject = "$KV.lockstep_default_orders.candidate.*";
    let mut beats = client.subscribe(subject).await.unwrap();
    // Beats can be late, and never early: so few take long only if they are rare.
    let mut take_longer = async |wanted: bool| {
        let settled = async {
            loop {
                let began = clock::now();
                for _ in 0..BEATS {
                    beats.next().await.unwrap();
                }
                let took = clock::now().duration_since(began);
                if (took > (OFTEN + RARELY) / 2 * BEATS) == wanted {
                    return;
                }
            }
        };
        let settled = tokio::time::timeout(SOON, settled).await;
        settled.unwrap_or_else(|_| panic!("{BEATS} beats: rare {}", !wanted));
    };
    take_longer(true).await;
    // Without an application it stands by; its time counts all the same.
    let _worker = stage.worker();
    take_longer(false).await;
}
