//! The rules of `rules` once more, for where no API server evaluates them.
//!
//! One `if` per rule, in the order of the table; a test holds each against its expression's text.

use super::consumer_group::{ConsumerGroup, ConsumerGroupSpec};
use super::delivery::{Delivery, OnFailure};
use super::membership::{AssignorType, Membership};
use super::rules::{self, Rule};
use super::scaling::{Autoscaling, AutoscalingMode};
use super::source::Source;
use super::start_from::{StartFrom, StartPolicy};
use super::subjects::PARTITION;
use super::text::{DurationText, QuantityText};
use super::violation::Violation;
use std::time::Duration;

/// The rules that one object breaks, whatever it was before.
pub(super) fn broken_rules(group: &ConsumerGroup) -> Vec<Violation> {
    let spec = &group.spec;
    let mut found = Findings::default();
    let name = group.metadata.name.as_deref().unwrap_or_default();
    found.unless(
        "metadata.name",
        &rules::NAME,
        name.len() <= 40 && !name.contains('.'),
    );
    source(&spec.source, &mut found);
    start_from(&spec.start_from, &mut found);
    spec_as_a_whole(spec, &mut found);
    membership(&spec.membership, &mut found);
    delivery(&spec.delivery, &mut found);
    scaling(spec, &mut found);
    found.0
}

/// What was found so far.
#[derive(Default)]
pub(super) struct Findings(pub(super) Vec<Violation>);

impl Findings {
    pub(super) fn unless(&mut self, path: &str, rule: &Rule, holds: bool) {
        if !holds {
            self.0.push(Violation::of_rule(path, rule));
        }
    }
}

fn source(source: &Source, found: &mut Findings) {
    let forms = [
        source.stream.is_some(),
        source.derived.is_some(),
        source.streams.is_some(),
        source.partitions.is_some(),
    ];
    let given = forms.into_iter().filter(|given| *given).count();
    found.unless("spec.source", &rules::SOURCE_ONE_FORM, given == 1);
    if let Some(streams) = &source.streams {
        let named = streams.pattern.as_str().contains(PARTITION);
        found.unless("spec.source.streams", &rules::STREAMS_PATTERN, named);
    }
    if let Some(stream) = &source.stream {
        let one = stream.create.is_some() != stream.subject_pattern.is_some();
        found.unless("spec.source.stream", &rules::STREAM_CREATE_OR_PATTERN, one);
        let token = stream.subject_pattern.as_ref().is_none_or(|pattern| {
            pattern
                .as_str()
                .split('.')
                .filter(|token| *token == PARTITION)
                .count()
                == 1
        });
        found.unless("spec.source.stream", &rules::SUBJECT_PATTERN_TOKEN, token);
    }
}

fn start_from(start: &StartFrom, found: &mut Findings) {
    let path = "spec.startFrom";
    let fits = |policy, given| (start.policy == policy) == given;
    let sequence = fits(StartPolicy::Sequence, start.sequence.is_some());
    found.unless(path, &rules::START_SEQUENCE, sequence);
    found.unless(
        path,
        &rules::START_TIME,
        fits(StartPolicy::Time, start.time.is_some()),
    );
    let duration = fits(StartPolicy::Duration, start.duration.is_some());
    found.unless(path, &rules::START_DURATION, duration);
}

fn spec_as_a_whole(spec: &ConsumerGroupSpec, found: &mut Findings) {
    let count = spec.partitioning.partitions;
    let source = &spec.source;
    if let Some(list) = &source.partitions {
        found.unless(
            "spec",
            &rules::PARTITIONS_COUNT,
            list.len() as u64 == u64::from(count),
        );
        let within = list.iter().all(|entry| entry.partition < count);
        found.unless("spec", &rules::PARTITIONS_RANGE, within);
    }
    let computed = source.derived.is_some()
        || source
            .stream
            .as_ref()
            .is_some_and(|stream| stream.create.is_some());
    let keyed = spec.partitioning.key_tokens.is_none() || computed;
    found.unless("spec", &rules::KEY_TOKENS_PLACE, keyed);
    let single = source.stream.is_some() || source.derived.is_some();
    let startable = spec.start_from.policy != StartPolicy::Sequence || single;
    found.unless("spec", &rules::START_SEQUENCE_PLACE, startable);
    let paused = spec
        .paused_partitions
        .iter()
        .all(|partition| *partition < count);
    found.unless("spec", &rules::PAUSED_RANGE, paused);
}

