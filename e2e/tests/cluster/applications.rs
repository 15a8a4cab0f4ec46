//! Applications in trouble: one that hangs, one that cannot stand a message.

use lockstep_e2e::checker::Expectations;
use lockstep_e2e::cluster::{Kind, NATS_ON_THE_NODE, System, Workload, images, inside};
use lockstep_e2e::process::run_lockstep;
use lockstep_e2e::publisher::partition_of;
use lockstep_e2e::until::until;

use crate::stage::{WITHIN, running};

/// The group's `spec.membership` and `spec.delivery` get this.
async fn patch(system: &System, spec: &str) {
    let spec = format!("{{\"spec\": {spec}}}");
    let patch = ["patch", "cg", "orders", "--type=merge", "-p", &spec];
    system.kubectl(&patch).await.unwrap();
}

#[test]
fn what_a_hanging_application_holds_goes_to_the_others() {
    inside(&images(), async |node| {
        let mut system = running(node, &Workload::new(Kind::Deployment, 2)).await;
        patch(&system, r#"{"membership": {"processingTimeout": "3s"}}"#).await;
        let mut hangs = Workload::new(Kind::Deployment, 1);
        hangs.name = "hangs";
        hangs.arguments = vec!["--mode", "hang", "--after", "50"];
        system.run(&hangs).await.unwrap();
        until(
            "partitions of the application that hangs",
            WITHIN,
            async || {
                let owners = system.progress().owners();
                if owners.values().any(|owner| owner.starts_with("hangs-")) {
                    Ok(())
                } else {
                    Err(format!("{owners:?}"))
                }
            },
        )
        .await
        .unwrap();
        system.settles(2).await.unwrap();
        system.handles(300).await.unwrap();
        let pods = system.all_pods("default", "app=hangs").await.unwrap();
        assert_eq!(pods[0].restarts, 0, "its worker is well");
        let verdict = system.ends_well(&Expectations::default()).await.unwrap();
        assert!(verdict.unclean_grants > 0, "{verdict}");
    });
}

/// Nobody can process what has this key.
const POISON: &str = "customer-3";

#[test]
fn a_poison_message_stops_its_partition_until_the_application_is_mended() {
    inside(&images(), async |node| {
        let mut system = System::start(node).await.unwrap();
        system.install(&[]).await.unwrap();
        system.make_group().await.unwrap();
        patch(&system, r#"{"delivery": {"retry": {"maxAttempts": 3}}}"#).await;
        let mut workload = Workload::new(Kind::Deployment, 2);
        workload.arguments = vec!["--mode", "poison", "--key", POISON];
        system.run(&workload).await.unwrap();
        system.settles(2).await.unwrap();
        system.publish(50).await.unwrap();
        let partition = partition_of(POISON, 6);
        let progress = "PartitionsProgressing";
        system
            .group_has(progress, "False", "MessageStuck")
            .await
            .unwrap();
        system.handles(300).await.unwrap();
        assert_eq!(
            system.progress().stopped,
            [(partition, "MessageStuck".to_owned())].into()
        );

        // Mended as everybody would: a new version of the application; and the partition is lifted.
        workload.arguments.clear();
        system.run(&workload).await.unwrap();
        let rolled = [
            "rollout",
            "status",
            "deployment",
            "orders",
            "--timeout=100s",
        ];
        system.kubectl(&rolled).await.unwrap();
        system.settles(2).await.unwrap();
        let resume = ["group", "resume", "orders", "--nats-url", NATS_ON_THE_NODE];
        let lifted = run_lockstep(&resume).await.unwrap();
        assert_eq!(lifted.code, Some(0), "{}", lifted.stderr);
        until("no stopped partition", WITHIN, async || {
            let stopped = system.progress().stopped;
            if stopped.is_empty() {
                Ok(())
            } else {
                Err(format!("{stopped:?}"))
            }
        })
        .await
        .unwrap();
        system
            .group_has(progress, "True", "AsExpected")
            .await
            .unwrap();
        let verdict = system.ends_well(&Expectations::default()).await.unwrap();
        assert!(
            verdict.redeliveries >= 2,
            "three attempts were allowed\n{verdict}"
        );
    });
}
