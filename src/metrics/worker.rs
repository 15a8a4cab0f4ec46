//! What a worker counts. No partition label: a member may hold a thousand of them.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

use super::Metrics;

/// The metrics of one member. Cheap to clone; every clone counts into the same.
#[derive(Clone, Debug)]
pub struct WorkerMetrics {
    /// Messages handed to the application, redeliveries included.
    pub messages_delivered: Counter,
    /// Messages that the application has acknowledged.
    pub acked: Counter,
    /// Messages that the application has given back as failed.
    pub nacked: Counter,
    /// Messages handed over more than once.
    pub redelivered: Counter,
    /// Messages published to the dead-letter subject.
    pub dead_lettered: Counter,
    /// Commits that found a newer owner on record.
    pub fenced: Counter,
    /// Messages that would have been handed over out of order; stays 0.
    pub order_violations: Counter,
    /// Messages in the application's hands.
    pub in_flight: Gauge,
    /// Messages read and not yet handed over.
    pub buffered: Gauge,
    /// Partitions held.
    pub partitions: Gauge,
    /// From the hand-over of a message to its acknowledgement.
    pub processing_seconds: Histogram,
    /// From the server's storing of a message to its hand-over.
    pub end_to_end_seconds: Histogram,
    /// From the sending of a commit to its answer.
    pub commit_seconds: Histogram,
    /// 1 while a session of the application is open.
    pub app_connected: Gauge,
    /// How long the lease lasts without another sign of life; 0 when it has lapsed.
    pub lease_remaining_seconds: Gauge<f64, AtomicU64>,
    /// 1 while connected to NATS.
    pub nats_connected: Gauge,
}

// === impl WorkerMetrics ===

impl WorkerMetrics {
    /// All at zero, and shown from now on.
    pub fn register(metrics: &Metrics) -> Self {
        let new = Self::unseen();
        new.register_counters(metrics);
        new.register_gauges(metrics);
        metrics.register(
            "processing_seconds",
            "From the hand-over of a message to its acknowledgement",
            new.processing_seconds.clone(),
        );
        metrics.register(
            "end_to_end_seconds",
            "From the server's storing of a message to its hand-over",
            new.end_to_end_seconds.clone(),
        );
        metrics.register(
            "commit_seconds",
            "From the sending of a commit to its answer",
            new.commit_seconds.clone(),
        );
        new
    }

    /// All at zero, and shown to nobody: for a member inside an application.
    pub fn unseen() -> Self {
        // 1 ms to about 9 minutes: up to a message's processing timeout.
        let slow = || Histogram::new(exponential_buckets(0.001, 3.0, 13));
        // 0.5 ms to about 8 s: up to an election of the bucket's leader.
        let fast = || Histogram::new(exponential_buckets(0.0005, 2.0, 15));
        Self {
            messages_delivered: Counter::default(),
            acked: Counter::default(),
            nacked: Counter::default(),
            redelivered: Counter::default(),
            dead_lettered: Counter::default(),
            fenced: Counter::default(),
            order_violations: Counter::default(),
            in_flight: Gauge::default(),
            buffered: Gauge::default(),
            partitions: Gauge::default(),
            processing_seconds: slow(),
            end_to_end_seconds: slow(),
            commit_seconds: fast(),
            app_connected: Gauge::default(),
            lease_remaining_seconds: Gauge::default(),
            nats_connected: Gauge::default(),
        }
    }

    fn register_counters(&self, metrics: &Metrics) {
        for (name, help, counter) in [
            (
                "messages_delivered",
                "Messages handed to the application, redeliveries included",
                &self.messages_delivered,
            ),
            (
                "acked",
                "Messages that the application has acknowledged",
                &self.acked,
            ),
            (
                "nacked",
                "Messages that the application has given back as failed",
                &self.nacked,
            ),
            (
                "redelivered",
                "Messages handed over more than once",
                &self.redelivered,
            ),
            (
                "dead_lettered",
                "Messages published to the dead-letter subject",
                &self.dead_lettered,
            ),
            (
                "fenced",
                "Commits that found a newer owner on record",
                &self.fenced,
            ),
            (
                "order_violations",
                "Messages that would have been handed over out of order; stays 0",
                &self.order_violations,
            ),
        ] {
            metrics.register(name, help, counter.clone());
        }
    }

    fn register_gauges(&self, metrics: &Metrics) {
        for (name, help, gauge) in [
            (
                "in_flight",
                "Messages in the application's hands",
                &self.in_flight,
            ),
            (
                "buffered",
                "Messages read and not yet handed over",
                &self.buffered,
            ),
            ("partitions", "Partitions held", &self.partitions),
            (
                "app_connected",
                "1 while a session of the application is open",
                &self.app_connected,
            ),
            (
                "nats_connected",
                "1 while connected to NATS",
                &self.nats_connected,
            ),
        ] {
            metrics.register(name, help, gauge.clone());
        }
        metrics.register(
            "lease_remaining_seconds",
            "How long the lease lasts without another sign of life",
            self.lease_remaining_seconds.clone(),
        );
    }
}
