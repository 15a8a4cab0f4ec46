//! What is to be done about a group's replicas: a pure function of what was seen and remembered.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::target::{Kind, Target};
use super::victims::{Costs, FIRST_TO_GO, Grounds, victims};
use crate::controller::pods::{Phase, PodFact};
use crate::coordinator::MemberView;
use crate::crd::{ConditionStatus, Reason};
use crate::group::Timestamp;

/// Corrections against one manager within this time are a conflict if there are this many.
const CONFLICT: (usize, Duration) = (3, Duration::from_secs(600));

/// How soon to look again while members drain, and while nothing is to be done.
const SOON: Duration = Duration::from_secs(1);
const AT_REST: Duration = Duration::from_secs(15);

/// What was seen.
#[derive(Clone, Debug)]
pub(super) struct Seen<'a> {
    pub(super) now: Timestamp,
    /// The group's name.
    pub(super) group: &'a str,
    /// What `scaleTargetRef` names, in words.
    pub(super) named: String,
    pub(super) target: Option<Target>,
    /// `spec.replicas`.
    pub(super) wanted: Option<u32>,
    pub(super) partitions: u32,
    pub(super) rebalance_timeout: Duration,
    /// An older group with the same target.
    pub(super) rival: Option<&'a str>,
    /// An autoscaler on the target.
    pub(super) scaler: Option<&'a str>,
    /// The group's pods; none while they are not known yet.
    pub(super) pods: Option<&'a [PodFact]>,
    /// The members; none while nobody here coordinates the group.
    pub(super) members: Option<&'a [MemberView]>,
    pub(super) costs: Costs,
}

/// What is remembered from one look to the next. Losing it costs a drain that begins anew.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Memory {
    /// What all this is about.
    target: String,
    /// The target was seen to be as it should with this number: another one is somebody else's.
    settled: Option<i32>,
    drain: Option<Drain>,
    /// Members whose pods are going since the target was written.
    leaving: BTreeSet<String>,
    /// Who wrote the target behind our back, and when it was put right.
    corrections: Vec<(String, Timestamp)>,
}

/// Members that hand over what they have before their pods are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Drain {
    to: i32,
    since: Timestamp,
    victims: BTreeSet<String>,
}

/// What is to be done, and how things are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// To be written into `spec.replicas`.
    pub(super) adopt: Option<i32>,
    /// To be written to the target.
    pub(super) scale: Option<Scale>,
    /// Names of pods, and what their deletion cost is to be.
    pub(super) costs: BTreeMap<String, Option<i32>>,
    /// Members that are to give up what they have.
    pub(super) asked_to_leave: BTreeSet<String>,
    /// Who changed the target and is corrected.
    pub(super) foreign: Option<Foreign>,
    pub(super) active: Finding,
    pub(super) limited: Option<Finding>,
    /// How many members are meant to be there.
    pub(super) declared: Option<u32>,
    pub(super) look_again: Duration,
}

/// A write to the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scale {
    pub(super) from: i32,
    pub(super) to: i32,
    /// How many members were drained for it.
    pub(super) drained: usize,
}

/// A write of somebody else to the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Foreign {
    pub(super) manager: String,
    pub(super) wrote: i32,
    pub(super) instead_of: i32,
}

/// A condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::controller) struct Finding {
    pub(in crate::controller) status: ConditionStatus,
    pub(in crate::controller) reason: Reason,
    pub(in crate::controller) message: String,
}

// === impl Finding ===

impl Finding {
    pub(super) fn yes(reason: Reason, message: impl Into<String>) -> Self {
        let (status, message) = (ConditionStatus::True, message.into());
        Self {
            status,
            reason,
            message,
        }
    }

    pub(super) fn no(reason: Reason, message: impl Into<String>) -> Self {
        let (status, message) = (ConditionStatus::False, message.into());
        Self {
            status,
            reason,
            message,
        }
    }
}

/// What is to be done about the replicas.
pub(super) fn plan(seen: &Seen<'_>, memory: &mut Memory) -> Plan {
    if memory.target != seen.named {
        *memory = Memory {
            target: seen.named.clone(),
            ..Memory::default()
        };
    }
    let target = match usable(seen) {
        Ok(target) => target,
        Err(why) => {
            memory.drain = None;
            memory.settled = None;
            return idle(why);
        }
    };
    let Some(wanted) = seen.wanted else {
        return adopt(target);
    };
    let to = wanted.min(seen.partitions);
    let mut plan = follow(seen, target, number(to), memory);
    plan.declared = Some(to);
    if plan.limited.is_none() {
        plan.limited = Some(limit(seen, wanted));
    }
    plan
}

