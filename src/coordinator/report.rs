//! How each group is, for probes, metrics and the log.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::probe::{Findings, SourceLag};
use crate::clock;
use crate::group::decide::{Aspect, Condition, Observed, Reason, Trouble, summary};
use crate::group::lag::Reported;
use crate::group::{GroupDocument, GroupRef, ServerTime, Standing};
use crate::metrics::{
    CoordinatorMetrics, GroupLabels, MemberStanding, MembersLabels, PartitionFigures,
    PartitionState, PartitionsLabels, RebalanceLabels, RebalanceReason,
};

/// How far a group's coordination has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// The bucket is not loaded yet.
    Starting,
    /// The group is watched, and coordinated if this candidate is the one.
    Watching,
    /// It stopped with a trouble that only a person can mend.
    Stopped,
}

/// One group, as this process sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupStatus {
    /// How far it has come.
    pub phase: Phase,
    /// Whether this process coordinates it.
    pub coordinates: bool,
    /// How the group is, aspect by aspect.
    pub conditions: BTreeMap<Aspect, Condition>,
    /// The assignment in numbers; none before a document was seen.
    pub details: Option<Details>,
    /// The newest rebalance that was seen to begin; what moves nothing takes no time.
    pub last_rebalance: Option<Rebalance>,
}

/// Partitions changed hands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rebalance {
    /// What brought it about.
    pub reason: String,
    /// When it began.
    pub at: ServerTime,
    /// How long it took.
    pub took: Duration,
}

/// A group's assignment in numbers and names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// Under whose authority it stands.
    pub term: u64,
    /// Its edition.
    pub epoch: u64,
    /// What brought it about.
    pub reason: String,
    /// Who is in the group.
    pub members: Vec<MemberView>,
    /// All partitions.
    pub partitions: usize,
    /// Those with an owner.
    pub assigned: usize,
    /// Those that stopped and wait for somebody to look.
    pub stopped: usize,
    /// Whether partitions are on their way from one member to another.
    pub rebalancing: bool,
    /// What is left to commit; none while that of any partition is unknown.
    pub lag: Option<Lag>,
    /// The age of the oldest message that is not committed; none while it is not known.
    pub oldest: Option<Duration>,
}

/// What is left to commit, in messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// Over all partitions, and what an origin still has to hand over.
    pub total: u64,
    /// Of the partition that has most, of what has come to it.
    pub max_partition: u64,
}

/// One member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberView {
    /// Its label: the pod's name.
    pub id: String,
    /// What the coordinator makes of it, in a word.
    pub state: &'static str,
    /// How many partitions it owns.
    pub partitions: usize,
    /// The version of its program; empty while nothing of it was seen.
    pub version: String,
}

/// All groups of a process. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Report {
    groups: Arc<Mutex<BTreeMap<GroupRef, GroupStatus>>>,
    changed: tokio::sync::watch::Sender<()>,
    metrics: CoordinatorMetrics,
}

// === impl GroupStatus ===

impl Default for GroupStatus {
    fn default() -> Self {
        Self {
            phase: Phase::Starting,
            coordinates: false,
            conditions: BTreeMap::new(),
            details: None,
            last_rebalance: None,
        }
    }
}

// === impl Report ===

impl Report {
    pub(super) fn new(groups: impl Iterator<Item = GroupRef>, metrics: CoordinatorMetrics) -> Self {
        let groups = groups
            .map(|group| (group, GroupStatus::default()))
            .collect();
        Self {
            groups: Arc::new(Mutex::new(groups)),
            changed: tokio::sync::watch::Sender::new(()),
            metrics,
        }
    }

    pub(super) fn metrics(&self) -> &CoordinatorMetrics {
        &self.metrics
    }

    pub(super) fn statuses(&self) -> BTreeMap<GroupRef, GroupStatus> {
        let groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        groups.clone()
    }

    /// Fires whenever a status changes.
    pub(super) fn changes(&self) -> tokio::sync::watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// The group is no longer coordinated here: what was shown of it vanishes.
    pub(super) fn forget(&self, group: &GroupRef) {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        groups.remove(group);
        drop(groups);
        self.metrics.forget(group);
    }

    /// Waits until every group has come this far.
    pub(super) async fn all_beyond(&self, phase: Phase) {
        let mut changed = self.changed.subscribe();
        while !self.statuses().values().all(|status| status.phase > phase) {
            if changed.changed().await.is_err() {
                return;
            }
        }
    }

