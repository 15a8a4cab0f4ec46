//! What is shown of each partition: where somebody asked for it, and up to a bound per group.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::Metrics;
use crate::group::GroupRef;

/// Which partition of which group.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PartitionLabels {
    namespace: String,
    group: String,
    partition: u32,
}

/// Who owns which partition: the only series with a pod's name.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OwnerLabels {
    namespace: String,
    group: String,
    partition: u32,
    pod: String,
}

/// One partition as it is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionFigures {
    /// The member that owns it, by its label: the pod's name.
    pub owner: Option<String>,
    /// What is left to commit; none while it is unknown.
    pub lag: Option<u64>,
}

/// Series per partition. Cheap to clone; every clone shows the same.
#[derive(Clone, Debug, Default)]
pub struct PartitionMetrics {
    lag: Family<PartitionLabels, Gauge>,
    owner: Family<OwnerLabels, Gauge>,
    /// What is shown, so that it can be taken away.
    shown: Arc<Mutex<HashMap<GroupRef, Vec<PartitionFigures>>>>,
    most: usize,
}

// === impl PartitionMetrics ===

impl PartitionMetrics {
    /// None yet, and shown from now on: of groups with at most this many partitions.
    pub(super) fn register(metrics: &Metrics, most: usize) -> Self {
        let new = Self {
            most,
            ..Self::default()
        };
        metrics.register(
            "partition_lag",
            "Messages of the partition left to commit; absent while unknown",
            new.lag.clone(),
        );
        metrics.register(
            "partition_owner_info",
            "Which pod owns the partition; always 1",
            new.owner.clone(),
        );
        new
    }

    /// Shows a group's partitions in their order, unless there are too many.
    pub fn show(
        &self,
        group: &GroupRef,
        partitions: impl ExactSizeIterator<Item = PartitionFigures>,
    ) {
        if partitions.len() > self.most {
            return;
        }
        let next: Vec<PartitionFigures> = partitions.collect();
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let before = shown.remove(group).unwrap_or_default();
        let none = PartitionFigures::default();
        for (at, partition) in (0_u32..).zip(0..before.len().max(next.len())) {
            let of = |figures: &[PartitionFigures]| figures.get(partition).cloned();
            let (old, new) = (of(&before), of(&next));
            let (old, new) = (old.as_ref().unwrap_or(&none), new.as_ref().unwrap_or(&none));
            if old != new {
                self.change(group, at, old, new);
            }
        }
        if !next.is_empty() {
            shown.insert(group.clone(), next);
        }
    }

    fn change(&self, group: &GroupRef, at: u32, old: &PartitionFigures, new: &PartitionFigures) {
        let labels = PartitionLabels::of(group, at);
        match new.lag {
            Some(lag) => {
                let lag = i64::try_from(lag).unwrap_or(i64::MAX);
                self.lag.get_or_create(&labels).set(lag);
            }
            None => {
                self.lag.remove(&labels);
            }
        }
        if old.owner != new.owner {
            if let Some(pod) = &old.owner {
                self.owner.remove(&labels.owned_by(pod));
            }
            if let Some(pod) = &new.owner {
                self.owner.get_or_create(&labels.owned_by(pod)).set(1);
            }
        }
    }

    /// Removes every series of a group.
    pub(super) fn forget(&self, group: &GroupRef) {
        self.show(group, std::iter::empty());
    }
}

// === impl labels ===

impl PartitionLabels {
    fn of(group: &GroupRef, partition: u32) -> Self {
        Self {
            namespace: group.namespace.to_string(),
            group: group.name.to_string(),
            partition,
        }
    }

    fn owned_by(&self, pod: &str) -> OwnerLabels {
        OwnerLabels {
            namespace: self.namespace.clone(),
            group: self.group.clone(),
            partition: self.partition,
            pod: pod.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(owner: &str, lag: u64) -> PartitionFigures {
        PartitionFigures {
            owner: Some(owner.to_owned()).filter(|o| !o.is_empty()),
            lag: Some(lag),
        }
    }

    #[test]
    fn a_partition_has_one_owner_on_show_and_none_when_it_has_none() {
        let metrics = Metrics::new();
        let partitions = PartitionMetrics::register(&metrics, 64);
        let group: GroupRef = "shop/orders".parse().unwrap();
        let owners = || {
            let text = metrics.render().unwrap();
            let lines = text
                .lines()
                .filter(|l| l.starts_with("lockstep_partition_owner_info{"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        partitions.show(&group, [figures("a", 3)].into_iter());
        partitions.show(&group, [figures("b", 4)].into_iter());
        let b = r#"lockstep_partition_owner_info{namespace="shop",group="orders",partition="0",pod="b"} 1"#;
        assert_eq!(owners(), [b]);
        let lag = r#"lockstep_partition_lag{namespace="shop",group="orders",partition="0"} 4"#;
        assert!(metrics.render().unwrap().contains(lag));
        partitions.show(&group, [PartitionFigures::default()].into_iter());
        assert!(
            !metrics.render().unwrap().contains("orders"),
            "unknown is not shown as 0"
        );
        partitions.show(&group, [figures("", 0)].into_iter());
        partitions.forget(&group);
        assert!(!metrics.render().unwrap().contains("orders"));
    }

    #[test]
    fn of_a_group_with_too_many_partitions_none_is_shown() {
        let metrics = Metrics::new();
        let partitions = PartitionMetrics::register(&metrics, 2);
        let group: GroupRef = "shop/orders".parse().unwrap();
        partitions.show(&group, vec![figures("a", 1); 3].into_iter());
        assert!(!metrics.render().unwrap().contains("orders"));
        partitions.show(&group, vec![figures("a", 1); 2].into_iter());
        assert!(metrics.render().unwrap().contains("orders"));
    }
}
