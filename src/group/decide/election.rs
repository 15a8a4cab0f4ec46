//! Who coordinates: taking over is a write of `group` under the next term, and nothing else changed.

use super::observed::{Observed, Office, Slot, Watch};
use crate::group::{
    Assignment, Epoch, GroupDocument, GroupEpoch, Meta, Partition, Term, Timestamp,
};

/// What this candidate is to do.
#[derive(Debug)]
pub(super) enum Duty<'a> {
    /// Nothing: it is not its turn, or not its group.
    Watch,
    /// Write this document, and with it take over. // P37
    TakeOver(Box<GroupDocument>),
    /// Plan: it coordinates.
    Plan(&'a Meta, &'a GroupDocument),
}

impl Observed {
    pub(super) fn duty(&self, now: Timestamp) -> Duty<'_> {
        // P30: no action before the first echo.
        let sees = self.watch == Watch::Current && self.healthy.has_begun();
        let Some(meta) = self
            .meta
            .known()
            .filter(|m| sees && m.manager == self.me.manager)
        else {
            return Duty::Watch; // P34
        };
        if self.is_cut_off(now) {
            return Duty::Watch;
        }
        match (self.office, &self.group) {
            (_, Slot::Damaged(_)) | (Office::Entering(..), _) => Duty::Watch, // P38
            (Office::Held(_), Slot::Known(document)) => Duty::Plan(meta, document),
            (Office::None | Office::Held(_), Slot::Absent | Slot::Known(_)) => {
                let turn = self.office_is_vacant() && self.is_first_in_line();
                if self.me.elected || turn {
                    Duty::TakeOver(Box::new(self.under_the_next_term(meta)))
                } else {
                    Duty::Watch
                }
            }
        }
    }

    /// Whether no beat has come back for twice the session timeout: the driver steps down. // P40
    pub fn is_cut_off(&self, now: Timestamp) -> bool {
        self.healthy.silence(now) >= self.me.session_timeout * 2
    }

    /// When to look again whether the office is vacant, or whether this candidate is cut off.
    pub(super) fn next_election(&self, now: Timestamp) -> Option<Timestamp> {
        let holder = self.group.known().and_then(|d| d.holder.as_ref())?;
        let end = self.healthy.expected_at(self.holder_ends(holder))?;
        (!self.is_coordinating() && end > now).then_some(end)
    }

    fn under_the_next_term(&self, meta: &Meta) -> GroupDocument {
        let holder = Some(self.me.incarnation.clone());
        match self.group.known() {
            Some(document) => GroupDocument {
                term: document.term.of_the_successor(),
                holder,
                ..document.clone()
            },
            None => GroupDocument {
                term: Term(1),
                holder,
                epoch: GroupEpoch(self.me.unix_seconds), // P70
                meta_generation: meta.generation,
                partitions: Partition::all(meta.partitions())
                    .map(|_| Assignment {
                        epoch: Epoch(self.me.unix_seconds),
                        ..Assignment::default()
                    })
                    .collect(),
                reason: "the group begins".to_owned(),
                ..GroupDocument::default()
            },
        }
    }
}
