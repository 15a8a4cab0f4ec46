//! What a coordinator shows of each group that it serves.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

use super::partitions::PartitionMetrics;
use super::{Metrics, words};
use crate::group::GroupRef;

/// Which group.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct GroupLabels {
    namespace: String,
    group: String,
}

/// Which members of which group.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct MembersLabels {
    namespace: String,
    group: String,
    state: MemberStanding,
}

/// Which partitions of which group.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct PartitionsLabels {
    namespace: String,
    group: String,
    state: PartitionState,
}

/// Rebalances of which group, and why.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct RebalanceLabels {
    namespace: String,
    group: String,
    reason: RebalanceReason,
}

words! {
    /// How a member stands in its group.
    MemberStanding {
        /// May own partitions.
        Active = "active",
        /// Waits: too many members, a duplicate, no application.
        Standby = "standby",
        /// Is leaving.
        Draining = "draining",
    }
}

words! {
    /// What a partition is in.
    PartitionState {
        /// One owner.
        Assigned = "assigned",
        /// An owner that is letting go.
        Revoking = "revoking",
        /// Nobody.
        Unassigned = "unassigned",
        /// Stopped by its commit record.
        Stopped = "stopped",
    }
}

words! {
    /// Why the assignment changed.
    RebalanceReason {
        /// Members joined.
        Joined = "joined",
        /// Members left cleanly.
        Left = "left",
        /// Members fell silent.
        Died = "died",
        /// A new life took the place of an old one.
        Replaced = "replaced",
        /// Members became able or unable to own partitions.
        Eligibility = "eligibility",
        /// The group's settings changed.
        Settings = "settings",
        /// Partitions were released and granted again.
        Released = "released",
        /// Partitions did not come back in time.
        TimedOut = "timed_out",
        /// Anything else.
        Other = "other",
    }
}

/// The metrics of all groups of a process. Cheap to clone; every clone counts into the same.
#[derive(Clone, Debug)]
pub struct CoordinatorMetrics {
    /// 1 while this process coordinates the group.
    pub coordinator_active: Family<GroupLabels, Gauge>,
    /// The term that it coordinates under.
    pub group_term: Family<GroupLabels, Gauge>,
    /// The edition of the group document.
    pub group_epoch: Family<GroupLabels, Gauge>,
    /// Live members by standing.
    pub group_members: Family<MembersLabels, Gauge>,
    /// Partitions by state.
    pub group_partitions: Family<PartitionsLabels, Gauge>,
    /// The age of the oldest message that is not committed; absent while unknown.
    pub group_lag_seconds: Family<GroupLabels, Gauge<f64, AtomicU64>>,
    /// What an origin still has to hand over; absent while unknown, and where nothing is derived.
    pub group_source_lag: Family<GroupLabels, Gauge>,
    /// What is left to commit over all partitions; absent while unknown.
    pub group_lag: Family<GroupLabels, Gauge>,
    /// The largest lag of one partition; absent while unknown.
    pub group_lag_max_partition: Family<GroupLabels, Gauge>,
    /// Changes of the assignment.
    pub rebalances: Family<RebalanceLabels, Counter>,
    /// From a new target to the last partition's grant.
    pub rebalance_duration_seconds: Histogram,
    /// Group documents written.
    pub documents_written: Family<GroupLabels, Counter>,
    /// Age of the newest sign that our own writes come back, in seconds.
    pub echo_age_seconds: Family<GroupLabels, Gauge<f64, AtomicU64>>,
    /// 1 while connected to NATS.
    pub nats_connected: Gauge,
    /// What is shown of each partition; none unless asked for.
    pub partitions: PartitionMetrics,
}

// === impl labels ===

impl GroupLabels {
    /// The labels of this group.
    pub fn of(group: &GroupRef) -> Self {
        Self {
            namespace: group.namespace.to_string(),
            group: group.name.to_string(),
        }
    }
}

impl MembersLabels {
    /// The labels of this group's members of this standing.
    pub fn of(group: &GroupRef, state: MemberStanding) -> Self {
        let GroupLabels { namespace, group } = GroupLabels::of(group);
        Self {
            namespace,
            group,
            state,
        }
    }
}

impl PartitionsLabels {
    /// The labels of this group's partitions in this state.
    pub fn of(group: &GroupRef, state: PartitionState) -> Self {
        let GroupLabels { namespace, group } = GroupLabels::of(group);
        Self {
            namespace,
            group,
            state,
        }
    }
}

