//! From a manifest's texts to the core's values; what cannot be converted is a violation.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use crate::group::{
    AssignorSetting, Delivery, GroupRef, Membership, OnFailure, OnGap, OnTruncation, Partition,
    Pause, Retry, Sequence, ServerTime, StartFrom,
};

use super::checks::broken_rules;
use super::consumer_group::{self as raw, ConsumerGroup, ConsumerGroupSpec};
use super::convert_source;
use super::delivery::{self as raw_delivery, Order};
use super::membership::{Assignor, AssignorType};
use super::rules;
use super::start_from::{self as raw_start, StartPolicy};
use super::text::{DurationText, QuantityText};
use super::valid_group::{Settings, kubernetes_only};
use super::violation::Violation;

/// Acknowledged messages of a partition that may wait for their commit before it stops feeding.
const MAX_UNCOMMITTED: u32 = 1000;

/// How often the acknowledged prefix is committed: this, or a millisecond per partition if longer.
const COMMIT_INTERVAL: Duration = Duration::from_millis(100);

/// Least time between moves made for balance alone.
const BALANCE_INTERVAL: Duration = Duration::from_secs(10);

/// Everything that is wrong with the group, or what it says in the core's terms.
pub(super) fn settings(group: &ConsumerGroup) -> Result<Settings, Vec<Violation>> {
    let mut reading = Reading {
        found: broken_rules(group),
    };
    let spec = &group.spec;
    not_supported(spec, &mut reading);
    let name = group_ref(group, &mut reading);
    let source = convert_source::source(
        spec,
        group.metadata.name.as_deref().unwrap_or_default(),
        &mut reading,
    );
    let start_from = start_from(&spec.start_from, &mut reading);
    let delivery = delivery(spec, &mut reading);
    let membership = membership(spec, &mut reading);
    match (name, source, start_from) {
        (Some(group_ref), Some((source, create)), Some(start_from)) if reading.found.is_empty() => {
            Ok(Settings {
                group: group_ref,
                source,
                create,
                start_from,
                delivery,
                membership,
                on_truncation: on_truncation(spec.on_truncation),
                on_gap: on_gap(spec.on_gap),
                pause: Pause {
                    all: spec.paused,
                    partitions: partitions(&spec.paused_partitions),
                },
                deletion_policy: spec.deletion_policy,
                replicas: spec.replicas,
                kubernetes_only: kubernetes_only(group),
            })
        }
        _ => Err(reading.found),
    }
}

/// What was found wrong while a group is read.
pub(super) struct Reading {
    found: Vec<Violation>,
}

impl Reading {
    /// Notes what is wrong with a field.
    pub(super) fn refuse(&mut self, path: impl Into<String>, words: impl fmt::Display) {
        self.found.push(Violation::of_field(path, words));
    }

    /// The duration, or zero and a violation.
    pub(super) fn duration(&mut self, path: &str, text: &DurationText) -> Duration {
        text.parse().unwrap_or_else(|| {
            self.refuse(
                path,
                format_args!("is {:?}, which is not a duration", text.as_str()),
            );
            Duration::ZERO
        })
    }

    /// The size in bytes, or zero and a violation.
    pub(super) fn size(&mut self, path: &str, text: &QuantityText) -> u64 {
        text.parse().unwrap_or_else(|| {
            self.refuse(
                path,
                format_args!("is {:?}, which is not a size", text.as_str()),
            );
            0
        })
    }
}

fn group_ref(group: &ConsumerGroup, reading: &mut Reading) -> Option<GroupRef> {
    let metadata = &group.metadata;
    let namespace = metadata.namespace.as_deref().unwrap_or("default").parse();
    let name = metadata.name.as_deref().unwrap_or_default().parse();
    if let Err(error) = &namespace {
        reading.refuse("metadata.namespace", format_args!("is refused: {error}"));
    }
    if let Err(error) = &name {
        let said = Violation::of_rule("metadata.name", &rules::NAME);
        if !reading.found.contains(&said) {
            reading.refuse("metadata.name", format_args!("is refused: {error}"));
        }
    }
    Some(GroupRef {
        namespace: namespace.ok()?,
        name: name.ok()?,
    })
}

/// Data-plane features that are not built yet are refused by name, never ignored.
fn not_supported(spec: &ConsumerGroupSpec, reading: &mut Reading) {
    let delivery = &spec.delivery;
    let order = match delivery.order {
        Order::Partition => None,
        Order::Key => Some("spec.delivery.order: Key"),
        Order::None => Some("spec.delivery.order: None"),
    };
    let letters = delivery.on_failure == raw_delivery::OnFailure::DeadLetter;
    let fields = [
        order,
        letters.then_some("spec.delivery.onFailure: DeadLetter"),
        delivery
            .dead_letter
            .is_some()
            .then_some("spec.delivery.deadLetter"),
        delivery.push.is_some().then_some("spec.delivery.push"),
    ];
    for field in fields.into_iter().flatten() {
        reading.refuse(field, "is not supported yet");
    }
}

