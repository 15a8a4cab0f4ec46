//! One `ConsumerGroup`: observed, planned, provided, reported.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::Api;
use kube::core::error_boundary::InvalidObject;
use kube::{Client, ResourceExt};
use serde_json::json;

use super::Running;
use super::cleanup;
use super::grant::is_granted;
use super::plan::{ConnectionSeen, Course, Finalizer, Observed, RunningSeen, plan};
use super::running::{Memory, RunningGroup};
use super::status::{Known, Running as RunningView, Stage, is_due, status};
use crate::clock;
use crate::controller::connections::{Connections, Usable, View};
use crate::controller::objects::{
    ObjectKey, annotation, deleted_since, has_finalizer, is_left_alone, reference, wall_clock,
};
use crate::coordinator::provision::{self, Change, Missing, ProvisionError, Provisioned, Terms};
use crate::coordinator::{GroupCoordinator, Phase, Settings as CoordinatorSettings};
use crate::crd::{BucketStatus, ConsumerGroup, Reason, ValidGroup};
use crate::group::{BucketId, Epoch, ServerTime};
use crate::k8s::{self, EventKind, EventReason, Events, FieldManager, K8sError, Note, names};
use crate::metrics::CoordinatorMetrics;

/// How often everything is looked at although nothing happened.
const RESYNC: Duration = Duration::from_secs(300);

/// How soon a group that is coordinated is reported on again.
const REPORT_AGAIN: Duration = Duration::from_secs(15);

/// How soon a group that cannot be provided is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(5);

/// What a reconcile needs of the controller.
pub(in crate::controller) struct Needs<'a> {
    pub(in crate::controller) client: &'a Client,
    pub(in crate::controller) connections: &'a Connections,
    pub(in crate::controller) running: &'a Running,
    pub(in crate::controller) events: &'a Events,
    pub(in crate::controller) metrics: &'a CoordinatorMetrics,
    /// `kubernetes/<cluster uid>`.
    pub(in crate::controller) manager: &'a str,
    /// This controller's label.
    pub(in crate::controller) id: &'a str,
    pub(in crate::controller) session_timeout: Duration,
    pub(in crate::controller) cleanup_timeout: Duration,
    /// Is told when the coordinator of this object has news.
    pub(in crate::controller) news: &'a (dyn Fn(&GroupCoordinator, &ObjectKey) + Sync),
}

/// Brings a group to what its object says; returns when to look again.
pub(in crate::controller) async fn reconcile(
    object: &ConsumerGroup,
    needs: &Needs<'_>,
) -> Result<Duration, K8sError> {
    let key = ObjectKey::of(object);
    let (seen, usable) = observe(object, &key, needs).await?;
    let plan = plan(&seen);
    keep_finalizer(object, &key, needs, plan.finalizer).await?;
    let stage = match plan.course {
        Course::LeaveAlone | Course::LetGo => return Ok(RESYNC),
        Course::CleanUp => {
            return cleanup::clean_up(object, &key, needs, usable.as_ref()).await;
        }
        Course::GiveUp => return cleanup::give_up(object, &key, needs).await,
        Course::Refuse(reason, message) => refused(&seen, reason, message),
        Course::Watch => None,
        Course::Provide => match (usable, ValidGroup::try_from(object)) {
            (Some(usable), Ok(group)) => provide(object, &key, needs, &usable, &group).await,
            (None, _) | (_, Err(_)) => None,
        },
    };
    report(object, &key, needs, stage).await
}

fn refused(seen: &Observed, reason: Reason, message: String) -> Option<Stage<'static>> {
    Some(match &seen.connection {
        ConnectionSeen::NotReady(..) => Stage::NoConnection(reason, message),
        ConnectionSeen::Ready => Stage::NotProvided(reason, message),
    })
}

