//! Whatever makes pods: the controllers of Kubernetes itself, and a label on their templates.

use lockstep_e2e::cluster::ApiServer;
use lockstep_e2e::until;
use serde_json::{Value, json};

use crate::stage::{SOON, Stage, worker};

#[tokio::test]
async fn pods_of_every_workload_get_their_worker() {
    let stage = Stage::with(ApiServer::start_with_controllers().await.unwrap()).await;
    let template = json!({
        "metadata": {"labels": {"app": "x", "lockstep.dev/consumer-group": "orders"}},
        "spec": {"containers": [{"name": "app", "image": "a"}]},
    });
    let mut ending = template.clone();
    ending["spec"]["restartPolicy"] = "Never".into();
    let selector = json!({"matchLabels": {"app": "x"}});
    for (version, kind, spec) in [
        (
            "apps/v1",
            "Deployment",
            json!({"selector": selector, "template": template}),
        ),
        (
            "apps/v1",
            "StatefulSet",
            json!({"serviceName": "x", "selector": selector, "template": template}),
        ),
        ("batch/v1", "Job", json!({"template": ending})),
        (
            "batch/v1",
            "CronJob",
            json!({"schedule": "* * * * *", "jobTemplate": {"spec": {"template": ending}}}),
        ),
    ] {
        let name = kind.to_lowercase();
        let metadata = json!({"name": name, "namespace": "shop"});
        let object =
            json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec});
        stage.apply(&object.to_string()).await;
        if kind == "CronJob" {
            // Its own time would be the next full minute.
            let make = [
                "create",
                "job",
                "-n",
                "shop",
                "cronjob-now",
                "--from=cronjob/cronjob",
            ];
            stage.kubectl(&make).await;
        }
        let made = until(format!("a pod of the {kind}"), SOON, async || {
            let text = stage
                .kubectl(&["get", "pods", "-n", "shop", "-o", "json"])
                .await;
            let all: Value = serde_json::from_str(&text).unwrap();
            let pods = all["items"].as_array().unwrap().clone();
            let of = pods.into_iter().find(|pod| {
                let name_of = pod["metadata"]["name"].as_str().unwrap();
                name_of.starts_with(&format!("{name}-"))
            });
            of.ok_or(text)
        });
        worker(&made.await.unwrap());
    }
}
