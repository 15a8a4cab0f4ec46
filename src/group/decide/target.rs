//! Who should have what: computed when its inputs change, and applied as far as it is time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::draft::Draft;
use super::healthy_time::Healthy;
use super::joins::is_in_good_hands;
use super::observed::Observed;
use super::reason::Reason;
use crate::group::assignor::{self, Assignor, Candidate, PartitionInput, Previous, Target};
use crate::group::{GroupState, Incarnation, Meta, Partition, Timestamp};

/// A fingerprint stays below 2^53, so that every JSON reader keeps all of its digits.
const FINGERPRINT_BITS: u32 = 53;

/// What a target follows from, its own predecessor apart.
struct Inputs {
    members: Vec<Candidate>,
    partitions: Vec<PartitionInput>,
    assignor: Arc<dyn Assignor>,
    /// Who gave back what, not long ago.
    refused: BTreeMap<Partition, Incarnation>,
}

impl Observed {
    /// Brings the target up to date. // P65
    pub(super) fn retarget(&self, meta: &Meta, draft: &mut Draft, now: Timestamp) {
        if meta.state == GroupState::Deleted {
            target_nobody(draft);
            return;
        }
        let at = self.healthy.at(now);
        let inputs = self.inputs(meta, draft, at);
        if inputs.members.is_empty() {
            return; // P58
        }
        let needy = needy(draft);
        let whole = fingerprint(&inputs, Extent::Whole);
        let settled = draft.now.input_hash == whole;
        if settled && needy.is_empty() {
            return;
        }
        let ideal = self.ideal(&inputs, draft);
        let balance = moves_for_balance(draft, &ideal);
        if !settled && (balance.is_empty() || self.balance_due(meta).is_none_or(|due| at >= due)) {
            apply(draft, &ideal, |_| true);
            draft.now.input_hash = whole;
        } else {
            apply(draft, &ideal, |partition| needy.contains(&partition));
            if !settled {
                draft.now.input_hash = fingerprint(&inputs, Extent::OnlyNeed);
            }
        }
    }

    /// When a move for balance alone may be made, if one is waiting. // P62
    pub(super) fn next_balance(
        &self,
        meta: &Meta,
        draft: &Draft,
        now: Timestamp,
    ) -> Option<Healthy> {
        let inputs = self.inputs(meta, draft, self.healthy.at(now));
        let waiting = draft.now.input_hash == fingerprint(&inputs, Extent::OnlyNeed);
        self.balance_due(meta).filter(|_| waiting)
    }

    fn balance_due(&self, meta: &Meta) -> Option<Healthy> {
        let last = self.memory.last_balance();
        last.map(|last| last.after(meta.membership.balance_interval))
    }

    fn inputs(&self, meta: &Meta, draft: &Draft, at: Healthy) -> Inputs {
        let confirmed = self.healthy.confirmed();
        let candidate = |(member, entry): (&Incarnation, &crate::group::MemberEntry)| Candidate {
            incarnation: member.clone(),
            id: entry.id.clone(),
            zone: entry.zone.clone(),
            by_need: self
                .memory
                .flaps_until(&entry.id)
                .is_some_and(|until| confirmed < until), // P63
        };
        let mut members: Vec<_> = draft.actives().map(candidate).collect();
        members.sort_by(|a, b| a.id.cmp(&b.id));
        let partition = |partition| PartitionInput {
            partition,
            zone: self.zones.get(&partition).cloned(),
        };
        let before = self.memory.refusals(at).map(|(p, by)| (p, by.clone()));
        let mut refused: BTreeMap<_, _> = before.chain(draft.refused.clone()).collect();
        refused.retain(|_, by| draft.is_active(by));
        Inputs {
            members,
            refused,
            partitions: draft.numbers().into_iter().map(partition).collect(),
            assignor: self
                .assignor
                .clone()
                .unwrap_or_else(|| assignor::of(&meta.membership.assignor).into()),
        }
    }

