//! The status of a `ConsumerGroup`: a pure function of what is known, written sparingly.

use std::time::Duration;

use super::running::Found;
use crate::controller::objects::{Conditions, rfc3339, wall_clock};
use crate::controller::scaling::ScalingReport;
use crate::coordinator::{Details, GroupStatus, Phase, Rebalance};
use crate::crd::{
    BucketStatus, ConditionType, ConsumerGroup, ConsumerGroupStatus, LagStatus, MemberStatus,
    MembersStatus, NatsResource, PartitionsStatus, Reason, RebalanceStatus,
};
use crate::group::decide::{Aspect, Trouble};
use crate::k8s::names;

/// What moves with every message is written at most this often.
pub(super) const APART: Duration = Duration::from_secs(15);

/// The same where only the oldest message has grown older.
const AGES_APART: Duration = Duration::from_secs(60);

/// The schema's bound of the list of members.
const LISTED: usize = 100;

/// The schema's bound of a rebalance's reason.
const LONGEST_REASON: usize = 63;

/// What is known of a group.
#[derive(Clone, Debug)]
pub(super) struct Known<'a> {
    pub(super) stage: Stage<'a>,
    /// How its replicas are.
    pub(super) scaling: &'a ScalingReport,
    /// This controller's name.
    pub(super) coordinator: &'a str,
}

/// How far the group has come.
#[derive(Clone, Debug)]
pub(super) enum Stage<'a> {
    /// The connection cannot be used; what runs goes on.
    NoConnection(Reason, String),
    /// It is not provided, and why.
    NotProvided(Reason, String),
    /// It is provided, and this process coordinates it.
    Running(Running<'a>),
}

/// A group that is coordinated.
#[derive(Clone, Debug)]
pub(super) struct Running<'a> {
    pub(super) status: &'a GroupStatus,
    pub(super) bucket: BucketStatus,
    pub(super) found: &'a Found,
    /// For how long partitions have had no owner although members are there.
    pub(super) unassigned_for: Duration,
}

/// What the status is to be.
pub(super) fn status(object: &ConsumerGroup, known: &Known<'_>) -> ConsumerGroupStatus {
    let before = object.status.clone().unwrap_or_default();
    let generation = object.metadata.generation;
    let mut conditions = Conditions::default();
    judge(object, known, &mut conditions);
    let mut next = ConsumerGroupStatus {
        observed_generation: generation,
        conditions: conditions.after(&before.conditions, generation),
        ..before.clone()
    };
    if let Stage::Running(running) = &known.stage {
        next.last_rebalance = running.status.last_rebalance.as_ref().map(rebalance);
        next.bucket = Some(running.bucket.clone());
        let resources = running
            .found
            .streams
            .iter()
            .map(|(name, created)| NatsResource {
                name: name.clone(),
                created: *created,
            });
        next.nats_resources = resources.collect();
        if let Some(details) = &running.status.details {
            show(&mut next, details, known.coordinator);
        }
    }
    let name = object.metadata.name.clone().unwrap_or_default();
    let (replicas, selector) = known.scaling.scale.clone().unwrap_or_else(|| {
        let members = next.members.as_ref().map_or(0, |members| members.count);
        (members, format!("{}={name}", names::GROUP_LABEL))
    });
    next.replicas = Some(replicas);
    if let Some(at) = &known.scaling.scaled_at {
        next.last_scale_time = Some(at.clone());
    }
    next.selector = Some(selector);
    next
}

fn rebalance(last: &Rebalance) -> RebalanceStatus {
    let mut reason = last.reason.clone();
    if let Some((end, _)) = reason.char_indices().nth(LONGEST_REASON) {
        reason.truncate(end);
    }
    RebalanceStatus {
        reason,
        at: Some(rfc3339(last.at)),
        duration: Some(format!("{}ms", last.took.as_millis())),
    }
}

