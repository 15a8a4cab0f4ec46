//! Where a group begins: commit records written once, before anything is granted.

use std::collections::{BTreeMap, BTreeSet};

use super::draft::Draft;
use super::observed::Observed;
use super::reason::Reason;
use crate::group::{Epoch, Mark, Meta, OffsetRecord, Partition, Sequence, ServerTime, Unknown};

/// Where one stream's partitions begin, as its server answered when the group was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamStart {
    /// The first sequence to read.
    pub next: Sequence,
    /// The message before it, if there is one to recognise the stream by.
    pub mark: Option<Mark>,
    /// When the stream was created.
    pub created: ServerTime,
}

/// The commit record that says where this partition begins; none if its stream's start is not known.
pub fn seed(
    meta: &Meta,
    starts: &BTreeMap<String, StreamStart>,
    partition: Partition,
) -> Option<OffsetRecord> {
    let stream = meta.source.of(partition)?.stream;
    let start = starts.get(&stream)?;
    Some(OffsetRecord {
        epoch: Epoch(0),
        owner: None,
        next_seq: start.next,
        mark: start.mark,
        stream,
        stream_created: start.created,
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