impl RebalanceLabels {
    /// The labels of this group's rebalances for this reason.
    pub fn of(group: &GroupRef, reason: RebalanceReason) -> Self {
        let GroupLabels { namespace, group } = GroupLabels::of(group);
        Self {
            namespace,
            group,
            reason,
        }
    }
}

// === impl CoordinatorMetrics ===

impl CoordinatorMetrics {
    /// No group yet, and shown from now on; no single partition.
    pub fn register(metrics: &Metrics) -> Self {
        Self::of(metrics, PartitionMetrics::default())
    }

    /// The same, with the single partitions of groups that have at most this many.
    pub fn register_with_partitions(metrics: &Metrics, most: usize) -> Self {
        Self::of(metrics, PartitionMetrics::register(metrics, most))
    }

    fn of(metrics: &Metrics, partitions: PartitionMetrics) -> Self {
        let new = Self {
            coordinator_active: Family::default(),
            group_term: Family::default(),
            group_epoch: Family::default(),
            group_members: Family::default(),
            group_partitions: Family::default(),
            group_lag: Family::default(),
            group_lag_seconds: Family::default(),
            group_source_lag: Family::default(),
            group_lag_max_partition: Family::default(),
            rebalances: Family::default(),
            // 10 ms to about 160 s: past a rebalance timeout and a session timeout.
            rebalance_duration_seconds: Histogram::new(exponential_buckets(0.01, 2.0, 15)),
            documents_written: Family::default(),
            echo_age_seconds: Family::default(),
            nats_connected: Gauge::default(),
            partitions,
        };
        new.register_groups(metrics);
        new.register_work(metrics);
        new
    }

    fn register_groups(&self, metrics: &Metrics) {
        for (name, help, family) in [
            (
                "coordinator_active",
                "1 while this process coordinates the group",
                &self.coordinator_active,
            ),
            (
                "group_term",
                "The term under which this process coordinates",
                &self.group_term,
            ),
            (
                "group_epoch",
                "The edition of the group document",
                &self.group_epoch,
            ),
            (
                "group_lag",
                "Messages left to commit; absent while unknown",
                &self.group_lag,
            ),
            (
                "group_lag_max_partition",
                "The largest lag of one partition; absent while unknown",
                &self.group_lag_max_partition,
            ),
            (
                "group_source_lag",
                "Messages of an origin that the group's stream has not taken over; absent while unknown",
                &self.group_source_lag,
            ),
        ] {
            metrics.register(name, help, family.clone());
        }
        metrics.register(
            "group_lag_seconds",
            "Age of the oldest message that is not committed; absent while unknown",
            self.group_lag_seconds.clone(),
        );
        metrics.register(
            "group_members",
            "Live members by standing",
            self.group_members.clone(),
        );
        metrics.register(
            "group_partitions",
            "Partitions by state",
            self.group_partitions.clone(),
        );
    }

    fn register_work(&self, metrics: &Metrics) {
        metrics.register(
            "rebalances",
            "Changes of the assignment",
            self.rebalances.clone(),
        );
        metrics.register(
            "rebalance_duration_seconds",
            "From a new target to the last partition's grant",
            self.rebalance_duration_seconds.clone(),
        );
        metrics.register(
            "documents_written",
            "Group documents written",
            self.documents_written.clone(),
        );
        metrics.register(
            "echo_age_seconds",
            "Age of the newest sign that our own writes come back",
            self.echo_age_seconds.clone(),
        );
        metrics.register(
            "nats_connected",
            "1 while connected to NATS",
            self.nats_connected.clone(),
        );
    }

    /// Removes every series of a group that is no longer served.
    pub fn forget(&self, group: &GroupRef) {
        let labels = GroupLabels::of(group);
        self.coordinator_active.remove(&labels);
        self.group_term.remove(&labels);
        self.group_epoch.remove(&labels);
        self.group_lag.remove(&labels);
        self.group_lag_max_partition.remove(&labels);
        self.group_lag_seconds.remove(&labels);
        self.group_source_lag.remove(&labels);
        self.documents_written.remove(&labels);
        self.echo_age_seconds.remove(&labels);
        self.partitions.forget(group);
        for state in MemberStanding::ALL {
            self.group_members.remove(&MembersLabels::of(group, *state));
        }
        for state in PartitionState::ALL {
            self.group_partitions
                .remove(&PartitionsLabels::of(group, *state));
        }
        for reason in RebalanceReason::ALL {
            self.rebalances.remove(&RebalanceLabels::of(group, *reason));
        }
    }
}
