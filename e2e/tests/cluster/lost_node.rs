//! A node is lost: its pods run on, and nobody can say so.

use lockstep_e2e::checker::Expectations;
use lockstep_e2e::cluster::{GhostNode, Kind, Pod, System, Workload, images, inside};
use lockstep_e2e::until::{until, until_sync};

use crate::stage::{WITHIN, running};

#[test]
fn pods_of_a_lost_node_keep_what_they_own_until_they_are_fenced() {
    inside(&images(), async |node| {
        let client = node.client().await.unwrap();
        let _ghost = GhostNode::start(client).await.unwrap();
        let mut workload = Workload::new(Kind::Deployment, 2);
        workload.tolerates_seconds = Some(2);
        let mut system = running(node, &workload).await;
        system.node.signal("kubelet", "STOP").await.unwrap();
        let zombies = marked_for_deletion(&system).await;
        assert_eq!(zombies.len(), 2);
        // They are on their way out for Kubernetes, and run on: they are whom the messages go to.
        system.handles(500).await.unwrap();
        // Somebody makes Kubernetes forget one: that says nothing about its processes.
        let forced = [
            "delete",
            "pod",
            &zombies[0].name,
            "--force",
            "--grace-period=0",
        ];
        system.kubectl(&forced).await.unwrap();
        system.handles(500).await.unwrap();
        let owners = system.progress().owners();
        assert!(owners.values().any(|owner| *owner == zombies[0].name));
        // Only the silence of a session timeout does.
        system.cut_from_nats(&zombies[0]).await.unwrap();
        owns_everything(&system, &zombies[1]).await;
        system.handles(500).await.unwrap();
        // It comes back to a group in which it owns nothing, and may do nothing for what it owned.
        system.heal().await.unwrap();
        system.handles(500).await.unwrap();
        system.node.signal("kubelet", "CONT").await.unwrap();
        system.settles(2).await.unwrap();
        system.handles(100).await.unwrap();
        let verdict = system.ends_well(&Expectations::default()).await.unwrap();
        assert!(verdict.passed, "{verdict}");
        // What it owned then, and nothing else, was taken from somebody who did not give it.
        let taken = owners.values().filter(|owner| **owner == zombies[0].name);
        assert_eq!(verdict.unclean_grants, taken.count() as u64, "{verdict}");
    });
}

async fn marked_for_deletion(system: &System) -> Vec<Pod> {
    until("pods that are marked for deletion", WITHIN, async || {
        let pods = system.all_pods("default", "app=orders").await;
        let pods = pods.map_err(|error| error.to_string())?;
        let leaving: Vec<Pod> = pods.iter().filter(|pod| pod.leaving).cloned().collect();
        if leaving.len() == 2 {
            Ok(leaving)
        } else {
            Err(format!("{pods:?}"))
        }
    })
    .await
    .unwrap()
}

async fn owns_everything(system: &System, pod: &Pod) {
    until_sync("owner of everything", WITHIN, || {
        let owners = system.progress().owners();
        let all = owners.len() == 6 && owners.values().all(|owner| *owner == pod.name);
        if all {
            Ok(())
        } else {
            Err(format!("{owners:?}"))
        }
    })
    .await
    .unwrap();
}
