//! The chart: installed, upgraded twice with nothing changed, uninstalled.

use lockstep_e2e::cluster::{System, images, inside};

async fn generations(system: &System) -> String {
    let path = "jsonpath={range .items[*]}{.metadata.name}={.metadata.generation} {end}";
    let ask = ["get", "deployments", "-n", "lockstep-system", "-o", path];
    system.kubectl(&ask).await.unwrap()
}

#[test]
fn the_chart_is_upgraded_without_a_change_and_keeps_groups_when_it_goes() {
    inside(&images(), async |node| {
        let mut system = System::start(node).await.unwrap();
        system.install(&[]).await.unwrap();
        system.make_group().await.unwrap();
        let before = generations(&system).await;
        system.install(&[]).await.unwrap();
        system.install(&[]).await.unwrap();
        assert_eq!(generations(&system).await, before);
        let gone = [
            "uninstall",
            "lockstep",
            "--namespace",
            "lockstep-system",
            "--wait",
        ];
        let gone = system.node.helm(&gone).await.unwrap();
        assert_eq!(gone.code, Some(0), "{}", gone.stderr);
        let groups = system.kubectl(&["get", "cg", "-o", "name"]).await.unwrap();
        assert_eq!(groups.trim(), "consumergroup.lockstep.dev/orders");
        // Installed again, it goes on with the same bucket.
        system.install(&[]).await.unwrap();
        system.group_is("True", "NoMembers").await.unwrap();
    });
}
