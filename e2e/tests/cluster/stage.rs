//! What the whole-system tests have in common.

use std::time::Duration;

use lockstep_e2e::checker::{EventPauses, Expectations, Verdict};
use lockstep_e2e::cluster::{Kind, Language, Node, Pod, System, Workload};

/// The longest that anything takes on a loaded machine.
pub(crate) const WITHIN: Duration = Duration::from_secs(120);

/// Lockstep on a node, with so many members that are handed messages.
pub(crate) async fn running(node: Node, workload: &Workload) -> System {
    let mut system = System::start(node).await.unwrap();
    system
        .install(&["controller.cleanupTimeout=10s"])
        .await
        .unwrap();
    system.make_group().await.unwrap();
    system.run(workload).await.unwrap();
    system.settles(workload.replicas as usize).await.unwrap();
    system.publish(50).await.unwrap();
    system.handles(100).await.unwrap();
    system
}

/// The application's pods, none of which is on its way out.
pub(crate) async fn pods(system: &System) -> Vec<Pod> {
    let all = system.all_pods("default", "app=orders").await.unwrap();
    all.into_iter().filter(|pod| !pod.leaving).collect()
}

/// Everything was handled once and in order, and every hand-over was in good order.
pub(crate) async fn ends_without_a_trace(system: &mut System) -> Verdict {
    let verdict = system.ends_well(&Expectations::default()).await.unwrap();
    assert_eq!(
        (verdict.unclean_grants, verdict.duplicates),
        (0, 0),
        "{verdict}"
    );
    verdict
}

/// An application that starts in no time.
pub(crate) fn quick(kind: Kind, replicas: u32) -> Workload {
    Workload {
        language: Language::Go,
        ..Workload::new(kind, replicas)
    }
}

/// From now on a member that falls silent is waited for as long as by default.
pub(crate) async fn is_patient(system: &System) {
    let patience = r#"{"spec": {"membership": {"sessionTimeout": "20s"}}}"#;
    let patch = ["patch", "cg", "orders", "--type=merge", "-p", patience];
    system.kubectl(&patch).await.unwrap();
}

/// The longest pause of each partition after this event is far below the session timeout: nobody's
/// death was waited for.
pub(crate) fn paused_shortly(verdict: &Verdict, event: &str) {
    let pauses = verdict.pauses.iter().find(|pauses| pauses.event == event);
    let (partition, pause) = pauses.and_then(EventPauses::worst).unwrap();
    assert!(
        pause.as_secs() < 10,
        "{event}: partition {partition} stood still for {pause:?}"
    );
}
