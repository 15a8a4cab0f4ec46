//! What a pod of a group gets: the worker as a native sidecar, a socket for its application, and
//! everything that the worker has to know.
//!
//! Pure: a pod, its group and the defaults in; a patch, warnings or a denial out. Every pod comes
//! twice, since the API server looks again at what was patched: the second time nothing is left to do.

mod checks;
mod container;
mod denial;
mod mark;
mod quantity;
mod resources;
#[cfg(test)]
mod tests;
mod wishes;

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod};
use serde_json::{Map, Value, json};

use crate::crd::Worker;
use crate::k8s::names;

pub use denial::Denial;
use wishes::Wishes;

/// Where the socket's folder is, in the worker and in the application.
const SOCKET_FOLDER: &str = "/var/run/lockstep";
/// Where the worker finds its NATS credentials.
const NATS_FOLDER: &str = "/var/run/secrets/lockstep.dev/nats";
/// Where a `ServiceAccount`'s token would be.
const TOKEN_FOLDER: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The grace period of a pod that names none.
const USUAL_GRACE: Duration = Duration::from_secs(30);
/// What the end of a pod takes beside draining: the last commit, `left`, the containers' ends.
const BESIDE_DRAINING: Duration = Duration::from_secs(8);
/// How long a worker waits for acknowledgements unless the pod says it.
const USUAL_DRAIN: Duration = Duration::from_secs(20);
/// Draining waits at least this long.
const SHORTEST_DRAIN: Duration = Duration::from_secs(1);
/// Below this grace period a hand-over is hardly ever clean.
const SHORT_GRACE: Duration = Duration::from_secs(15);

/// What the group's objects say that matters to a pod.
#[derive(Clone, Debug)]
pub struct GroupFacts {
    /// The group's name.
    pub name: String,
    /// Its `spec.worker`.
    pub worker: Worker,
    /// How long the application may take over one message.
    pub processing_timeout: Duration,
    /// What the worker may buffer.
    pub buffer_bytes: u64,
    /// How many members the group may have, if it has as many.
    pub full_at: Option<u32>,
    /// Where the group lives.
    pub connection: ConnectionFacts,
}

/// What the `NatsConnection` says that matters to a worker.
#[derive(Clone, Debug)]
pub struct ConnectionFacts {
    /// `namespace/name`.
    pub name: String,
    /// The servers' addresses.
    pub servers: Vec<String>,
    /// The `JetStream` domain.
    pub jetstream_domain: Option<String>,
    /// What buckets' names begin with.
    pub bucket_prefix: String,
    /// Whether TLS comes before the server's greeting.
    pub handshake_first: bool,
    /// Whether nobody connects without credentials or certificates.
    pub needs_credentials: bool,
    /// The Secret in the pods' namespace, unless the group names another.
    pub worker_secret: Option<String>,
}

/// What the controller chooses where nobody else does.
#[derive(Clone, Debug)]
pub struct Defaults {
    /// The worker's image.
    pub image: String,
}

/// What is to be done about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is not for us.
    Untouched,
    /// It has its worker already.
    Done,
    /// It is to become a member of the group of this name in its namespace.
    Wants(String),
}

/// What is done to a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Injection {
    /// The pod as it is to be.
    pub pod: Value,
    /// What whoever made it should know.
    pub warnings: Vec<String>,
}

/// What the pod is, before its group is looked up.
pub fn standing(namespace: &str, pod: &Pod) -> Result<Standing, Denial> {
    let labels = pod.metadata.labels.as_ref();
    let Some(group) = labels.and_then(|labels| labels.get(names::GROUP_LABEL)) else {
        return Ok(Standing::Untouched);
    };
    if annotation(pod, "kubernetes.io/config.mirror").is_some() {
        return Ok(Standing::Untouched);
    }
    match annotation(pod, names::INJECT) {
        Some("false") => return Ok(Standing::Untouched),
        None | Some("true") => {}
        Some(other) => {
            return Err(Denial::annotation(
                names::INJECT,
                other,
                "\"true\" or \"false\"",
            ));
        }
    }
    if group.is_empty() {
        return Err(Denial::NoGroupNamed);
    }
    if mark::is_injected(pod, namespace, group) {
        return Ok(Standing::Done);
    }
    checks::names_are_free(pod)?;
    checks::system(pod)?;
    Ok(Standing::Wants(group.clone()))
}

