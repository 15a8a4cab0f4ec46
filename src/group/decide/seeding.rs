//! Where a group begins: commit records written once, before anything is granted.

use std::collections::BTreeSet;

use super::draft::Draft;
use super::observed::Observed;
use super::reason::Reason;
use crate::group::{Epoch, Meta, OffsetRecord, Partition, Sequence, ServerTime, Unknown};

/// The commit record that says where this partition begins; none if there is no such partition.
pub fn seed(
    meta: &Meta,
    partition: Partition,
    next_seq: Sequence,
    stream_created: ServerTime,
) -> Option<OffsetRecord> {
    Some(OffsetRecord {
        epoch: Epoch(0),
        owner: None,
        next_seq,
        mark: None,
        stream: meta.source.of(partition)?.stream,
        stream_created,
        head: None,
        stopped: None,
        unknown: Unknown::default(),
    })
}

impl Observed {
    /// Brings what `meta` says into the document.
    pub(super) fn follow(&self, meta: &Meta, draft: &mut Draft) {
        if draft.now.meta_generation != meta.generation {
            draft.now.meta_generation = meta.generation;
            draft.because(Reason::SettingsChanged);
        }
        let partitions = meta.partitions();
        let complete = self.offsets.is_complete(partitions) && self.to_seed().is_empty();
        if !draft.now.seeded && complete {
            draft.now.seeded = true; // P86
            draft.because(Reason::Seeded);
        }
    }

    /// Commit records that have to be written before anything is granted. In a group that was seeded
    /// an absent one is damage. // P13
    pub(super) fn to_seed(&self) -> BTreeSet<Partition> {
        match self.group.known() {
            Some(document) if !document.seeded => self.offsets.absent(),
            Some(_) | None => BTreeSet::new(),
        }
    }
}
