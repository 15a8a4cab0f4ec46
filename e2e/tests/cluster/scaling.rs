//! Groups that scale their target, and jobs whose pods are members until they are done.

use lockstep_e2e::cluster::{Kind, System, Workload, images, inside};

use crate::stage::{ends_without_a_trace, quick};

const TARGET: &str = "  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: orders}\n";

#[test]
fn a_group_scales_its_deployment_by_draining_and_jobs_complete_beside_it() {
    inside(&images(), async |node| {
        let mut system = System::start(node).await.unwrap();
        system.install(&[]).await.unwrap();
        system.make_group_with(TARGET).await.unwrap();
        system.run(&quick(Kind::Deployment, 1)).await.unwrap();
        system.settles(1).await.unwrap();
        system.publish(50).await.unwrap();
        for replicas in [4, 2] {
            system.scale("cg", replicas).await.unwrap();
            system.handles(100).await.unwrap();
        }
        runs_a_job(&system).await;
        system.settles(2).await.unwrap();
        let shown = "jsonpath={.spec.replicas} {.status.replicas}";
        let shown = system
            .kubectl(&["get", "cg", "orders", "-o", shown])
            .await
            .unwrap();
        assert_eq!(shown, "2 2");
        ends_without_a_trace(&mut system).await;
    });
}

/// Its pods become members; when their applications have ended, so do the workers and the job.
async fn runs_a_job(system: &System) {
    let mut job = Workload::new(Kind::Job, 2);
    job.name = "batch";
    job.arguments = vec!["--mode", "stop", "--after", "50"];
    system.run(&job).await.unwrap();
    let complete = [
        "wait",
        "job",
        "batch",
        "--for=condition=Complete",
        "--timeout=100s",
    ];
    system.kubectl(&complete).await.unwrap();
}
