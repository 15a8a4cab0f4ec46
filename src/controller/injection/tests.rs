use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::*;
use crate::crd::{Amount, LogLevel, Resources};

/// A pod of group `orders` as somebody's Deployment makes it.
fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"generateName": "app-", "labels": {"lockstep.dev/consumer-group": "orders"}},
        "spec": {"containers": [{"name": "app", "image": "app:1"}]},
    })
}

/// The pod with some of it written over.
#[expect(
    clippy::needless_pass_by_value,
    reason = "what is handed in is written in place"
)]
fn pod_with(changes: Value) -> Value {
    let mut pod = pod();
    json_patch::merge(&mut pod, &changes);
    pod
}

fn annotated(name: &str, value: &str) -> Value {
    pod_with(json!({"metadata": {"annotations": {name: value}}}))
}

fn facts() -> GroupFacts {
    GroupFacts {
        name: "orders".to_owned(),
        worker: Worker::default(),
        processing_timeout: Duration::from_secs(30),
        buffer_bytes: 16 << 20,
        full_at: None,
        connection: ConnectionFacts {
            name: "shop/nats".to_owned(),
            servers: vec!["nats://a:4222".to_owned(), "nats://b:4222".to_owned()],
            jetstream_domain: Some("hub".to_owned()),
            bucket_prefix: "lockstep".to_owned(),
            handshake_first: false,
            needs_credentials: true,
            worker_secret: Some("worker-nats".to_owned()),
        },
    }
}

fn typed(pod: &Value) -> Pod {
    serde_json::from_value(pod.clone()).unwrap()
}

fn stands(pod: &Value) -> Result<Standing, Denial> {
    standing("shop", &typed(pod))
}

fn injected_for(pod: &Value, group: &GroupFacts) -> Result<Injection, Denial> {
    let defaults = Defaults {
        image: "lockstep:1".to_owned(),
    };
    assert_eq!(stands(pod), Ok(Standing::Wants("orders".to_owned())));
    inject("shop", (pod, &typed(pod)), group, &defaults)
}

fn injected(pod: &Value) -> Value {
    injected_for(pod, &facts()).unwrap().pod
}

fn warned(pod: &Value, group: &GroupFacts) -> Vec<String> {
    injected_for(pod, group).unwrap().warnings
}

fn worker(pod: &Value) -> &Value {
    let all = pod["spec"]["initContainers"].as_array().unwrap();
    let last = all.last().unwrap();
    assert_eq!(last["name"], "lockstep-worker");
    last
}

fn env<'a>(container: &'a Value, name: &str) -> &'a Value {
    let all = container["env"].as_array().unwrap();
    let mut found = all.iter().filter(|env| env["name"] == name);
    let first = found.next().unwrap_or(&Value::Null);
    assert_eq!(found.next(), None, "{name} twice");
    first
}

#[test]
fn a_pod_with_nothing_but_the_label_becomes_a_member() {
    let pod = injected(&pod());
    insta::assert_snapshot!(serde_json::to_string_pretty(&pod).unwrap());
}

#[test]
fn the_second_look_at_a_pod_finds_nothing_to_do() {
    let mut pod = injected(&pod());
    assert_eq!(stands(&pod), Ok(Standing::Done));
    // What other webhooks and the API server do to the worker meanwhile.
    let made = &mut pod["spec"]["initContainers"][0];
    made["image"] = "mirror.example/lockstep:1".into();
    made["imagePullPolicy"] = "IfNotPresent".into();
    made["resources"] = json!({"limits": {"cpu": "1"}});
    made["env"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "TRACING", "value": "on"}));
    assert_eq!(stands(&pod), Ok(Standing::Done));
}