async fn observe(
    object: &ConsumerGroup,
    key: &ObjectKey,
    needs: &Needs<'_>,
) -> Result<(Observed, Option<Usable>), K8sError> {
    let namespaces: Api<Namespace> = Api::all(needs.client.clone());
    let namespace = k8s::get_opt(&namespaces, &key.namespace).await?;
    let (connection, usable) = connection(object, key, needs, namespace.as_ref());
    let violations = ValidGroup::try_from(object).err().unwrap_or_default();
    let running = needs.running.get(key).map(|running| RunningSeen {
        generation: running.generation,
        same_object: running.uid == object.uid().unwrap_or_default(),
        looked_ago: if running.remember(|memory| std::mem::take(&mut memory.look_again)) {
            RESYNC
        } else {
            clock::now().since(running.looked_at)
        },
        ended: running.coordinator.has_ended()
            || running.coordinator.status().phase == Phase::Stopped,
    });
    let metadata = &object.metadata;
    let seen = Observed {
        left_alone: is_left_alone(metadata),
        deleted_since: deleted_since(metadata),
        policy: object.spec.deletion_policy,
        has_finalizer: has_finalizer(metadata),
        namespace_ends: namespace.is_none_or(|n| n.metadata.deletion_timestamp.is_some()),
        connection,
        violations: violations.iter().map(ToString::to_string).collect(),
        generation: metadata.generation.unwrap_or_default(),
        running,
        resync: RESYNC,
        cleanup_timeout: needs.cleanup_timeout,
    };
    Ok((seen, usable))
}

fn connection(
    object: &ConsumerGroup,
    key: &ObjectKey,
    needs: &Needs<'_>,
    namespace: Option<&Namespace>,
) -> (ConnectionSeen, Option<Usable>) {
    let of = connection_of(object, key);
    let usable = match needs.connections.view(&of) {
        View::Missing => {
            let words = format!("there is no NatsConnection {of}, or nothing is known of it yet");
            return (ConnectionSeen::NotReady(Reason::Unreachable, words), None);
        }
        View::NotReady(reason, message) => {
            return (ConnectionSeen::NotReady(reason, message), None);
        }
        View::Ready(usable) => usable,
    };
    let labels = namespace
        .and_then(|n| n.metadata.labels.clone())
        .unwrap_or_default();
    if of.namespace != key.namespace && !is_granted(usable.allowed.as_ref(), &labels) {
        let words = format!(
            "NatsConnection {of} does not allow namespace {}; its owner can, in \
             spec.allowedNamespaces",
            key.namespace
        );
        return (ConnectionSeen::NotReady(Reason::NotGranted, words), None);
    }
    (ConnectionSeen::Ready, Some(usable))
}

/// The connection that a group refers to.
pub(in crate::controller) fn connection_of(object: &ConsumerGroup, key: &ObjectKey) -> ObjectKey {
    let of = &object.spec.connection_ref;
    let namespace = of
        .namespace
        .as_ref()
        .map_or(key.namespace.as_str(), |n| n.as_str());
    ObjectKey::new(namespace, of.name.as_str())
}

async fn keep_finalizer(
    object: &ConsumerGroup,
    key: &ObjectKey,
    needs: &Needs<'_>,
    step: Finalizer,
) -> Result<(), K8sError> {
    let finalizers = match step {
        Finalizer::Leave => return Ok(()),
        Finalizer::Add => vec![names::FINALIZER],
        Finalizer::Remove => Vec::new(),
    };
    set_finalizers(&object.name_any(), key, needs.client, &finalizers).await
}

pub(super) async fn set_finalizers(
    name: &str,
    key: &ObjectKey,
    client: &Client,
    finalizers: &[&str],
) -> Result<(), K8sError> {
    let patch = json!({
        "apiVersion": "lockstep.dev/v1alpha1",
        "kind": "ConsumerGroup",
        "metadata": { "finalizers": finalizers },
    });
    let api: Api<ConsumerGroup> = Api::namespaced(client.clone(), &key.namespace);
    k8s::apply(&api, name, FieldManager::Controller, &patch).await?;
    Ok(())
}

