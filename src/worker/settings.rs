//! What a member is started with.

use crate::group::{GroupRef, Incarnation, MemberId, Pod};
use crate::metrics::WorkerMetrics;
use crate::nats;

/// What a member is started with.
#[derive(Clone, Debug)]
pub struct WorkerSettings {
    /// How NATS is reached.
    pub nats: nats::Options,
    /// The first part of the bucket's name.
    pub bucket_prefix: String,
    /// The group.
    pub group: GroupRef,
    /// The member's label.
    pub member_id: MemberId,
    /// Its zone, if it has one.
    pub zone: Option<String>,
    /// Its pod, where there is one.
    pub pod: Option<Pod>,
    /// Where it counts.
    pub metrics: WorkerMetrics,
    /// How a key becomes a partition, where the group's source does not say it.
    pub resolver: Option<Resolver>,
}

/// A partition resolver of a library's user.
#[derive(Clone)]
pub struct Resolver(pub(super) std::sync::Arc<ResolveKey>);

/// From a key and the number of partitions to a partition.
type ResolveKey = dyn Fn(&str, u32) -> crate::group::Partition + Send + Sync;

// === impl WorkerSettings ===

impl WorkerSettings {
    /// A member of this group, with everything else as it is by default.
    pub fn new(nats: nats::Options, group: GroupRef, member_id: MemberId) -> Self {
        Self {
            nats,
            bucket_prefix: "lockstep".to_owned(),
            group,
            member_id,
            zone: None,
            pod: None,
            metrics: WorkerMetrics::unseen(),
            resolver: None,
        }
    }

    pub(super) fn identity(&self, incarnation: Incarnation) -> crate::group::member::Identity {
        crate::group::member::Identity {
            incarnation,
            id: self.member_id.clone(),
            zone: self.zone.clone(),
            pod: self.pod.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

// === impl Resolver ===

impl Resolver {
    /// A resolver: from a key and the number of partitions to a partition.
    pub fn new(
        resolve: impl Fn(&str, u32) -> crate::group::Partition + Send + Sync + 'static,
    ) -> Self {
        Self(std::sync::Arc::new(resolve))
    }
}

impl std::fmt::Debug for Resolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Resolver")
    }
}