fn show(next: &mut ConsumerGroupStatus, details: &Details, coordinator: &str) {
    let number = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    let long = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let standby = details
        .members
        .iter()
        .filter(|member| member.state == "Standby")
        .count();
    let mut list: Vec<MemberStatus> = details
        .members
        .iter()
        .map(|member| MemberStatus {
            id: member.id.clone(),
            state: member.state.to_owned(),
            partitions: number(member.partitions),
        })
        .collect();
    list.sort_by(|a, b| a.id.cmp(&b.id));
    list.truncate(LISTED);
    next.members = Some(MembersStatus {
        count: number(details.members.len()),
        standby: number(standby),
        list,
    });
    next.partitions = Some(PartitionsStatus {
        total: number(details.partitions),
        assigned: number(details.assigned),
        stopped: number(details.stopped),
    });
    next.epoch = Some(long(details.epoch));
    next.term = Some(long(details.term));
    next.coordinator = Some(coordinator.to_owned());
    let old = next.lag.take().unwrap_or_default();
    let (total, max) = (
        details.lag.map(|l| long(l.total)),
        details.lag.map(|l| long(l.max_partition)),
    );
    let oldest = details.oldest.map(|age| long(age.as_secs()));
    let before = (old.total, old.max_partition, old.oldest_seconds);
    let same = before == (total, max, oldest) && old.observed_at.is_some();
    next.lag = Some(LagStatus {
        total,
        max_partition: max,
        oldest_seconds: oldest,
        observed_at: if same {
            old.observed_at
        } else {
            Some(wall_clock())
        },
    });
    let mut versions: Vec<String> = details.members.iter().map(|m| m.version.clone()).collect();
    versions.retain(|version| !version.is_empty());
    versions.sort();
    versions.dedup();
    let outdated = details
        .members
        .iter()
        .filter(|m| m.version != env!("CARGO_PKG_VERSION"));
    next.outdated_workers = Some(number(outdated.count()));
    next.worker_versions = versions;
}

fn judge(object: &ConsumerGroup, known: &Known<'_>, conditions: &mut Conditions) {
    let all = [
        ConditionType::CoordinatorReady,
        ConditionType::PartitionsAssigned,
        ConditionType::PartitionsProgressing,
        ConditionType::OffsetsValid,
    ];
    match &known.stage {
        Stage::NoConnection(reason, message) => {
            conditions.fails(ConditionType::ConnectionReady, *reason, message.as_str());
            for kind in all.into_iter().chain([ConditionType::Provisioned]) {
                conditions.unknown(
                    kind,
                    Reason::ConnectionNotReady,
                    "the connection is not ready",
                );
            }
            let words = format!("the connection is not ready: {message}");
            conditions.fails(ConditionType::Ready, Reason::ConnectionNotReady, words);
            on_its_way(conditions, *reason, message);
        }
        Stage::NotProvided(reason, message) => {
            conditions.holds(ConditionType::ConnectionReady, "JetStream answers");
            conditions.fails(ConditionType::Provisioned, *reason, message.as_str());
            for kind in all {
                conditions.unknown(kind, Reason::Provisioning, "the group is not provided yet");
            }
            let ready = if *reason == Reason::OwnershipConflict {
                Reason::OwnershipConflict
            } else {
                Reason::Provisioning
            };
            conditions.fails(ConditionType::Ready, ready, message.as_str());
            on_its_way(conditions, *reason, message);
        }
        Stage::Running(running) => {
            conditions.holds(ConditionType::ConnectionReady, "JetStream answers");
            judge_running(object, running, conditions);
        }
    }
    judge_scaling(known.scaling, conditions);
}

/// The pair of kstatus: abnormal is True. Stalled is only what time cannot heal.
fn on_its_way(conditions: &mut Conditions, reason: Reason, message: &str) {
    let stalled = matches!(
        reason,
        Reason::OwnershipConflict
            | Reason::ImmutableMismatch
            | Reason::UnsupportedRetention
            | Reason::NotGranted
            | Reason::InvalidSpec
    );
    let kind = if stalled {
        ConditionType::Stalled
    } else {
        ConditionType::Reconciling
    };
    conditions.set(kind, crate::crd::ConditionStatus::True, reason, message);
}