    pub(super) fn phase(&self, group: &GroupRef, phase: Phase) {
        self.update(group, |status| status.phase = phase);
    }

    pub(super) fn coordinates(&self, group: &GroupRef, coordinates: bool) {
        self.update(group, |status| status.coordinates = coordinates);
        let active = self
            .metrics
            .coordinator_active
            .get_or_create(&GroupLabels::of(group));
        active.set(i64::from(coordinates));
    }

    /// Notes conditions; what changed is told in the log, once.
    pub(super) fn conditions(&self, group: &GroupRef, conditions: Vec<Condition>) {
        self.update(group, |status| {
            for condition in conditions {
                let before = status.conditions.get(&condition.aspect);
                let trouble_before = before.and_then(|c| c.trouble);
                if trouble_before != condition.trouble {
                    tell(&condition, trouble_before);
                }
                status.conditions.insert(condition.aspect, condition);
            }
        });
    }

    /// Counts what brought a document about.
    pub(super) fn wrote(&self, group: &GroupRef, reasons: &[Reason]) {
        let labels = GroupLabels::of(group);
        self.metrics.documents_written.get_or_create(&labels).inc();
        let causes: Vec<RebalanceReason> = reasons.iter().filter_map(rebalance).collect();
        for reason in RebalanceReason::ALL
            .iter()
            .filter(|reason| causes.contains(reason))
        {
            let labels = RebalanceLabels::of(group, *reason);
            self.metrics.rebalances.get_or_create(&labels).inc();
        }
        if !causes.is_empty() {
            let begun = Rebalance {
                reason: summary(reasons),
                at: clock::unix_now(),
                took: Duration::ZERO,
            };
            self.update(group, |status| status.last_rebalance = Some(begun));
        }
    }

    /// Shows how old the newest sign is that this candidate's writes come back.
    pub(super) fn echo_age(&self, group: &GroupRef, age: Duration) {
        let gauge = self
            .metrics
            .echo_age_seconds
            .get_or_create(&GroupLabels::of(group));
        gauge.set(age.as_secs_f64());
    }

    /// Counts how long partitions were changing hands.
    pub(super) fn rebalanced(&self, group: &GroupRef, rebalance: Rebalance) {
        self.metrics
            .rebalance_duration_seconds
            .observe(rebalance.took.as_secs_f64());
        self.update(group, |status| status.last_rebalance = Some(rebalance));
    }

    /// Shows the group document in numbers, with what the owners say and a probe has found.
    pub(super) fn document(
        &self,
        group: &GroupRef,
        document: &GroupDocument,
        seen: &Observed,
        (reported, found): (&[Reported], &Findings),
    ) {
        let metrics = &self.metrics;
        let labels = GroupLabels::of(group);
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        metrics
            .group_term
            .get_or_create(&labels)
            .set(number(document.term.0));
        metrics
            .group_epoch
            .get_or_create(&labels)
            .set(number(document.epoch.0));
        for state in MemberStanding::ALL {
            let of = |standing| match standing {
                Standing::Active => MemberStanding::Active,
                Standing::Standby(_) => MemberStanding::Standby,
                Standing::Draining => MemberStanding::Draining,
            };
            let members = document.members.values();
            let count = members.filter(|entry| of(entry.standing) == *state).count();
            let labels = MembersLabels::of(group, *state);
            metrics
                .group_members
                .get_or_create(&labels)
                .set(number(count as u64));
        }
        let stopped = seen.stopped_partitions();
        for state in PartitionState::ALL {
            let all = crate::group::Partition::all(u32::MAX).zip(&document.partitions);
            let count = all.filter(|(partition, a)| {
                let is = if stopped.contains(partition) {
                    PartitionState::Stopped
                } else if a.is_being_revoked() {
                    PartitionState::Revoking
                } else if a.owner.is_some() {
                    PartitionState::Assigned
                } else {
                    PartitionState::Unassigned
                };
                is == *state
            });
            let labels = PartitionsLabels::of(group, *state);
            let count = number(count.count() as u64);
            metrics.group_partitions.get_or_create(&labels).set(count);
        }
        let meta = seen.meta().known();
        let origin = meta.and_then(|meta| meta.source.origin());
        let left = Left::of(reported, origin, found);
        self.lag(&labels, &left, left.source.filter(|_| origin.is_some()));
        let partitions = document.partitions.iter().zip(&left.partitions);
        let figures = partitions.map(|(assignment, lag)| {
            let owner = assignment.owner.as_ref();
            let entry = owner.and_then(|owner| document.members.get(owner));
            PartitionFigures {
                owner: entry.map(|entry| entry.id.to_string()),
                lag: *lag,
            }
        });
        metrics.partitions.show(group, figures);
        let details = details(document, seen, stopped.len(), &left);
        self.update(group, |status| status.details = Some(details));
    }