fn membership(membership: &Membership, found: &mut Findings) {
    let path = "spec.membership";
    // A text that is no duration is reported as such, and breaks no rule besides.
    if let (Some(heartbeat), Some(session)) = (
        membership.heartbeat_interval.parse(),
        membership.session_timeout.parse(),
    ) {
        found.unless(path, &rules::FOUR_HEARTBEATS, heartbeat * 4 <= session);
    }
    let within = |text: &DurationText, least: Duration, most: Duration| {
        text.parse()
            .is_none_or(|value| (least..=most).contains(&value))
    };
    let beat = within(
        &membership.heartbeat_interval,
        Duration::from_millis(500),
        Duration::MAX,
    );
    found.unless(path, &rules::HEARTBEAT_RANGE, beat);
    let session = within(
        &membership.session_timeout,
        Duration::from_secs(6),
        Duration::from_secs(30 * 60),
    );
    found.unless(path, &rules::SESSION_RANGE, session);
    let rebalance = within(
        &membership.rebalance_timeout,
        Duration::from_secs(1),
        Duration::from_secs(60 * 60),
    );
    found.unless(path, &rules::REBALANCE_RANGE, rebalance);
    let assignor = &membership.assignor;
    let mapped = (assignor.kind == AssignorType::Manual) == assignor.map.is_some();
    found.unless("spec.membership.assignor", &rules::ASSIGNOR_MAP, mapped);
}

fn delivery(delivery: &Delivery, found: &mut Findings) {
    let lettered = (delivery.on_failure == OnFailure::DeadLetter) == delivery.dead_letter.is_some();
    found.unless("spec.delivery", &rules::DEAD_LETTER, lettered);
    let sized = |text: &QuantityText| {
        text.parse()
            .is_none_or(|b| (1 << 16..=1 << 30).contains(&b))
    };
    let buffer = sized(&delivery.buffer.bytes);
    found.unless("spec.delivery.buffer", &rules::BUFFER_RANGE, buffer);
    let backoff = &delivery.retry.backoff;
    if let (Some(initial), Some(max)) = (backoff.initial.parse(), backoff.max.parse()) {
        found.unless(
            "spec.delivery.retry.backoff",
            &rules::BACKOFF_ORDER,
            initial <= max,
        );
    }
}

fn scaling(spec: &ConsumerGroupSpec, found: &mut Findings) {
    let target = spec.scale_target_ref.as_ref();
    if let Some(target) = target {
        let known = target.api_version == "apps/v1"
            && matches!(target.kind.as_str(), "Deployment" | "StatefulSet");
        found.unless("spec.scaleTargetRef", &rules::SCALE_TARGET_KIND, known);
    }
    let asked = spec.replicas.is_none() || target.is_some();
    found.unless("spec", &rules::REPLICAS_TARGET, asked);
    if let Some(autoscaling) = &spec.autoscaling {
        let active = autoscaling.mode == AutoscalingMode::Off || target.is_some();
        found.unless("spec", &rules::AUTOSCALING_TARGET, active);
        let most = autoscaling.max_replicas;
        let admitted = most.is_none_or(|most| most <= spec.membership.max_members);
        found.unless("spec", &rules::MAX_REPLICAS, admitted);
        autoscaling_alone(autoscaling, found);
    }
}

fn autoscaling_alone(autoscaling: &Autoscaling, found: &mut Findings) {
    let ordered = autoscaling
        .max_replicas
        .is_none_or(|most| autoscaling.min_replicas <= most);
    found.unless("spec.autoscaling", &rules::MIN_MAX_REPLICAS, ordered);
    let lag = &autoscaling.lag;
    let one = lag.target_per_replica.is_some() != lag.target_drain.is_some();
    found.unless("spec.autoscaling.lag", &rules::LAG_TARGET, one);
}