fn judge_running(object: &ConsumerGroup, running: &Running<'_>, conditions: &mut Conditions) {
    let found = provisioned(running.found);
    match &found {
        Ok(words) => conditions.holds(ConditionType::Provisioned, words),
        Err((reason, words)) => {
            conditions.fails(ConditionType::Provisioned, *reason, words.as_str());
        }
    }
    let mut troubles = Vec::new();
    for (aspect, found) in &running.status.conditions {
        let kind = kind_of(*aspect);
        match found.trouble {
            None if *aspect == Aspect::Provisioned => {}
            None => conditions.holds(kind, words_for(kind)),
            Some(trouble) => {
                conditions.fails(kind, reason_of(trouble), found.detail.as_str());
                troubles.push((*aspect, trouble, found.detail.clone()));
            }
        }
    }
    for aspect in [
        Aspect::CoordinatorReady,
        Aspect::PartitionsAssigned,
        Aspect::PartitionsProgressing,
        Aspect::OffsetsValid,
    ] {
        if !running.status.conditions.contains_key(&aspect) {
            let words = "the coordinator has not read the group yet";
            conditions.unknown(kind_of(aspect), Reason::Provisioning, words);
        }
    }
    if let Err((reason, words)) = &found {
        conditions.fails(ConditionType::Ready, *reason, words.as_str());
        return on_its_way(conditions, *reason, words);
    }
    judge_ready(object, running, &troubles, conditions);
}

/// Whether what the group needs is there and as it should be, in words.
fn provisioned(found: &Found) -> Result<String, (Reason, String)> {
    if !found.gone.is_empty() {
        let words = format!(
            "these streams do not exist: {}; make them",
            found.gone.join(", ")
        );
        return Err((Reason::StreamNotFound, words));
    }
    if !found.renewed.is_empty() {
        return Err((Reason::StreamRecreated, found.renewed.join("; ")));
    }
    if !found.drift.is_empty() {
        let words = format!(
            "changed by somebody, and not to be put right: {}",
            found.drift.join("; ")
        );
        return Err((Reason::DriftDetected, words));
    }
    let mut words = "streams, bucket and description are as declared".to_owned();
    for warning in &found.warnings {
        words.push_str("; ");
        words.push_str(warning);
    }
    Ok(words)
}

/// Ready: usable. A rebalance never makes it flap, and missing members keep it True.
fn judge_ready(
    object: &ConsumerGroup,
    running: &Running<'_>,
    troubles: &[(Aspect, Trouble, String)],
    conditions: &mut Conditions,
) {
    let ready = ConditionType::Ready;
    let of = |wanted: Aspect| troubles.iter().find(|(aspect, ..)| *aspect == wanted);
    let blocking = of(Aspect::Provisioned).or_else(|| of(Aspect::CoordinatorReady));
    let flapping = |trouble: Trouble| trouble == Trouble::CoordinatorFlapping;
    if let Some((_, trouble, detail)) = blocking.filter(|(_, trouble, _)| !flapping(*trouble)) {
        conditions.fails(ready, reason_of(*trouble), detail.as_str());
        return on_its_way(conditions, reason_of(*trouble), detail);
    }
    if running.status.phase == Phase::Starting || !running.status.coordinates {
        let words = "the coordinator is taking over";
        conditions.fails(ready, Reason::Provisioning, words);
        return on_its_way(conditions, Reason::Provisioning, words);
    }
    let patience = patience(object);
    if running.unassigned_for > patience {
        let words = format!("partitions have had no owner for more than {patience:?}");
        conditions.fails(ready, Reason::PartitionsUnassigned, words.as_str());
        return on_its_way(conditions, Reason::PartitionsUnassigned, &words);
    }
    let (reason, words) = if object.spec.paused {
        (
            Reason::Paused,
            "paused: nothing is handed to the applications",
        )
    } else if of(Aspect::PartitionsAssigned).is_some_and(|(_, t, _)| *t == Trouble::NoMembers) {
        (
            Reason::NoMembers,
            "the group has no members; label pods to give it some",
        )
    } else {
        (Reason::AsExpected, "the group is provided and coordinated")
    };
    conditions.set(ready, crate::crd::ConditionStatus::True, reason, words);
}

/// How long partitions may be without an owner before the group counts as unusable.
fn patience(object: &ConsumerGroup) -> Duration {
    let membership = &object.spec.membership;
    let of = |text: &crate::crd::DurationText| text.parse().unwrap_or_default();
    of(&membership.rebalance_timeout) + of(&membership.session_timeout)
}