fn start_from(start: &raw_start::StartFrom, reading: &mut Reading) -> Option<StartFrom> {
    // Which field belongs to which policy is a rule and has been checked.
    match start.policy {
        StartPolicy::Earliest => Some(StartFrom::Earliest),
        StartPolicy::Latest => Some(StartFrom::Latest),
        StartPolicy::Sequence => start.sequence.map(|sequence| StartFrom::Sequence {
            sequence: Sequence(sequence),
        }),
        StartPolicy::Time => {
            let text = start.time.as_ref()?;
            let nanos = text.parse().map(jiff::Timestamp::as_nanosecond);
            let time = nanos
                .and_then(|nanos| i64::try_from(nanos).ok())
                .map(ServerTime);
            if time.is_none() {
                let words = "which is not a time between 1678 and 2262, as in 2026-01-31T12:00:00Z";
                let given = text.as_str();
                reading.refuse("spec.startFrom.time", format_args!("is {given:?}, {words}"));
            }
            time.map(|time| StartFrom::Time { time })
        }
        StartPolicy::Duration => start.duration.as_ref().map(|text| StartFrom::Duration {
            duration: reading.duration("spec.startFrom.duration", text),
        }),
    }
}

fn delivery(spec: &ConsumerGroupSpec, reading: &mut Reading) -> Delivery {
    let raw = &spec.delivery;
    let backoff = &raw.retry.backoff;
    Delivery {
        max_in_flight: raw.max_in_flight,
        batch: raw.batch,
        fetch_wait: reading.duration("spec.delivery.fetchWait", &raw.fetch_wait),
        batch_wait: reading.duration("spec.delivery.batchWait", &raw.batch_wait),
        buffer_messages: raw.buffer.messages,
        buffer_bytes: reading.size("spec.delivery.buffer.bytes", &raw.buffer.bytes),
        retry: Retry {
            max_attempts: raw.retry.max_attempts,
            initial: reading.duration("spec.delivery.retry.backoff.initial", &backoff.initial),
            max: reading.duration("spec.delivery.retry.backoff.max", &backoff.max),
            factor: f64::from(backoff.factor),
        },
        on_failure: match raw.on_failure {
            raw_delivery::OnFailure::Skip => OnFailure::Skip,
            // A dead-letter policy was refused as not supported.
            raw_delivery::OnFailure::Block | raw_delivery::OnFailure::DeadLetter => {
                OnFailure::Block
            }
        },
        commit_interval: COMMIT_INTERVAL.max(Duration::from_millis(u64::from(
            spec.partitioning.partitions,
        ))),
        max_uncommitted: MAX_UNCOMMITTED,
    }
}

fn membership(spec: &ConsumerGroupSpec, reading: &mut Reading) -> Membership {
    let raw = &spec.membership;
    let mut duration =
        |field: &str, text| reading.duration(&format!("spec.membership.{field}"), text);
    let processing_timeout = duration("processingTimeout", &raw.processing_timeout);
    let mut membership = Membership {
        assignor: AssignorSetting::Sticky,
        heartbeat_interval: duration("heartbeatInterval", &raw.heartbeat_interval),
        session_timeout: duration("sessionTimeout", &raw.session_timeout),
        rebalance_timeout: duration("rebalanceTimeout", &raw.rebalance_timeout),
        processing_timeout,
        initial_rebalance_delay: duration("initialRebalanceDelay", &raw.initial_rebalance_delay),
        rebalance_delay: duration("rebalanceDelay", &raw.rebalance_delay),
        balance_interval: BALANCE_INTERVAL,
        max_members: raw.max_members,
    };
    if processing_timeout.is_zero() && raw.processing_timeout.parse().is_some() {
        let words = "is zero: each message would fail at once; say how long one may take";
        reading.refuse("spec.membership.processingTimeout", words);
    }
    membership.assignor = assignor(&raw.assignor, spec.partitioning.partitions, reading);
    membership
}

fn assignor(raw: &Assignor, partitions: u32, reading: &mut Reading) -> AssignorSetting {
    match raw.kind {
        AssignorType::Sticky => AssignorSetting::Sticky,
        AssignorType::Range => AssignorSetting::Range,
        AssignorType::RoundRobin => AssignorSetting::RoundRobin,
        AssignorType::Rendezvous => AssignorSetting::Rendezvous,
        AssignorType::ZoneAware => AssignorSetting::ZoneAware,
        AssignorType::Manual => {
            let map = raw.map.clone().unwrap_or_default();
            AssignorSetting::Manual {
                map: manual_map(&map, partitions, reading),
            }
        }
    }
}

/// Each partition goes to one member at most, and exists.
fn manual_map(
    raw: &BTreeMap<String, Vec<u32>>,
    count: u32,
    reading: &mut Reading,
) -> BTreeMap<String, BTreeSet<Partition>> {
    let mut given_to = BTreeMap::new();
    for (member, list) in raw {
        for partition in list {
            let path = format!("spec.membership.assignor.map.{member}");
            if *partition >= count {
                let last = count.saturating_sub(1);
                reading.refuse(
                    &path,
                    format_args!("names partition {partition}; the last is {last}"),
                );
            }
            if let Some(other) = given_to
                .insert(*partition, member)
                .filter(|other| *other != member)
            {
                let words = format_args!("names partition {partition}, which {other} has already");
                reading.refuse(&path, words);
            }
        }
    }
    raw.iter()
        .map(|(member, list)| (member.clone(), partitions(list)))
        .collect()
}

fn partitions(numbers: &[u32]) -> BTreeSet<Partition> {
    numbers.iter().copied().map(Partition).collect()
}

fn on_truncation(raw: raw::OnTruncation) -> OnTruncation {
    match raw {
        raw::OnTruncation::Stop => OnTruncation::Stop,
        raw::OnTruncation::Earliest => OnTruncation::Earliest,
        raw::OnTruncation::Latest => OnTruncation::Latest,
    }
}

fn on_gap(raw: raw::OnGap) -> OnGap {
    match raw {
        raw::OnGap::Earliest => OnGap::Earliest,
        raw::OnGap::Stop => OnGap::Stop,
    }
}
