//! Metrics: values that are handed down to whoever counts, and one registry that shows them.
//!
//! Everything is exposed as OpenMetrics text under the prefix `lockstep_`. Labels are closed sets:
//! enums, or the names of the groups that this process was told to serve; never a text from outside.

mod admission;
mod controller;
mod coordinator;
mod partitions;
mod worker;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Metric, Registry};

pub use admission::{AdmissionMetrics, AdmissionOutcome};
pub use controller::{
    ConditionWord, ControllerMetrics, GroupFigures, Leads, ObjectKind, ObjectName, ReconcileOutcome,
};
pub use coordinator::{
    CoordinatorMetrics, GroupLabels, MemberStanding, MembersLabels, PartitionState,
    PartitionsLabels, RebalanceLabels, RebalanceReason,
};
pub use partitions::{PartitionFigures, PartitionMetrics};
pub use worker::WorkerMetrics;

/// A closed set of a label's values, each with its word.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
        pub enum $name { $($(#[$variant_doc])* $variant),+ }

        impl $name {
            /// Each of them.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The label's value.
            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl prometheus_client::encoding::EncodeLabelValue for $name {
            fn encode(
                &self,
                encoder: &mut prometheus_client::encoding::LabelValueEncoder<'_>,
            ) -> Result<(), std::fmt::Error> {
                prometheus_client::encoding::EncodeLabelValue::encode(&self.word(), encoder)
            }
        }
    };
}
use words;

/// What the answer of `/metrics` is.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All metrics of a process. Cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
}

/// Labels of the metric that says what runs.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct BuildLabels {
    version: &'static str,
}

// === impl Metrics ===

impl Metrics {
    /// A registry that says what runs, and nothing else yet.
    pub fn new() -> Self {
        let metrics = Self {
            registry: Arc::new(Mutex::new(Registry::with_prefix("lockstep"))),
        };
        let build = Family::<BuildLabels, Gauge>::default();
        build
            .get_or_create(&BuildLabels {
                version: env!("CARGO_PKG_VERSION"),
            })
            .set(1);
        metrics.register("build_info", "What runs; always 1", build);
        metrics
    }

    /// Shows a metric under this name (without the prefix, and a counter without `_total`).
    pub fn register(&self, name: &str, help: &str, metric: impl Metric) {
        self.locked().register(name, help, metric);
    }

    /// Shows what a collector says at the moment of asking.
    pub fn collect(&self, collector: Box<dyn Collector>) {
        self.locked().register_collector(collector);
    }

    /// Everything as OpenMetrics text.
    pub fn render(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.locked())?;
        Ok(text)
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Registry> {
        // A panic of another thread leaves the list of metrics whole.
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_shown_as_open_metrics_text_with_our_prefix() {
        let metrics = Metrics::new();
        let worker = WorkerMetrics::register(&metrics);
        worker.messages_delivered.inc_by(3);
        worker.commit_seconds.observe(0.02);
        let text = metrics.render().unwrap();
        for line in [
            "lockstep_messages_delivered_total 3",
            "lockstep_order_violations_total 0",
            "lockstep_commit_seconds_count 1",
            "# TYPE lockstep_in_flight gauge",
        ] {
            assert!(text.lines().any(|l| l == line), "no {line:?} in:\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
        assert!(
            text.lines()
                .filter(|l| !l.starts_with('#'))
                .all(|l| l.starts_with("lockstep_")),
            "{text}"
        );
    }

    #[test]
    fn the_series_of_a_group_vanish_with_it() {
        let metrics = Metrics::new();
        let coordinator = CoordinatorMetrics::register(&metrics);
        let group: crate::group::GroupRef = "shop/orders".parse().unwrap();
        coordinator
            .group_epoch
            .get_or_create(&GroupLabels::of(&group))
            .set(7);
        coordinator
            .group_members
            .get_or_create(&MembersLabels::of(&group, MemberStanding::Active))
            .set(2);
        let text = metrics.render().unwrap();
        assert!(
            text.contains(r#"lockstep_group_epoch{namespace="shop",group="orders"} 7"#),
            "{text}"
        );
        assert!(
            text.contains(
                r#"lockstep_group_members{namespace="shop",group="orders",state="active"} 2"#
            ),
            "{text}"
        );
        coordinator.forget(&group);
        let text = metrics.render().unwrap();
        assert!(!text.contains("orders"), "{text}");
    }
}
