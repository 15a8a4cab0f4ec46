//! What is known of a group, written into its object's status: sparingly.

use std::time::Duration;

use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use kube::core::error_boundary::InvalidObject;
use kube::core::{ApiResource, DynamicObject};
use serde_json::json;

use super::reconcile::{Again, Needs};
use super::running::RunningGroup;
use super::status::{Known, Running, Stage, is_due, status};
use crate::clock;
use crate::controller::objects::{Conditions, ObjectKey, reference, rfc3339};
use crate::controller::scaling::ScalingReport;
use crate::coordinator::{GroupStatus, Phase};
use crate::crd::{BucketStatus, Condition, ConditionStatus, ConditionType, ConsumerGroup, Reason};
use crate::group::decide::Aspect;
use crate::k8s::{self, EventKind, EventReason, FieldManager, K8sError, Note};

/// How soon a group that is coordinated is reported on again.
const REPORT_AGAIN: Duration = Duration::from_secs(15);

/// How long a coordinator may take to take over before a group that was ready counts as not ready:
/// its members go on meanwhile.
const TAKING_OVER: Duration = Duration::from_secs(15);

/// How long one may take before it is said of a group that was not ready: it usually takes less, and
/// what would be said in between is one more write of each new group.
const BEGINNING: Duration = Duration::from_secs(2);

/// How soon a coordinator that takes over is looked at again.
const SOON: Duration = Duration::from_secs(2);

/// Writes the status, if it has anything new to say; a stage says why the group is not coordinated.
pub(super) async fn report(
    object: &ConsumerGroup,
    key: &ObjectKey,
    needs: &Needs<'_>,
    stage: Option<Stage<'static>>,
    scaling: &ScalingReport,
) -> Result<Again, K8sError> {
    let running = needs.running.get(key);
    let Some(stage) = stage else {
        return match running {
            Some(running) => of_running(object, key, needs, (&running, scaling)).await,
            // It went while this was being looked at.
            None => Ok(Again::In(SOON)),
        };
    };
    let known = Known {
        stage,
        scaling,
        coordinator: needs.id,
    };
    write(object, key, needs, &known, running.as_deref()).await?;
    Ok(Again::Later)
}

async fn of_running(
    object: &ConsumerGroup,
    key: &ObjectKey,
    needs: &Needs<'_>,
    (running, scaling): (&RunningGroup, &ScalingReport),
) -> Result<Again, K8sError> {
    let status = running.coordinator.status();
    let (idle, unassigned) =
        running.remember(|memory| (memory.idle_for(&status), memory.unassigned_for(&status)));
    let patience = if was_ready(object) {
        TAKING_OVER
    } else {
        BEGINNING
    };
    if is_taking_over(&status) && idle < patience {
        return Ok(Again::In(SOON));
    }
    tell_rebalance(object, needs, running, &status);
    let view = Running {
        status: &status,
        bucket: BucketStatus {
            id: running.bucket.to_string(),
            created: Some(rfc3339(running.created)),
        },
        found: &running.found,
        unassigned_for: unassigned,
    };
    let known = Known {
        stage: Stage::Running(view),
        scaling,
        coordinator: needs.id,
    };
    write(object, key, needs, &known, Some(running)).await?;
    Ok(Again::In(REPORT_AGAIN))
}

/// Nothing is wrong that is known of: it reads the group, or waits for its first word.
fn is_taking_over(status: &GroupStatus) -> bool {
    let provisioned = status.conditions.get(&Aspect::Provisioned);
    status.phase != Phase::Stopped
        && (status.phase == Phase::Starting || !status.coordinates)
        && provisioned.is_none_or(|condition| condition.trouble.is_none())
}

fn was_ready(object: &ConsumerGroup) -> bool {
    let conditions = object.status.iter().flat_map(|status| &status.conditions);
    let mut ready = conditions.filter(|c| c.kind == ConditionType::Ready.as_str());
    ready.any(|c| c.status == ConditionStatus::True)
}

fn tell_rebalance(
    object: &ConsumerGroup,
    needs: &Needs<'_>,
    running: &RunningGroup,
    status: &GroupStatus,
) {
    let Some(rebalance) = running.remember(|memory| memory.rebalance_to_tell(status)) else {
        return;
    };
    let details = status.details.clone().unwrap_or_default();
    let took = rebalance.took.as_secs_f64();
    let text = format!(
        "{}; {} of {} partitions have owners among {} members, after {took:.1} s",
        rebalance.reason,
        details.assigned,
        details.partitions,
        details.members.len(),
    );
    let note = Note {
        kind: EventKind::Normal,
        reason: EventReason::Rebalanced,
        action: "Rebalance",
        text,
    };
    needs.events.record(&reference(object), note);
}

async fn write(
    object: &ConsumerGroup,
    key: &ObjectKey,
    needs: &Needs<'_>,
    known: &Known<'_>,
    running: Option<&RunningGroup>,
) -> Result<(), K8sError> {
    let next = status(object, known);
    let written_ago = running.and_then(|running| {
        let written = running.remember(|memory| memory.written_at)?;
        Some(clock::now().since(written))
    });
    if !is_due(object.status.as_ref(), &next, written_ago) {
        return Ok(());
    }
    let api: Api<ConsumerGroup> = Api::namespaced(needs.client.clone(), &key.namespace);
    k8s::apply_status(&api, &key.name, &next).await?;
    if let Some(running) = running {
        running.remember(|memory| memory.written_at = Some(clock::now()));
    }
    Ok(())
}

/// An object that cannot be read says so in its own status, and hinders nobody else. What its status
/// knows of the group's state stays there.
pub(in crate::controller) async fn report_invalid(
    client: &Client,
    invalid: &InvalidObject,
) -> Result<(), K8sError> {
    let namespace = invalid.metadata.namespace.clone().unwrap_or_default();
    let name = invalid.metadata.name.clone().unwrap_or_default();
    let resource = ApiResource::erase::<ConsumerGroup>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &resource);
    let Some(object) = k8s::get_opt(&api, &name).await? else {
        return Ok(());
    };
    let status = object.data.get("status").cloned().unwrap_or_default();
    let before = status.get("conditions").cloned().unwrap_or_default();
    let before: Vec<Condition> = serde_json::from_value(before).unwrap_or_default();
    let message = format!("this object cannot be read: {}", invalid.error);
    let mut conditions = Conditions::default();
    conditions.fails(ConditionType::Ready, Reason::InvalidSpec, message.as_str());
    let stalled = ConditionType::Stalled;
    conditions.set(stalled, ConditionStatus::True, Reason::InvalidSpec, message);
    let next = conditions.after(&before, object.metadata.generation);
    if next == before {
        return Ok(());
    }
    // All of it is applied: what an apply leaves out is taken away.
    let mut status = status.as_object().cloned().unwrap_or_default();
    status.insert("conditions".to_owned(), json!(next));
    let patch = json!({
        "apiVersion": "lockstep.dev/v1alpha1",
        "kind": "ConsumerGroup",
        "status": status,
    });
    let params = PatchParams::apply(FieldManager::Status.as_str()).force();
    let patched = api
        .patch_status(&name, &params, &Patch::Apply(&patch))
        .await;
    let what = format!("ConsumerGroup {namespace}/{name}");
    patched
        .map(drop)
        .map_err(|error| K8sError::of(what, &error))
}
