//! What was, as far as a rule needs it, and which rules were broken.

use std::collections::{BTreeMap, BTreeSet};

use lockstep::group::{Epoch, GroupDocument, Incarnation, OffsetRecord, Partition, Sequence};

/// What must never be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// A partition's epoch has one owner for ever. // P69
    OneOwnerPerEpoch,
    /// Neither the group's epoch nor a partition's ever falls. // P67 P68
    EpochsNeverFall,
    /// Once a higher term has written, a lower one does not; a term has one holder. // P39
    LowerTermsNeverWrite,
    /// Once a partition is claimed, nobody writes its record at a lower epoch. // P97 P125
    FencedForEver,
    /// The committed position never falls. // P122
    CommitsNeverFall,
    /// A commit never passes a message that no application has acknowledged. // P118 P134
    NothingIsPassed,
    /// At most one member feeds a partition under a valid lease. // P90 P132
    OneFeeds,
    /// No member takes its bucket for another one, and nobody waits for ever in one step.
    NobodyIsConfused,
}

/// What was.
#[derive(Clone, Debug, Default, PartialEq, Hash)]
pub(crate) struct History {
    grants: BTreeMap<(Partition, Epoch), Incarnation>,
    /// What applications are done with, and who heard of it.
    acknowledged: BTreeSet<(Partition, Sequence)>,
    pub(crate) broken: BTreeSet<Rule>,
}

// === impl Rule ===

impl Rule {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::OneOwnerPerEpoch,
        Self::EpochsNeverFall,
        Self::LowerTermsNeverWrite,
        Self::FencedForEver,
        Self::CommitsNeverFall,
        Self::NothingIsPassed,
        Self::OneFeeds,
        Self::NobodyIsConfused,
    ];
}

// === impl History ===

impl History {
    pub(crate) fn must(&mut self, rule: Rule, holds: bool) {
        if !holds {
            self.broken.insert(rule);
        }
    }

    /// A group document takes the place of another.
    pub(crate) fn group_written(&mut self, old: Option<&GroupDocument>, new: &GroupDocument) {
        for (number, a) in (0..).zip(&new.partitions) {
            let Some(owner) = &a.owner else { continue };
            let first = self
                .grants
                .entry((Partition(number), a.epoch))
                .or_insert_with(|| owner.clone());
            let same = first == owner;
            self.must(Rule::OneOwnerPerEpoch, same);
        }
        let Some(old) = old else { return };
        let term = new.term > old.term || new.term == old.term && new.holder == old.holder;
        self.must(Rule::LowerTermsNeverWrite, term);
        let mut ends = old.partitions.iter().zip(&new.partitions);
        let risen = new.epoch >= old.epoch && ends.all(|(was, is)| is.epoch >= was.epoch);
        self.must(Rule::EpochsNeverFall, risen);
    }

    /// A commit record takes the place of another.
    pub(crate) fn offset_written(
        &mut self,
        partition: Partition,
        old: &OffsetRecord,
        new: &OffsetRecord,
    ) {
        let may = new.epoch > old.epoch || new.epoch == old.epoch && new.owner == old.owner;
        self.must(Rule::FencedForEver, may);
        self.must(Rule::CommitsNeverFall, new.next_seq >= old.next_seq);
        let mut passed = (old.next_seq.0..new.next_seq.0).map(Sequence);
        let acknowledged = passed.all(|seq| self.acknowledged.contains(&(partition, seq)));
        self.must(Rule::NothingIsPassed, acknowledged);
    }

    /// An application is done with a message, and its member knows.
    pub(crate) fn acknowledge(&mut self, partition: Partition, sequence: Sequence) {
        self.acknowledged.insert((partition, sequence));
    }
}