fn judge_scaling(scaling: &ScalingReport, conditions: &mut Conditions) {
    let found = [
        (ConditionType::ScalingActive, &scaling.active),
        (ConditionType::ScalingLimited, &scaling.limited),
    ];
    for (kind, finding) in found {
        if let Some(finding) = finding {
            let (status, reason) = (finding.status, finding.reason);
            conditions.set(kind, status, reason, finding.message.as_str());
        }
    }
}

fn kind_of(aspect: Aspect) -> ConditionType {
    match aspect {
        Aspect::Provisioned => ConditionType::Provisioned,
        Aspect::CoordinatorReady => ConditionType::CoordinatorReady,
        Aspect::PartitionsAssigned => ConditionType::PartitionsAssigned,
        Aspect::PartitionsProgressing => ConditionType::PartitionsProgressing,
        Aspect::OffsetsValid => ConditionType::OffsetsValid,
    }
}

fn words_for(kind: ConditionType) -> &'static str {
    if kind == ConditionType::CoordinatorReady {
        "a fenced coordinator is active"
    } else if kind == ConditionType::PartitionsAssigned {
        "every partition has one live owner"
    } else if kind == ConditionType::PartitionsProgressing {
        "no partition stands still"
    } else {
        "offsets fit their streams"
    }
}

fn reason_of(trouble: Trouble) -> Reason {
    match trouble {
        Trouble::StateLost => Reason::StateLost,
        Trouble::StateDamaged => Reason::StateDamaged,
        Trouble::OwnershipConflict => Reason::OwnershipConflict,
        Trouble::NoCoordinator => Reason::NoCoordinator,
        Trouble::CoordinatorFlapping => Reason::CoordinatorFlapping,
        Trouble::Rebalancing => Reason::Rebalancing,
        Trouble::NoMembers => Reason::NoMembers,
        Trouble::NoEligibleMember => Reason::NoEligibleMember,
        Trouble::DuplicateMember => Reason::DuplicateMember,
        Trouble::VersionTooOld => Reason::VersionTooOld,
        Trouble::MessageStuck => Reason::MessageStuck,
        Trouble::AppNotConnected => Reason::AppNotConnected,
        Trouble::StreamRecreated => Reason::StreamRecreated,
        Trouble::StreamTruncated => Reason::StreamTruncated,
        Trouble::MessagesLost => Reason::MessagesLost,
        Trouble::OffsetLost => Reason::OffsetLost,
        Trouble::StateRolledBack => Reason::StateRolledBack,
    }
}

/// Whether the status is to be written now. What an alert may hang on at once; what moves with every
/// message only from time to time.
pub(super) fn is_due(
    before: Option<&ConsumerGroupStatus>,
    next: &ConsumerGroupStatus,
    written_ago: Option<Duration>,
) -> bool {
    let Some(before) = before else {
        return true;
    };
    if before == next {
        return false;
    }
    let only_older = without_age(before) == without_age(next);
    let apart = if only_older { AGES_APART } else { APART };
    written_ago.is_none_or(|ago| ago >= apart) || weighty(before) != weighty(next)
}

/// The same without what changes as time passes.
fn without_age(status: &ConsumerGroupStatus) -> ConsumerGroupStatus {
    let mut status = status.clone();
    if let Some(lag) = &mut status.lag {
        lag.oldest_seconds = None;
        lag.observed_at = None;
    }
    status
}

/// The part of a status that is written at once; sentences may wait, their numbers move.
fn weighty(status: &ConsumerGroupStatus) -> ConsumerGroupStatus {
    let mut conditions = status.conditions.clone();
    for condition in &mut conditions {
        condition.message.clear();
    }
    ConsumerGroupStatus {
        observed_generation: status.observed_generation,
        conditions,
        replicas: status.replicas,
        selector: status.selector.clone(),
        bucket: status.bucket.clone(),
        nats_resources: status.nats_resources.clone(),
        coordinator: status.coordinator.clone(),
        desired_replicas: status.desired_replicas,
        last_scale_time: status.last_scale_time.clone(),
        ..ConsumerGroupStatus::default()
    }
}
