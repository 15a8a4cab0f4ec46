//! What a group needs in NATS, and its coordinator: provided, and what became of it told.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use kube::ResourceExt;
use kube::api::Api;
use serde_json::json;

use super::reconcile::Needs;
use super::running::{Found, Memory, RunningGroup};
use super::status::Stage;
use crate::clock;
use crate::controller::connections::Usable;
use crate::controller::objects::{ObjectKey, annotation, reference};
use crate::coordinator::provision::{self, Change, Missing, ProvisionError, Provisioned, Terms};
use crate::coordinator::{
    GroupCoordinator, LEAST_SESSION_IN_PRODUCTION, STANDALONE, Settings as CoordinatorSettings,
    standstill,
};
use crate::crd::{ConditionType, ConsumerGroup, Reason, ValidGroup};
use crate::group::{BucketId, GroupEpoch, Partition};
use crate::k8s::{EventKind, EventReason, K8sError, Note, names};

/// Provides the group and sees to it that it has a coordinator; a stage if it could not be.
pub(super) async fn provide(
    object: &ConsumerGroup,
    key: &ObjectKey,
    needs: &Needs<'_>,
    usable: &Usable,
    group: &ValidGroup,
) -> Option<Stage<'static>> {
    let terms = terms(object, needs, usable);
    needs.running.looks(key);
    let provided = match provision::provide(&usable.connection, &terms, group).await {
        Ok(provided) => provided,
        Err(error) => {
            // What runs is not well because it was well when it was last looked at.
            needs.running.look_again(key);
            let reason = reason_of(&error);
            let words = in_words(&error, object);
            tell_failure(object, needs, reason, &words);
            return Some(Stage::NotProvided(reason, words));
        }
    };
    tell(object, needs, &provided);
    if provided.change == Change::Made {
        forget(object, key, needs, names::ACCEPT_STATE_LOSS).await;
    }
    if let Some(asked) = annotation(&object.metadata, names::RESUME) {
        resume(object, key, needs, &provided, asked).await;
    }
    let before = needs.running.get(key);
    let same = before.filter(|running| {
        running.bucket == provided.meta.bucket
            && running.serial == usable.serial
            && !running.coordinator.has_ended()
    });
    let (coordinator, memory) = if let Some(running) = same {
        (
            Arc::clone(&running.coordinator),
            Arc::clone(&running.memory),
        )
    } else {
        needs.running.stop(key).await;
        let started = start(object, needs, usable, terms, &provided);
        (Arc::new(started), Arc::new(Mutex::new(Memory::default())))
    };
    let running = RunningGroup {
        uid: object.uid().unwrap_or_default(),
        generation: object.metadata.generation.unwrap_or_default(),
        serial: usable.serial,
        bucket: provided.meta.bucket.clone(),
        created: provided.facts.created,
        found: found(&provided, group),
        looked_at: clock::now(),
        coordinator,
        memory,
    };
    needs.running.put(key, running);
    None
}

/// Starts the group's coordinator.
fn start(
    object: &ConsumerGroup,
    needs: &Needs<'_>,
    usable: &Usable,
    terms: Terms,
    provided: &Provisioned,
) -> GroupCoordinator {
    let settings = CoordinatorSettings {
        id: needs.id.to_owned(),
        priority: 0,
        session_timeout: needs.session_timeout,
        terms,
        elected: true,
    };
    let (connection, metrics) = (usable.connection.clone(), needs.metrics.clone());
    let coordinator = GroupCoordinator::start(settings, connection, provided, metrics);
    let epoch = object.status.as_ref().and_then(|status| status.epoch);
    coordinator.tell(|known| {
        known.known_epoch = GroupEpoch(epoch.and_then(|e| u64::try_from(e).ok()).unwrap_or(0));
    });
    (needs.news)(&coordinator, &ObjectKey::of(object));
    coordinator
}

