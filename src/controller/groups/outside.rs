//! What is known of a group from outside its bucket: its pods and its replicas.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::ObjectReference;

use super::reconcile::Needs;
use crate::controller::objects::{ObjectKey, reference};
use crate::controller::pods::PodFact;
use crate::controller::scaling::{Context, ScalingReport};
use crate::coordinator::Details;
use crate::crd::ConsumerGroup;
use crate::k8s::{EventKind, EventReason, Note};
use crate::metrics::ObjectName;

/// Pods that one Event names; it says how many more there are.
const NAMED: usize = 10;

/// Brings the group's target to what is asked of it, one step.
pub(super) async fn scale(
    object: &ConsumerGroup,
    key: &ObjectKey,
    needs: &Needs<'_>,
) -> ScalingReport {
    let details = details(key, needs);
    let pods = needs.pods.of(key);
    let context = Context {
        client: needs.client,
        events: needs.events,
        pods: pods.as_deref(),
        members: details.as_ref().map(|details| details.members.as_slice()),
        rival: needs.rival.clone(),
        deletion_costs: needs.deletion_costs,
    };
    needs.scaling.reconcile(object, &context).await
}

/// Tells the coordinator what is known from outside, and people what is known of the pods.
pub(super) fn tell(
    object: &ConsumerGroup,
    key: &ObjectKey,
    needs: &Needs<'_>,
    scaling: &ScalingReport,
) {
    if let Some(running) = needs.running.get(key) {
        let gone = needs.pods.gone(key);
        // A pod that is being deleted lets go at once. It would by itself, once the kubelet has got
        // round to it; until then its application has ended, or is about to, and reads no more.
        let mut leave = needs.pods.leaving(key);
        leave.extend(scaling.asked_to_leave.iter().cloned());
        running.coordinator.tell(|known| {
            known.gone_pods = gone;
            known.declared_replicas = scaling.declared_replicas;
            known.asked_to_leave = leave;
        });
    }
    tell_of_uninjected(object, key, needs);
    if let Some(details) = details(key, needs) {
        let owners = details
            .members
            .iter()
            .filter(|member| member.partitions > 0);
        let owners: BTreeSet<&str> = owners.map(|member| member.id.as_str()).collect();
        for pod in needs.pods.joins(key, &owners) {
            tell_of_join(&pod, &details, needs);
        }
    }
}

/// The assignment, if this process coordinates the group.
fn details(key: &ObjectKey, needs: &Needs<'_>) -> Option<Details> {
    let status = needs.running.get(key)?.coordinator.status();
    status.details.filter(|_| status.coordinates)
}

fn tell_of_uninjected(object: &ConsumerGroup, key: &ObjectKey, needs: &Needs<'_>) {
    let (count, fresh) = needs.pods.uninjected(key);
    needs.figures.uninjected(&ObjectName::from(key), count);
    if fresh.is_empty() {
        return;
    }
    let named = fresh
        .iter()
        .take(NAMED)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    let more = match fresh.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let text = format!(
        "pods with this group's label have no worker: {named}{more}; workers are injected only as a \
         pod is created, so make them anew, or take the label away"
    );
    let note = Note {
        kind: EventKind::Warning,
        reason: EventReason::UninjectedPods,
        action: "Observe",
        text,
    };
    needs.events.record(&reference(object), note);
}

fn tell_of_join(pod: &PodFact, details: &Details, needs: &Needs<'_>) {
    let member = details.members.iter().find(|member| member.id == pod.name);
    let partitions = member.map_or(0, |member| member.partitions);
    let about = ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        name: Some(pod.name.clone()),
        namespace: Some(pod.group.namespace.clone()),
        uid: Some(pod.uid.clone()),
        ..ObjectReference::default()
    };
    let note = Note {
        kind: EventKind::Normal,
        reason: EventReason::PartitionsAssigned,
        action: "Join",
        text: format!(
            "joined ConsumerGroup {} and owns {partitions} of its {} partitions",
            pod.group.name, details.partitions
        ),
    };
    needs.events.record(&about, note);
}