    /// Absent while that of any partition is unknown, never guessed.
    fn lag(&self, labels: &GroupLabels, left: &Left, source: Option<u64>) {
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let metrics = &self.metrics;
        for (gauge, value) in [
            (&metrics.group_lag, left.lag.map(|lag| lag.total)),
            (
                &metrics.group_lag_max_partition,
                left.lag.map(|lag| lag.max_partition),
            ),
            (&metrics.group_source_lag, source),
        ] {
            match value {
                Some(value) => drop(gauge.get_or_create(labels).set(number(value))),
                None => drop(gauge.remove(labels)),
            }
        }
        match left.oldest {
            Some(age) => drop(
                metrics
                    .group_lag_seconds
                    .get_or_create(labels)
                    .set(age.as_secs_f64()),
            ),
            None => drop(metrics.group_lag_seconds.remove(labels)),
        }
    }

    fn update(&self, group: &GroupRef, change: impl FnOnce(&mut GroupStatus)) {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(status) = groups.get_mut(group) else {
            return;
        };
        let before = status.clone();
        change(status);
        let changed = *status != before;
        drop(groups);
        if changed {
            self.changed.send_replace(());
        }
    }
}

/// What is left to commit, by all that is known.
struct Left {
    /// Of each partition; none where it is not known.
    partitions: Vec<Option<u64>>,
    /// What an origin still has to hand over; none while it is not known.
    source: Option<u64>,
    /// Over all; none while any part is not known.
    lag: Option<Lag>,
    oldest: Option<Duration>,
}

impl Left {
    /// The owner's word where there is an owner, and what was found in the stream where there is
    /// none.
    fn of(reported: &[Reported], origin: Option<&str>, found: &Findings) -> Self {
        let partitions = reported.iter().enumerate().map(|(at, reported)| {
            if reported.owned {
                reported.lag
            } else {
                found.left.get(at).copied().flatten()
            }
        });
        let partitions: Vec<Option<u64>> = partitions.collect();
        let source = match (origin, found.source) {
            (None, _) => Some(0),
            (Some(_), SourceLag::Known(lag)) => Some(lag),
            (Some(_), SourceLag::Unknown) => None,
        };
        let known: Option<Vec<u64>> = partitions.iter().copied().collect();
        let known = known.filter(|known| !known.is_empty());
        let lag = known.zip(source).map(|(known, source)| Lag {
            total: known
                .iter()
                .fold(source, |sum, lag| sum.saturating_add(*lag)),
            max_partition: known.iter().copied().max().unwrap_or_default(),
        });
        let oldest = match lag {
            Some(Lag { total: 0, .. }) => Some(Duration::ZERO),
            Some(_) => found.oldest,
            None => None,
        };
        Self {
            partitions,
            source,
            lag,
            oldest,
        }
    }
}

fn details(document: &GroupDocument, seen: &Observed, stopped: usize, left: &Left) -> Details {
    let members = document.members.iter().map(|(member, entry)| MemberView {
        id: entry.id.to_string(),
        state: match entry.standing {
            Standing::Active => "Active",
            Standing::Standby(_) => "Standby",
            Standing::Draining => "Draining",
        },
        partitions: document.owned_by(member).count(),
        version: seen
            .heartbeat(member)
            .map_or_else(String::new, |says| says.version.clone()),
    });
    Details {
        term: document.term.0,
        epoch: document.epoch.0,
        reason: document.reason.clone(),
        members: members.collect(),
        partitions: document.partitions.len(),
        assigned: document
            .partitions
            .iter()
            .filter(|a| a.owner.is_some())
            .count(),
        stopped,
        rebalancing: document.is_rebalancing(),
        lag: left.lag,
        oldest: left.oldest,
    }
}

