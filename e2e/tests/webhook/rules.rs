//! Each rule of injection, as the API server applies it.

use lockstep_e2e::NatsServer;
use serde_json::{Value, json};

use crate::stage::{SOON, Stage, connection, group, worker};

#[tokio::test]
async fn pods_are_made_members_or_refused_in_a_sentence() {
    let stage = Stage::new().await;
    the_label_alone_suffices(&stage).await;
    what_is_not_ours_stays_as_it_is(&stage).await;
    a_dry_run_shows_what_would_be_and_leaves_nothing(&stage).await;
    a_copy_of_a_members_manifest_is_let_in_once_more(&stage).await;
    what_may_surprise_is_said(&stage).await;
    what_is_taken_or_malformed_is_refused(&stage).await;
    annotations_are_heeded(&stage).await;
    a_pod_before_its_group_is_refused_and_then_let_in(&stage).await;
    a_group_on_its_way_out_takes_nobody(&stage).await;
    a_connection_that_is_not_granted_takes_nobody(&stage).await;
    a_restricted_namespace_takes_members(&stage).await;
}

async fn the_label_alone_suffices(stage: &Stage) {
    let (pod, said) = stage.makes("shop", "plain", &json!({})).await;
    assert!(!said.contains("Warning"), "{said}");
    let worker = worker(&pod);
    assert_eq!(worker["restartPolicy"], "Always");
    assert_eq!(worker["image"], "lockstep.test/lockstep:1");
    // The API server looked twice: the mark is there, and the token is in the application alone.
    assert!(pod["metadata"]["annotations"]["lockstep.dev/injected"].is_string());
    let token = "/var/run/secrets/kubernetes.io/serviceaccount";
    let mount_of = |container: &Value| {
        let mounts = container["volumeMounts"].as_array().unwrap().clone();
        let found: Vec<Value> = mounts
            .into_iter()
            .filter(|mount| mount["mountPath"] == token)
            .collect();
        assert_eq!(found.len(), 1, "{container}");
        found[0]["name"].as_str().unwrap().to_owned()
    };
    assert_eq!(mount_of(worker), "lockstep-no-token");
    let app = &pod["spec"]["containers"][0];
    assert!(mount_of(app).starts_with("kube-api-access-"), "{app}");
    assert!(app["env"].to_string().contains("LOCKSTEP_SOCKET"), "{app}");
}

async fn what_is_not_ours_stays_as_it_is(stage: &Stage) {
    let annotations = json!({"metadata": {"annotations": {"lockstep.dev/inject": "false"}}});
    let (refusing, _) = stage.makes("shop", "refusing", &annotations).await;
    assert_eq!(refusing["spec"]["initContainers"], Value::Null);
    let unlabelled = json!({"metadata": {"labels": {"lockstep.dev/consumer-group": null}}});
    let manifest = crate::stage::pod("shop", "other", &unlabelled)
        .replace(r#""lockstep.dev/consumer-group":null"#, r#""app":"x""#);
    stage.apply(&manifest).await;
    let text = stage
        .kubectl(&["get", "pod", "-n", "shop", "other", "-o", "json"])
        .await;
    assert!(!text.contains("lockstep-worker"), "{text}");
    // A mirror pod needs a node; the API server itself checks the rest of it.
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "uid": null}});
    stage.apply(&node.to_string()).await;
    let uid = stage
        .kubectl(&["get", "node", "n1", "-o", "jsonpath={.metadata.uid}"])
        .await;
    let mirror = json!({
        "metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}, "ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": uid, "controller": true}]},
        "spec": {"nodeName": "n1", "automountServiceAccountToken": false},
    });
    let (mirror, _) = stage.makes("shop", "mirror", &mirror).await;
    assert_eq!(mirror["spec"]["initContainers"], Value::Null);
}

async fn a_dry_run_shows_what_would_be_and_leaves_nothing(stage: &Stage) {
    let manifest = crate::stage::pod("shop", "dry", &json!({}));
    let shown = stage
        .try_apply(&manifest, &["--dry-run=server", "-o", "json"])
        .await;
    worker(&serde_json::from_str(&shown.stdout).unwrap());
    let there = ["get", "pod", "-n", "shop", "dry", "--ignore-not-found"];
    assert_eq!(stage.kubectl(&there).await, "");
}

