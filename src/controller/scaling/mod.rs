//! `spec.replicas` of a group, and the Deployment or `StatefulSet` whose pods are its members.
//!
//! `spec.replicas` is the only request: of people, `kubectl scale`, autoscalers. The target follows it
//! within the number of partitions, and shrinks by draining: members whose pods will be taken hand
//! their partitions over first. [`plan`] decides; here it is done.

mod plan;
mod target;
mod victims;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::json;

pub(super) use self::plan::Finding;
use self::plan::{Memory, Plan, Scale, Seen};
use self::target::{Kind, Target};
use self::victims::Costs;
use super::objects::{ObjectKey, is_left_alone, reference, wall_clock};
use super::pods::{DELETION_COST, PodFact};
use crate::clock;
use crate::coordinator::MemberView;
use crate::crd::{
    Autoscaling, AutoscalingMode, ConditionStatus, ConsumerGroup, Reason, ScaleTargetRef,
};
use crate::group::Timestamp;
use crate::k8s::{ErrorKind, EventKind, EventReason, Events, FieldManager, K8sError, Note};

/// How often other autoscalers are looked for while nothing is to be done.
const LOOK_FOR_SCALERS: Duration = Duration::from_secs(60);

/// How soon a target that could not be read or scaled is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(5);

/// What is remembered of the targets of all groups. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Scaling(Arc<Mutex<HashMap<ObjectKey, Remembered>>>);

#[derive(Clone, Debug, Default)]
struct Remembered {
    memory: Memory,
    scaler: Option<String>,
    looked_for_scalers: Option<Timestamp>,
    costs_refused: bool,
    /// When the target was last written.
    scaled_at: Option<String>,
    /// What could not be done, so that it is said once.
    failed: Option<ErrorKind>,
}

/// What a look at the replicas needs.
pub(super) struct Context<'a> {
    pub(super) client: &'a Client,
    pub(super) events: &'a Events,
    /// The group's pods; none while they are not known yet.
    pub(super) pods: Option<&'a [PodFact]>,
    /// The group's members; none while nobody here coordinates it.
    pub(super) members: Option<&'a [MemberView]>,
    /// An older group with the same target, if there is one.
    pub(super) rival: Option<String>,
    /// Whether pods may be given a deletion cost.
    pub(super) deletion_costs: bool,
}

/// How a group's replicas are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ScalingReport {
    /// The target's pods and selector, as its /scale shows them; none without a target.
    pub(super) scale: Option<(i32, String)>,
    /// `ScalingActive`; none where nothing is to be scaled.
    pub(super) active: Option<Finding>,
    /// `ScalingLimited`; none where nothing is to be scaled.
    pub(super) limited: Option<Finding>,
    /// When this process last wrote the target, if it has.
    pub(super) scaled_at: Option<String>,
    /// When to look again; none: when something happens.
    pub(super) requeue_after: Option<Duration>,
    /// How many members are meant to be there.
    pub(super) declared_replicas: Option<u32>,
    /// Members that are to give their partitions up, by their ids.
    pub(super) asked_to_leave: BTreeSet<String>,
}

// === impl Scaling ===

impl Scaling {
    /// The group is gone, or no longer this process's.
    pub(super) fn forget(&self, group: &ObjectKey) {
        self.all().remove(group);
    }

    /// Forgets everything: another process decides from now on.
    pub(super) fn forget_all(&self) {
        self.all().clear();
    }

    fn recall(&self, group: &ObjectKey) -> Remembered {
        self.all().get(group).cloned().unwrap_or_default()
    }

    fn remember(&self, group: &ObjectKey, what: Remembered) {
        self.all().insert(group.clone(), what);
    }

