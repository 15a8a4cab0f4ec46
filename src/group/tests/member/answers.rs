//! Answers of the bucket, given one by one.

use std::time::Duration;

use super::scene::*;
use crate::group::member::{Effect, Event, Found, Written};
use crate::group::*;

pub(super) const MILLIS: fn(u64) -> Duration = Duration::from_millis;
pub(super) const SECS: fn(u64) -> Duration = Duration::from_secs;

impl Scene {
    /// What the newest write of this partition's commit record says, and what it replaces.
    pub(super) fn last_write(&self, partition: u32) -> (OffsetRecord, Revision) {
        let write = self.log.iter().rev().find_map(|effect| match effect {
            Effect::WriteOffset {
                partition: of,
                record,
                expected,
                ..
            } if of.0 == partition => Some(((**record).clone(), *expected)),
            _ => None,
        });
        write.expect("nothing was written")
    }

    /// The newest write of this partition's commit record ends like this.
    pub(super) fn ends(&mut self, partition: u32, outcome: Written) {
        let epoch = self.epoch(partition);
        self.happens(Event::Written {
            partition: p(partition),
            epoch,
            outcome,
        });
    }

    /// The newest write of this partition's commit record reaches the server, and nobody says so.
    pub(super) fn lands_unheard(&mut self, partition: u32) -> Written {
        let (record, expected) = self.last_write(partition);
        self.replace(partition, &record, expected)
    }

    /// A read of this partition's commit record finds this.
    pub(super) fn finds(&mut self, partition: u32, found: Found) {
        let epoch = self.epoch(partition);
        self.happens(Event::Offset {
            partition: p(partition),
            epoch,
            found,
        });
    }

    /// A read of this partition's commit record finds what is there.
    pub(super) fn finds_what_is_there(&mut self, partition: u32) {
        let found = self.found(partition);
        self.finds(partition, found);
    }

    /// How often commit records were read.
    pub(super) fn lookups(&self) -> usize {
        let reads = self.log.iter();
        reads
            .filter(|e| matches!(e, Effect::ReadOffset { .. }))
            .count()
    }
}
