//! The worker's container, and what the application's containers get.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::wishes::Wishes;
use super::{NATS_FOLDER, Plan, SOCKET_FOLDER, TOKEN_FOLDER, containers};
use crate::crd::LogLevel;
use crate::k8s::names;

/// Where images of Lockstep have its program; an exec probe knows no entry point.
const PROGRAM: &str = "/lockstep";
/// The socket.
const SOCKET: &str = "/var/run/lockstep/worker.sock";
/// Made by the first join; it outlives the container.
const JOINED_FILE: &str = "/var/run/lockstep/joined";
/// Where the worker shows its metrics.
const METRICS_PORT: u16 = 9471;
/// The name of that port, for `PodMonitors`.
const METRICS_PORT_NAME: &str = "worker-metrics";
/// A user that is nobody.
const NOBODY: i64 = 65532;

pub(super) fn worker(plan: &Plan<'_>) -> Value {
    let mut container = json!({
        "name": names::WORKER_CONTAINER,
        "image": plan.image,
        "command": [PROGRAM],
        "args": ["worker"],
        "restartPolicy": "Always",
        "env": env(plan),
        "volumeMounts": mounts(plan),
        "securityContext": security(plan.pod),
        "startupProbe": probe("startup", &json!({"periodSeconds": 1, "failureThreshold": 60})),
        "readinessProbe": probe("ready", &json!({"periodSeconds": 3, "failureThreshold": 3})),
        "livenessProbe": probe("live", &json!({"periodSeconds": 10, "failureThreshold": 6})),
        "lifecycle": {"preStop": {"exec": {"command": drain_command(plan)}}},
        "terminationMessagePolicy": "FallbackToLogsOnError",
    });
    if !plan.resources.is_empty() {
        container["resources"] = Value::Object(plan.resources.clone());
    }
    if plan.metrics_port != 0 {
        let port = json!({"name": METRICS_PORT_NAME, "containerPort": plan.metrics_port, "protocol": "TCP"});
        container["ports"] = json!([port]);
    }
    container
}

fn drain_command(plan: &Plan<'_>) -> Value {
    let timeout = format!("{}ms", plan.drain.as_millis());
    json!([
        PROGRAM,
        "worker",
        "drain",
        "--socket",
        SOCKET,
        "--timeout",
        timeout
    ])
}

fn probe(question: &str, timing: &Value) -> Value {
    let command = [PROGRAM, "worker", "probe", question, "--socket", SOCKET];
    let mut probe = json!({"exec": {"command": command}, "timeoutSeconds": 5});
    for (key, value) in timing.as_object().into_iter().flatten() {
        probe[key] = value.clone();
    }
    probe
}

fn env(plan: &Plan<'_>) -> Value {
    let connection = &plan.facts.connection;
    let given = |name: &str, value: &str| json!({"name": name, "value": value});
    let of_the_pod = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}});
    let mut env = vec![
        given("LOCKSTEP_GROUP", &plan.group),
        given("LOCKSTEP_SOCKET", SOCKET),
        given("LOCKSTEP_JOINED_FILE", JOINED_FILE),
        of_the_pod("LOCKSTEP_MEMBER_ID", "metadata.name"),
        of_the_pod("LOCKSTEP_POD_UID", "metadata.uid"),
        of_the_pod("LOCKSTEP_NODE_NAME", "spec.nodeName"),
        of_the_pod(
            "LOCKSTEP_ZONE",
            "metadata.labels['topology.kubernetes.io/zone']",
        ),
        given("LOCKSTEP_NATS_URL", &connection.servers.join(",")),
        given("LOCKSTEP_BUCKET_PREFIX", &connection.bucket_prefix),
        given("LOCKSTEP_LOG_FORMAT", "json"),
        given("LOCKSTEP_LOG_LEVEL", log_level(plan)),
        given(
            "LOCKSTEP_DRAIN_TIMEOUT",
            &format!("{}ms", plan.drain.as_millis()),
        ),
    ];
    if plan.secret.is_some() {
        env.push(given("LOCKSTEP_NATS_SECRET_DIR", NATS_FOLDER));
    }
    if let Some(domain) = &connection.jetstream_domain {
        env.push(given("LOCKSTEP_JETSTREAM_DOMAIN", domain));
    }
    if connection.handshake_first {
        env.push(given("LOCKSTEP_TLS_HANDSHAKE_FIRST", "true"));
    }
    if plan.metrics_port != 0 {
        env.push(given(
            "LOCKSTEP_HTTP_ADDR",
            &format!("0.0.0.0:{}", plan.metrics_port),
        ));
    }
    Value::Array(env)
}

