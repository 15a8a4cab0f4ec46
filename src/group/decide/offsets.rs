//! Commit records as the coordinator read them: evidence of epochs, and what stands still.

use std::collections::{BTreeMap, BTreeSet};

use crate::group::{Epoch, Held, HoldState, OffsetRecord, Partition, StopReason};

/// What is known of the commit records.
#[derive(Clone, Debug, Default)]
pub struct Offsets {
    read: BTreeMap<Partition, OffsetFact>,
    suspects: BTreeSet<Partition>,
}

/// One commit record, as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OffsetFact {
    /// There is none.
    Absent,
    /// It is there.
    Present {
        /// The epoch of the newest claim.
        epoch: Epoch,
        /// Why the partition stands still, if it does.
        stopped: Option<StopReason>,
    },
    /// Something is there that cannot be understood.
    Damaged(String),
}

// === impl OffsetFact ===

impl From<&OffsetRecord> for OffsetFact {
    fn from(record: &OffsetRecord) -> Self {
        Self::Present {
            epoch: record.epoch,
            stopped: record.stopped.as_ref().map(|s| s.reason),
        }
    }
}

// === impl Offsets ===

impl Offsets {
    /// A record as it was read.
    pub fn see(&mut self, partition: Partition, fact: OffsetFact) {
        self.suspects.remove(&partition);
        self.read.insert(partition, fact);
    }

    /// What was read of this partition.
    pub fn get(&self, partition: Partition) -> Option<&OffsetFact> {
        self.read.get(&partition)
    }

    /// What should be read, again or at all, of a group of this many partitions.
    pub(super) fn to_read(&self, partitions: u32) -> BTreeSet<Partition> {
        Partition::all(partitions)
            .filter(|p| self.suspects.contains(p) || !self.read.contains_key(p))
            .collect()
    }

    /// Whether every partition of the group was read.
    pub(super) fn is_complete(&self, partitions: u32) -> bool {
        Partition::all(partitions).all(|p| self.read.contains_key(&p))
    }

    /// Something happened to this partition: it is worth another look.
    pub(super) fn suspect(&mut self, partition: Partition) {
        self.suspects.insert(partition);
    }

    /// What a member says of what it holds. It may say so before it has written it: what was read is
    /// looked at again until it agrees. P128a
    pub(super) fn hear(&mut self, held: &[Held]) {
        for held in held {
            let stands_still = match held.state {
                HoldState::Feeding => false,
                HoldState::Stopped => true,
                HoldState::Claiming
                | HoldState::Paused
                | HoldState::Revoking
                | HoldState::Suspended => continue,
            };
            let differs = self
                .read
                .get(&held.partition)
                .is_some_and(|fact| match fact {
                    OffsetFact::Present { epoch, stopped } => {
                        held.epoch >= *epoch && stopped.is_some() != stands_still
                    }
                    OffsetFact::Absent | OffsetFact::Damaged(_) => false,
                });
            if differs {
                self.suspect(held.partition);
            }
        }
    }

    /// What was absent or damaged is worth another look: somebody may have mended it.
    pub fn suspect_the_damaged(&mut self) {
        let damaged = self.read.iter().filter(|(_, fact)| match fact {
            OffsetFact::Absent | OffsetFact::Damaged(_) => true,
            OffsetFact::Present { .. } => false,
        });
        self.suspects
            .extend(damaged.map(|(partition, _)| *partition));
    }

    /// Another coordinator may have been at work since.
    pub(super) fn forget(&mut self) {
        self.read.clear();
    }

    pub(super) fn stopped(&self) -> impl Iterator<Item = Partition> {
        let stopped = self.read.iter().filter(|(_, fact)| match fact {
            OffsetFact::Present { stopped, .. } => stopped.is_some(),
            OffsetFact::Absent | OffsetFact::Damaged(_) => false,
        });
        stopped.map(|(partition, _)| *partition)
    }

    pub(super) fn absent(&self) -> BTreeSet<Partition> {
        let absent = self
            .read
            .iter()
            .filter(|(_, fact)| **fact == OffsetFact::Absent);
        absent.map(|(partition, _)| *partition).collect()
    }

    /// Whether a grant of this partition could be claimed.
    pub(super) fn can_be_claimed(&self, partition: Partition) -> bool {
        matches!(self.read.get(&partition), Some(OffsetFact::Present { .. }))
    }
}
