//! All of Lockstep on a node: from `kubectl apply` to the first message, and a rolling update.

use std::collections::BTreeMap;
use std::time::Duration;

use lockstep_e2e::checker::Expectations;
use lockstep_e2e::clock;
use lockstep_e2e::cluster::{Kind, Node, System};
use lockstep_e2e::console::say;
use lockstep_e2e::figures::{Figures, Spread, milliseconds};
use lockstep_e2e::history::At;
use lockstep_e2e::scene::Outcome;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::flags::Flags;
use crate::groups::{self, are_ready};
use crate::handovers::{Pauses, first_message, pauses};
use crate::pods::{self, Life, Lives};

const PART: &str = "node";

/// Groups that are applied one after the other.
const GROUPS: usize = 10;

/// Pods of the application, when all are there.
const PODS: u32 = 4;

/// Messages per second.
const RATE: u32 = 100;

/// Messages after which what was disturbed has had time to show itself.
const AFTERWARDS: u64 = 500;

/// Messages after which a balanced group may be balanced anew at once.
const QUIET: u64 = 11 * RATE as u64;

/// The group `orders`, with the settings that everybody gets.
const GROUP: &str = r#"
apiVersion: lockstep.dev/v1alpha1
kind: NatsConnection
metadata: {name: default, namespace: default}
spec: {servers: ["nats://nats.default:4222"]}
---
apiVersion: lockstep.dev/v1alpha1
kind: ConsumerGroup
metadata: {name: orders, namespace: default}
spec:
  source: {stream: {name: ORDERS, create: {subjects: ["orders.*"], replicas: 1}}}
  partitioning: {partitions: 6, keyTokens: [1]}
"#;

pub(crate) async fn measure(node: Node, flags: &Flags, figures: &mut Figures) -> Outcome<()> {
    say("Lockstep on a node: 6 partitions, default settings, 100 messages per second");
    let mut system = System::start(node).await?;
    if flags.keep {
        say(&format!("  kept: {}", system.node.keep_folder().display()));
    }
    system.install(&[]).await?;
    system.make_group_of(GROUP).await?;
    apply_groups(&system, figures).await?;
    system.publish(RATE).await?;
    let client = system.node.client().await?;
    pods::followed(&client, async |lives| {
        with_pods(&system, lives, figures).await
    })
    .await?;
    let verdict = system.ends_well(&Expectations::default()).await?;
    figures.note(PART, "messages", verdict.messages);
    figures.note(PART, "promises_kept", verdict.passed);
    Ok(())
}

/// From the start of `kubectl apply` until a watch shows that the group is ready.
async fn apply_groups(system: &System, figures: &mut Figures) -> Outcome<()> {
    let client = system.node.client().await?;
    let (mut applied, mut times) = (Vec::new(), Vec::new());
    groups::followed(&client, async |mut seen| {
        for n in 0..GROUPS {
            let name = format!("applied{n}");
            let manifest = serde_json::to_string(&groups::group(&name))?;
            let began = clock::now();
            system.apply(&manifest).await?;
            applied.push(clock::now().duration_since(began));
            let ready = are_ready(&mut seen, std::slice::from_ref(&name)).await?;
            times.extend(ready.values().map(|ready| ready.duration_since(began)));
        }
        Ok(())
    })
    .await?;
    note(figures, "kubectl_apply_alone", applied);
    note(figures, "apply_to_ready", times);
    Ok(())
}

async fn with_pods(
    system: &System,
    lives: watch::Receiver<Lives>,
    figures: &mut Figures,
) -> Outcome<()> {
    system.run_application(Kind::Deployment, 1).await?;
    system.settles(1).await?;
    tell_starts(system, &lives, "first_pod", figures)?;
    system.flows(QUIET).await;
    for replicas in 2..=PODS {
        let scale = format!("--replicas={replicas}");
        system
            .kubectl(&["scale", "deployment", "orders", &scale])
            .await?;
        system.settles(replicas as usize).await?;
        // Moves for balance alone are 10 s apart: each pod is the first after a while.
        system.flows(QUIET).await;
    }
    tell_starts(system, &lives, "pods_of_scaling", figures)?;

    let began = clock::boottime_ns();
    system.flows(AFTERWARDS).await;
    tell_pauses(system, "undisturbed", began, figures)?;

    let began = clock::boottime_ns();
    system
        .kubectl(&["rollout", "restart", "deployment", "orders"])
        .await?;
    let status = ["rollout", "status", "deployment", "orders", "--timeout=5m"];
    system.kubectl(&status).await?;
    system.settles(PODS as usize).await?;
    figures.time(
        PART,
        "rolling_update_took",
        clock::span(began, clock::boottime_ns()),
    );
    system.flows(AFTERWARDS).await;
    tell_pauses(system, "rolling_update", began, figures)?;

    let began = clock::boottime_ns();
    let pods = system.pods().await?;
    system
        .kubectl(&["delete", "pod", &pods[0], "--wait=false"])
        .await?;
    system.settles(PODS as usize).await?;
    system.flows(AFTERWARDS).await;
    tell_pauses(system, "pod_deleted", began, figures)
}

/// From a pod's creation, as a watch shows it, to what came after.
fn tell_starts(
    system: &System,
    lives: &watch::Receiver<Lives>,
    name: &str,
    figures: &mut Figures,
) -> Outcome<()> {
    let records = system.records()?;
    let lives = lives.borrow().clone();
    let mut note_step = |step: &str, at: &dyn Fn(&str, &Life) -> Option<At>| {
        let times = lives.iter().filter_map(|(pod, life)| {
            let at = at(pod, life)?;
            Some(clock::span(life.created, at))
        });
        let name = format!("{name}_created_to_{step}");
        note(figures, &name, times.collect());
    };
    note_step("worker_runs", &|_, life| life.worker_ran);
    note_step("application_runs", &|_, life| life.application_ran);
    note_step("ready", &|_, life| life.ready);
    note_step("first_message", &|pod, _| first_message(&records, pod));
    Ok(())
}

/// How long partitions stood still since a moment.
fn tell_pauses(system: &System, name: &str, from: At, figures: &mut Figures) -> Outcome<()> {
    let Pauses {
        hand_overs,
        longest_of_moved,
        longest_of_untouched,
    } = pauses(&system.records()?, from, clock::boottime_ns());
    note(figures, &format!("{name}_hand_overs"), hand_overs);
    let by_partition = |longest: &BTreeMap<u32, Duration>| -> Value {
        let all = longest.iter();
        let all =
            all.map(|(partition, pause)| (partition.to_string(), json!(milliseconds(*pause, 1))));
        Value::Object(all.collect())
    };
    figures.note(
        PART,
        &format!("{name}_longest_pause_ms_of_moved_partitions"),
        by_partition(&longest_of_moved),
    );
    figures.note(
        PART,
        &format!("{name}_longest_pause_ms_of_untouched_partitions"),
        by_partition(&longest_of_untouched),
    );
    Ok(())
}

fn note(figures: &mut Figures, name: &str, times: Vec<Duration>) {
    if let Some(spread) = Spread::of(times) {
        figures.spread(PART, name, spread);
    }
}
