//! What can happen to a member.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::{
    Beat, Epoch, GroupDocument, Mark, Meta, OffsetRecord, Partition, Revision, Sequence,
    ServerTime, StopReason,
};

/// Something that happened, as the driver saw it.
#[derive(Clone, Debug)]
pub enum Event<M> {
    /// The watch delivered `meta`.
    Meta {
        /// Its revision.
        revision: Revision,
        /// The document.
        meta: Box<Meta>,
    },
    /// The watch delivered `group`.
    Group {
        /// Its revision.
        revision: Revision,
        /// The document.
        document: Box<GroupDocument>,
    },
    /// The watch delivered something that cannot be followed: it does not parse, or is a marker.
    Damaged {
        /// The key.
        key: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// An own heartbeat came back through the watch.
    Echo {
        /// Its revision.
        revision: Revision,
        /// Which one.
        beat: Beat,
    },
    /// A heartbeat was acknowledged.
    PutStored {
        /// Which one.
        beat: Beat,
        /// Where it is stored.
        revision: Revision,
    },
    /// A connection stands again.
    Connected,
    /// A commit record was read.
    Offset {
        /// The partition.
        partition: Partition,
        /// The epoch for which it was read.
        epoch: Epoch,
        /// What was found.
        found: Found,
    },
    /// A commit record was written, or not.
    Written {
        /// The partition.
        partition: Partition,
        /// The epoch at which it was written.
        epoch: Epoch,
        /// How it ended.
        outcome: Written,
    },
    /// Messages were read.
    Read {
        /// The partition.
        partition: Partition,
        /// The epoch of the reader.
        epoch: Epoch,
        /// In stream order.
        batch: Vec<M>,
    },
    /// The server says how many messages it still has for the partition.
    Pending {
        /// The partition.
        partition: Partition,
        /// The epoch of the reader.
        epoch: Epoch,
        /// How many were not sent yet.
        pending: u64,
    },
    /// A partition without traffic was looked through: there is nothing for it below `next`.
    Scanned {
        /// The partition.
        partition: Partition,
        /// The epoch of the reader.
        epoch: Epoch,
        /// Where it may go on.
        next: Sequence,
        /// A message just below, whichever partition's.
        mark: Option<Mark>,
    },
    /// The stream is not the one that the position belongs to, or has lost what comes next.
    Invalid {
        /// The partition.
        partition: Partition,
        /// The epoch of the reader.
        epoch: Epoch,
        /// What was found.
        finding: Finding,
    },
    /// The reader has ended without being asked to.
    ReaderEnded {
        /// The partition.
        partition: Partition,
        /// The epoch of the reader.
        epoch: Epoch,
        /// What cannot be read, if that is the reason: a message by its sequence and a sentence.
        unreadable: Option<(Sequence, String)>,
    },
    /// The application appeared or went away.
    Application {
        /// Whether it is there now.
        connected: bool,
    },
    /// The application pauses partitions, or all, on this member.
    Pause {
        /// Which; none: all.
        partitions: Option<BTreeSet<Partition>>,
    },
    /// The application resumes partitions, or all, on this member.
    Resume {
        /// Which; none: all.
        partitions: Option<BTreeSet<Partition>>,
    },
    /// The process is to end.
    Drain {
        /// How long the application has to finish.
        timeout: Duration,
    },
    /// The deadline has come.
    Deadline,
}

/// What stands at `offset.<p>`.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// A record.
    Record(Revision, Box<OffsetRecord>),
    /// Nothing.
    Absent,
    /// Something that cannot be read: not JSON, an unknown format, a delete marker.
    Damaged(String),
    /// The server did not say.
    Unanswered(String),
}

/// How a compare-and-set ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is stored.
    Stored(Revision),
    /// The key stands elsewhere.
    Conflict(Option<Revision>),
    /// The server cannot judge yet.
    Busy,
    /// It may have landed, or may land later.
    Unknown(String),
}

/// What is wrong with a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which rule it breaks.
    pub reason: StopReason,
    /// The first sequence of the stream.
    pub first: Sequence,
    /// The last sequence of the stream.
    pub last: Sequence,
    /// When the stream was created.
    pub created: ServerTime,
    /// The position that was to be read.
    pub position: Sequence,
    /// The stream's last message, where there is one.
    pub last_mark: Option<Mark>,
    /// A sentence for people.
    pub detail: String,
}