#[test]
fn the_name_of_the_worker_without_its_mark_is_taken() {
    let pod = injected(&pod());
    let taken = |pod: &Value| match stands(pod) {
        Err(Denial::NameTaken { what, name }) => {
            assert_eq!((what, name.as_str()), ("container", "lockstep-worker"));
        }
        other => panic!("{other:?}"),
    };
    let mut unmarked = pod.clone();
    unmarked["metadata"]["annotations"] = json!({});
    taken(&unmarked);
    let mut forged = pod.clone();
    forged["spec"]["initContainers"][0]["args"] = json!(["something", "else"]);
    taken(&forged);
    let mut copied = pod.clone();
    copied["metadata"]["labels"][names::GROUP_LABEL] = "payments".into();
    taken(&copied);
    assert!(
        standing("elsewhere", &typed(&pod)).is_err(),
        "made for another namespace"
    );
    let own = json!({"spec": {"containers": [{"name": "lockstep-worker", "image": "mine"}]}});
    taken(&pod_with(own));
}

#[test]
fn what_is_not_for_us_stays_as_it_is() {
    let mut unlabelled = pod();
    unlabelled["metadata"]["labels"] = json!({"app": "x"});
    let mirror = annotated("kubernetes.io/config.mirror", "hash");
    let refusing = annotated(names::INJECT, "false");
    for pod in [unlabelled, mirror, refusing] {
        assert_eq!(stands(&pod), Ok(Standing::Untouched), "{pod}");
    }
    assert_eq!(
        stands(&annotated(names::INJECT, "true")),
        Ok(Standing::Wants("orders".into()))
    );
}

#[test]
fn the_worker_comes_last_and_what_was_there_stays() {
    let before = pod_with(json!({"spec": {
        "initContainers": [{"name": "migrate", "image": "m"}],
        "volumes": [{"name": "data", "emptyDir": {}}],
        "containers": [
            {"name": "app", "image": "a", "env": [{"name": "LOCKSTEP_SOCKET", "value": "/mine"}],
             "volumeMounts": [{"name": "data", "mountPath": "/data"}], "futureField": {"x": 1}},
            {"name": "log", "image": "l"}],
        "futureField": true,
    }}));
    let after = injected(&before);
    let inits = after["spec"]["initContainers"].as_array().unwrap();
    assert_eq!(
        (inits.len(), &inits[0]),
        (2, &before["spec"]["initContainers"][0])
    );
    assert_eq!(worker(&after)["restartPolicy"], "Always");
    assert_eq!(after["spec"]["futureField"], true);
    let app = &after["spec"]["containers"][0];
    assert_eq!(app["futureField"], json!({"x": 1}));
    assert_eq!(
        env(app, "LOCKSTEP_SOCKET")["value"],
        "/mine",
        "never written over"
    );
    assert_eq!(env(app, "LOCKSTEP_GROUP")["value"], "shop/orders");
    assert_eq!(app["volumeMounts"].as_array().unwrap().len(), 2);
    assert_eq!(
        after["spec"]["containers"][1],
        before["spec"]["containers"][1]
    );
}

