//! Pods come, go, roll and die; messages stay in order, and none is lost.

use lockstep_e2e::checker::Expectations;
use lockstep_e2e::cluster::{Node, System, images, inside};

async fn running(node: Node, kind: &str, replicas: u32) -> System {
    let mut system = System::start(node).await.unwrap();
    system.install(&[]).await.unwrap();
    system.make_group().await.unwrap();
    system.run_application(kind, replicas).await.unwrap();
    system.settles(replicas as usize).await.unwrap();
    system.publish(100).await.unwrap();
    system.flows(100).await;
    system
}

#[test]
fn a_deployment_is_scaled_loses_pods_and_is_rolled() {
    inside(&images(), async |node| {
        let mut system = running(node, "Deployment", 1).await;
        system
            .kubectl(&["scale", "deployment", "orders", "--replicas=4"])
            .await
            .unwrap();
        system.settles(4).await.unwrap();
        system.flows(100).await;
        // One is deleted, the worker of another is killed, the application of a third.
        let pods = system.pods().await.unwrap();
        system
            .kubectl(&["delete", "pod", &pods[0], "--wait=false"])
            .await
            .unwrap();
        system.settles(4).await.unwrap();
        let pods = system.pods().await.unwrap();
        system
            .signal(&pods[1], "lockstep-worker", "KILL")
            .await
            .unwrap();
        system.flows(100).await;
        system.settles(4).await.unwrap();
        system.signal(&pods[2], "app", "KILL").await.unwrap();
        system.flows(100).await;
        system.settles(4).await.unwrap();
        system
            .kubectl(&["rollout", "restart", "deployment", "orders"])
            .await
            .unwrap();
        let rolled = [
            "rollout",
            "status",
            "deployment",
            "orders",
            "--timeout=100s",
        ];
        system.kubectl(&rolled).await.unwrap();
        system.settles(4).await.unwrap();
        system
            .kubectl(&["scale", "deployment", "orders", "--replicas=2"])
            .await
            .unwrap();
        system.settles(2).await.unwrap();
        let verdict = system.ends_well(&Expectations::default()).await.unwrap();
        assert!(verdict.passed, "{verdict}");
    });
}
