//! The next document in the making: a scratch copy, so that later steps see what earlier ones did.

use std::collections::BTreeMap;

use super::reason::{Reason, summary};
use crate::group::{
    Assignment, Epoch, GroupDocument, GroupEpoch, Incarnation, MemberEntry, Partition, Standing,
};

/// A scratch copy of the document in force.
#[derive(Debug)]
pub(super) struct Draft {
    before: GroupDocument,
    pub(super) now: GroupDocument,
    /// No edition may be at or below this one.
    pub(super) above: GroupEpoch,
    pub(super) reasons: Vec<Reason>,
    /// What owners gave back although it was meant for them: granted again later, to another.
    pub(super) refused: BTreeMap<Partition, Incarnation>,
}

// === impl Draft ===

impl Draft {
    pub(super) fn of(document: &GroupDocument) -> Self {
        Self {
            before: document.clone(),
            now: document.clone(),
            above: document.epoch,
            reasons: Vec::new(),
            refused: BTreeMap::new(),
        }
    }

    /// The document, if it says anything that the one in force does not. // P67
    pub(super) fn finish(mut self) -> Option<(GroupDocument, Vec<Reason>)> {
        self.now.reason.clone_from(&self.before.reason);
        if self.now == self.before && self.above == self.before.epoch {
            return None;
        }
        self.now.epoch = self.above.next();
        self.now.reason = summary(&self.reasons);
        Some((self.now, self.reasons))
    }

    pub(super) fn because(&mut self, reason: Reason) {
        self.reasons.push(reason);
    }

    pub(super) fn partitions(&self) -> impl Iterator<Item = (Partition, &Assignment)> {
        Partition::all(u32::MAX).zip(&self.now.partitions)
    }

    pub(super) fn numbers(&self) -> Vec<Partition> {
        self.partitions().map(|(partition, _)| partition).collect()
    }

    pub(super) fn entry(&mut self, partition: Partition) -> Option<&mut Assignment> {
        self.now.partitions.get_mut(partition.index())
    }

    /// Ends an ownership. How it ended is kept in the flag until the next grant takes it over.
    pub(super) fn free(&mut self, partition: Partition, unclean: bool) {
        if let Some(entry) = self.entry(partition) {
            entry.owner = None;
            entry.unclean = unclean;
        }
    }

    /// Voids an ownership that was granted before the state was rolled back. // P71
    pub(super) fn void(&mut self, partition: Partition, seen: Epoch) {
        self.free(partition, true);
        if let Some(entry) = self.entry(partition) {
            entry.epoch = seen;
        }
        self.because(Reason::RolledBack(partition, seen));
    }

    /// Takes a member out, and everything away from it.
    pub(super) fn remove(&mut self, member: &Incarnation) -> Option<MemberEntry> {
        for partition in self.numbers() {
            let Some(entry) = self.entry(partition) else {
                continue;
            };
            if entry.target.as_ref() == Some(member) {
                entry.target = None;
            }
            if entry.owner.as_ref() == Some(member) {
                self.free(partition, true);
            }
        }
        self.now.members.remove(member)
    }

    /// Everything that was meant for one member is meant for another. // P52
    pub(super) fn redirect(&mut self, from: &Incarnation, to: &Incarnation) {
        for entry in &mut self.now.partitions {
            if entry.target.as_ref() == Some(from) {
                entry.target = Some(to.clone());
            }
        }
    }

    pub(super) fn standing(&self, member: &Incarnation) -> Option<Standing> {
        self.now.members.get(member).map(|entry| entry.standing)
    }

    pub(super) fn is_active(&self, member: &Incarnation) -> bool {
        self.standing(member) == Some(Standing::Active)
    }

    pub(super) fn actives(&self) -> impl Iterator<Item = (&Incarnation, &MemberEntry)> {
        let all = self.now.members.iter();
        all.filter(|(_, entry)| entry.standing == Standing::Active)
    }

    /// Grants a partition to its target. // P68
    pub(super) fn grant(&mut self, partition: Partition) {
        let Some(entry) = self.entry(partition) else {
            return;
        };
        entry.owner.clone_from(&entry.target);
        entry.epoch = entry.epoch.of_the_next_owner();
        let epoch = entry.epoch;
        self.because(Reason::Granted(partition, epoch));
    }
}
