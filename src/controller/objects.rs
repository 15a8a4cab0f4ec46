//! Small things about Kubernetes objects that every reconciler needs.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp as WallClock;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};

use crate::clock;
use crate::crd::{Condition, ConditionStatus, ConditionType, Reason};
use crate::group::ServerTime;
use crate::k8s::{cut, names};

/// Namespace and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ObjectKey {
    pub(super) namespace: String,
    pub(super) name: String,
}

/// Conditions as they are to be, without the times that Kubernetes keeps with them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Conditions(BTreeMap<ConditionType, Wanted>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    status: ConditionStatus,
    reason: Reason,
    message: String,
}

// === impl ObjectKey ===

impl ObjectKey {
    pub(super) fn of(object: &impl Resource) -> Self {
        Self {
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
        }
    }

    pub(super) fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

impl std::fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

// === impl Conditions ===

impl Conditions {
    pub(super) fn set(
        &mut self,
        kind: ConditionType,
        status: ConditionStatus,
        reason: Reason,
        message: impl Into<String>,
    ) {
        let message = cut(message.into(), LONGEST_MESSAGE);
        let wanted = Wanted {
            status,
            reason,
            message,
        };
        self.0.insert(kind, wanted);
    }

    pub(super) fn holds(&mut self, kind: ConditionType, message: &str) {
        self.set(kind, ConditionStatus::True, Reason::AsExpected, message);
    }

    pub(super) fn fails(
        &mut self,
        kind: ConditionType,
        reason: Reason,
        message: impl Into<String>,
    ) {
        self.set(kind, ConditionStatus::False, reason, message);
    }

    pub(super) fn unknown(&mut self, kind: ConditionType, reason: Reason, message: &str) {
        self.set(kind, ConditionStatus::Unknown, reason, message);
    }

    /// As the object's status holds them: a time of transition stays while the status does.
    pub(super) fn after(&self, before: &[Condition], generation: Option<i64>) -> Vec<Condition> {
        let now = wall_clock();
        let next = self.0.iter().map(|(kind, wanted)| {
            let old = before.iter().find(|c| c.kind == kind.as_str());
            let same = old.filter(|old| old.status == wanted.status);
            Condition {
                kind: kind.as_str().to_owned(),
                status: wanted.status,
                observed_generation: generation,
                last_transition_time: same
                    .map_or_else(|| now.clone(), |old| old.last_transition_time.clone()),
                reason: wanted.reason.as_str().to_owned(),
                message: wanted.message.clone(),
            }
        });
        next.collect()
    }
}

/// The schema's bound of a message.
const LONGEST_MESSAGE: usize = 4096;

/// The time as status fields write it, to the second.
pub(super) fn wall_clock() -> String {
    rfc3339(clock::unix_now())
}

/// A time as status fields write it, to the second.
pub(super) fn rfc3339(time: ServerTime) -> String {
    let seconds = time.0.div_euclid(1_000_000_000);
    WallClock::from_second(seconds).map_or_else(|_| String::new(), |time| time.to_string())
}

/// How long ago the object was asked to be deleted; none if it was not.
pub(super) fn deleted_since(metadata: &ObjectMeta) -> Option<Duration> {
    let at = metadata.deletion_timestamp.as_ref()?.0.as_second();
    let now = clock::unix_now().0.div_euclid(1_000_000_000);
    Some(Duration::from_secs(
        u64::try_from(now - at).unwrap_or_default(),
    ))
}

/// Whether somebody has asked that nothing be written for the object.
pub(super) fn is_left_alone(metadata: &ObjectMeta) -> bool {
    annotation(metadata, names::RECONCILE) == Some("disabled")
}

pub(super) fn annotation<'a>(metadata: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

pub(super) fn has_finalizer(metadata: &ObjectMeta) -> bool {
    let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
    finalizers.iter().any(|f| f == names::FINALIZER)
}

/// What an Event is about.
pub(super) fn reference<K: Resource<DynamicType = ()>>(object: &K) -> ObjectReference {
    object.object_ref(&())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_transition_stays_while_the_status_does() {
        let mut conditions = Conditions::default();
        conditions.holds(ConditionType::Ready, "all is well");
        let mut before = conditions.after(&[], Some(1));
        "2026-01-01T00:00:00Z".clone_into(&mut before[0].last_transition_time);
        conditions.holds(ConditionType::Ready, "still");
        let same = conditions.after(&before, Some(2));
        assert_eq!(same[0].last_transition_time, "2026-01-01T00:00:00Z");
        assert_eq!(same[0].message, "still");
        conditions.fails(ConditionType::Ready, Reason::NoCoordinator, "nobody");
        let other = conditions.after(&before, Some(2));
        assert_ne!(other[0].last_transition_time, "2026-01-01T00:00:00Z");
    }
}
