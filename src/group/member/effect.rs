//! What a member wants done.

use super::super::{Epoch, Mark, MemberDocument, OffsetRecord, Partition, Revision, Sequence};
use super::MemberEvent;

/// Something to be done by the driver, in order, without waiting for its end.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Put this heartbeat; its acknowledgement comes back as an event, its loss does not.
    Heartbeat(Box<MemberDocument>),
    /// Read the partition's commit record.
    ReadOffset {
        /// The partition.
        partition: Partition,
        /// Named in the answer.
        epoch: Epoch,
    },
    /// Write the partition's commit record by compare-and-set.
    WriteOffset {
        /// The partition.
        partition: Partition,
        /// Named in the answer.
        epoch: Epoch,
        /// What to write.
        record: Box<OffsetRecord>,
        /// The revision to replace.
        expected: Revision,
    },
    /// Read the partition's messages.
    Open {
        /// The partition.
        partition: Partition,
        /// The epoch of the ownership.
        epoch: Epoch,
        /// The first sequence to read.
        from: Sequence,
        /// The commit record by which the stream is recognised.
        record: Box<OffsetRecord>,
        /// The last message that was read at this epoch.
        last: Option<Mark>,
    },
    /// Stop reading and delete the consumer.
    Close {
        /// The partition.
        partition: Partition,
        /// The epoch of the reader.
        epoch: Epoch,
    },
    /// Tell whoever listens.
    Tell(MemberEvent),
    /// Start again under another incarnation.
    Reincarnate,
    /// Everything is given back and said: the process may end.
    Over,
}