/// Provides the group and sees to it that it has a coordinator; a stage if it could not be.
async fn provide(
    object: &ConsumerGroup,
    key: &ObjectKey,
    needs: &Needs<'_>,
    usable: &Usable,
    group: &ValidGroup,
) -> Option<Stage<'static>> {
    let terms = terms(object, needs, usable);
    let provided = match provision::provide(&usable.connection, &terms, group).await {
        Ok(provided) => provided,
        Err(error) => {
            let reason = reason_of(&error);
            tell_failure(object, needs, reason, &error);
            return Some(Stage::NotProvided(reason, error.to_string()));
        }
    };
    tell(object, needs, &provided);
    if provided.change == Change::Made {
        forget_acceptance(object, key, needs).await;
    }
    let before = needs.running.get(key);
    let same = before.as_ref().filter(|running| {
        running.bucket == provided.meta.bucket && !running.coordinator.has_ended()
    });
    let (coordinator, memory) = if let Some(running) = same {
        (
            Arc::clone(&running.coordinator),
            Arc::clone(&running.memory),
        )
    } else {
        needs.running.stop(key).await;
        let settings = CoordinatorSettings {
            id: needs.id.to_owned(),
            priority: 0,
            session_timeout: needs.session_timeout,
            terms,
            elected: true,
        };
        let (connection, metrics) = (usable.connection.clone(), needs.metrics.clone());
        let name = group.group.clone();
        let coordinator = GroupCoordinator::start(settings, connection, &provided, name, metrics);
        let epoch = object.status.as_ref().and_then(|status| status.epoch);
        coordinator.tell(|known| {
            known.known_epoch = Epoch(epoch.and_then(|e| u64::try_from(e).ok()).unwrap_or(0));
        });
        (needs.news)(&coordinator, key);
        (
            Arc::new(coordinator),
            Arc::new(Mutex::new(Memory::default())),
        )
    };
    needs.running.put(
        key,
        RunningGroup {
            uid: object.uid().unwrap_or_default(),
            generation: object.metadata.generation.unwrap_or_default(),
            bucket: provided.meta.bucket.clone(),
            created: provided.facts.created,
            streams: provided.streams,
            drift: provided.drift,
            looked_at: clock::now(),
            coordinator,
            memory,
        },
    );
    None
}

/// A loss of state is accepted once: the annotation goes when the state was made anew.
async fn forget_acceptance(object: &ConsumerGroup, key: &ObjectKey, needs: &Needs<'_>) {
    if annotation(&object.metadata, names::ACCEPT_STATE_LOSS).is_none() {
        return;
    }
    let api: Api<ConsumerGroup> = Api::namespaced(needs.client.clone(), &key.namespace);
    let patch = json!({ "metadata": { "annotations": { names::ACCEPT_STATE_LOSS: null } } });
    let params = kube::api::PatchParams::default();
    if let Err(error) = api
        .patch(&key.name, &params, &kube::api::Patch::Merge(&patch))
        .await
    {
        let error = K8sError::of(key, &error);
        tracing::warn!(%error, "remove the annotation by hand: a later loss would be accepted as well");
    }
}

fn terms(object: &ConsumerGroup, needs: &Needs<'_>, usable: &Usable) -> Terms {
    let known = object
        .status
        .as_ref()
        .and_then(|status| status.bucket.as_ref());
    let accepted = annotation(&object.metadata, names::ACCEPT_STATE_LOSS) == Some("true");
    let from = annotation(&object.metadata, names::ADOPT_FROM);
    Terms {
        prefix: usable.prefix.clone(),
        manager: needs.manager.to_owned(),
        missing: if accepted {
            Missing::MakeAfterLoss
        } else {
            Missing::Make
        },
        adopt_from: from.map(|from| match from {
            crate::coordinator::meta::STANDALONE => from.to_owned(),
            uid => format!("{}{uid}", provision::KUBERNETES),
        }),
        group_uid: object.uid().unwrap_or_default(),
        known_bucket: known.map(|bucket| BucketId::new(bucket.id.as_str())),
        bucket_replicas: usable.bucket_replicas,
    }
}

