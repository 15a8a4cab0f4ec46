//! One `ConsumerGroup`: observed, planned, provided, reported.

use std::time::Duration;

use kube::api::Api;
use kube::{Client, ResourceExt};
use serde_json::json;
use tokio::sync::Semaphore;

use super::Running;
use super::cleanup;
use super::grant::is_granted;
use super::outside;
use super::plan::{ConnectionSeen, Course, Finalizer, Observed, RunningSeen, plan};
use super::provide::provide;
use super::report::report;
use super::status::Stage;
use crate::clock;
use crate::controller::connections::{Connections, Usable, View};
use crate::controller::namespaces::Namespaces;
use crate::controller::objects::{
    ObjectKey, annotation, deleted_since, has_finalizer, is_left_alone,
};
use crate::controller::pods::Pods;
use crate::controller::scaling::{Scaling, ScalingReport};
use crate::coordinator::GroupCoordinator;
use crate::crd::{ConsumerGroup, DeletionPolicy, Reason, ValidGroup};
use crate::k8s::{self, Events, FieldManager, K8sError, names};
use crate::metrics::{ControllerMetrics, CoordinatorMetrics};

/// How often everything is looked at although nothing happened.
const RESYNC: Duration = Duration::from_secs(300);

/// The same for a group that something is missing of.
const LOOK_SOONER: Duration = Duration::from_secs(30);

/// How soon a connection will have been looked at.
const IN_A_MOMENT: Duration = Duration::from_secs(1);

/// When a group is to be looked at again, unless something happens before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::controller) enum Again {
    /// After this time.
    In(Duration),
    /// Something failed: later each time.
    Later,
}

/// What a reconcile needs of the controller.
pub(in crate::controller) struct Needs<'a> {
    pub(in crate::controller) client: &'a Client,
    pub(in crate::controller) connections: &'a Connections,
    pub(in crate::controller) namespaces: &'a Namespaces,
    /// Bounds how many groups are provided at a time.
    pub(in crate::controller) providing: &'a Semaphore,
    pub(in crate::controller) running: &'a Running,
    /// Whether there is an object of this connection.
    pub(in crate::controller) is_declared: &'a (dyn Fn(&ObjectKey) -> bool + Sync),
    pub(in crate::controller) events: &'a Events,
    pub(in crate::controller) metrics: &'a CoordinatorMetrics,
    /// `kubernetes/<cluster uid>`.
    pub(in crate::controller) manager: &'a str,
    /// This controller's label.
    pub(in crate::controller) id: &'a str,
    pub(in crate::controller) session_timeout: Duration,
    pub(in crate::controller) cleanup_timeout: Duration,
    pub(in crate::controller) figures: &'a ControllerMetrics,
    pub(in crate::controller) pods: &'a Pods,
    pub(in crate::controller) scaling: &'a Scaling,
    /// An older group with the same target.
    pub(in crate::controller) rival: Option<String>,
    /// Whether pods may be given a deletion cost.
    pub(in crate::controller) deletion_costs: bool,
    /// Is told when the coordinator of this object has news.
    pub(in crate::controller) news: &'a (dyn Fn(&GroupCoordinator, &ObjectKey) + Sync),
}

/// Brings a group to what its object says; returns when to look again.
pub(in crate::controller) async fn reconcile(
    object: &ConsumerGroup,
    needs: &Needs<'_>,
) -> Result<Again, K8sError> {
    let key = ObjectKey::of(object);
    let (seen, usable) = observe(object, &key, needs).await?;
    let plan = plan(&seen);
    let scaling = match plan.course {
        // Its replicas are adopted before anything else is written.
        Course::Refuse(..) | Course::Watch | Course::Provide => {
            outside::scale(object, &key, needs).await
        }
        Course::LeaveAlone | Course::LetGo | Course::Wait | Course::CleanUp | Course::GiveUp => {
            ScalingReport::default()
        }
    };
    keep_finalizer(object, &key, needs, plan.finalizer).await?;
    if plan.course.suspends() {
        needs.running.stop(&key).await;
    }
    let stage = match plan.course {
        Course::LeaveAlone | Course::LetGo => return Ok(Again::In(RESYNC)),
        Course::Wait => return Ok(Again::In(IN_A_MOMENT)),
        Course::CleanUp => {
            let again = cleanup::clean_up(object, &key, needs, usable.as_ref()).await;
            return again.map(Again::In);
        }
        Course::GiveUp => return cleanup::give_up(object, &key, needs).await.map(Again::In),
        Course::Refuse(reason, message) => Some(refused(&seen, reason, message)),
        Course::Watch => None,
        Course::Provide => match (usable, ValidGroup::try_from(object)) {
            (Some(usable), Ok(group)) => {
                announce(object, &key, needs, &scaling).await?;
                // It is never closed: an error would only mean that nothing bounds it.
                let _turn = needs.providing.acquire().await;
                provide(object, &key, needs, &usable, &group).await
            }
            (None, _) | (_, Err(_)) => None,
        },
    };
    outside::tell(object, &key, needs, &scaling);
    let again = report(object, &key, needs, stage, &scaling).await?;
    Ok(match (again, scaling.requeue_after) {
        (Again::In(wait), Some(sooner)) => Again::In(wait.min(sooner)),
        (Again::Later | Again::In(_), _) => again,
    })
}

