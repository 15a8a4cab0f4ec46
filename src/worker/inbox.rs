//! What comes back to the pump from the tasks that wait for it.

use std::time::Duration;

use tokio::sync::mpsc;

use crate::group::member::{Event, Finding, Found, Written};
use crate::group::{
    Beat, Epoch, GroupDocument, Mark, Meta, Partition, PartitionSource, Revision, Sequence,
};
use crate::nats::{Bucket, StreamMessage};

use super::readers::Order;

/// Answers that may wait for the pump; each comes from a task that the pump bounds itself.
const ANSWERS: usize = 1024;

/// Batches that may wait for the pump: what is in them is bounded by the readers' windows.
const BATCHES: usize = 256;

/// Something that a task has to say.
#[derive(Debug)]
pub(super) enum Incoming {
    /// The bucket was found.
    Bucket(Box<Bucket>),
    /// The bucket, or the server, cannot be used yet; or it can, and the trouble is over.
    Trouble(Option<String>),
    /// A stream was looked at: how its partition is read.
    Looked(Box<Order>, PartitionSource),
    /// `meta` came through the watch.
    Meta(Revision, Box<Meta>),
    /// `group` came through the watch.
    Group(Revision, Box<GroupDocument>),
    /// Something came that cannot be followed.
    Damaged(&'static str, String),
    /// An own heartbeat came back.
    Echo(Revision, Beat),
    /// A heartbeat ended: stored, or not known.
    Put(Beat, Option<Revision>),
    /// A commit record was read.
    Offset(Partition, Epoch, Found),
    /// A commit record was written.
    Written(Partition, Epoch, Written, Duration),
    /// A stream is not what the position belongs to.
    Invalid(Partition, Epoch, Box<Finding>),
    /// A reader has ended by itself.
    ReaderEnded(Partition, Epoch, Option<(Sequence, String)>),
    /// A partition without traffic was looked through.
    Scanned(Partition, Epoch, Sequence, Option<Mark>),
}

/// What a reader has to say.
#[derive(Debug)]
pub(super) enum FromReader {
    /// Messages.
    Messages(Partition, Epoch, Vec<StreamMessage>),
    /// What the server still has.
    Pending(Partition, Epoch, u64),
    /// Nothing is unread at or below this.
    Idle(Partition, Epoch, Sequence),
}

/// Both queues into the pump.
#[derive(Clone, Debug)]
pub(super) struct Inbox {
    pub(super) answers: mpsc::Sender<Incoming>,
    pub(super) batches: mpsc::Sender<FromReader>,
}

/// The pump's ends of them.
#[derive(Debug)]
pub(super) struct Outlets {
    pub(super) answers: mpsc::Receiver<Incoming>,
    pub(super) batches: mpsc::Receiver<FromReader>,
}

// === impl Inbox ===

impl Inbox {
    /// Both queues, empty.
    pub(super) fn new() -> (Self, Outlets) {
        let (answers, from_tasks) = mpsc::channel(ANSWERS);
        let (batches, from_readers) = mpsc::channel(BATCHES);
        let outlets = Outlets {
            answers: from_tasks,
            batches: from_readers,
        };
        (Self { answers, batches }, outlets)
    }

    /// Says something. Nobody listens any more only when the pump has ended.
    pub(super) async fn say(&self, what: Incoming) {
        if self.answers.send(what).await.is_err() {
            tracing::debug!("an answer came after the end");
        }
    }
}

// === impl Incoming ===

impl Incoming {
    /// The event that this is to the member; none if it is the pump's own affair.
    pub(super) fn into_event(self) -> Option<Event<StreamMessage>> {
        Some(match self {
            Self::Bucket(_) | Self::Trouble(_) | Self::Looked(..) | Self::Put(_, None) => {
                return None;
            }
            Self::Meta(revision, meta) => Event::Meta { revision, meta },
            Self::Group(revision, document) => Event::Group { revision, document },
            Self::Damaged(key, problem) => Event::Damaged { key, problem },
            Self::Echo(revision, beat) => Event::Echo { revision, beat },
            Self::Put(beat, Some(revision)) => Event::PutStored { beat, revision },
            Self::Offset(partition, epoch, found) => Event::Offset {
                partition,
                epoch,
                found,
            },
            Self::Written(partition, epoch, outcome, _) => Event::Written {
                partition,
                epoch,
                outcome,
            },
            Self::Invalid(partition, epoch, finding) => Event::Invalid {
                partition,
                epoch,
                finding: *finding,
            },
            Self::ReaderEnded(partition, epoch, unreadable) => Event::ReaderEnded {
                partition,
                epoch,
                unreadable,
            },
            Self::Scanned(partition, epoch, next, mark) => Event::Scanned {
                partition,
                epoch,
                next,
                mark,
            },
        })
    }
}