fn tell(condition: &Condition, before: Option<Trouble>) {
    let Condition {
        aspect,
        trouble,
        detail,
    } = condition;
    match trouble {
        None if before.is_none() => {}
        None => tracing::info!(condition = %aspect, "well again"),
        Some(trouble) => match trouble {
            Trouble::Rebalancing | Trouble::NoMembers | Trouble::NoCoordinator => {
                tracing::info!(condition = %aspect, reason = %trouble, detail);
            }
            Trouble::NoEligibleMember
            | Trouble::AppNotConnected
            | Trouble::DuplicateMember
            | Trouble::VersionTooOld
            | Trouble::CoordinatorFlapping
            | Trouble::MessageStuck
            | Trouble::MessagesLost
            | Trouble::StateRolledBack => {
                tracing::warn!(condition = %aspect, reason = %trouble, detail);
            }
            Trouble::StateLost
            | Trouble::StateDamaged
            | Trouble::OwnershipConflict
            | Trouble::StreamRecreated
            | Trouble::StreamTruncated
            | Trouble::OffsetLost => {
                tracing::error!(condition = %aspect, reason = %trouble, detail);
            }
        },
    }
}

/// The label of what moved partitions; none of what did not.
fn rebalance(reason: &Reason) -> Option<RebalanceReason> {
    Some(match reason {
        Reason::Joined(_) => RebalanceReason::Joined,
        Reason::Left(_) => RebalanceReason::Left,
        Reason::Died(_) => RebalanceReason::Died,
        Reason::Replaced(..) => RebalanceReason::Replaced,
        Reason::StandingChanged(_) => RebalanceReason::Eligibility,
        Reason::SettingsChanged | Reason::GroupDeleted => RebalanceReason::Settings,
        Reason::RebalanceTimeout(..) => RebalanceReason::TimedOut,
        Reason::RolledBack(..) => RebalanceReason::Other,
        Reason::TookOver(_)
        | Reason::Seeded
        | Reason::Retargeted(_)
        | Reason::Released(..)
        | Reason::Granted(..) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(lag: Option<u64>) -> Reported {
        Reported {
            owned: true,
            lag,
            ..Reported::default()
        }
    }

    fn found(left: &[Option<u64>], source: SourceLag) -> Findings {
        Findings {
            left: left.to_vec(),
            oldest: Some(Duration::from_secs(9)),
            source,
        }
    }

    fn lag(total: u64, max_partition: u64) -> Lag {
        Lag {
            total,
            max_partition,
        }
    }

    #[test]
    fn where_there_is_no_owner_the_stream_says_what_is_left() {
        let reported = [owned(Some(2)), Reported::default()];
        let found = found(&[Some(100), Some(5)], SourceLag::Unknown);
        let left = Left::of(&reported, None, &found);
        assert_eq!(left.partitions, [Some(2), Some(5)]);
        assert_eq!(left.lag, Some(lag(7, 5)));
        assert_eq!(left.oldest, Some(Duration::from_secs(9)));
    }

    #[test]
    fn one_unknown_part_leaves_the_whole_unknown() {
        let found = found(&[None, Some(5)], SourceLag::Known(0));
        for reported in [
            [owned(None), Reported::default()],
            [Reported::default(), Reported::default()],
        ] {
            let left = Left::of(&reported, None, &found);
            assert_eq!((left.lag, left.oldest), (None, None));
        }
        // Nothing was looked at yet, or there is no document.
        let nothing = Findings::default();
        assert_eq!(Left::of(&[Reported::default()], None, &nothing).lag, None);
        assert_eq!(Left::of(&[], None, &nothing).lag, None);
    }

    #[test]
    fn what_an_origin_still_has_counts_and_is_not_guessed() {
        let reported = [owned(Some(2))];
        let of = |source| Left::of(&reported, Some("OLD"), &found(&[None], source));
        assert_eq!(of(SourceLag::Known(40)).lag, Some(lag(42, 2)));
        assert_eq!(of(SourceLag::Unknown).lag, None);
        assert_eq!(of(SourceLag::Unknown).oldest, None);
    }

    #[test]
    fn nothing_left_has_no_age_whatever_was_found_before() {
        let found = found(&[None], SourceLag::Known(0));
        let left = Left::of(&[owned(Some(0))], None, &found);
        assert_eq!(left.oldest, Some(Duration::ZERO));
    }
}