/// From an error to a word of the closed set.
fn reason_of(error: &ProvisionError) -> Reason {
    match error {
        ProvisionError::OwnershipConflict { .. } | ProvisionError::ForeignBucket { .. } => {
            Reason::OwnershipConflict
        }
        ProvisionError::StateLost { .. }
        | ProvisionError::NoBucket { .. }
        | ProvisionError::NoMeta { .. } => Reason::StateLost,
        ProvisionError::MetaDamaged { .. } => Reason::StateDamaged,
        ProvisionError::Immutable { .. } | ProvisionError::StreamDiffers { .. } => {
            Reason::ImmutableMismatch
        }
        ProvisionError::StreamNotFound { .. } => Reason::StreamNotFound,
        ProvisionError::Unreadable { .. } => Reason::UnsupportedRetention,
        ProvisionError::Stream(error) => of_words(&error.to_string()),
        ProvisionError::Bucket(error) => of_words(&error.to_string()),
        ProvisionError::Read(_) | ProvisionError::NotStored { .. } => Reason::Provisioning,
    }
}

/// The server's words: its codes differ between versions, these have not.
fn of_words(words: &str) -> Reason {
    let words = words.to_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|part| words.contains(part));
    if has(&["overlap"]) {
        Reason::SubjectOverlap
    } else if has(&[
        "insufficient",
        "no suitable peers",
        "limit reached",
        "limits exceeded",
        "resource",
    ]) {
        Reason::InsufficientResources
    } else if has(&["permission", "authorization"]) {
        Reason::AuthorizationViolation
    } else {
        Reason::Provisioning
    }
}

fn tell(object: &ConsumerGroup, needs: &Needs<'_>, provided: &Provisioned) {
    let about = reference(object);
    let note = |kind, reason, text: String| {
        let action = "Provision";
        needs.events.record(
            &about,
            Note {
                kind,
                reason,
                action,
                text,
            },
        );
    };
    match provided.change {
        Change::Made => {
            let streams: Vec<&str> = provided
                .streams
                .iter()
                .map(|(name, _)| name.as_str())
                .collect();
            let text = format!("bucket {} and streams {streams:?}", provided.bucket.name());
            note(EventKind::Normal, EventReason::Provisioned, text);
        }
        Change::Adopted(generation) => {
            let text = format!(
                "the state in bucket {} is taken over, from generation {} on; offsets go on where \
                 they were",
                provided.bucket.name(),
                generation.0
            );
            note(EventKind::Normal, EventReason::Adopted, text);
        }
        Change::Nothing | Change::Updated(_) => {}
    }
    if !provided.repaired.is_empty() {
        let text = format!(
            "changed by somebody, put right: {}",
            provided.repaired.join("; ")
        );
        note(EventKind::Warning, EventReason::DriftRepaired, text);
    }
}

fn tell_failure(object: &ConsumerGroup, needs: &Needs<'_>, reason: Reason, error: &ProvisionError) {
    tracing::warn!(group = %ObjectKey::of(object), %reason, %error, "the group is not provided");
    let reason = match reason {
        Reason::StateLost => EventReason::StateLost,
        _other => EventReason::ProvisioningFailed,
    };
    let (kind, action, text) = (EventKind::Warning, "Provision", error.to_string());
    needs.events.record(
        &reference(object),
        Note {
            kind,
            reason,
            action,
            text,
        },
    );
}

