//! What the applications do not notice: controllers that die, an API server that is gone, and, but
//! for the time it takes, NATS that is gone.

use std::time::Duration;

use lockstep_e2e::cluster::{Kind, Pod, System, images, inside};
use lockstep_e2e::until::until;

use crate::stage::{WITHIN, ends_without_a_trace, quick, running};

/// Longer than any lease and any session of the test cluster.
const OUTAGE: Duration = Duration::from_secs(60);

/// How much is handled while something else is gone: about what is published in that time.
const MEANWHILE: u64 = 2_000;

async fn scale(system: &System, replicas: usize) {
    system.scale("deployment", replicas).await.unwrap();
    system.handles(100).await.unwrap();
}

async fn kill_the_leader(system: &System) {
    let leader = system.leader().await.unwrap();
    system
        .signal_in("lockstep-system", &leader, "controller", "KILL")
        .await
        .unwrap();
}

/// All pods of applications and of Lockstep, but for the times at which they were looked at.
async fn everything(system: &System) -> Vec<Pod> {
    let mut pods = system.all_pods("default", "app=orders").await.unwrap();
    let lockstep = "app.kubernetes.io/name=lockstep";
    pods.extend(system.all_pods("lockstep-system", lockstep).await.unwrap());
    pods
}

#[test]
fn messages_flow_on_without_controllers_and_without_the_api_server() {
    inside(&images(), async |node| {
        let mut system = running(node, &quick(Kind::Deployment, 1)).await;
        scale(&system, 6).await;
        kill_the_leader(&system).await;
        system.handles(500).await.unwrap();
        system.group_is("True", "AsExpected").await.unwrap();
        let before = everything(&system).await;
        system.node.signal("kube-apiserver", "KILL").await.unwrap();
        let outage = tokio::time::Instant::now() + OUTAGE;
        system.handles(MEANWHILE).await.unwrap();
        tokio::time::sleep_until(outage).await;
        system.handles(100).await.unwrap();
        system.node.restart("kube-apiserver").await.unwrap();
        until("API server that answers", WITHIN, async || {
            system
                .kubectl(&["get", "--raw", "/readyz"])
                .await
                .map_err(|error| error.to_string())
        })
        .await
        .unwrap();
        // Nobody was restarted over it, and the group can be scaled again.
        let restarts = |pods: &[Pod]| pods.iter().map(|pod| pod.restarts).collect::<Vec<_>>();
        assert_eq!(restarts(&everything(&system).await), restarts(&before));
        scale(&system, 2).await;
        system.group_is("True", "AsExpected").await.unwrap();
        ends_without_a_trace(&mut system).await;
    });
}

#[test]
fn an_outage_of_nats_restarts_nobody_and_a_namespace_goes_without_it() {
    inside(&images(), async |node| {
        let mut system = running(node, &quick(Kind::Deployment, 2)).await;
        system
            .kubectl(&["create", "namespace", "shop"])
            .await
            .unwrap();
        system.apply(SHOP).await.unwrap();
        let ready = [
            "wait",
            "cg",
            "carts",
            "-n",
            "shop",
            "--for=condition=Ready",
            "--timeout=60s",
        ];
        system.kubectl(&ready).await.unwrap();
        let before = everything(&system).await;
        system.stop_nats().unwrap();
        let outage = tokio::time::Instant::now() + OUTAGE;
        system
            .group_is("False", "ConnectionNotReady")
            .await
            .unwrap();
        tokio::time::sleep_until(outage).await;
        assert_eq!(everything(&system).await, before);
        // A group that would be deleted with its state does not hold its namespace for ever.
        system
            .kubectl(&["delete", "namespace", "shop", "--timeout=110s"])
            .await
            .unwrap();
        system.start_nats().unwrap();
        system.handles(500).await.unwrap();
        system.group_is("True", "AsExpected").await.unwrap();
        assert_eq!(everything(&system).await, before);
        ends_without_a_trace(&mut system).await;
    });
}

const SHOP: &str = r#"
apiVersion: lockstep.dev/v1alpha1
kind: NatsConnection
metadata: {name: default, namespace: shop}
spec: {servers: ["nats://nats.default:4222"]}
---
apiVersion: lockstep.dev/v1alpha1
kind: ConsumerGroup
metadata: {name: carts, namespace: shop}
spec:
  source:
    stream:
      name: CARTS
      create: {subjects: ["carts.*"], replicas: 1}
  partitioning: {partitions: 2, keyTokens: [1]}
  deletionPolicy: Delete
"#;
