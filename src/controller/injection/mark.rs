//! How Lockstep's own work is told from a container that somebody else gave the same name.

use k8s_openapi::api::core::v1::{Container, Pod};
use serde_json::Value;

use super::{annotation, containers, init_containers};
use crate::k8s::names;

/// The form of what is hashed; another form gets another number.
const FORM: &str = "1";

/// The mark of a worker container as it was made. Covered is what is Lockstep's alone: other
/// webhooks may rewrite images and resources, and the API server fills in defaults.
pub(super) fn of(worker: &Value) -> String {
    let made: Option<Container> = serde_json::from_value(worker.clone()).ok();
    made.as_ref().map_or_else(String::new, of_container)
}

/// Whether the pod has the worker that its mark says, for this group.
pub(super) fn is_injected(pod: &Pod, namespace: &str, group: &str) -> bool {
    let named = |container: &&Container| container.name == names::WORKER_CONTAINER;
    if containers(pod).iter().any(|container| named(&container)) {
        return false;
    }
    let Some(worker) = init_containers(pod).iter().find(named) else {
        return false;
    };
    let env = worker.env.as_deref().unwrap_or_default();
    let says = env.iter().find(|env| env.name == "LOCKSTEP_GROUP");
    let same_group =
        says.and_then(|env| env.value.as_deref()) == Some(&format!("{namespace}/{group}"));
    same_group && annotation(pod, names::INJECTED) == Some(&of_container(worker))
}

fn of_container(worker: &Container) -> String {
    let mut lines: Vec<String> = Vec::new();
    lines.push(format!(
        "restart={}",
        worker.restart_policy.as_deref().unwrap_or_default()
    ));
    let command = worker.command.iter().chain(&worker.args).flatten();
    lines.extend(command.map(|word| format!("word={word}")));
    let env = worker.env.as_deref().unwrap_or_default();
    let mut own: Vec<String> = env
        .iter()
        .filter(|env| env.name.starts_with("LOCKSTEP_"))
        .map(|env| format!("{}={}", env.name, env.value.as_deref().unwrap_or_default()))
        .collect();
    own.sort();
    lines.extend(own);
    format!("{FORM}-{:016x}", fnv1a(lines.join("\n").as_bytes()))
}

/// FNV-1a: the same in every version and on every machine. It tells mistakes, not attacks.
fn fnv1a(bytes: &[u8]) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325_u64;
    bytes.iter().fold(start, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