    /// The target as the assignor wants it, but for partitions that were just given back.
    fn ideal(&self, inputs: &Inputs, draft: &Draft) -> Target {
        let has = |(partition, a): (Partition, &crate::group::Assignment)| {
            let has = a.target.clone().or_else(|| a.owner.clone())?;
            Some((partition, has))
        };
        let previous = Previous {
            owners: draft.partitions().filter_map(has).collect(),
            last_ids: self.memory.last_ids().clone(),
        };
        let assignor = &*inputs.assignor;
        let mut ideal = assignor::target(assignor, &inputs.members, &inputs.partitions, &previous);
        avoid_refusals(inputs, &mut ideal);
        ideal
    }
}

/// What a member gave back goes to another one, if there is one. // P80
fn avoid_refusals(inputs: &Inputs, ideal: &mut Target) {
    for (partition, by) in &inputs.refused {
        if ideal.get(partition) != Some(by) {
            continue;
        }
        let mut load: BTreeMap<&Incarnation, usize> = BTreeMap::new();
        for member in ideal.values() {
            *load.entry(member).or_default() += 1;
        }
        let others = inputs
            .members
            .iter()
            .filter(|m| m.incarnation != *by && !m.by_need);
        let least = others.min_by_key(|m| (load.get(&m.incarnation).copied().unwrap_or(0), &m.id));
        if let Some(other) = least {
            ideal.insert(*partition, other.incarnation.clone());
        }
    }
}

fn target_nobody(draft: &mut Draft) {
    let mut changed = 0;
    for entry in &mut draft.now.partitions {
        changed += usize::from(entry.target.take().is_some());
    }
    draft.now.input_hash = 0;
    if changed > 0 {
        draft.because(Reason::GroupDeleted); // P130
    }
}

/// Partitions whose target cannot have them.
fn needy(draft: &Draft) -> BTreeSet<Partition> {
    draft
        .partitions()
        .filter(|(_, a)| !is_in_good_hands(draft, a.target.as_ref()))
        .map(|(partition, _)| partition)
        .collect()
}

/// Partitions that would move although they are where they could stay.
fn moves_for_balance(draft: &Draft, ideal: &Target) -> BTreeSet<Partition> {
    draft
        .partitions()
        .filter(|(partition, a)| {
            is_in_good_hands(draft, a.target.as_ref()) && ideal.get(partition) != a.target.as_ref()
        })
        .map(|(partition, _)| partition)
        .collect()
}

fn apply(draft: &mut Draft, ideal: &Target, which: impl Fn(Partition) -> bool) {
    let mut changed = 0;
    for (partition, member) in ideal.iter().filter(|(partition, _)| which(**partition)) {
        if let Some(entry) = draft.entry(*partition)
            && entry.target.as_ref() != Some(member)
        {
            entry.target = Some(member.clone());
            changed += 1;
        }
    }
    if changed > 0 {
        draft.because(Reason::Retargeted(changed));
    }
}

/// How much of a target was applied.
#[derive(Clone, Copy)]
enum Extent {
    /// All of it.
    Whole,
    /// What could not stay as it was; the moves for balance wait.
    OnlyNeed,
}

/// FNV-1a over the inputs, labels instead of incarnations: who takes another's place changes nothing.
fn fingerprint(inputs: &Inputs, extent: Extent) -> u64 {
    let extent = match extent {
        Extent::Whole => "whole",
        Extent::OnlyNeed => "need",
    };
    let member = |m: &Candidate| format!("{:?} {:?} {}", m.id.as_str(), m.zone, m.by_need);
    let partition = |p: &PartitionInput| format!("{} {:?}", p.partition, p.zone);
    let text: Vec<String> = [extent.to_owned(), format!("{:?}", inputs.assignor)]
        .into_iter()
        .chain(inputs.members.iter().map(member))
        .chain(inputs.partitions.iter().map(partition))
        .chain(inputs.refused.iter().map(|(p, by)| format!("{p} not {by}")))
        .collect();
    let text = text.join("\n");
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash >> (64 - FINGERPRINT_BITS)).max(1)
}
