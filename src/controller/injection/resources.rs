//! What the worker's container may use.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod};
use serde_json::{Map, Value};

use super::wishes::Wishes;
use super::{GroupFacts, containers, quantity};
use crate::crd::{Amount, Resources};

/// A worker at ease.
const CPU_REQUEST: &str = "20m";
const MEMORY_REQUEST: &str = "64Mi";
const MEMORY_LIMIT: &str = "128Mi";
/// In a pod whose quality of service is Guaranteed the worker needs a limit of its CPU, too: with
/// [`CPU_REQUEST`] it would stand still most of the time.
const GUARANTEED_CPU: &str = "100m";

/// Of the buffer, the encoded and the decoded copy; and everything else that a worker holds.
const BUFFERS: u128 = 2;
const BESIDE_BUFFERS: u128 = 64 << 20;

type Amounts = BTreeMap<String, String>;

/// What the worker's container asks for; empty where the pod's own resources cover all containers.
pub(super) fn of(pod: &Pod, group: &GroupFacts, wishes: &Wishes) -> Map<String, Value> {
    let (mut requests, mut limits) = match &group.worker.resources {
        _ if has_resources_of_its_own(pod) => (Amounts::new(), Amounts::new()),
        Some(given) => given_by_the_group(given),
        None => usual(is_guaranteed(pod)),
    };
    take(&mut requests, "cpu", wishes.cpu_request.as_ref());
    take(&mut requests, "memory", wishes.memory_request.as_ref());
    take(&mut limits, "cpu", wishes.cpu_limit.as_ref());
    take(&mut limits, "memory", wishes.memory_limit.as_ref());
    if is_guaranteed(pod) && !has_resources_of_its_own(pod) {
        level(&mut requests, &mut limits);
    }
    reconcile(&mut requests, &limits, wishes);
    let written = [("requests", requests), ("limits", limits)];
    let written = written
        .into_iter()
        .filter(|(_, amounts)| !amounts.is_empty());
    written
        .map(|(name, amounts)| (name.to_owned(), serde_json::json!(amounts)))
        .collect()
}

fn usual(guaranteed: bool) -> (Amounts, Amounts) {
    let amounts = |pairs: &[(&str, &str)]| {
        let pairs = pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        pairs.collect::<Amounts>()
    };
    if guaranteed {
        let both = amounts(&[("cpu", GUARANTEED_CPU), ("memory", MEMORY_LIMIT)]);
        return (both.clone(), both);
    }
    (
        amounts(&[("cpu", CPU_REQUEST), ("memory", MEMORY_REQUEST)]),
        amounts(&[("memory", MEMORY_LIMIT)]),
    )
}

fn given_by_the_group(given: &Resources) -> (Amounts, Amounts) {
    let written = |amounts: &Option<BTreeMap<String, Amount>>| {
        let amounts = amounts.iter().flatten();
        amounts
            .map(|(name, amount)| (name.clone(), text_of(amount)))
            .collect()
    };
    (written(&given.requests), written(&given.limits))
}

fn text_of(amount: &Amount) -> String {
    match amount {
        Amount::Number(number) => number.to_string(),
        Amount::Text(text) => text.clone(),
    }
}

fn take(amounts: &mut Amounts, resource: &str, wish: Option<&String>) {
    if let Some(wish) = wish {
        amounts.insert(resource.to_owned(), wish.clone());
    }
}

/// Limits equal requests: the larger of the two that are given.
fn level(requests: &mut Amounts, limits: &mut Amounts) {
    for resource in ["cpu", "memory"] {
        let given = limits
            .get(resource)
            .or_else(|| requests.get(resource))
            .cloned();
        let usual = if resource == "cpu" {
            GUARANTEED_CPU
        } else {
            MEMORY_LIMIT
        };
        let both = given.unwrap_or_else(|| usual.to_owned());
        requests.insert(resource.to_owned(), both.clone());
        limits.insert(resource.to_owned(), both);
    }
}

/// The API server refuses a request above its limit. Where a pod's annotation moved one of the two,
/// the other one follows if nobody wished for it.
fn reconcile(requests: &mut Amounts, limits: &Amounts, wishes: &Wishes) {
    for (resource, wished) in [
        ("cpu", &wishes.cpu_request),
        ("memory", &wishes.memory_request),
    ] {
        let (Some(request), Some(limit)) = (requests.get(resource), limits.get(resource)) else {
            continue;
        };
        if wished.is_none() && quantity::parse(request) > quantity::parse(limit) {
            requests.insert(resource.to_owned(), limit.clone());
        }
    }
}

/// Whether `spec.resources` of the pod says what all its containers share.
fn has_resources_of_its_own(pod: &Pod) -> bool {
    pod.spec
        .as_ref()
        .is_some_and(|spec| spec.resources.is_some())
}

/// Whether each regular container has limits of CPU and memory that are also its requests.
fn is_guaranteed(pod: &Pod) -> bool {
    let all = containers(pod);
    !all.is_empty() && all.iter().all(container_is_guaranteed)
}

fn container_is_guaranteed(container: &Container) -> bool {
    let Some(resources) = &container.resources else {
        return false;
    };
    let (requests, limits) = (resources.requests.as_ref(), resources.limits.as_ref());
    ["cpu", "memory"].into_iter().all(|resource| {
        let Some(limit) = limits.and_then(|limits| limits.get(resource)) else {
            return false;
        };
        // A request that is not given is the limit.
        requests
            .and_then(|requests| requests.get(resource))
            .is_none_or(|request| quantity::parse(&request.0) == quantity::parse(&limit.0))
    })
}

/// A memory limit that the group's buffer may not fit into, and what it should be.
pub(super) fn too_little_memory(
    resources: &Map<String, Value>,
    buffer_bytes: u64,
) -> Option<(String, u128)> {
    let limit = resources.get("limits")?.get("memory")?.as_str()?;
    let needed = BESIDE_BUFFERS + BUFFERS * u128::from(buffer_bytes);
    let given = quantity::parse(limit)?;
    (given < needed * 1000).then(|| (limit.to_owned(), needed.div_ceil(1 << 20)))
}
