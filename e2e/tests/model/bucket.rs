//! Compare-and-set, reads and watches.

use std::time::Duration;

use lockstep_e2e::until;

use super::script::{OF_A_BUCKET, Seen, Step};
use super::servers::Servers;
use super::simulated::Simulated;

async fn a_bucket_behaves_like_the_model(replicas: u32) {
    let servers = Servers::start(replicas).await;
    let mut simulated = Simulated::new(1, replicas > 1);
    for (index, step) in OF_A_BUCKET.iter().enumerate() {
        let (real, modelled) = (servers.step(*step).await, simulated.step(*step));
        assert_eq!(real, modelled, "R{replicas}, step {index}: {step:?}");
    }
}

#[tokio::test]
async fn a_bucket_of_one_server_behaves_like_the_model() {
    a_bucket_behaves_like_the_model(1).await;
}

#[tokio::test]
async fn a_bucket_of_three_servers_behaves_like_the_model() {
    a_bucket_behaves_like_the_model(3).await;
}

/// Of two equal writes at once one is stored. What the other is told differs from time to time on three
/// servers (10071 or 10164), and the model knows both.
async fn of_two_writes_one_is_stored(replicas: u32) {
    let servers = Servers::start(replicas).await;
    let mut simulated = Simulated::new(2, replicas > 1);
    let mut stands_at = 0;
    for round in 0..40 {
        let step = Step::Twice(0, stands_at);
        let (real, modelled) = (servers.step(step).await, simulated.step(step));
        assert_eq!(real, modelled, "R{replicas}, round {round}");
        let Seen::OneOfTwo(revision) = real else {
            panic!("{real:?}");
        };
        stands_at = revision;
    }
}

#[tokio::test]
async fn of_two_equal_writes_at_once_one_server_stores_one() {
    of_two_writes_one_is_stored(1).await;
}

#[tokio::test]
async fn of_two_equal_writes_at_once_three_servers_store_one() {
    of_two_writes_one_is_stored(3).await;
}

/// A write whose answer did not come in time is stored after all.
#[tokio::test]
async fn a_write_that_was_given_up_can_land_late() {
    let mut servers = Servers::start(1).await;
    let mut simulated = Simulated::new(3, false);
    assert_eq!(
        servers.step(Step::Put(0)).await,
        simulated.step(Step::Put(0))
    );
    servers.cluster.servers[0].pause().unwrap();
    simulated.net.weather.late = 1000;
    let late = Step::Replace(0, 1);
    let (real, modelled) = (servers.step(late).await, simulated.step(late));
    assert_eq!((real, modelled), (Seen::Unknown, Seen::Unknown));
    servers.cluster.servers[0].resume().unwrap();
    simulated.net.weather.late = 0;
    simulated.settle();
    let landed = Seen::Value(Some(2));
    assert_eq!(simulated.step(Step::Get(0)), landed);
    let found = until(
        "the late write",
        Duration::from_secs(30),
        async || match servers.step(Step::Get(0)).await {
            seen if seen == landed => Ok(()),
            other => Err(format!("{other:?}")),
        },
    );
    found.await.unwrap();
    let again = (servers.step(late).await, simulated.step(late));
    assert_eq!(again, (Seen::StandsAt(2), Seen::StandsAt(2)));
}