/// The target, if this group may scale it.
fn usable<'a>(seen: &'a Seen<'_>) -> Result<&'a Target, Finding> {
    let named = &seen.named;
    let not_in_group = |words| Err(Finding::no(Reason::TargetNotInGroup, words));
    let Some(target) = &seen.target else {
        return not_in_group(format!(
            "there is no {named} in this namespace; nothing is scaled"
        ));
    };
    let label = crate::k8s::names::GROUP_LABEL;
    match target.group.as_deref() {
        Some(group) if group == seen.group => {}
        Some(other) => {
            return not_in_group(format!(
                "the pods of {named} are members of group {other}; nothing is scaled"
            ));
        }
        None => {
            return not_in_group(format!(
                "the template of {named} does not have the label {label}: {}; nothing is scaled \
                 until it does",
                seen.group
            ));
        }
    }
    let conflict = |words| Err(Finding::no(Reason::ScalerConflict, words));
    if let Some(rival) = seen.rival {
        return conflict(format!(
            "ConsumerGroup {rival}, which is older, has {named} as its target, too; remove \
             scaleTargetRef from one of them"
        ));
    }
    if let Some(scaler) = seen.scaler {
        return conflict(format!(
            "{scaler} scales {named} by itself, so nothing is scaled here; let it scale \
             ConsumerGroup {} instead, or remove it",
            seen.group
        ));
    }
    Ok(target)
}

fn idle(active: Finding) -> Plan {
    Plan {
        adopt: None,
        scale: None,
        costs: BTreeMap::new(),
        asked_to_leave: BTreeSet::new(),
        foreign: None,
        active,
        limited: None,
        declared: None,
        look_again: AT_REST,
    }
}

fn adopt(target: &Target) -> Plan {
    let words = format!(
        "spec.replicas is taken over from {target}: {}",
        target.replicas
    );
    Plan {
        adopt: Some(target.replicas),
        look_again: SOON,
        ..idle(Finding::yes(Reason::AsExpected, words))
    }
}

/// Has the target follow what is wanted of it.
fn follow(seen: &Seen<'_>, target: &Target, to: i32, memory: &mut Memory) -> Plan {
    memory
        .corrections
        .retain(|(_, at)| seen.now.since(*at) < CONFLICT.1);
    let foreign = foreign_write(target, memory);
    if target.replicas != to
        && let Some(manager) = fought_with(memory)
    {
        let active = fight(target, to, manager);
        memory.drain = None;
        return idle(active);
    }
    if let Some(foreign) = &foreign {
        memory.corrections.push((foreign.manager.clone(), seen.now));
    }
    if target.replicas != to {
        memory.settled = None;
    }
    let mut plan = if target.replicas > to {
        shrink(seen, target, to, memory)
    } else {
        memory.drain = None;
        keep_or_grow(seen, target, to, memory)
    };
    plan.foreign = foreign;
    if let Some(manager) = fought_with(memory) {
        plan.active = fight(target, to, manager);
    }
    plan
}

/// A number on the target that nobody asked this group for.
fn foreign_write(target: &Target, memory: &Memory) -> Option<Foreign> {
    let instead_of = memory
        .settled
        .filter(|settled| *settled != target.replicas)?;
    Some(Foreign {
        manager: target.written_by.clone()?,
        wrote: target.replicas,
        instead_of,
    })
}

/// Who has been corrected too often of late.
fn fought_with(memory: &Memory) -> Option<&str> {
    let times = |manager: &str| {
        let of = memory
            .corrections
            .iter()
            .filter(|(other, _)| other == manager);
        of.count()
    };
    let mut managers = memory
        .corrections
        .iter()
        .map(|(manager, _)| manager.as_str());
    managers.find(|manager| times(manager) >= CONFLICT.0)
}

fn fight(target: &Target, to: i32, manager: &str) -> Finding {
    let words = format!(
        "{manager:?} has changed the replicas of {target} {} times in 10 minutes, so they are left \
         as they are and not made {to}; have it leave spec.replicas out, and scale the \
         ConsumerGroup",
        CONFLICT.0
    );
    Finding::no(Reason::ScalerConflict, words)
}