async fn a_copy_of_a_members_manifest_is_let_in_once_more(stage: &Stage) {
    let text = stage
        .kubectl(&["get", "pod", "-n", "shop", "plain", "-o", "json"])
        .await;
    let mut copy: Value = serde_json::from_str(&text).unwrap();
    let metadata = json!({"name": "copy", "namespace": "shop", "labels": copy["metadata"]["labels"],
        "annotations": {"lockstep.dev/injected": copy["metadata"]["annotations"]["lockstep.dev/injected"]}});
    copy["metadata"] = metadata;
    stage.apply(&copy.to_string()).await;
    copy["metadata"]["name"] = "forged".into();
    copy["metadata"]["annotations"]["lockstep.dev/injected"] = "1-0000000000000000".into();
    let refused = stage.try_apply(&copy.to_string(), &[]).await;
    assert!(
        refused.stderr.contains("a name that Lockstep uses"),
        "{}",
        refused.stderr
    );
}

async fn what_may_surprise_is_said(stage: &Stage) {
    let spec = json!({"spec": {"hostNetwork": true, "shareProcessNamespace": true,
        "terminationGracePeriodSeconds": 10}});
    let (pod, said) = stage.makes("shop", "surprising", &spec).await;
    for words in [
        "shareProcessNamespace",
        "hostNetwork",
        "terminationGracePeriodSeconds is 10",
    ] {
        assert!(
            said.contains("Warning") && said.contains(words),
            "no {words} in {said}"
        );
    }
    assert_eq!(worker(&pod)["ports"], Value::Null, "no port of the node");
}

async fn what_is_taken_or_malformed_is_refused(stage: &Stage) {
    let container = |name: &str, mount: Option<&str>| {
        let mounts: Vec<Value> = mount
            .iter()
            .map(|path| json!({"name": "v", "mountPath": path}))
            .collect();
        json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [{"name": name, "image": "x", "volumeMounts": mounts}]}})
    };
    let annotation = |name: &str, value: &str| json!({"metadata": {"annotations": {format!("lockstep.dev/{name}"): value}}});
    for (changes, words) in [
        (
            container("lockstep-worker", None),
            "a container named \"lockstep-worker\"",
        ),
        (
            container("app", Some("/var/run/lockstep")),
            "mounts something at /var/run/lockstep",
        ),
        (
            json!({"spec": {"volumes": [{"name": "lockstep-nats", "emptyDir": {}}]}}),
            "a volume named \"lockstep-nats\"",
        ),
        (
            json!({"spec": {"os": {"name": "windows"}}}),
            "on Linux only",
        ),
        (
            json!({"metadata": {"labels": {"lockstep.dev/consumer-group": ""}}}),
            "is empty",
        ),
        (annotation("containers", "nobody"), "no regular container"),
        (
            annotation("drain-timeout", "soon"),
            "a duration of at most 1h",
        ),
        (annotation("metrics-port", "x"), "a port, or 0 for none"),
        (annotation("worker-memory-limit", "much"), "an amount"),
        (annotation("inject", "maybe"), "\"true\" or \"false\""),
    ] {
        let said = stage.refuses("shop", "bad", &changes).await;
        assert!(said.contains(words), "no {words:?} in {said}");
    }
    // A connection that needs credentials, and nobody says where a worker finds some.
    stage.namespace("closed").await;
    let mut closed: Value = serde_json::from_str(&connection("closed", "x")).unwrap();
    closed["spec"] = json!({"servers": ["nats://127.0.0.1:1"], "auth": {"token": {"name": "t"}}});
    stage.apply(&closed.to_string()).await;
    stage.apply(&group("closed", "orders")).await;
    let said = stage.refuses("closed", "bad", &json!({})).await;
    assert!(said.contains("spec.worker.natsSecretName"), "{said}");
}