/// Makes a pod a member. `raw` is the pod as the API server sent it, unknown fields included.
pub fn inject(
    namespace: &str,
    (raw, pod): (&Value, &Pod),
    group: &GroupFacts,
    defaults: &Defaults,
) -> Result<Injection, Denial> {
    let wishes = Wishes::of(pod)?;
    let chosen = checks::chosen_containers(pod, &wishes)?;
    let secret = group
        .worker
        .nats_secret_name
        .as_ref()
        .map(|name| name.as_str().to_owned());
    let secret = secret.or_else(|| group.connection.worker_secret.clone());
    if secret.is_none() && group.connection.needs_credentials {
        return Err(Denial::NoWorkerSecret {
            group: group.name.clone(),
            connection: group.connection.name.clone(),
        });
    }
    let plan = Plan::of(namespace, pod, (group, &wishes), (secret, defaults));
    let mut made = raw.clone();
    plan.write(&mut made, &chosen);
    let warnings = checks::warnings(pod, group, &plan);
    Ok(Injection {
        pod: made,
        warnings,
    })
}

/// All that was decided of a pod.
struct Plan<'a> {
    /// `namespace/name` of the group.
    group: String,
    pod: &'a Pod,
    facts: &'a GroupFacts,
    wishes: &'a Wishes,
    image: String,
    secret: Option<String>,
    /// The grace period as it will be, and whether it is ours.
    grace: Duration,
    adjusted: bool,
    drain: Duration,
    metrics_port: u16,
    /// A container of the pod that has the port of the metrics already.
    port_taken_by: Option<String>,
    resources: Map<String, Value>,
}

// === impl Plan ===

impl<'a> Plan<'a> {
    fn of(
        namespace: &str,
        pod: &'a Pod,
        (facts, wishes): (&'a GroupFacts, &'a Wishes),
        (secret, defaults): (Option<String>, &Defaults),
    ) -> Self {
        let (grace, adjusted) = grace_of(pod, wishes);
        let wanted = wishes.drain_timeout.unwrap_or(USUAL_DRAIN);
        let drain = wanted
            .min(grace.saturating_sub(BESIDE_DRAINING))
            .max(SHORTEST_DRAIN);
        let (metrics_port, port_taken_by) = container::metrics_port(pod, wishes);
        Self {
            group: format!("{namespace}/{}", facts.name),
            image: wishes
                .image
                .clone()
                .unwrap_or_else(|| defaults.image.clone()),
            resources: resources::of(pod, facts, wishes),
            pod,
            facts,
            wishes,
            secret,
            grace,
            adjusted,
            drain,
            metrics_port,
            port_taken_by,
        }
    }

    fn write(&self, made: &mut Value, chosen: &[String]) {
        let worker = container::worker(self);
        let mark = mark::of(&worker);
        append(made, "initContainers", worker);
        append(
            made,
            "volumes",
            json!({"name": names::SOCKET_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}),
        );
        append(
            made,
            "volumes",
            json!({"name": names::NO_TOKEN_VOLUME, "emptyDir": {}}),
        );
        if let Some(secret) = &self.secret {
            // Optional: a Secret that comes later is read then, and the application starts meanwhile.
            let source = json!({"secretName": secret, "defaultMode": 0o444, "optional": true});
            append(
                made,
                "volumes",
                json!({"name": names::NATS_VOLUME, "secret": source}),
            );
        }
        let containers = made
            .pointer_mut("/spec/containers")
            .and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            if chosen.iter().any(|name| container["name"] == name.as_str()) {
                container::give_socket(container, &self.group);
            }
        }
        if self.adjusted {
            made["spec"]["terminationGracePeriodSeconds"] = self.grace.as_secs().into();
        }
        made["metadata"]["annotations"][names::INJECTED] = mark.into();
    }
}

/// The pod's grace period, raised to what draining may take if the pod asks for it.
fn grace_of(pod: &Pod, wishes: &Wishes) -> (Duration, bool) {
    let given = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.termination_grace_period_seconds);
    let given = given.map_or(USUAL_GRACE, |s| {
        Duration::from_secs(s.try_into().unwrap_or(0))
    });
    let needed = wishes.drain_timeout.unwrap_or(USUAL_DRAIN) + BESIDE_DRAINING;
    // A part of a second is a whole one to Kubernetes.
    let needed = Duration::from_secs(needed.as_millis().div_ceil(1000).try_into().unwrap_or(0));
    if wishes.adjust_grace && given < needed {
        (needed, true)
    } else {
        (given, false)
    }
}

/// Puts something at the end of a list of the pod's spec.
fn append(pod: &mut Value, list: &str, item: Value) {
    match pod["spec"][list].as_array_mut() {
        Some(items) => items.push(item),
        None => pod["spec"][list] = Value::Array(vec![item]),
    }
}

fn annotation<'a>(pod: &'a Pod, name: &str) -> Option<&'a str> {
    pod.metadata
        .annotations
        .as_ref()?
        .get(name)
        .map(String::as_str)
}

fn containers(pod: &Pod) -> &[Container] {
    pod.spec.as_ref().map_or(&[], |spec| &spec.containers)
}

fn init_containers(pod: &Pod) -> &[Container] {
    let spec = pod.spec.as_ref();
    spec.and_then(|spec| spec.init_containers.as_deref())
        .unwrap_or_default()
}
