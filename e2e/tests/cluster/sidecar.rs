//! The worker beside its application, as a real kubelet runs it: there first, gone last, ready once
//! it has joined.

use lockstep_e2e::cluster::{Pod, System, images, inside};
use lockstep_e2e::until::until;
use serde_json::{Value, json};

use crate::stage::WITHIN;

/// What the application does; it writes down what the worker answered.
const APPLICATION: &str = include_str!("first_and_last.py");

#[test]
fn the_worker_is_there_before_its_application_and_goes_after_it() {
    inside(&images(), async |node| {
        let mut system = System::start(node).await.unwrap();
        system.install(&[]).await.unwrap();
        system.make_group().await.unwrap();
        system.publish(20).await.unwrap();
        asked_to_end_with_a_message_in_hand(&system).await;
        ends_by_itself(&system).await;
        is_not_ready_before_it_has_joined(&mut system).await;
    });
}

/// The pod is deleted while its application works: what it still acknowledges counts.
async fn asked_to_end_with_a_message_in_hand(system: &System) {
    runs(system, "deleted", "wait").await;
    let said = says(system, "deleted", 2).await;
    assert!(said[0] == "first 200" || said[0] == "first 503", "{said:?}");
    let position: Vec<u64> = said[1]
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    let delete = ["delete", "pod", "deleted", "--timeout=60s"];
    system.kubectl(&delete).await.unwrap();
    assert_eq!(says(system, "deleted", 3).await[2], "last COMMITTED");
    let partition = u32::try_from(position[0]).unwrap();
    until("commit of that message", WITHIN, async || {
        let next = system.progress().committed[&partition];
        if next > position[1] {
            Ok(())
        } else {
            Err(format!("{next} after {position:?}"))
        }
    })
    .await
    .unwrap();
}

/// The application's end is the pod's: the worker follows it, and not the other way round.
async fn ends_by_itself(system: &System) {
    runs(system, "done", "end").await;
    let succeeded = "--for=jsonpath={.status.phase}=Succeeded";
    let wait = ["wait", "pod", "done", succeeded, "--timeout=100s"];
    system.kubectl(&wait).await.unwrap();
    let shown = system.kubectl(&["get", "pod", "done", "-o", "json"]).await;
    let pod: Value = serde_json::from_str(&shown.unwrap()).unwrap();
    let worker = &pod["status"]["initContainerStatuses"][0]["state"]["terminated"];
    let application = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
    assert_eq!(worker["exitCode"], 0, "{worker}");
    // RFC 3339 in UTC to the second: text is ordered as time is.
    let time = |of: &Value, which: &str| of[which].as_str().unwrap().to_owned();
    assert!(
        time(worker, "startedAt") <= time(application, "startedAt"),
        "{pod}"
    );
    assert!(
        time(worker, "finishedAt") >= time(application, "finishedAt"),
        "{pod}"
    );
}

/// Without NATS a new pod's containers run, the application is told to wait, and the pod is not
/// ready: a rollout into an outage stands still.
async fn is_not_ready_before_it_has_joined(system: &mut System) {
    system.stop_nats().unwrap();
    runs(system, "early", "wait").await;
    assert_eq!(says(system, "early", 1).await, ["first 503"]);
    let events = "reason=Unhealthy,involvedObject.name=early";
    let messages = "jsonpath={.items[*].message}";
    let ask = ["get", "events", "--field-selector", events, "-o", messages];
    until("readiness probe that fails", WITHIN, async || {
        let found = system
            .kubectl(&ask)
            .await
            .map_err(|error| error.to_string())?;
        if found.contains("Readiness probe failed") {
            Ok(())
        } else {
            Err(found)
        }
    })
    .await
    .unwrap();
    let pod = pod(system, "early").await;
    assert!(!pod.ready && pod.restarts == 0, "{pod:?}");

    system.start_nats().unwrap();
    let ready = [
        "wait",
        "pod",
        "early",
        "--for=condition=Ready",
        "--timeout=100s",
    ];
    system.kubectl(&ready).await.unwrap();
    says(system, "early", 2).await;
}

async fn pod(system: &System, name: &str) -> Pod {
    let label = format!("pod={name}");
    let mut pods = system.all_pods("default", &label).await.unwrap();
    pods.swap_remove(0)
}

/// A bare pod with the application.
async fn runs(system: &System, name: &str, until_when: &str) {
    let log = format!("/history/{name}.txt");
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"pod": name, "lockstep.dev/consumer-group": "orders"},
        },
        "spec": {
            "restartPolicy": "Never",
            "containers": [{
                "name": "app",
                "image": "lockstep.test/app-python:1",
                "imagePullPolicy": "Never",
                "command": ["/usr/bin/python3", "-c", APPLICATION, log, until_when],
                "volumeMounts": [{"name": "history", "mountPath": "/history"}],
            }],
            "volumes": [{
                "name": "history",
                "hostPath": {"path": system.history(), "type": "Directory"},
            }],
        },
    });
    system.apply(&pod.to_string()).await.unwrap();
}

/// What the application has written, once it is so many lines.
async fn says(system: &System, name: &str, lines: usize) -> Vec<String> {
    let file = system.history().join(format!("{name}.txt"));
    until(format!("{lines} lines of {name}"), WITHIN, async || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let said: Vec<String> = text.lines().map(str::to_owned).collect();
        if text.ends_with('\n') && said.len() >= lines {
            return Ok(said);
        }
        let pod = system.kubectl(&["describe", "pod", name]).await;
        Err(format!(
            "{text}{}",
            pod.unwrap_or_else(|error| error.to_string())
        ))
    })
    .await
    .unwrap()
}