    fn all(&self) -> std::sync::MutexGuard<'_, HashMap<ObjectKey, Remembered>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings a group's target to what is asked of it, one step; says how it is. What fails is said in
    /// a condition and tried again, and keeps nothing else from being done.
    pub(super) async fn reconcile(
        &self,
        group: &ConsumerGroup,
        context: &Context<'_>,
    ) -> ScalingReport {
        let key = ObjectKey::of(group);
        let Some(of) = &group.spec.scale_target_ref else {
            self.forget(&key);
            return without_target(group);
        };
        if is_left_alone(&group.metadata) || group.metadata.deletion_timestamp.is_some() {
            return ScalingReport::default();
        }
        let mut known = self.recall(&key);
        let mut step = Step {
            group,
            key: &key,
            of,
            context,
            known: &mut known,
        };
        let report = match step.go().await {
            Ok(report) => {
                known.failed = None;
                report
            }
            Err(error) => {
                if known.failed != Some(error.kind()) {
                    tracing::warn!(group = %key, %error, "the target cannot be scaled; trying on");
                }
                known.failed = Some(error.kind());
                failed(group, &error)
            }
        };
        self.remember(&key, known);
        report
    }
}

/// An older group of the same namespace with the same target. One that is being deleted, or that is
/// left alone, does not count.
pub(super) fn rival<'a>(
    group: &ConsumerGroup,
    others: impl IntoIterator<Item = &'a ConsumerGroup>,
) -> Option<String> {
    let of = group.spec.scale_target_ref.as_ref()?;
    let age = |group: &ConsumerGroup| {
        let at = group.metadata.creation_timestamp.as_ref();
        (at.map(|at| at.0.as_second()), group.name_any())
    };
    let older = others.into_iter().filter(|other| {
        other.namespace() == group.namespace()
            && other.spec.scale_target_ref.as_ref() == Some(of)
            && other.metadata.deletion_timestamp.is_none()
            && !is_left_alone(&other.metadata)
            && age(other) < age(group)
    });
    older
        .min_by_key(|other| age(other))
        .map(ResourceExt::name_any)
}

/// One look at one target.
struct Step<'a> {
    group: &'a ConsumerGroup,
    key: &'a ObjectKey,
    of: &'a ScaleTargetRef,
    context: &'a Context<'a>,
    known: &'a mut Remembered,
}

// === impl Step ===