fn found(provided: &Provisioned, group: &ValidGroup) -> Found {
    let mut warnings = provided.warnings.clone();
    let session = group.membership.session_timeout;
    if session < LEAST_SESSION_IN_PRODUCTION {
        warnings.push(format!(
            "a session timeout of {session:?} is shorter than an election of the servers may take"
        ));
    }
    Found {
        streams: provided.streams.clone(),
        drift: provided.drift.clone(),
        gone: provided.gone.clone(),
        renewed: provided.renewed.clone(),
        warnings,
    }
}

/// Lifts partitions that stand still, as an annotation asks; what cannot be done now is tried again.
async fn resume(
    object: &ConsumerGroup,
    key: &ObjectKey,
    needs: &Needs<'_>,
    provided: &Provisioned,
    asked: &str,
) {
    let (kind, reason, text) = match asked.parse() {
        Err(why) => {
            let text = format!("annotation {}: {why}", names::RESUME);
            (EventKind::Warning, EventReason::ResumeRefused, text)
        }
        Ok(which) => match standstill::lift(&provided.bucket, &provided.group, &which).await {
            Ok(lifted) => {
                let text = in_numbers(&lifted);
                (EventKind::Normal, EventReason::Resumed, text)
            }
            Err(error) => {
                needs.running.look_again(key);
                tracing::warn!(group = %key, %error, "partitions are not resumed yet");
                return;
            }
        },
    };
    let note = Note {
        kind,
        reason,
        action: "Resume",
        text,
    };
    needs.events.record(&reference(object), note);
    forget(object, key, needs, names::RESUME).await;
}

fn in_numbers(lifted: &BTreeSet<Partition>) -> String {
    let numbers: Vec<String> = lifted.iter().map(ToString::to_string).collect();
    if numbers.is_empty() {
        "none of the partitions that are meant stands still".to_owned()
    } else {
        format!("partitions {} go on", numbers.join(", "))
    }
}

/// What was asked for once is done: its annotation goes.
async fn forget(object: &ConsumerGroup, key: &ObjectKey, needs: &Needs<'_>, name: &str) {
    if annotation(&object.metadata, name).is_none() {
        return;
    }
    let api: Api<ConsumerGroup> = Api::namespaced(needs.client.clone(), &key.namespace);
    let patch = json!({ "metadata": { "annotations": { name: null } } });
    let params = kube::api::PatchParams::default();
    if let Err(error) = api
        .patch(&key.name, &params, &kube::api::Patch::Merge(&patch))
        .await
    {
        let error = K8sError::of(key, &error);
        tracing::warn!(%error, annotation = name, "remove the annotation by hand: it would be followed again");
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
            STANDALONE => from.to_owned(),
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
        ProvisionError::OwnershipConflict { .. }
        | ProvisionError::ForeignBucket { .. }
        | ProvisionError::StreamOfAnother { .. } => Reason::OwnershipConflict,
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

/// An error's words, with what a user of Kubernetes has to do.
fn in_words(error: &ProvisionError, object: &ConsumerGroup) -> String {
    if !matches!(error, ProvisionError::StateLost { .. }) {
        return error.to_string();
    }
    format!(
        "{error}: kubectl annotate cg {} {}=true; offsets are then rebuilt from what live members \
         report, and start at startFrom where none does",
        object.name_any(),
        names::ACCEPT_STATE_LOSS
    )
}

/// Told in the log when it is new, and as an Event.
fn tell_failure(object: &ConsumerGroup, needs: &Needs<'_>, reason: Reason, words: &str) {
    let conditions = object.status.iter().flat_map(|status| &status.conditions);
    let mut known = conditions.filter(|c| c.kind == ConditionType::Provisioned.as_str());
    if !known.any(|c| c.reason == reason.as_str()) {
        tracing::warn!(group = %ObjectKey::of(object), %reason, words, "the group is not provided");
    }
    let kind = EventKind::Warning;
    let event = if reason == Reason::StateLost {
        EventReason::StateLost
    } else {
        EventReason::ProvisioningFailed
    };
    let note = Note {
        kind,
        reason: event,
        action: "Provision",
        text: words.to_owned(),
    };
    needs.events.record(&reference(object), note);
}
