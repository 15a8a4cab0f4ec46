//! `make demo`: Lockstep on a real cluster that it starts itself, from `helm install` to the history
//! checker's verdict.
//!
//! The last line of standard output is the verdict as one JSON object; the exit code is 0 if every
//! promise was kept.

use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use lockstep_e2e::checker::Expectations;
use lockstep_e2e::cluster::{Kind, Node, System, images, inside, unavailable};
use lockstep_e2e::console::say;
use lockstep_e2e::scene::Outcome;
use serde_json::json;

static PASSED: AtomicBool = AtomicBool::new(false);

fn main() -> ExitCode {
    if let Some(why) = unavailable() {
        complain(&format!(
            "no cluster can be started here: {why}; `make demo-local` shows a group without one"
        ));
        return ExitCode::FAILURE;
    }
    say("starting a cluster: etcd, API server, controllers, scheduler, kubelet, containerd");
    inside(&images(), async |node| match play(node).await {
        Ok(()) => PASSED.store(true, Ordering::Relaxed),
        Err(error) => complain(&error.to_string()),
    });
    if PASSED.load(Ordering::Relaxed) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

async fn play(node: Node) -> Outcome<()> {
    let started = lockstep_e2e::clock::now();
    let mut system = System::start(node).await?;
    say("$ helm install lockstep charts/lockstep");
    system.install(&[]).await?;
    say("$ kubectl apply: a NatsConnection and a ConsumerGroup of 6 partitions");
    system.make_group().await?;
    say("$ kubectl apply: a Deployment with the label, whose application knows nothing of NATS");
    system.run_application(Kind::Deployment, 1).await?;
    system.settles(1).await?;
    system.publish(100).await?;
    system.flows(200).await;
    show(&system).await?;
    say("$ kubectl scale deployment orders --replicas=3");
    system.scale("deployment", 3).await?;
    system.flows(200).await;
    show(&system).await?;
    lose_pods_and_the_controller(&system).await?;
    let verdict = system.ends_well(&Expectations::default()).await?;
    say(&verdict.to_string());
    let seconds = (lockstep_e2e::clock::now() - started).as_secs();
    say(&json!({ "passed": verdict.passed, "seconds": seconds }).to_string());
    Ok(())
}

/// A pod is deleted, one is killed, and the controller is.
async fn lose_pods_and_the_controller(system: &System) -> Outcome<()> {
    let pods = system.pods().await?;
    say(&format!("$ kubectl delete pod {}", pods[0]));
    system
        .kubectl(&["delete", "pod", &pods[0], "--wait=false"])
        .await?;
    system.settles(3).await?;
    system.flows(200).await;
    let pods = system.pods().await?;
    say(&format!(
        "kill -9 of the worker and the application in {}",
        pods[1]
    ));
    system.signal(&pods[1], "lockstep-worker", "KILL").await?;
    system.signal(&pods[1], "app", "KILL").await?;
    system.flows(200).await;
    system.settles(3).await?;
    let leader = system.leader().await?;
    say(&format!(
        "the controller that coordinates is killed: {leader}"
    ));
    let kill = [
        "delete",
        "pod",
        "-n",
        "lockstep-system",
        &leader,
        "--force",
        "--grace-period=0",
    ];
    system.kubectl(&kill).await?;
    system.flows(500).await;
    say(
        "messages flowed on; $ kubectl scale deployment orders --replicas=2 waits for the next one",
    );
    system.scale("deployment", 2).await?;
    show(system).await?;
    Ok(())
}

async fn show(system: &System) -> Outcome<()> {
    say(system
        .kubectl(&["get", "consumergroups,pods"])
        .await?
        .trim_end());
    Ok(())
}

fn complain(text: &str) {
    drop(writeln!(std::io::stderr().lock(), "demo: {text}"));
}