impl Step<'_> {
    async fn go(&mut self) -> Result<ScalingReport, K8sError> {
        let (client, namespace) = (self.context.client, self.key.namespace.as_str());
        let target = target::read(client, namespace, self.of).await?;
        if let Some(target) = &target {
            self.look_for_scalers(target).await?;
        }
        let mut memory = self.known.memory.clone();
        let plan = plan::plan(&self.seen(target.clone()), &mut memory);
        let mut report = report(self.group, &plan, target.as_ref());
        report.scaled_at.clone_from(&self.known.scaled_at);
        self.apply(&plan, target.as_ref(), &mut report).await?;
        // What was not written is planned again from what was known before.
        self.known.memory = memory;
        Ok(report)
    }

    fn seen(&self, target: Option<Target>) -> Seen<'_> {
        let spec = &self.group.spec;
        let allowed = self.context.deletion_costs && !self.known.costs_refused;
        let timeout = spec.membership.rebalance_timeout.parse();
        Seen {
            now: clock::now(),
            group: &self.key.name,
            named: format!("{} {}", Kind::of(self.of), self.of.name),
            target,
            wanted: spec.replicas,
            partitions: spec.partitioning.partitions,
            rebalance_timeout: timeout.unwrap_or(Duration::from_secs(60)),
            rival: self.context.rival.as_deref(),
            scaler: self.known.scaler.as_deref(),
            pods: self.context.pods,
            members: self.context.members,
            costs: if allowed {
                Costs::Set
            } else {
                Costs::NotAllowed
            },
        }
    }

    /// Looks for other autoscalers: from time to time, and whenever something would be written.
    async fn look_for_scalers(&mut self, target: &Target) -> Result<(), K8sError> {
        let now = clock::now();
        let wanted = self
            .group
            .spec
            .replicas
            .map(|n| n.min(self.group.spec.partitioning.partitions));
        let at_rest = wanted.and_then(|n| i32::try_from(n).ok()) == Some(target.replicas);
        let lately = self.known.looked_for_scalers;
        let lately = lately.is_some_and(|last| now.since(last) < LOOK_FOR_SCALERS);
        if at_rest && lately {
            return Ok(());
        }
        let (client, namespace) = (self.context.client, &self.key.namespace);
        self.known.scaler = target::other_scaler(client, namespace, target).await?;
        self.known.looked_for_scalers = Some(now);
        Ok(())
    }

    async fn apply(
        &mut self,
        plan: &Plan,
        target: Option<&Target>,
        report: &mut ScalingReport,
    ) -> Result<(), K8sError> {
        if let Some(replicas) = plan.adopt {
            self.adopt(replicas).await?;
        }
        for (pod, cost) in &plan.costs {
            self.price(pod, *cost).await?;
        }
        let (Some(scale), Some(target)) = (&plan.scale, target) else {
            self.tell_foreign(plan, target);
            return Ok(());
        };
        target::scale(self.context.client, &self.key.namespace, target, scale.to).await?;
        tracing::info!(group = %self.key, %target, from = scale.from, to = scale.to, "target scaled");
        self.known.scaled_at = Some(wall_clock());
        report.scaled_at.clone_from(&self.known.scaled_at);
        self.tell_scaled(target, scale);
        self.tell_foreign(plan, Some(target));
        Ok(())
    }

    /// Writes `spec.replicas`, unless somebody else does at this moment: nothing is forced.
    async fn adopt(&self, replicas: i32) -> Result<(), K8sError> {
        let patch = json!({
            "apiVersion": "lockstep.dev/v1alpha1",
            "kind": "ConsumerGroup",
            "spec": { "replicas": replicas },
        });
        let api: Api<kube::core::DynamicObject> = Api::namespaced_with(
            self.context.client.clone(),
            &self.key.namespace,
            &kube::core::ApiResource::erase::<ConsumerGroup>(&()),
        );
        match api
            .patch(&self.key.name, &unforced(), &Patch::Apply(patch))
            .await
        {
            Ok(_) => Ok(()),
            Err(error) => match K8sError::of("spec.replicas of the ConsumerGroup", &error) {
                error if error.kind() == ErrorKind::Conflict => Ok(()),
                error => Err(error),
            },
        }
    }

    /// Writes a pod's deletion cost, or takes it back. Where this is not allowed Kubernetes takes the
    /// youngest pods, and the plan is made for that.
    async fn price(&mut self, pod: &str, cost: Option<i32>) -> Result<(), K8sError> {
        let annotations = match cost {
            Some(cost) => json!({ DELETION_COST: cost.to_string() }),
            None => json!({}),
        };
        let patch = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "annotations": annotations },
        });
        let api: Api<Pod> = Api::namespaced(self.context.client.clone(), &self.key.namespace);
        let Err(error) = api.patch(pod, &unforced(), &Patch::Apply(patch)).await else {
            return Ok(());
        };
        let error = K8sError::of(format!("Pod {pod}"), &error);
        match error.kind() {
            // It is gone, or somebody gave it a cost at this moment: theirs counts.
            ErrorKind::NotFound | ErrorKind::Conflict => Ok(()),
            ErrorKind::Forbidden => {
                self.known.costs_refused = true;
                tracing::warn!(
                    %error, group = %self.key,
                    "pods may not be given a deletion cost; the youngest are drained"
                );
                Err(error)
            }
            ErrorKind::AlreadyExists
            | ErrorKind::Invalid
            | ErrorKind::TooManyRequests
            | ErrorKind::Unreachable
            | ErrorKind::Configuration
            | ErrorKind::Other => Err(error),
        }
    }

    fn tell_scaled(&self, target: &Target, scale: &Scale) {
        let Scale { from, to, drained } = scale;
        let text = match drained {
            0 => format!("{target} is scaled from {from} to {to}"),
            1 => format!("{target} is scaled from {from} to {to}; one member was drained first"),
            n => format!("{target} is scaled from {from} to {to}; {n} members were drained first"),
        };
        self.tell(EventKind::Normal, EventReason::TargetScaled, text);
    }

    fn tell_foreign(&self, plan: &Plan, target: Option<&Target>) {
        if let (Some(foreign), Some(target)) = (&plan.foreign, target) {
            let text = format!(
                "field manager {:?} has set the replicas of {target} to {} instead of {}; they are \
                 put right: scale the ConsumerGroup instead",
                foreign.manager, foreign.wrote, foreign.instead_of
            );
            self.tell(EventKind::Warning, EventReason::TargetScaledByOther, text);
        }
    }

    fn tell(&self, kind: EventKind, reason: EventReason, text: String) {
        let action = "Scale";
        let note = Note {
            kind,
            reason,
            action,
            text,
        };
        self.context.events.record(&reference(self.group), note);
    }
}