fn log_level<'a>(plan: &'a Plan<'_>) -> &'a str {
    let of_the_group = || {
        let level = plan.facts.worker.log_level?;
        Some(match level {
            LogLevel::Error => "error",
            LogLevel::Warn => "warn",
            LogLevel::Info => "info",
            LogLevel::Debug => "debug",
            LogLevel::Trace => "trace",
        })
    };
    let of_the_pod = plan.wishes.log_level.as_deref();
    of_the_pod.or_else(of_the_group).unwrap_or("info")
}

fn mounts(plan: &Plan<'_>) -> Value {
    let mount = |name: &str, path: &str, read_only: bool| json!({"name": name, "mountPath": path, "readOnly": read_only});
    let mut mounts = vec![
        json!({"name": names::SOCKET_VOLUME, "mountPath": SOCKET_FOLDER}),
        // Else the API server mounts the ServiceAccount's token here.
        mount(names::NO_TOKEN_VOLUME, TOKEN_FOLDER, true),
    ];
    if plan.secret.is_some() {
        mounts.push(mount(names::NATS_VOLUME, NATS_FOLDER, true));
    }
    Value::Array(mounts)
}

/// What Pod Security "restricted" asks for. The pod's own settings stay; those that would make the
/// worker root are overridden for the worker alone.
fn security(pod: &Pod) -> Value {
    let mut context = json!({
        "runAsNonRoot": true,
        "readOnlyRootFilesystem": true,
        "allowPrivilegeEscalation": false,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    });
    let of_the_pod = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.security_context.as_ref());
    if of_the_pod.and_then(|of| of.run_as_user) == Some(0) {
        context["runAsUser"] = NOBODY.into();
    }
    if of_the_pod.and_then(|of| of.run_as_group) == Some(0) {
        context["runAsGroup"] = NOBODY.into();
    }
    context
}

/// The port of the metrics, 0 for none; and who has the usual one already.
pub(super) fn metrics_port(pod: &Pod, wishes: &Wishes) -> (u16, Option<String>) {
    if let Some(port) = wishes.metrics_port {
        return (port, None);
    }
    if pod.spec.as_ref().and_then(|spec| spec.host_network) == Some(true) {
        return (0, None);
    }
    let taken = containers(pod).iter().find(|container| {
        let mut ports = container.ports.iter().flatten();
        ports.any(|port| port.container_port == i32::from(METRICS_PORT))
    });
    match taken {
        Some(container) => (0, Some(container.name.clone())),
        None => (METRICS_PORT, None),
    }
}

/// Gives a container of the application the socket; what it has already stays as it is.
pub(super) fn give_socket(container: &mut Value, group: &str) {
    add(
        container,
        "volumeMounts",
        json!({"name": names::SOCKET_VOLUME, "mountPath": SOCKET_FOLDER}),
    );
    for (name, value) in [("LOCKSTEP_SOCKET", SOCKET), ("LOCKSTEP_GROUP", group)] {
        let there = container["env"].as_array();
        let has = there.is_some_and(|env| env.iter().any(|env| env["name"] == name));
        if !has {
            add(container, "env", json!({"name": name, "value": value}));
        }
    }
}

fn add(container: &mut Value, list: &str, item: Value) {
    match container[list].as_array_mut() {
        Some(items) => items.push(item),
        None => container[list] = Value::Array(vec![item]),
    }
}
