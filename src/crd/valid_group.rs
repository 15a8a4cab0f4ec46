//! A group that was checked: whoever holds one need not look at its manifest again.

use std::ops::Deref;
use std::time::Duration;

use crate::group::{Delivery, GroupRef, Membership, OnGap, OnTruncation, Pause, Source, StartFrom};

use super::consumer_group::{ConnectionRef, ConsumerGroup, DeletionPolicy};
use super::convert;
use super::source::Storage;
use super::subjects::SubjectTransform;
use super::violation::Violation;

/// A group that breaks no rule, in the core's own terms.
///
/// Held as proof: the only way to one is the check of a whole [`ConsumerGroup`].
#[derive(Clone, Debug, PartialEq)]
pub struct ValidGroup(Settings);

/// What a group's manifest says.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Namespace and name.
    pub group: GroupRef,
    /// Where each partition's messages are.
    pub source: Source,
    /// The streams that Lockstep makes for the group; empty where they have to exist.
    pub create: Vec<NewStream>,
    /// Where a group without history begins.
    pub start_from: StartFrom,
    /// How messages are handed to the application.
    pub delivery: Delivery,
    /// Timers and limits of membership.
    pub membership: Membership,
    /// What a partition does when its stream lost its end.
    pub on_truncation: OnTruncation,
    /// What a partition does when retention overtook it.
    pub on_gap: OnGap,
    /// What is paused.
    pub pause: Pause,
    /// What becomes of what Lockstep made when the group is deleted.
    pub deletion_policy: DeletionPolicy,
    /// The number of members that is asked for, if the manifest says it.
    pub replicas: Option<u32>,
    /// Fields that are given and act in Kubernetes only.
    pub(super) kubernetes_only: Vec<&'static str>,
}

/// A stream that Lockstep makes. It has limits retention.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewStream {
    /// The stream's name.
    pub name: String,
    /// What publishers publish to.
    pub subjects: Vec<String>,
    /// How the server puts the partition into the stored subject; none if publishers write it.
    pub transform: Option<SubjectTransform>,
    /// The stream whose messages it takes over, in place of subjects of its own.
    pub origin: Option<Origin>,
    /// Where messages are kept.
    pub storage: Storage,
    /// How long messages are kept; none: for ever.
    pub max_age: Option<Duration>,
    /// How many bytes are kept; none: without limit.
    pub max_bytes: Option<u64>,
    /// How many servers keep the stream; none: as many as are usual there.
    pub replicas: Option<u32>,
}

/// A stream that cannot be changed, and what another one takes over of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The stream.
    pub stream: String,
    /// Subjects that are taken over, each with what it becomes.
    pub transforms: Vec<(String, String)>,
}

// === impl ValidGroup ===

impl ValidGroup {
    /// The fields that the manifest gives and that have no effect without Kubernetes, to be said
    /// once.
    pub fn ignored_without_kubernetes(&self) -> Vec<&'static str> {
        self.0.kubernetes_only.clone()
    }

    /// How many partitions the group has.
    pub fn partitions(&self) -> u32 {
        self.0.source.partitions()
    }
}

impl Deref for ValidGroup {
    type Target = Settings;
    fn deref(&self) -> &Settings {
        &self.0
    }
}

impl TryFrom<&ConsumerGroup> for ValidGroup {
    type Error = Vec<Violation>;

    /// Everything that is wrong, or a group that can be run.
    fn try_from(raw: &ConsumerGroup) -> Result<Self, Vec<Violation>> {
        convert::settings(raw).map(Self)
    }
}

/// The fields that are given and act in Kubernetes only.
pub(super) fn kubernetes_only(raw: &ConsumerGroup) -> Vec<&'static str> {
    let spec = &raw.spec;
    let given = [
        (
            "spec.connectionRef",
            spec.connection_ref != ConnectionRef::default(),
        ),
        ("spec.scaleTargetRef", spec.scale_target_ref.is_some()),
        ("spec.replicas", spec.replicas.is_some()),
        ("spec.autoscaling", spec.autoscaling.is_some()),
        ("spec.worker", spec.worker.is_some()),
    ];
    given
        .into_iter()
        .filter(|(_, given)| *given)
        .map(|(field, _)| field)
        .collect()
}
