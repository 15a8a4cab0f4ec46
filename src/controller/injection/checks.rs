//! What forbids an injection, and what is worth a warning.

use std::path::{Component, Path};

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};

use super::wishes::Wishes;
use super::{
    Denial, GroupFacts, Plan, SHORT_GRACE, SOCKET_FOLDER, annotation, containers, init_containers,
    resources,
};
use crate::k8s::names;

/// Nothing of the pod has a name or a path that Lockstep uses.
pub(super) fn names_are_free(pod: &Pod) -> Result<(), Denial> {
    let taken = |what, name: &str| Denial::NameTaken {
        what,
        name: name.to_owned(),
    };
    let mut all = containers(pod).iter().chain(init_containers(pod));
    if all.any(|container| container.name == names::WORKER_CONTAINER) {
        return Err(taken("container", names::WORKER_CONTAINER));
    }
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref());
    for volume in volumes.unwrap_or_default() {
        let ours = [
            names::SOCKET_VOLUME,
            names::NO_TOKEN_VOLUME,
            names::NATS_VOLUME,
        ];
        if ours.contains(&volume.name.as_str()) {
            return Err(taken("volume", &volume.name));
        }
    }
    Ok(())
}

/// Only Linux has workers.
pub(super) fn system(pod: &Pod) -> Result<(), Denial> {
    let windows = |spec: &PodSpec| {
        let named = spec.os.as_ref().is_some_and(|os| os.name == "windows");
        let selector = spec.node_selector.as_ref();
        let selected = selector.and_then(|labels| labels.get("kubernetes.io/os"));
        named || selected.is_some_and(|os| os == "windows")
    };
    if pod.spec.as_ref().is_some_and(windows) {
        return Err(Denial::Windows);
    }
    Ok(())
}

/// The containers that get the socket.
pub(super) fn chosen_containers(pod: &Pod, wishes: &Wishes) -> Result<Vec<String>, Denial> {
    let there = containers(pod);
    let usual = annotation(pod, "kubectl.kubernetes.io/default-container");
    let usual = usual.filter(|name| there.iter().any(|container| container.name == *name));
    let chosen = match (&wishes.containers, usual) {
        (Some(named), _) => named.clone(),
        (None, Some(usual)) => vec![usual.to_owned()],
        (None, None) => there
            .first()
            .map(|first| first.name.clone())
            .into_iter()
            .collect(),
    };
    for name in &chosen {
        let Some(container) = there.iter().find(|container| container.name == *name) else {
            let there: Vec<&str> = there.iter().map(|c| c.name.as_str()).collect();
            return Err(Denial::NoSuchContainer {
                container: name.clone(),
                there: there.join(", "),
            });
        };
        path_is_free(container)?;
    }
    Ok(chosen)
}

fn path_is_free(container: &Container) -> Result<(), Denial> {
    let mut mounts = container.volume_mounts.iter().flatten();
    let taken = mounts.find(|mount| {
        let path = without_dots(&mount.mount_path);
        path.starts_with(SOCKET_FOLDER) || path.starts_with("/run/lockstep")
    });
    taken.map_or(Ok(()), |mount| {
        Err(Denial::PathTaken {
            container: container.name.clone(),
            path: mount.mount_path.clone(),
        })
    })
}

fn without_dots(path: &str) -> std::path::PathBuf {
    let kept = Path::new(path)
        .components()
        .filter(|part| *part != Component::CurDir);
    kept.collect()
}

/// What whoever made the pod should know.
pub(super) fn warnings(pod: &Pod, group: &GroupFacts, plan: &Plan<'_>) -> Vec<String> {
    let spec = pod.spec.as_ref();
    let mut warnings = Vec::new();
    if spec.and_then(|spec| spec.share_process_namespace) == Some(true) {
        warnings.push(
            "shareProcessNamespace: the application can read the credentials of Lockstep's worker"
                .to_owned(),
        );
    }
    if spec.and_then(|spec| spec.host_network) == Some(true) {
        warnings.push(format!(
            "hostNetwork: the worker shows no metrics unless annotation {} names a port that is \
             free on the node",
            names::METRICS_PORT
        ));
    }
    warnings.extend(about_grace(group, plan));
    if let Some(limit) = group.full_at {
        warnings.push(format!(
            "ConsumerGroup {} has its {limit} members (membership.maxMembers): this one stands by",
            group.name
        ));
    }
    if let Some((limit, needed)) = resources::too_little_memory(&plan.resources, group.buffer_bytes)
    {
        warnings.push(format!(
            "the worker's memory limit {limit} may be too small for delivery.buffer.bytes; give it \
             {needed}Mi, or make the buffer smaller"
        ));
    }
    if let Some(container) = &plan.port_taken_by {
        warnings.push(format!(
            "container {container:?} has the port of the worker's metrics, which are off; name \
             another one with annotation {}",
            names::METRICS_PORT
        ));
    }
    warnings
}

fn about_grace(group: &GroupFacts, plan: &Plan<'_>) -> Option<String> {
    let grace = plan.grace.as_secs();
    let raise = format!(
        "raise terminationGracePeriodSeconds, or set annotations {}: \"true\" and {}",
        names::ADJUST_GRACE_PERIOD,
        names::DRAIN_TIMEOUT
    );
    if plan.grace < SHORT_GRACE {
        return Some(format!(
            "terminationGracePeriodSeconds is {grace}, under {}: messages in flight are handed out \
             again when the pod ends; {raise}",
            SHORT_GRACE.as_secs()
        ));
    }
    (plan.grace < group.processing_timeout).then(|| {
        format!(
            "terminationGracePeriodSeconds is {grace}, under the group's processingTimeout of {}s: a \
             message that takes longer than that is handed out again when the pod ends; {raise}",
            group.processing_timeout.as_secs()
        )
    })
}
