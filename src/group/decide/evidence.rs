//! Epochs above all evidence: what was granted once is never granted again, whatever was lost.

use std::collections::BTreeMap;

use super::draft::Draft;
use super::observed::Observed;
use super::offsets::OffsetFact;
use crate::group::{Epoch, GroupEpoch, MemberDocument, Partition};

impl Observed {
    /// Sets the document above every epoch that somebody has seen. // P71
    pub(super) fn heed_evidence(&self, draft: &mut Draft) {
        let seen = self.heard().map(|says| says.seen_epoch).max();
        draft.above = draft.above.max(seen.unwrap_or(GroupEpoch(0)));
        let known = self.known_above(draft);
        draft.above = draft.above.max(GroupEpoch(known.0));
        let held = self.epochs_held();
        for partition in draft.numbers() {
            let on_record = match self.offsets.get(partition) {
                Some(OffsetFact::Present { epoch, .. }) => *epoch,
                Some(OffsetFact::Absent | OffsetFact::Damaged(_)) | None => Epoch(0),
            };
            let held = held.get(&partition).copied().unwrap_or_default();
            let evidence = on_record.max(held).max(known);
            let granted = draft.now.assignment(partition).map(|a| a.epoch);
            if granted.is_some_and(|granted| granted < evidence) {
                draft.void(partition, evidence);
            }
        }
    }

    /// What is known from outside, if the document is below it. No partition's epoch was ever above
    /// the document's: each edition raises it by one at most. // P71a
    fn known_above(&self, draft: &Draft) -> Epoch {
        let below = draft.now.epoch < self.known_epoch;
        Epoch(if below { self.known_epoch.0 } else { 0 })
    }

    /// The highest epoch of each partition that a live member states.
    fn epochs_held(&self) -> BTreeMap<Partition, Epoch> {
        let mut highest = BTreeMap::new();
        for says in self.heard() {
            let held = says.held.iter().map(|h| (h.partition, h.epoch));
            let released = says.released.iter().map(|r| (r.partition, r.epoch));
            for (partition, epoch) in held.chain(released) {
                let entry = highest.entry(partition).or_insert(epoch);
                *entry = epoch.max(*entry);
            }
        }
        highest
    }

    fn heard(&self) -> impl Iterator<Item = &MemberDocument> {
        let heard = self
            .members
            .iter()
            .filter(|(member, _)| self.is_heard(member));
        heard.map(|(_, sight)| &sight.says)
    }
}
