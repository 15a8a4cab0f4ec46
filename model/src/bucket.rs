//! The bucket: what stands at its keys, and what a compare-and-set does to it.

use std::collections::VecDeque;

use lockstep::group::{
    CandidateDocument, GroupDocument, MemberDocument, OffsetRecord, Partition, Revision,
};

use crate::bounds::Sabotage;
use crate::fingerprint::Hashed;
use crate::history::History;

/// A key that is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// The group document.
    Group,
    /// The heartbeat of the member with this number.
    Member(usize),
    /// The heartbeat of the coordinator with this number.
    Candidate(usize),
}

/// A watch: keys with a value that was not delivered, the one that was written first in front.
#[derive(Clone, Debug, Default, PartialEq, Hash)]
pub(crate) struct Watch(VecDeque<Key>);

/// A value and its revision.
pub(crate) type Entry<T> = (Revision, T);

/// A compare-and-set on its way.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Write {
    /// Of the group document.
    Group(Box<GroupDocument>, Revision),
    /// Of a commit record.
    Offset(Partition, Box<OffsetRecord>, Revision),
}

/// What stands at the keys.
#[derive(Clone, Debug, PartialEq, Hash)]
pub(crate) struct Bucket {
    pub(crate) group: Option<Hashed<Entry<GroupDocument>>>,
    pub(crate) members: Vec<Option<Hashed<MemberDocument>>>,
    pub(crate) candidates: Vec<Hashed<CandidateDocument>>,
    pub(crate) offsets: Vec<Option<Hashed<Entry<OffsetRecord>>>>,
    /// Writes whose senders have given them up: each lands some time, or never.
    pub(crate) stray: Vec<Hashed<Write>>,
}

// === impl Watch ===

impl Watch {
    /// The key was written: what it had before is not delivered any more.
    pub(crate) fn note(&mut self, key: Key) {
        self.0.retain(|waiting| *waiting != key);
        self.0.push_back(key);
    }

    pub(crate) fn next(&mut self) -> Option<Key> {
        self.0.pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

// === impl Bucket ===

impl Bucket {
    pub(crate) fn group_revision(&self) -> Revision {
        self.group.as_ref().map_or(Revision(0), |group| group.0)
    }

    pub(crate) fn offset(&self, partition: Partition) -> Option<&Entry<OffsetRecord>> {
        self.offsets.get(partition.index())?.as_deref()
    }

    /// Judges a compare-and-set; the new revision, or none if the key stands elsewhere.
    pub(crate) fn replace(
        &mut self,
        write: &Write,
        history: &mut History,
        sabotage: Sabotage,
    ) -> Option<Revision> {
        match write {
            Write::Group(document, expected) => {
                let stands_at = self.group_revision();
                if stands_at != *expected && sabotage != Sabotage::GroupWithoutCas {
                    return None;
                }
                history.group_written(self.group.as_deref().map(|(_, d)| d), document);
                let revision = Revision(stands_at.0 + 1);
                self.group = Some(Hashed::new((revision, (**document).clone())));
                Some(revision)
            }
            Write::Offset(partition, record, expected) => {
                let (stands_at, old) = self.offset(*partition)?;
                if stands_at != expected && sabotage != Sabotage::OffsetsWithoutCas {
                    return None;
                }
                history.offset_written(*partition, old, record);
                let revision = Revision(stands_at.0 + 1);
                let entry = Hashed::new((revision, (**record).clone()));
                *self.offsets.get_mut(partition.index())? = Some(entry);
                Some(revision)
            }
        }
    }

    /// Nobody waits for the end of this write any more.
    pub(crate) fn give_up(&mut self, write: Write) {
        self.stray.push(Hashed::new(write));
    }

    /// A key's revision never comes back: what expects an earlier one is lost for good.
    pub(crate) fn forget_what_cannot_land(&mut self, sabotage: Sabotage) {
        if matches!(
            sabotage,
            Sabotage::OffsetsWithoutCas | Sabotage::GroupWithoutCas
        ) {
            return;
        }
        let mut stray = std::mem::take(&mut self.stray);
        stray.retain(|write| self.can_land(write));
        self.stray = stray;
    }

    fn can_land(&self, write: &Write) -> bool {
        match write {
            Write::Group(_, expected) => self.group_revision() <= *expected,
            Write::Offset(partition, _, expected) => self
                .offset(*partition)
                .is_some_and(|(stands_at, _)| stands_at <= expected),
        }
    }
}
