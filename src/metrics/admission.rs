//! What a controller shows of its webhook.

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

use super::Metrics;

/// How the question about a pod was answered.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub enum AdmissionOutcome {
    /// It got its worker.
    Injected,
    /// It had its worker already: the second look at a pod.
    Done,
    /// It is not for Lockstep.
    Untouched,
    /// It was refused, with a sentence.
    Denied,
    /// The question could not be answered.
    Failed,
}

/// Labels of the questions.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: AdmissionOutcome,
}

/// What a controller shows of its webhook.
#[derive(Clone, Debug)]
pub struct AdmissionMetrics {
    requests: Family<OutcomeLabels, Counter>,
    /// How long answers took.
    pub seconds: Histogram,
    /// Warnings that were given to who made the pods.
    pub warnings: Counter,
    /// When the webhook's certificate expires, in seconds since 1970.
    pub certificate_expiry: Gauge,
}

// === impl AdmissionOutcome ===

impl AdmissionOutcome {
    /// Each of them.
    pub const ALL: &[Self] = &[
        Self::Injected,
        Self::Done,
        Self::Untouched,
        Self::Denied,
        Self::Failed,
    ];

    /// The label's value.
    pub fn word(self) -> &'static str {
        match self {
            Self::Injected => "injected",
            Self::Done => "done",
            Self::Untouched => "untouched",
            Self::Denied => "denied",
            Self::Failed => "failed",
        }
    }
}

impl EncodeLabelValue for AdmissionOutcome {
    fn encode(
        &self,
        encoder: &mut prometheus_client::encoding::LabelValueEncoder<'_>,
    ) -> Result<(), std::fmt::Error> {
        EncodeLabelValue::encode(&self.word(), encoder)
    }
}

// === impl AdmissionMetrics ===

impl AdmissionMetrics {
    /// Shows the series, each outcome from the start.
    pub fn register(metrics: &Metrics) -> Self {
        let made = Self {
            requests: Family::default(),
            seconds: Histogram::new(exponential_buckets(0.000_25, 2.0, 14)),
            warnings: Counter::default(),
            certificate_expiry: Gauge::default(),
        };
        for outcome in AdmissionOutcome::ALL {
            drop(
                made.requests
                    .get_or_create(&OutcomeLabels { outcome: *outcome }),
            );
        }
        metrics.register(
            "admission_requests",
            "Pods that the API server asked about, by answer",
            made.requests.clone(),
        );
        metrics.register(
            "admission_seconds",
            "How long an answer about a pod took",
            made.seconds.clone(),
        );
        metrics.register(
            "admission_warnings",
            "Warnings given to whoever made a pod",
            made.warnings.clone(),
        );
        metrics.register(
            "webhook_certificate_expiry_timestamp_seconds",
            "When the webhook's certificate expires; 0 while there is none",
            made.certificate_expiry.clone(),
        );
        made
    }

    /// Counts an answer.
    pub fn answered(&self, outcome: AdmissionOutcome) {
        self.requests
            .get_or_create(&OutcomeLabels { outcome })
            .inc();
    }

    /// How many answers there were of a kind.
    pub fn count(&self, outcome: AdmissionOutcome) -> u64 {
        self.requests
            .get_or_create(&OutcomeLabels { outcome })
            .get()
    }
}