/// The first that is written of a group: where autoscalers find its pods.
async fn announce(
    object: &ConsumerGroup,
    key: &ObjectKey,
    needs: &Needs<'_>,
    scaling: &ScalingReport,
) -> Result<(), K8sError> {
    let known = object.status.as_ref();
    if known.is_some_and(|status| status.selector.is_some()) {
        return Ok(());
    }
    let words = "the group is being provided".to_owned();
    let stage = Stage::NotProvided(Reason::Provisioning, words);
    let told = report(object, key, needs, Some(stage), scaling).await;
    told.map(drop)
}

fn refused(seen: &Observed, reason: Reason, message: String) -> Stage<'static> {
    match &seen.connection {
        ConnectionSeen::NotReady(..) | ConnectionSeen::Unseen => {
            Stage::NoConnection(reason, message)
        }
        ConnectionSeen::Ready(_) => Stage::NotProvided(reason, message),
    }
}

async fn observe(
    object: &ConsumerGroup,
    key: &ObjectKey,
    needs: &Needs<'_>,
) -> Result<(Observed, Option<Usable>), K8sError> {
    let (connection, usable) = connection(object, key, needs).await?;
    let violations = ValidGroup::try_from(object).err().unwrap_or_default();
    let running = needs.running.get(key).map(|running| RunningSeen {
        generation: running.generation,
        same_object: running.uid == object.uid().unwrap_or_default(),
        serial: running.serial,
        well: running.found.is_well(),
        looked_ago: if running.remember(|memory| memory.look_again) {
            RESYNC
        } else {
            clock::now().since(running.looked_at)
        },
        ended: running.has_ended(),
    });
    let metadata = &object.metadata;
    let policy = object.spec.deletion_policy;
    let has_finalizer = has_finalizer(metadata);
    let may_be_added = policy == DeletionPolicy::Delete && !has_finalizer;
    let seen = Observed {
        left_alone: is_left_alone(metadata),
        deleted_since: deleted_since(metadata),
        policy,
        has_finalizer,
        namespace_ends: may_be_added && needs.namespaces.is_ending(&key.namespace).await?,
        connection,
        violations: violations.iter().map(ToString::to_string).collect(),
        generation: metadata.generation.unwrap_or_default(),
        asked: annotation(metadata, names::RESUME).is_some(),
        running,
        resync: RESYNC,
        look_sooner: LOOK_SOONER,
        cleanup_timeout: needs.cleanup_timeout,
    };
    Ok((seen, usable))
}

async fn connection(
    object: &ConsumerGroup,
    key: &ObjectKey,
    needs: &Needs<'_>,
) -> Result<(ConnectionSeen, Option<Usable>), K8sError> {
    let of = connection_of(object, key);
    let usable = match needs.connections.view(&of) {
        View::Unseen if (needs.is_declared)(&of) => return Ok((ConnectionSeen::Unseen, None)),
        View::Unseen => {
            let words = format!(
                "there is no NatsConnection {of}; make it, or name another one in \
                 spec.connectionRef of a new group"
            );
            let seen = ConnectionSeen::NotReady(Reason::Unreachable, words);
            return Ok((seen, None));
        }
        View::NotReady(reason, message) => {
            return Ok((ConnectionSeen::NotReady(reason, message), None));
        }
        View::Ready(usable) => usable,
    };
    if of.namespace != key.namespace {
        let labels = needs.namespaces.labels(&key.namespace).await?;
        if !is_granted(usable.allowed.as_ref(), &labels) {
            let words = format!(
                "NatsConnection {of} does not allow namespace {}; its owner can, in \
                 spec.allowedNamespaces",
                key.namespace
            );
            let seen = ConnectionSeen::NotReady(Reason::NotGranted, words);
            return Ok((seen, None));
        }
    }
    Ok((ConnectionSeen::Ready(usable.serial), Some(*usable)))
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
    let fields = json!({ "metadata": { "finalizers": finalizers } });
    let api: Api<ConsumerGroup> = Api::namespaced(client.clone(), &key.namespace);
    k8s::apply(&api, name, FieldManager::Controller, fields).await
}