fn unforced() -> PatchParams {
    PatchParams::apply(FieldManager::Scale.as_str())
}

fn report(group: &ConsumerGroup, plan: &Plan, target: Option<&Target>) -> ScalingReport {
    ScalingReport {
        scale: target.map(|target| (target.pods, target.selector.clone())),
        active: Some(
            autoscaler(group)
                .filter(|_| is_well(&plan.active))
                .unwrap_or(plan.active.clone()),
        ),
        limited: plan.limited.clone(),
        scaled_at: None,
        requeue_after: Some(plan.look_again),
        declared_replicas: plan.declared,
        asked_to_leave: plan.asked_to_leave.clone(),
    }
}

fn is_well(finding: &Finding) -> bool {
    finding.status == ConditionStatus::True
}

fn failed(group: &ConsumerGroup, error: &K8sError) -> ScalingReport {
    let before = group.status.as_ref();
    let scale = before.and_then(|status| Some((status.replicas?, status.selector.clone()?)));
    ScalingReport {
        scale,
        active: Some(Finding::no(Reason::TargetUnavailable, error.to_string())),
        requeue_after: Some(TRY_AGAIN),
        ..ScalingReport::default()
    }
}

fn without_target(group: &ConsumerGroup) -> ScalingReport {
    ScalingReport {
        active: autoscaler(group),
        ..ScalingReport::default()
    }
}

/// What is to be said of an autoscaler that is asked for.
fn autoscaler(group: &ConsumerGroup) -> Option<Finding> {
    match group
        .spec
        .autoscaling
        .as_ref()
        .map(|Autoscaling { mode, .. }| mode)?
    {
        AutoscalingMode::Off => None,
        AutoscalingMode::Recommend | AutoscalingMode::Active => Some(Finding::no(
            Reason::NotSupported,
            "this version has no autoscaler of its own; scale the group with kubectl scale or an HPA",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(name: &str, second: u32, target: &str) -> ConsumerGroup {
        let text = format!(
            "apiVersion: lockstep.dev/v1alpha1\nkind: ConsumerGroup\n\
             metadata: {{name: {name}, namespace: shop, \
             creationTimestamp: \"2026-01-01T00:00:{second:02}Z\"}}\n\
             spec:\n  source: {{stream: {{name: S, create: {{subjects: [\"s.*\"]}}}}}}\n  \
             partitioning: {{partitions: 4, keyTokens: [1]}}\n  \
             scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: {target}}}\n"
        );
        serde_saphyr::from_str(&text).unwrap()
    }

    #[test]
    fn of_groups_with_one_target_only_the_oldest_has_no_rival() {
        let all = [
            group("b", 2, "app"),
            group("a", 1, "app"),
            group("c", 1, "app"),
        ];
        let rivals: Vec<_> = all.iter().map(|group| rival(group, &all)).collect();
        assert_eq!(rivals, [Some("a".to_owned()), None, Some("a".to_owned())]);
        let others = [group("a", 1, "other"), group("b", 2, "app")];
        assert_eq!(rival(&others[1], &others), None);
        let mut going = [group("a", 1, "app"), group("b", 2, "app")];
        going[0].metadata.deletion_timestamp = going[0].metadata.creation_timestamp.clone();
        assert_eq!(
            rival(&going[1], &going),
            None,
            "the older one is being deleted"
        );
    }

    #[test]
    fn an_autoscaler_that_is_asked_for_is_not_supported_yet() {
        let mut asks = group("a", 1, "app");
        assert_eq!(autoscaler(&asks), None);
        asks.spec.autoscaling = Some(Autoscaling::default());
        assert_eq!(autoscaler(&asks).unwrap().reason, Reason::NotSupported);
        asks.spec.autoscaling.as_mut().unwrap().mode = AutoscalingMode::Off;
        assert_eq!(autoscaler(&asks), None);
    }
}
