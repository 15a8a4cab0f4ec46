//! The rules that join fields, each once: the schema carries the expression and the sentence to the
//! API server, and the validator says the same sentence without one.

use serde::Serialize;

/// A rule in the API server's expression language (CEL), and what it says when it is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// The expression; `oldSelf` makes it a rule for changes.
    pub rule: &'static str,
    /// What the user is told.
    pub message: &'static str,
}

macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident: $rule:expr => $message:expr;)*) => {
        $($(#[$doc])* pub const $name: Rule = Rule { rule: $rule, message: $message };)*
    };
}

// --- The whole object.
rules! {
    /// Bucket names and labels are made of it.
    NAME: "self.metadata.name.size() <= 40 && !self.metadata.name.contains('.')"
        => "the name of a ConsumerGroup must be a DNS label of at most 40 characters (no dots)";
}

// --- Changes of a ConsumerGroup.
rules! {
    /// On `spec.connectionRef`.
    CONNECTION_IMMUTABLE: "self == oldSelf"
        => "connectionRef is immutable: offsets live in that NATS account; make a new group";
    /// On `spec`.
    PARTITIONING_IMMUTABLE: "self.partitioning == oldSelf.partitioning"
        => "partitioning is immutable: a new count remaps keys and breaks order; make a new group";
    /// On `spec`. Always present by default: a removal is no change.
    START_FROM_IMMUTABLE: "self.startFrom == oldSelf.startFrom"
        => "startFrom is immutable: use an OffsetReset";
    /// On `spec`.
    SOURCE_FORM_IMMUTABLE: "has(self.source.stream) == has(oldSelf.source.stream) \
        && has(self.source.derived) == has(oldSelf.source.derived) \
        && has(self.source.streams) == has(oldSelf.source.streams) \
        && has(self.source.partitions) == has(oldSelf.source.partitions)"
        => "the form of source is immutable: offsets belong to it; make a new group";
    /// On `spec`.
    STREAM_IMMUTABLE: "!has(self.source.stream) || !has(oldSelf.source.stream) \
        || (self.source.stream.name == oldSelf.source.stream.name \
        && has(self.source.stream.subjectPattern) == has(oldSelf.source.stream.subjectPattern) \
        && (!has(self.source.stream.subjectPattern) \
        || self.source.stream.subjectPattern == oldSelf.source.stream.subjectPattern))"
        => "source.stream.name and subjectPattern are immutable: make a new group";
    /// On `spec`.
    STREAM_CREATE_IMMUTABLE: "!has(self.source.stream) || !has(oldSelf.source.stream) \
        || !has(self.source.stream.create) || !has(oldSelf.source.stream.create) \
        || (self.source.stream.create.subjects == oldSelf.source.stream.create.subjects \
        && self.source.stream.create.storage == oldSelf.source.stream.create.storage)"
        => "source.stream.create.subjects and storage are immutable; maxAge, maxBytes and replicas may change";
    /// On `spec`.
    DERIVED_IMMUTABLE: "!has(self.source.derived) || !has(oldSelf.source.derived) \
        || self.source.derived == oldSelf.source.derived"
        => "source.derived is immutable: make a new group";
    /// On `spec`. What Lockstep made may get other limits.
    STREAMS_IMMUTABLE: "!has(self.source.streams) || !has(oldSelf.source.streams) \
        || (self.source.streams.pattern == oldSelf.source.streams.pattern \
        && has(self.source.streams.create) == has(oldSelf.source.streams.create) \
        && (!has(self.source.streams.create) \
        || self.source.streams.create.storage == oldSelf.source.streams.create.storage))"
        => "source.streams is immutable: make a new group";
    /// On `spec`.
    PARTITIONS_IMMUTABLE: "!has(self.source.partitions) || !has(oldSelf.source.partitions) \
        || self.source.partitions == oldSelf.source.partitions"
        => "source.partitions is immutable: make a new group";
}

// --- The source of a ConsumerGroup.
rules! {
    /// On `spec.source`.
    SOURCE_ONE_FORM: "[has(self.stream), has(self.derived), has(self.streams), has(self.partitions)]\
        .exists_one(x, x)"
        => "source needs exactly one of stream, derived, streams, partitions";
    /// On `spec.source.streams`.
    STREAMS_PATTERN: "self.pattern.contains('{partition}')"
        => "source.streams.pattern must contain {partition}";
    /// On `spec.source.stream`.
    STREAM_CREATE_OR_PATTERN: "has(self.create) != has(self.subjectPattern)"
        => "source.stream needs exactly one of create (Lockstep makes the stream) and subjectPattern (publishers already write the partition)";
    /// On `spec.source.stream`.
    SUBJECT_PATTERN_TOKEN: "!has(self.subjectPattern) \
        || self.subjectPattern.split('.').filter(t, t == '{partition}').size() == 1"
        => "subjectPattern needs the token {partition} exactly once, as a whole token";
    /// On `spec`.
    PARTITIONS_COUNT: "!has(self.source.partitions) \
        || self.source.partitions.size() == self.partitioning.partitions"
        => "source.partitions must list exactly partitioning.partitions entries";
    /// On `spec`.
    PARTITIONS_RANGE: "!has(self.source.partitions) \
        || self.source.partitions.all(p, p.partition < self.partitioning.partitions)"
        => "source.partitions[].partition must be 0..partitions-1";
    /// On `spec`.
    KEY_TOKENS_PLACE: "!has(self.partitioning.keyTokens) || has(self.source.derived) \
        || (has(self.source.stream) && has(self.source.stream.create))"
        => "keyTokens applies only where the server computes the partition (source.stream.create, source.derived)";
    /// On `spec`.
    START_SEQUENCE_PLACE: "self.startFrom.policy != 'Sequence' || has(self.source.stream) \
        || has(self.source.derived)"
        => "startFrom Sequence needs a single-stream source";
    /// On `spec.startFrom`.
    START_SEQUENCE: "(self.policy == 'Sequence') == has(self.sequence)"
        => "startFrom.sequence is required for policy Sequence and forbidden otherwise";
    /// On `spec.startFrom`.
    START_TIME: "(self.policy == 'Time') == has(self.time)"
        => "startFrom.time is required for policy Time and forbidden otherwise";
    /// On `spec.startFrom`.
    START_DURATION: "(self.policy == 'Duration') == has(self.duration)"
        => "startFrom.duration is required for policy Duration and forbidden otherwise";
    /// On `spec`.
    PAUSED_RANGE: "!has(self.pausedPartitions) \
        || self.pausedPartitions.all(p, p < self.partitioning.partitions)"
        => "pausedPartitions must be smaller than partitions";
}

// --- The membership of a ConsumerGroup.
rules! {
    /// On `spec.membership`.
    FOUR_HEARTBEATS: "duration(self.heartbeatInterval) + duration(self.heartbeatInterval) \
        + duration(self.heartbeatInterval) + duration(self.heartbeatInterval) \
        <= duration(self.sessionTimeout)"
        => "sessionTimeout must be at least four heartbeatIntervals";
    /// On `spec.membership`.
    HEARTBEAT_RANGE: "duration(self.heartbeatInterval) >= duration('500ms')"
        => "heartbeatInterval must be at least 500ms";
    /// On `spec.membership`.
    SESSION_RANGE: "duration(self.sessionTimeout) >= duration('6s') \
        && duration(self.sessionTimeout) <= duration('30m')"
        => "sessionTimeout must be between 6s and 30m";
    /// On `spec.membership`.
    REBALANCE_RANGE: "duration(self.rebalanceTimeout) >= duration('1s') \
        && duration(self.rebalanceTimeout) <= duration('1h')"
        => "rebalanceTimeout must be between 1s and 1h";
    /// On `spec.membership.assignor`.
    ASSIGNOR_MAP: "(self.type == 'Manual') == has(self.map)"
        => "assignor.map is required for type Manual and forbidden otherwise";
}

// --- The delivery of a ConsumerGroup.
rules! {
    /// On `spec.delivery`.
    DEAD_LETTER: "(self.onFailure == 'DeadLetter') == has(self.deadLetter)"
        => "deadLetter is required for onFailure DeadLetter and forbidden otherwise";
    /// On `spec.delivery.buffer`.
    BUFFER_RANGE: "quantity(self.bytes).compareTo(quantity('64Ki')) >= 0 \
        && quantity(self.bytes).compareTo(quantity('1Gi')) <= 0"
        => "buffer.bytes must be between 64Ki and 1Gi";
    /// On `spec.delivery.retry.backoff`.
    BACKOFF_ORDER: "duration(self.initial) <= duration(self.max)"
        => "retry.backoff.initial must not be larger than max";
}

// --- The scaling of a ConsumerGroup.
rules! {
    /// On `spec.scaleTargetRef`.
    SCALE_TARGET_KIND: "self.apiVersion == 'apps/v1' && self.kind in ['Deployment','StatefulSet']"
        => "scaleTargetRef must be an apps/v1 Deployment or StatefulSet";
    /// On `spec`.
    REPLICAS_TARGET: "!has(self.replicas) || has(self.scaleTargetRef)"
        => "replicas needs a scaleTargetRef: without one Lockstep never scales anything";
    /// On `spec`.
    AUTOSCALING_TARGET: "!has(self.autoscaling) || self.autoscaling.mode == 'Off' \
        || has(self.scaleTargetRef)"
        => "autoscaling needs a scaleTargetRef";
    /// On `spec`.
    MAX_REPLICAS: "!has(self.autoscaling) || !has(self.autoscaling.maxReplicas) \
        || self.autoscaling.maxReplicas <= self.membership.maxMembers"
        => "autoscaling.maxReplicas must not be larger than membership.maxMembers";
    /// On `spec.autoscaling`.
    MIN_MAX_REPLICAS: "!has(self.maxReplicas) || self.minReplicas <= self.maxReplicas"
        => "minReplicas must not be larger than maxReplicas";
    /// On `spec.autoscaling.lag`.
    LAG_TARGET: "has(self.targetPerReplica) != has(self.targetDrain)"
        => "autoscaling.lag needs exactly one of targetPerReplica and targetDrain";
}

// --- NatsConnection and OffsetReset.
rules! {
    /// On a `NatsConnection`'s `spec.auth`.
    AUTH_ONE_FORM: "[has(self.creds), has(self.nkey), has(self.userPassword), has(self.token)]\
        .exists_one(x, x)"
        => "auth needs exactly one of creds, nkey, userPassword, token";
    /// On a `NatsConnection`'s `spec`: a rule on the optional field does not run when it is added.
    DOMAIN_IMMUTABLE: "has(self.jetstreamDomain) == has(oldSelf.jetstreamDomain) \
        && (!has(self.jetstreamDomain) || self.jetstreamDomain == oldSelf.jetstreamDomain)"
        => "jetstreamDomain is immutable: the groups' state lives there; make a new NatsConnection";
    /// On a `NatsConnection`'s `spec`; always present by default.
    PREFIX_IMMUTABLE: "self.bucket.prefix == oldSelf.bucket.prefix"
        => "bucket.prefix is immutable: the groups' state is found by it; make a new NatsConnection";
    /// On an `OffsetReset`'s `spec`.
    RESET_IMMUTABLE: "self == oldSelf"
        => "the spec of an OffsetReset is immutable: make a new one";
    /// On an `OffsetReset`'s `spec.to`.
    RESET_SEQUENCES: "(self.policy == 'Sequence') == has(self.sequences)"
        => "to.sequences is required for policy Sequence and forbidden otherwise";
    /// On an `OffsetReset`'s `spec.to`.
    RESET_TIME: "(self.policy == 'Time') == has(self.time)"
        => "to.time is required for policy Time and forbidden otherwise";
    /// On an `OffsetReset`'s `spec.to`.
    RESET_DURATION: "(self.policy == 'Duration') == has(self.duration)"
        => "to.duration is required for policy Duration and forbidden otherwise";
    /// On an `OffsetReset`'s `spec.to`.
    RESET_SHIFT: "(self.policy == 'Shift') == has(self.shiftBy)"
        => "to.shiftBy is required for policy Shift and forbidden otherwise";
}
