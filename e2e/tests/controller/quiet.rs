//! Who has nothing to do is quiet.

use std::time::Duration;

use futures_util::StreamExt;
use lockstep_e2e::clock;

use crate::stage::{LEASE, SOON, Stage, group};

/// Beats of a coordinator whose Lease lasts 3 s.
const OFTEN: Duration = Duration::from_millis(375);
const RARELY: Duration = Duration::from_millis(1500);

/// So many are counted.
const BEATS: u32 = 5;

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