async fn annotations_are_heeded(stage: &Stage) {
    let annotations = json!({
        "lockstep.dev/worker-image": "other:2", "lockstep.dev/worker-cpu-request": "50m",
        "lockstep.dev/worker-memory-limit": "256Mi", "lockstep.dev/log-level": "debug",
        "lockstep.dev/drain-timeout": "1m", "lockstep.dev/adjust-grace-period": "true",
        "lockstep.dev/metrics-port": "9999", "lockstep.dev/containers": "second",
    });
    let containers = json!([{"name": "app", "image": "a"}, {"name": "second", "image": "b"}]);
    let changes =
        json!({"metadata": {"annotations": annotations}, "spec": {"containers": containers}});
    let (pod, _) = stage.makes("shop", "annotated", &changes).await;
    let made = worker(&pod);
    assert_eq!(made["image"], "other:2");
    assert_eq!(made["resources"]["requests"]["cpu"], "50m");
    assert_eq!(made["resources"]["limits"]["memory"], "256Mi");
    assert_eq!(made["ports"][0]["containerPort"], 9999);
    assert!(made["env"].to_string().contains(r#""value":"debug""#));
    assert_eq!(pod["spec"]["terminationGracePeriodSeconds"], 68);
    let spec = &pod["spec"]["containers"];
    assert!(!spec[0].to_string().contains("LOCKSTEP_SOCKET"));
    assert!(spec[1].to_string().contains("LOCKSTEP_SOCKET"));
}

async fn a_pod_before_its_group_is_refused_and_then_let_in(stage: &Stage) {
    stage.namespace("early").await;
    let said = stage.refuses("early", "p", &json!({})).await;
    let sentence = "create the ConsumerGroup; the ReplicaSet retries by itself";
    assert!(
        said.contains("early/orders") && said.contains(sentence),
        "{said}"
    );
    stage.apply(&group("early", "orders")).await;
    let said = stage.refuses("early", "p", &json!({})).await;
    assert!(said.contains("NatsConnection early/default"), "{said}");
    stage.apply(&connection("early", "worker-nats")).await;
    // At once: what the caches do not have yet is looked up.
    stage.makes("early", "p", &json!({})).await;
}

async fn a_group_on_its_way_out_takes_nobody(stage: &Stage) {
    stage.namespace("leaving").await;
    stage.apply(&connection("leaving", "worker-nats")).await;
    let mut held: Value = serde_json::from_str(&group("leaving", "orders")).unwrap();
    held["metadata"]["finalizers"] = json!(["example.com/held"]);
    stage.apply(&held.to_string()).await;
    stage
        .kubectl(&["delete", "cg", "-n", "leaving", "orders", "--wait=false"])
        .await;
    let said = lockstep_e2e::until("a pod to be refused", SOON, async || {
        let said = stage
            .try_apply(
                &crate::stage::pod("leaving", "p", &json!({})),
                &["--dry-run=server"],
            )
            .await;
        if said.stderr.contains("is being deleted") {
            Ok(())
        } else {
            Err(said.stderr)
        }
    });
    said.await.unwrap();
    let patch = r#"{"metadata": {"finalizers": null}}"#;
    stage
        .kubectl(&[
            "patch",
            "cg",
            "-n",
            "leaving",
            "orders",
            "--type=merge",
            "-p",
            patch,
        ])
        .await;
}

async fn a_connection_that_is_not_granted_takes_nobody(stage: &Stage) {
    let nats = NatsServer::start().await.unwrap();
    stage.namespace("owner").await;
    stage.namespace("guest").await;
    let granted_to = async |name: &str| {
        let mut owned: Value = serde_json::from_str(&connection("owner", "worker-nats")).unwrap();
        owned["spec"]["servers"] = json!([nats.url()]);
        owned["spec"]["allowedNamespaces"] =
            json!({"matchLabels": {"kubernetes.io/metadata.name": name}});
        stage.apply(&owned.to_string()).await;
    };
    granted_to("somebody-else").await;
    let mut asking: Value = serde_json::from_str(&group("guest", "orders")).unwrap();
    asking["spec"]["connectionRef"] = json!({"namespace": "owner", "name": "default"});
    stage.apply(&asking.to_string()).await;
    let manifest = crate::stage::pod("guest", "p", &json!({}));
    let tried = async || stage.try_apply(&manifest, &["--dry-run=server"]).await;
    let sentence = "NatsConnection owner/default does not allow this namespace";
    let refused = lockstep_e2e::until("a refusal for want of a grant", SOON, async || {
        let said = tried().await;
        if said.code == Some(1) && said.stderr.contains(sentence) {
            Ok(())
        } else {
            Err(format!("{said:?}"))
        }
    });
    refused.await.unwrap();
    granted_to("guest").await;
    let let_in = lockstep_e2e::until("a pod with a grant", SOON, async || {
        let said = tried().await;
        if said.code == Some(0) {
            Ok(())
        } else {
            Err(said.stderr)
        }
    });
    let_in.await.unwrap();
}

async fn a_restricted_namespace_takes_members(stage: &Stage) {
    stage.namespace("strict").await;
    let label = "pod-security.kubernetes.io/enforce=restricted";
    stage
        .kubectl(&["label", "namespace", "strict", label])
        .await;
    stage.apply(&connection("strict", "worker-nats")).await;
    stage.apply(&group("strict", "orders")).await;
    // The application's own settings are fine; the worker's have to be, too.
    let app = json!({"name": "app", "image": "a", "securityContext": {
        "runAsNonRoot": true, "allowPrivilegeEscalation": false,
        "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}}});
    stage
        .makes("strict", "p", &json!({"spec": {"containers": [app]}}))
        .await;
    stage.refuses("strict", "careless", &json!({})).await;
}
