//! Workers that stand still: past their session they are fenced, past the liveness probe the kubelet
//! starts them again.

use std::time::Duration;

use lockstep_e2e::checker::Expectations;
use lockstep_e2e::cluster::{Kind, System, Workload, images, inside};
use lockstep_e2e::until::until;

use crate::stage::{pods, running};

const WORKER: &str = "lockstep-worker";

/// Six probes, 10 s apart, then the 30 s that a pod is given to end: a process that stands still
/// hears of nothing and is killed.
const UNTIL_KILLED: Duration = Duration::from_secs(240);

#[test]
fn a_suspended_worker_is_fenced_and_one_that_stays_so_is_started_again() {
    inside(&images(), async |node| {
        let mut system = running(node, &Workload::new(Kind::Deployment, 3)).await;
        let names: Vec<String> = pods(&system)
            .await
            .into_iter()
            .map(|pod| pod.name)
            .collect();
        falls_asleep(&system, &names[0]).await;
        system.signal(&names[0], WORKER, "CONT").await.unwrap();
        all_have_partitions(&system, &names).await;
        assert_eq!(
            restarts(&system).await,
            [0, 0, 0],
            "sleep alone restarts nobody"
        );

        falls_asleep(&system, &names[1]).await;
        until("worker started again", UNTIL_KILLED, async || {
            let now = restarts(&system).await;
            if now == [0, 1, 0] {
                Ok(())
            } else {
                Err(format!("{now:?}"))
            }
        })
        .await
        .unwrap();
        let unhealthy = [
            "get",
            "events",
            "--field-selector",
            "reason=Unhealthy",
            "-o",
        ];
        let messages = "jsonpath={range .items[*]}{.involvedObject.name} {.message}{\"\\n\"}{end}";
        let events = system
            .kubectl(&[&unhealthy[..], &[messages]].concat())
            .await;
        let events = events.unwrap();
        let liveness = |line: &str| line.starts_with(&names[1]) && line.contains("Liveness probe");
        assert!(events.lines().any(liveness), "{events}");
        all_have_partitions(&system, &names).await;
        let verdict = system.ends_well(&Expectations::default()).await.unwrap();
        assert!(verdict.unclean_grants > 0, "{verdict}");
    });
}

/// The worker of one of three stops: the others get its partitions.
async fn falls_asleep(system: &System, pod: &str) {
    system.signal(pod, WORKER, "STOP").await.unwrap();
    system.owned_by(2).await.unwrap();
    system.handles(200).await.unwrap();
}

/// The three are what they were, and each has partitions again.
async fn all_have_partitions(system: &System, names: &[String]) {
    system.settles(3).await.unwrap();
    system.handles(200).await.unwrap();
    assert_eq!(system.pods().await.unwrap(), names);
}

async fn restarts(system: &System) -> Vec<u64> {
    pods(system).await.iter().map(|pod| pod.restarts).collect()
}
