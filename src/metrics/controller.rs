//! What a controller shows of itself and of the objects that it looks after.
//!
//! Series of objects are the leader's alone and vanish with the object, and all of them when the
//! leader is no longer one: otherwise two controllers would tell two stories.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

use super::{Metrics, words};

words! {
    /// A kind of object.
    ObjectKind {
        /// A `ConsumerGroup`.
        ConsumerGroup = "ConsumerGroup",
        /// A `NatsConnection`.
        NatsConnection = "NatsConnection",
        /// An `OffsetReset`.
        OffsetReset = "OffsetReset",
    }
}

words! {
    /// How reconciling an object ended.
    ReconcileOutcome {
        /// The object is as it should be, or says in its conditions why it is not.
        Done = "done",
        /// It is tried again, later each time.
        Failed = "failed",
        /// The object cannot be read; it waits for a change.
        Invalid = "invalid",
    }
}

words! {
    /// Whether a condition holds.
    ConditionWord {
        /// It holds.
        True = "true",
        /// It does not.
        False = "false",
        /// Nobody can say at present.
        Unknown = "unknown",
    }
}

/// Which object.
#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// A group's object.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct GroupObject {
    namespace: String,
    group: String,
}

/// A connection's object.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ConnectionObject {
    namespace: String,
    connection: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct GroupCondition {
    namespace: String,
    group: String,
    r#type: &'static str,
    status: ConditionWord,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ConnectionCondition {
    namespace: String,
    connection: String,
    r#type: &'static str,
    status: ConditionWord,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReconcileLabels {
    kind: ObjectKind,
    outcome: ReconcileOutcome,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct KindLabels {
    kind: ObjectKind,
}

/// A group's object in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupFigures {
    /// Pods of its target, or members.
    pub replicas: Option<i32>,
    /// How many there are to be; none where nothing is scaled.
    pub desired_replicas: Option<i32>,
    /// Its conditions, by type; a type that is not here has no series.
    pub conditions: Vec<(&'static str, ConditionWord)>,
}

/// The metrics of a controller. Cheap to clone; every clone counts into the same.
#[derive(Clone, Debug)]
pub struct ControllerMetrics {
    leader: Gauge,
    replicas: Family<GroupObject, Gauge>,
    desired_replicas: Family<GroupObject, Gauge>,
    uninjected_pods: Family<GroupObject, Gauge>,
    condition: Family<GroupCondition, Gauge>,
    connection_condition: Family<ConnectionCondition, Gauge>,
    nats_connections_lost: Family<ConnectionObject, Counter>,
    reconcile: Family<ReconcileLabels, Counter>,
    reconcile_duration_seconds: Family<KindLabels, Histogram>,
    shown: Arc<Mutex<Shown>>,
}

/// What has series, so that they can be taken away, and with which conditions.
#[derive(Debug, Default)]
struct Shown {
    groups: BTreeSet<ObjectName>,
    connections: BTreeSet<ObjectName>,
    types: BTreeSet<&'static str>,
}

// === impl ControllerMetrics ===

impl ControllerMetrics {
    /// Nothing yet, and shown from now on.
    pub fn register(metrics: &Metrics) -> Self {
        // 1 ms to about 65 s: past the longest wait for NATS.
        let reconciles = || Histogram::new(exponential_buckets(0.001, 4.0, 9));
        let new = Self {
            leader: Gauge::default(),
            replicas: Family::default(),
            desired_replicas: Family::default(),
            uninjected_pods: Family::default(),
            condition: Family::default(),
            connection_condition: Family::default(),
            nats_connections_lost: Family::default(),
            reconcile: Family::default(),
            reconcile_duration_seconds: Family::new_with_constructor(reconciles),
            shown: Arc::default(),
        };
        new.register_objects(metrics);
        new.register_work(metrics);
        new
    }

    fn register_objects(&self, metrics: &Metrics) {
        let groups = [
            (
                "replicas",
                "Pods of the group's target, or its members",
                &self.replicas,
            ),
            (
                "desired_replicas",
                "How many pods there are to be; absent where nothing is scaled",
                &self.desired_replicas,
            ),
            (
                "uninjected_pods",
                "Pods with the group's label and without a worker",
                &self.uninjected_pods,
            ),
        ];
        for (name, help, family) in groups {
            metrics.register(name, help, family.clone());
        }
        metrics.register(
            "condition",
            "1 for the status that the group's condition of this type has",
            self.condition.clone(),
        );
        metrics.register(
            "connection_condition",
            "1 for the status that the connection's condition of this type has",
            self.connection_condition.clone(),
        );
        metrics.register(
            "nats_connections_lost",
            "How often a connection to NATS was lost",
            self.nats_connections_lost.clone(),
        );
    }

    fn register_work(&self, metrics: &Metrics) {
        metrics.register(
            "leader",
            "1 while this controller holds the Lease",
            self.leader.clone(),
        );
        metrics.register(
            "reconcile",
            "Objects looked at, by how it ended",
            self.reconcile.clone(),
        );
        metrics.register(
            "reconcile_duration_seconds",
            "How long it took to look at an object",
            self.reconcile_duration_seconds.clone(),
        );
    }

    /// Whether this controller holds the Lease. When it no longer does, the series of objects go.
    pub fn leads(&self, leads: Leads) {
        match leads {
            Leads::Yes => {
                self.leader.set(1);
            }
            Leads::No => {
                self.leader.set(0);
                self.forget_all();
            }
        }
    }

    /// Counts an object that was looked at.
    pub fn reconciled(&self, kind: ObjectKind, outcome: ReconcileOutcome, took: Duration) {
        self.reconcile
            .get_or_create(&ReconcileLabels { kind, outcome })
            .inc();
        let durations = self
            .reconcile_duration_seconds
            .get_or_create(&KindLabels { kind });
        durations.observe(took.as_secs_f64());
    }

    /// Shows a group's object.
    pub fn group(&self, name: &ObjectName, figures: &GroupFigures) {
        let mut shown = self.shown();
        shown.groups.insert(name.clone());
        shown
            .types
            .extend(figures.conditions.iter().map(|(kind, _)| *kind));
        let labels = GroupObject::of(name);
        set(&self.replicas, &labels, figures.replicas);
        set(&self.desired_replicas, &labels, figures.desired_replicas);
        for kind in &shown.types {
            let holds = figures.conditions.iter().find(|(of, _)| of == kind);
            for status in ConditionWord::ALL {
                let is = holds.map(|(_, word)| i32::from(word == status));
                set(
                    &self.condition,
                    &GroupCondition::of(name, kind, *status),
                    is,
                );
            }
        }
    }

    /// Shows how many pods have the group's label and no worker.
    pub fn uninjected(&self, name: &ObjectName, pods: usize) {
        self.shown().groups.insert(name.clone());
        let pods = i32::try_from(pods).unwrap_or(i32::MAX);
        set(&self.uninjected_pods, &GroupObject::of(name), Some(pods));
    }

    /// Shows a connection's object, by the types of its conditions.
    pub fn connection(&self, name: &ObjectName, conditions: &[(&'static str, ConditionWord)]) {
        let mut shown = self.shown();
        shown.connections.insert(name.clone());
        shown.types.extend(conditions.iter().map(|(kind, _)| *kind));
        for kind in &shown.types {
            let holds = conditions.iter().find(|(of, _)| of == kind);
            for status in ConditionWord::ALL {
                let is = holds.map(|(_, word)| i32::from(word == status));
                let labels = ConnectionCondition::of(name, kind, *status);
                set(&self.connection_condition, &labels, is);
            }
        }
    }

    /// Counts a connection to NATS that was lost.
    pub fn connection_lost(&self, name: &ObjectName) {
        self.shown().connections.insert(name.clone());
        let labels = ConnectionObject {
            namespace: name.namespace.clone(),
            connection: name.name.clone(),
        };
        self.nats_connections_lost.get_or_create(&labels).inc();
    }

    fn forget_group(&self, name: &ObjectName) {
        let mut shown = self.shown();
        shown.groups.remove(name);
        let labels = GroupObject::of(name);
        for family in [
            &self.replicas,
            &self.desired_replicas,
            &self.uninjected_pods,
        ] {
            family.remove(&labels);
        }
        for kind in &shown.types {
            for status in ConditionWord::ALL {
                self.condition
                    .remove(&GroupCondition::of(name, kind, *status));
            }
        }
    }

    fn forget_connection(&self, name: &ObjectName) {
        let mut shown = self.shown();
        shown.connections.remove(name);
        self.nats_connections_lost.remove(&ConnectionObject {
            namespace: name.namespace.clone(),
            connection: name.name.clone(),
        });
        for kind in &shown.types {
            for status in ConditionWord::ALL {
                self.connection_condition
                    .remove(&ConnectionCondition::of(name, kind, *status));
            }
        }
    }

    /// Removes the series of every object that is not among these.
    pub fn keep(&self, groups: &BTreeSet<ObjectName>, connections: &BTreeSet<ObjectName>) {
        let gone = {
            let shown = self.shown();
            let groups: Vec<ObjectName> = shown.groups.difference(groups).cloned().collect();
            let connections: Vec<ObjectName> =
                shown.connections.difference(connections).cloned().collect();
            (groups, connections)
        };
        gone.0.iter().for_each(|name| self.forget_group(name));
        gone.1.iter().for_each(|name| self.forget_connection(name));
    }

    fn forget_all(&self) {
        self.keep(&BTreeSet::new(), &BTreeSet::new());
    }

    fn shown(&self) -> std::sync::MutexGuard<'_, Shown> {
        // A panic of another thread leaves the sets whole.
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether this controller holds the Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leads {
    /// It does.
    Yes,
    /// It does not.
    No,
}

fn set<L>(family: &Family<L, Gauge>, labels: &L, value: Option<i32>)
where
    L: Clone + std::hash::Hash + Eq,
{
    match value {
        Some(value) => {
            family.get_or_create(labels).set(i64::from(value));
        }
        None => {
            family.remove(labels);
        }
    }
}

// === impl labels ===

impl GroupObject {
    fn of(name: &ObjectName) -> Self {
        Self {
            namespace: name.namespace.clone(),
            group: name.name.clone(),
        }
    }
}

impl GroupCondition {
    fn of(name: &ObjectName, kind: &'static str, status: ConditionWord) -> Self {
        Self {
            namespace: name.namespace.clone(),
            group: name.name.clone(),
            r#type: kind,
            status,
        }
    }
}

impl ConnectionCondition {
    fn of(name: &ObjectName, kind: &'static str, status: ConditionWord) -> Self {
        Self {
            namespace: name.namespace.clone(),
            connection: name.name.clone(),
            r#type: kind,
            status,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orders() -> ObjectName {
        ObjectName {
            namespace: "shop".to_owned(),
            name: "orders".to_owned(),
        }
    }

    #[test]
    fn a_condition_has_a_series_for_each_status_and_one_of_them_is_1() {
        let metrics = Metrics::new();
        let controller = ControllerMetrics::register(&metrics);
        let figures = |conditions: &[(&'static str, ConditionWord)]| GroupFigures {
            replicas: Some(3),
            desired_replicas: None,
            conditions: conditions.to_vec(),
        };
        controller.group(
            &orders(),
            &figures(&[
                ("Ready", ConditionWord::False),
                ("Stalled", ConditionWord::True),
            ]),
        );
        controller.group(&orders(), &figures(&[("Ready", ConditionWord::True)]));
        let text = metrics.render().unwrap();
        let of = |status: &str| {
            let series = format!(
                r#"lockstep_condition{{namespace="shop",group="orders",type="Ready",status="{status}"}} "#
            );
            text.lines()
                .find_map(|l| l.strip_prefix(&series).map(str::to_owned))
        };
        assert_eq!(of("true").as_deref(), Some("1"), "{text}");
        assert_eq!(
            (of("false").as_deref(), of("unknown").as_deref()),
            (Some("0"), Some("0"))
        );
        assert!(
            !text.contains("Stalled"),
            "a condition that is no more has no series"
        );
        assert!(text.contains(r#"lockstep_replicas{namespace="shop",group="orders"} 3"#));
        assert!(!text.contains("lockstep_desired_replicas{"));
    }

    #[test]
    fn what_is_shown_of_objects_goes_with_them_and_with_the_leadership() {
        let metrics = Metrics::new();
        let controller = ControllerMetrics::register(&metrics);
        let show = || {
            let conditions = vec![("Ready", ConditionWord::True)];
            controller.leads(Leads::Yes);
            controller.uninjected(&orders(), 2);
            controller.connection(&orders(), &conditions);
            controller.connection_lost(&orders());
            controller.group(
                &orders(),
                &GroupFigures {
                    replicas: Some(1),
                    desired_replicas: Some(2),
                    conditions,
                },
            );
            let text = metrics.render().unwrap();
            assert!(
                text.contains(r#"lockstep_uninjected_pods{namespace="shop",group="orders"} 2"#)
            );
            assert!(text.contains("lockstep_leader 1"));
        };
        show();
        let kept = BTreeSet::from([orders()]);
        controller.keep(&kept, &kept);
        assert!(metrics.render().unwrap().contains("orders"));
        controller.keep(&BTreeSet::new(), &BTreeSet::new());
        assert!(!metrics.render().unwrap().contains("orders"));
        show();
        controller.leads(Leads::No);
        let text = metrics.render().unwrap();
        assert!(
            !text.contains("orders") && text.contains("lockstep_leader 0"),
            "{text}"
        );
    }
}