/// Writes the status, if it has anything new to say.
async fn report(
    object: &ConsumerGroup,
    key: &ObjectKey,
    needs: &Needs<'_>,
    stage: Option<Stage<'static>>,
) -> Result<Duration, K8sError> {
    let running = needs.running.get(key);
    let coordinated = running.as_ref().map(|running| running.coordinator.status());
    let unassigned_for = match (&running, &coordinated) {
        (Some(running), Some(status)) => running.remember(|memory| memory.unassigned_for(status)),
        (Some(_) | None, _) => Duration::ZERO,
    };
    let (stage, again) = match (stage, &running, &coordinated) {
        (Some(stage), ..) => (stage, TRY_AGAIN),
        (None, Some(running), Some(status)) => {
            let view = RunningView {
                status,
                bucket: BucketStatus {
                    id: running.bucket.to_string(),
                    created: Some(rfc3339(running.created)),
                },
                streams: &running.streams,
                drift: &running.drift,
                unassigned_for,
            };
            (Stage::Running(view), REPORT_AGAIN)
        }
        (None, ..) => {
            let words = "the group is being provided".to_owned();
            (Stage::NotProvided(Reason::Provisioning, words), TRY_AGAIN)
        }
    };
    let known = Known {
        stage,
        scale: None,
        coordinator: needs.id,
    };
    let next = status(object, &known);
    let written_ago = running.as_ref().and_then(|running| {
        let written = running.remember(|memory| memory.written_at)?;
        Some(clock::now().since(written))
    });
    if is_due(object.status.as_ref(), &next, written_ago) {
        let patch = json!({
            "apiVersion": "lockstep.dev/v1alpha1",
            "kind": "ConsumerGroup",
            "status": next,
        });
        let api: Api<ConsumerGroup> = Api::namespaced(needs.client.clone(), &key.namespace);
        k8s::apply_status(&api, &key.name, &patch).await?;
        if let Some(running) = &running {
            running.remember(|memory| memory.written_at = Some(clock::now()));
        }
    }
    Ok(again)
}

/// An object that cannot be read says so in its own status, and hinders nobody else.
pub(in crate::controller) async fn report_invalid(
    client: &Client,
    invalid: &InvalidObject,
) -> Result<(), K8sError> {
    let namespace = invalid.metadata.namespace.clone().unwrap_or_default();
    let name = invalid.metadata.name.clone().unwrap_or_default();
    let message = format!("this object cannot be read: {}", invalid.error);
    let condition = |kind: &str, status: &str| {
        json!({
            "type": kind, "status": status, "reason": Reason::InvalidSpec.as_str(),
            "message": message, "lastTransitionTime": wall_clock(),
            "observedGeneration": invalid.metadata.generation,
        })
    };
    let patch = json!({
        "apiVersion": "lockstep.dev/v1alpha1",
        "kind": "ConsumerGroup",
        "status": { "conditions": [condition("Ready", "False"), condition("Stalled", "True")] },
    });
    let api: Api<kube::core::DynamicObject> = Api::namespaced_with(
        client.clone(),
        &namespace,
        &kube::core::ApiResource::erase::<ConsumerGroup>(&()),
    );
    let params = kube::api::PatchParams::apply(FieldManager::Status.as_str()).force();
    let patched = api
        .patch_status(&name, &params, &kube::api::Patch::Apply(&patch))
        .await;
    patched
        .map(drop)
        .map_err(|error| K8sError::of(format!("ConsumerGroup {namespace}/{name}"), &error))
}

fn rfc3339(time: ServerTime) -> String {
    let seconds = time.0.div_euclid(1_000_000_000);
    jiff::Timestamp::from_second(seconds).map_or_else(|_| String::new(), |time| time.to_string())
}

// === impl Memory ===

impl Memory {
    /// For how long partitions have had no owner although members are there.
    fn unassigned_for(&mut self, status: &crate::coordinator::GroupStatus) -> Duration {
        let details = status.details.as_ref();
        let unassigned =
            details.is_some_and(|d| !d.members.is_empty() && d.assigned < d.partitions);
        if !unassigned {
            self.unassigned_since = None;
            return Duration::ZERO;
        }
        let since = *self.unassigned_since.get_or_insert_with(clock::now);
        clock::now().since(since)
    }
}