#[test]
fn annotations_and_the_default_container_choose_who_gets_the_socket() {
    let two =
        json!({"containers": [{"name": "side", "image": "s"}, {"name": "app", "image": "a"}]});
    let got = |annotations: Value| {
        let pod = injected(&pod_with(
            json!({"spec": two, "metadata": {"annotations": annotations}}),
        ));
        let all = pod["spec"]["containers"].as_array().unwrap().clone();
        let with = all
            .into_iter()
            .filter(|container| container["env"].is_array());
        with.map(|container| container["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(got(json!({})), ["side"], "the first");
    assert_eq!(
        got(json!({"kubectl.kubernetes.io/default-container": "app"})),
        ["app"]
    );
    assert_eq!(
        got(json!({names::CONTAINERS: "app, side"})),
        ["side", "app"]
    );
    let both = json!({names::CONTAINERS: "app", "kubectl.kubernetes.io/default-container": "side"});
    assert_eq!(got(both), ["app"]);
}

#[test]
fn what_is_taken_is_named() {
    let volume =
        pod_with(json!({"spec": {"volumes": [{"name": "lockstep-socket", "emptyDir": {}}]}}));
    let error = stands(&volume).unwrap_err().to_string();
    assert!(
        error.contains("volume named \"lockstep-socket\""),
        "{error}"
    );
    for path in [
        "/var/run/lockstep",
        "/var/run/lockstep/",
        "/var/run/lockstep/deep",
    ] {
        let mount = json!([{"name": "app", "volumeMounts": [{"name": "x", "mountPath": path}]}]);
        let pod = pod_with(json!({"spec": {"containers": mount}}));
        let error = injected_for(&pod, &facts()).unwrap_err().to_string();
        assert!(error.contains(path) && error.contains("\"app\""), "{error}");
    }
}

#[test]
fn labels_and_annotations_that_say_nothing_are_refused_in_a_sentence() {
    let mut empty = pod();
    empty["metadata"]["labels"][names::GROUP_LABEL] = "".into();
    assert_eq!(stands(&empty), Err(Denial::NoGroupNamed));
    assert!(stands(&annotated(names::INJECT, "no")).is_err());
    for (name, value) in [
        (names::CONTAINERS, "app,,b"),
        (names::CONTAINERS, "migrate"),
        (names::WORKER_IMAGE, ""),
        (names::WORKER_CPU_REQUEST, "lots"),
        (names::WORKER_MEMORY_REQUEST, "64MB"),
        (names::WORKER_CPU_LIMIT, "-1"),
        (names::WORKER_MEMORY_LIMIT, "1 Gi"),
        (names::LOG_LEVEL, "loud"),
        (names::DRAIN_TIMEOUT, "20"),
        (names::DRAIN_TIMEOUT, "2h"),
        (names::ADJUST_GRACE_PERIOD, "yes"),
        (names::METRICS_PORT, "70000"),
    ] {
        let error = injected_for(&annotated(name, value), &facts())
            .unwrap_err()
            .to_string();
        assert!(error.contains(name), "{name}={value}: {error}");
    }
}

#[test]
fn windows_has_no_workers() {
    for spec in [
        json!({"os": {"name": "windows"}}),
        json!({"nodeSelector": {"kubernetes.io/os": "windows"}}),
    ] {
        assert_eq!(
            stands(&pod_with(json!({"spec": spec}))),
            Err(Denial::Windows)
        );
    }
}

#[test]
fn credentials_come_from_the_group_or_the_connection_and_only_to_the_worker() {
    let mut group = facts();
    let secret_of = |pod: &Value| {
        let volumes = pod["spec"]["volumes"].as_array().unwrap();
        let of_nats = volumes
            .iter()
            .find(|volume| volume["name"] == "lockstep-nats");
        of_nats.map(|volume| volume["secret"]["secretName"].as_str().unwrap().to_owned())
    };
    assert_eq!(secret_of(&injected(&pod())).unwrap(), "worker-nats");
    group.worker.nats_secret_name = Some("own".into());
    let own = injected_for(&pod(), &group).unwrap().pod;
    assert_eq!(secret_of(&own).unwrap(), "own");
    let app = own["spec"]["containers"][0].to_string();
    assert!(
        !app.contains("lockstep-nats") && !app.contains("4222"),
        "{app}"
    );
    group.worker.nats_secret_name = None;
    group.connection.worker_secret = None;
    let error = injected_for(&pod(), &group).unwrap_err().to_string();
    assert!(
        error.contains("natsSecretName") && error.contains("shop/nats"),
        "{error}"
    );
    group.connection.needs_credentials = false;
    let open = injected_for(&pod(), &group).unwrap().pod;
    assert_eq!(secret_of(&open), None);
    assert_eq!(env(worker(&open), "LOCKSTEP_NATS_SECRET_DIR"), &Value::Null);
}

#[test]
fn draining_ends_before_the_pods_grace_does() {
    let drain = |pod: &Value| {
        let worker = worker(pod);
        let command = worker["lifecycle"]["preStop"]["exec"]["command"]
            .as_array()
            .unwrap()
            .clone();
        let of_the_hook = command.last().unwrap().as_str().unwrap().to_owned();
        assert_eq!(
            env(worker, "LOCKSTEP_DRAIN_TIMEOUT")["value"],
            of_the_hook.as_str()
        );
        of_the_hook
    };
    let with = |grace: Option<i64>, annotations: Value| {
        let spec = json!({"terminationGracePeriodSeconds": grace});
        injected(&pod_with(
            json!({"spec": spec, "metadata": {"annotations": annotations}}),
        ))
    };
    assert_eq!(drain(&with(None, json!({}))), "20000ms");
    assert_eq!(drain(&with(Some(20), json!({}))), "12000ms");
    assert_eq!(
        drain(&with(Some(5), json!({}))),
        "1000ms",
        "at least a second"
    );
    assert_eq!(drain(&with(Some(0), json!({}))), "1000ms");
    let long = json!({names::DRAIN_TIMEOUT: "2m"});
    let kept = with(None, long.clone());
    assert_eq!(drain(&kept), "22000ms");
    assert_eq!(kept["spec"]["terminationGracePeriodSeconds"], Value::Null);
    let raised = with(
        None,
        json!({names::DRAIN_TIMEOUT: "2m", names::ADJUST_GRACE_PERIOD: "true"}),
    );
    assert_eq!(drain(&raised), "120000ms");
    assert_eq!(raised["spec"]["terminationGracePeriodSeconds"], 128);
    let lower = with(
        Some(600),
        json!({names::DRAIN_TIMEOUT: "2m", names::ADJUST_GRACE_PERIOD: "true"}),
    );
    assert_eq!(
        lower["spec"]["terminationGracePeriodSeconds"], 600,
        "never lowered"
    );
}

#[test]
fn metrics_have_a_port_unless_the_pod_is_on_the_nodes_network() {
    let address = |pod: &Value| {
        let worker = worker(pod);
        let port = worker["ports"][0]["containerPort"].as_i64();
        (
            env(worker, "LOCKSTEP_HTTP_ADDR")["value"]
                .as_str()
                .map(str::to_owned),
            port,
        )
    };
    assert_eq!(
        address(&injected(&pod())),
        (Some("0.0.0.0:9471".into()), Some(9471))
    );
    let other = annotated(names::METRICS_PORT, "9999");
    assert_eq!(
        address(&injected(&other)),
        (Some("0.0.0.0:9999".into()), Some(9999))
    );
    assert_eq!(
        address(&injected(&annotated(names::METRICS_PORT, "0"))),
        (None, None)
    );
    let host = pod_with(json!({"spec": {"hostNetwork": true}}));
    assert_eq!(address(&injected(&host)), (None, None));
    let ports = json!([{"name": "app", "ports": [{"containerPort": 9471}]}]);
    let taken = pod_with(json!({"spec": {"containers": ports}}));
    assert_eq!(address(&injected(&taken)), (None, None));
    assert!(warned(&taken, &facts())[0].contains("has the port"));
}

#[test]
fn the_worker_is_never_root_and_the_pods_own_settings_stay() {
    let root =
        json!({"spec": {"securityContext": {"runAsUser": 0, "runAsGroup": 0, "fsGroup": 0}}});
    let after = injected(&pod_with(root.clone()));
    let context = &worker(&after)["securityContext"];
    assert_eq!(
        (&context["runAsUser"], &context["runAsGroup"]),
        (&json!(65532), &json!(65532))
    );
    assert_eq!(
        after["spec"]["securityContext"],
        root["spec"]["securityContext"]
    );
    let somebody = injected(&pod_with(
        json!({"spec": {"securityContext": {"runAsUser": 1000}}}),
    ));
    assert_eq!(
        worker(&somebody)["securityContext"]["runAsUser"],
        Value::Null
    );
}

fn resources(pod: &Value) -> Value {
    worker(pod)["resources"].clone()
}

#[test]
fn resources_are_the_usual_ones_the_groups_or_the_pods() {
    let usual =
        json!({"requests": {"cpu": "20m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}});
    assert_eq!(resources(&injected(&pod())), usual);
    let mut group = facts();
    let amounts = |pairs: &[(&str, Amount)]| {
        let pairs = pairs.iter().map(|(k, v)| ((*k).to_owned(), v.clone()));
        Some(pairs.collect())
    };
    group.worker.resources = Some(Resources {
        requests: amounts(&[
            ("cpu", Amount::Number(1)),
            ("example.com/x", Amount::Text("2".into())),
        ]),
        limits: None,
    });
    let whole = json!({"requests": {"cpu": "1", "example.com/x": "2"}});
    assert_eq!(
        resources(&injected_for(&pod(), &group).unwrap().pod),
        whole,
        "as a whole"
    );
    let own = pod_with(json!({"metadata": {"annotations": {
        names::WORKER_CPU_LIMIT: "1", names::WORKER_MEMORY_LIMIT: "32Mi", names::WORKER_CPU_REQUEST: "50m"}}}));
    let moved = json!({"requests": {"cpu": "50m", "memory": "32Mi"}, "limits": {"cpu": "1", "memory": "32Mi"}});
    assert_eq!(resources(&injected(&own)), moved);
}

#[test]
fn a_guaranteed_pod_stays_guaranteed() {
    let limits = json!({"cpu": "1", "memory": "1Gi"});
    let with = |resources: Value| {
        pod_with(json!({"spec": {"containers": [{"name": "app", "resources": resources}]}}))
    };
    let level = |pod: &Value| {
        let of = resources(pod);
        of["requests"]["cpu"] == of["limits"]["cpu"]
            && of["requests"]["memory"] == of["limits"]["memory"]
    };
    assert!(level(&injected(&with(json!({"limits": limits})))));
    let spelled = json!({"limits": limits, "requests": {"cpu": "1000m", "memory": "1024Mi"}});
    assert!(level(&injected(&with(spelled))));
    let burstable = json!({"limits": limits, "requests": {"cpu": "500m", "memory": "1Gi"}});
    assert!(!level(&injected(&with(burstable))));
    assert!(!level(&injected(&with(
        json!({"limits": {"memory": "1Gi"}})
    ))));
}

#[test]
fn a_pod_with_resources_of_its_own_covers_the_worker() {
    let spec = json!({"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}});
    let pod = pod_with(json!({"spec": spec}));
    assert_eq!(resources(&injected(&pod)), Value::Null);
    let wished = pod_with(
        json!({"spec": spec, "metadata": {"annotations": {names::WORKER_MEMORY_LIMIT: "256Mi"}}}),
    );
    assert_eq!(
        resources(&injected(&wished)),
        json!({"limits": {"memory": "256Mi"}})
    );
}

#[test]
fn how_much_is_logged_is_the_pods_the_groups_or_the_usual_choice() {
    let level = |pod: &Value| env(worker(pod), "LOCKSTEP_LOG_LEVEL")["value"].clone();
    assert_eq!(level(&injected(&pod())), "info");
    let mut group = facts();
    group.worker.log_level = Some(LogLevel::Warn);
    assert_eq!(level(&injected_for(&pod(), &group).unwrap().pod), "warn");
    let own = annotated(names::LOG_LEVEL, "debug");
    assert_eq!(level(&injected_for(&own, &group).unwrap().pod), "debug");
}

#[test]
fn what_may_surprise_is_a_warning() {
    assert_eq!(warned(&pod(), &facts()), [""; 0]);
    let one = |pod: &Value, group: &GroupFacts, words: &str| {
        let warnings = warned(pod, group);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains(words), "{warnings:?}");
    };
    let with = |spec: Value| pod_with(json!({"spec": spec}));
    one(
        &with(json!({"shareProcessNamespace": true})),
        &facts(),
        "shareProcessNamespace",
    );
    one(&with(json!({"hostNetwork": true})), &facts(), "hostNetwork");
    one(
        &with(json!({"terminationGracePeriodSeconds": 14})),
        &facts(),
        "is 14, under 15",
    );
    let slow = GroupFacts {
        processing_timeout: Duration::from_secs(300),
        ..facts()
    };
    one(&pod(), &slow, "processingTimeout of 300s");
    one(
        &pod(),
        &GroupFacts {
            full_at: Some(64),
            ..facts()
        },
        "64 members",
    );
    one(
        &pod(),
        &GroupFacts {
            buffer_bytes: 33 << 20,
            ..facts()
        },
        "130Mi",
    );
    let larger = annotated(names::WORKER_MEMORY_LIMIT, "130Mi");
    assert_eq!(
        warned(
            &larger,
            &GroupFacts {
                buffer_bytes: 33 << 20,
                ..facts()
            }
        ),
        [""; 0]
    );
}