fn keep_or_grow(seen: &Seen<'_>, target: &Target, to: i32, memory: &mut Memory) -> Plan {
    let own = own(seen, target);
    if target.replicas == to {
        memory.settled = Some(to);
    }
    if target.replicas == to && seen.pods.is_some() {
        let surplus = own.iter().filter(|pod| pod.counts()).count() > to.unsigned_abs() as usize;
        // Who was to go and does not, once there are no more pods than there should be, stays.
        memory.leaving.retain(|name| {
            let mut pods = own.iter().filter(|pod| pod.phase != Phase::Finished);
            let pod = pods.find(|pod| pod.name == *name);
            pod.is_some_and(|pod| surplus || !pod.counts())
        });
    } else if target.replicas != to {
        memory.leaving.clear();
    }
    let scale = (target.replicas != to).then_some(Scale {
        from: target.replicas,
        to,
        drained: 0,
    });
    let words = format!("{target} follows spec.replicas: {to}");
    Plan {
        costs: costs(&own, &memory.leaving, seen.costs),
        asked_to_leave: memory.leaving.clone(),
        look_again: if scale.is_some() { SOON } else { AT_REST },
        scale,
        ..idle(Finding::yes(Reason::AsExpected, words))
    }
}

/// Members that are to go hand over first; then the target is written.
fn shrink(seen: &Seen<'_>, target: &Target, to: i32, memory: &mut Memory) -> Plan {
    let members = seen.members.unwrap_or_default();
    let owned: BTreeMap<&str, usize> = members
        .iter()
        .map(|m| (m.id.as_str(), m.partitions))
        .collect();
    let before = memory.drain.take();
    let asked = before.as_ref().map(|drain| drain.victims.clone());
    let asked = asked.unwrap_or_else(|| memory.leaving.clone());
    let grounds = Grounds {
        pods: seen.pods.unwrap_or_default(),
        owned: &owned,
        asked: &asked,
        costs: seen.costs,
    };
    let victims = victims(target, to, grounds);
    let since = before
        .filter(|drain| drain.to == to)
        .map_or(seen.now, |drain| drain.since);
    let waited = seen.now.since(since);
    let empty = victims
        .iter()
        .all(|victim| owned.get(victim.as_str()).is_none_or(|n| *n == 0));
    let heard = seen.members.is_some() && waited >= SOON;
    let known_empty = heard && empty && !victims.is_empty();
    let heir = members
        .iter()
        .any(|m| m.state != "Draining" && !victims.contains(&m.id));
    let nobody = victims.is_empty() && seen.pods.is_some() || seen.members.is_some() && !heir;
    let over = nobody || known_empty || waited >= seen.rebalance_timeout;
    let own = own(seen, target);
    let draining = format!(
        "{} members hand over their partitions before {target} is scaled from {} to {to}",
        victims.len(),
        target.replicas
    );
    let mut plan = Plan {
        costs: costs(&own, &victims, seen.costs),
        asked_to_leave: victims.clone(),
        look_again: SOON,
        ..idle(Finding::yes(Reason::AsExpected, draining.clone()))
    };
    if over {
        plan.scale = Some(Scale {
            from: target.replicas,
            to,
            drained: if known_empty { victims.len() } else { 0 },
        });
        memory.leaving = victims;
    } else {
        plan.limited = Some(Finding::yes(Reason::RebalanceInProgress, draining));
        memory.drain = Some(Drain { to, since, victims });
    }
    if target.kind == Kind::StatefulSet {
        plan.costs.clear();
    }
    plan
}

/// The target's own pods.
fn own<'a>(seen: &Seen<'a>, target: &Target) -> Vec<&'a PodFact> {
    let pods = seen.pods.unwrap_or_default().iter();
    pods.filter(|pod| target.has(pod)).collect()
}

/// What deletion costs have to change: ours on those that go, none of ours on the others. A cost that
/// somebody else gave stays.
fn costs(
    own: &[&PodFact],
    going: &BTreeSet<String>,
    costs: Costs,
) -> BTreeMap<String, Option<i32>> {
    let change = |pod: &&PodFact| {
        let wanted = (costs == Costs::Set && going.contains(&pod.name)).then_some(FIRST_TO_GO);
        let free = pod.deletion_cost.is_none() || pod.deletion_cost == Some(FIRST_TO_GO);
        (free && pod.counts() && pod.deletion_cost != wanted).then(|| (pod.name.clone(), wanted))
    };
    own.iter().filter_map(change).collect()
}

fn limit(seen: &Seen<'_>, wanted: u32) -> Finding {
    if wanted > seen.partitions {
        let words = format!(
            "spec.replicas is {wanted}, and {} partitions can have no more owners than that",
            seen.partitions
        );
        return Finding::yes(Reason::PartitionLimit, words);
    }
    Finding::no(Reason::AsExpected, "the target has what is asked for")
}

fn number(n: u32) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
