//! Pods come, go and die; messages stay in order, and none is lost.

use lockstep_e2e::checker::Expectations;
use lockstep_e2e::cluster::{Kind, System, Workload, images, inside};
use lockstep_e2e::until::until;

use crate::stage::{WITHIN, pods, running};

#[test]
fn a_deployment_is_scaled_and_loses_pods_and_processes() {
    inside(&images(), async |node| {
        let mut system = running(node, &Workload::new(Kind::Deployment, 1)).await;
        system.scale("deployment", 4).await.unwrap();
        system.handles(100).await.unwrap();
        loses_pods(&system).await;
        loses_containers(&system).await;
        system.scale("deployment", 2).await.unwrap();
        let verdict = system.ends_well(&Expectations::default()).await.unwrap();
        assert!(verdict.passed, "{verdict}");
    });
}

/// One is deleted, one is deleted without a chance to say good-bye.
async fn loses_pods(system: &System) {
    for force in [&[][..], &["--force", "--grace-period=0"]] {
        let pod = system.pods().await.unwrap().swap_remove(0);
        let delete = ["delete", "pod", &pod, "--wait=false"];
        system.kubectl(&[&delete, force].concat()).await.unwrap();
        system.settles(4).await.unwrap();
        system.handles(100).await.unwrap();
    }
}

/// The worker of one is killed, that of another runs out of memory, the application of a third dies.
async fn loses_containers(system: &System) {
    let before = pods(system).await;
    let names: Vec<&str> = before.iter().map(|pod| pod.name.as_str()).collect();
    system
        .signal(names[1], "lockstep-worker", "KILL")
        .await
        .unwrap();
    system.handles(100).await.unwrap();
    system.settles(4).await.unwrap();
    system
        .exhaust_memory(names[3], "lockstep-worker")
        .await
        .unwrap();
    was_out_of_memory(system, names[3]).await;
    system.handles(100).await.unwrap();
    system.settles(4).await.unwrap();
    system.signal(names[2], "app", "KILL").await.unwrap();
    restarts(system, names[2], 1).await;
    system.handles(100).await.unwrap();
    system.settles(4).await.unwrap();
    // Each was started again alone, in its pod.
    let after: Vec<u64> = pods(system).await.iter().map(|pod| pod.restarts).collect();
    assert_eq!(after, [0, 1, 1, 1]);
}

async fn restarts(system: &System, name: &str, count: u64) {
    until("restarted container", WITHIN, async || {
        let pods = pods(system).await;
        let restarts = pods
            .iter()
            .find(|pod| pod.name == name)
            .map(|pod| pod.restarts);
        if restarts >= Some(count) {
            Ok(())
        } else {
            Err(format!("{restarts:?}"))
        }
    })
    .await
    .unwrap();
}

async fn was_out_of_memory(system: &System, name: &str) {
    until("worker that ran out of memory", WITHIN, async || {
        let last = "jsonpath={.status.initContainerStatuses[?(@.name==\"lockstep-worker\")].lastState.terminated.reason}";
        let ask = ["get", "pod", name, "-o", last];
        let reason = system.kubectl(&ask).await.map_err(|error| error.to_string())?;
        if reason == "OOMKilled" { Ok(()) } else { Err(reason) }
    })
    .await
    .unwrap();
}
