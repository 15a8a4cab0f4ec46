//! What processes, applications and servers say to each other.

use lockstep::group::ledger::Message;
use lockstep::group::member::{AckKind, Found, Written};
use lockstep::group::{
    Beat, Epoch, Incarnation, Mark, Partition, Revision, Sequence, ServerTime, SessionId,
};
use lockstep::wire::keys::Key;

use crate::model::{Doc, Entry};

/// A message of a partition, as a reader has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Msg {
    /// Its sequence in its stream.
    pub seq: u64,
    /// When it was stored.
    pub ts: ServerTime,
    /// Which of all messages ever published it is: what only the checker knows.
    pub id: u64,
}

impl Message for Msg {
    fn sequence(&self) -> Sequence {
        Sequence(self.seq)
    }

    fn stored(&self) -> ServerTime {
        self.ts
    }

    fn size(&self) -> u64 {
        100
    }
}

/// Which reader: a partition, an epoch, and how many were opened before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReaderId {
    /// The partition.
    pub partition: Partition,
    /// The epoch of the ownership.
    pub epoch: Epoch,
    /// Counts the consumers that this process has made.
    pub attempt: u64,
}

/// The stream as a gate sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// When it was made.
    pub created: ServerTime,
    /// Its first message.
    pub first: u64,
    /// Its last sequence.
    pub last: u64,
    /// When the message at the mark was stored.
    pub at_mark: Option<ServerTime>,
    /// When the message delivered last was stored.
    pub at_delivered: Option<ServerTime>,
    /// The stream's last message.
    pub last_mark: Option<Mark>,
}

/// What a watch is about.
#[derive(Clone, Debug)]
pub enum Filter {
    /// `meta`, `group` and this member's own key.
    Member(Incarnation),
    /// Everything but commit records.
    Coordinator,
}

/// For what a commit record is read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    /// A hold of a member.
    Hold(Partition, Epoch),
    /// The coordinator's look at a partition.
    Look(Partition),
    /// The coordinator's seeding of a partition.
    Seed(Partition),
    /// The group document.
    Group,
}

/// What is asked of the servers.
#[derive(Clone, Debug)]
pub enum Ask {
    /// A plain put of a heartbeat.
    Put(Key, Doc, Beat),
    /// A compare-and-set.
    Replace(Key, Doc, Revision, For),
    /// A read of the newest value.
    Get(Key, For),
    /// A watch; the number tells it from those before it.
    Watch(u64, Filter),
    /// A consumer, from this sequence on.
    Open(ReaderId, u64),
    /// The stream of a partition, and its messages at these sequences.
    Look(ReaderId, Option<u64>, Option<u64>),
    /// So many more messages.
    Pull(ReaderId, u64),
    /// The consumer is not wanted any more.
    Close(ReaderId),
    /// A message at or below this, whichever partition's.
    Scan(ReaderId, u64),
    /// Where the streams begin and end.
    Ends,
    /// Only without the guard of seeding: a commit record that is absent is made up now, and read.
    LateSeed(Partition, Epoch),
}

/// What reaches a process.
#[derive(Clone, Debug)]
pub enum News {
    /// A put has ended.
    Put(Beat, Option<Revision>),
    /// A compare-and-set has ended.
    Replaced(For, Written),
    /// A read has ended.
    Got(For, Got),
    /// A watch delivers.
    Entry(u64, Entry),
    /// A watch has delivered what was there.
    Loaded(u64),
    /// A watch is of no more use, or was not made.
    WatchBroken(u64),
    /// A consumer is there.
    Opened(ReaderId),
    /// A stream was looked at; none: it did not say.
    Looked(ReaderId, Option<Facts>),
    /// Messages, and the number of the first delivery among them.
    Messages(ReaderId, u64, Vec<Msg>),
    /// A consumer is of no more use, or was not made.
    ReaderBroken(ReaderId),
    /// Nothing is left at or below this.
    Idle(ReaderId, u64),
    /// What a position can be recognised by.
    Scanned(ReaderId, Option<Mark>),
    /// Where streams begin and end and when they were made, by partition.
    Ends(Option<Vec<(u64, u64, ServerTime)>>),
    /// The connection stands again.
    Connected,
    /// The application says something.
    Call(Call),
}

/// What was read at a key.
#[derive(Clone, Debug)]
pub enum Got {
    /// A value.
    Value(Revision, Doc),
    /// Nothing.
    Absent,
    /// The server did not say.
    Unanswered,
}

/// What an application asks of its worker.
#[derive(Clone, Debug)]
pub enum Call {
    /// More messages, at most so many; answered when there are some.
    Fetch(SessionId, u64),
    /// Messages are done.
    Ack(SessionId, (Partition, Epoch, Sequence), AckKind),
    /// A message is refused.
    Nack(SessionId, (Partition, Epoch, Sequence)),
    /// The session has ended without a word.
    Lost(SessionId),
    /// The session has ended as it should.
    Closed(SessionId),
}

/// What happens inside an application.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// It begins.
    Begin,
    /// It is through with the message that it works on.
    Done,
}

// === impl Ask ===

impl Ask {
    /// What a client makes of no answer.
    pub fn silence(&self) -> News {
        match self {
            Self::Put(_, _, beat) => News::Put(*beat, None),
            Self::Replace(_, _, _, what) => {
                News::Replaced(*what, Written::Unknown("no answer in time".to_owned()))
            }
            Self::LateSeed(partition, epoch) => {
                News::Got(For::Hold(*partition, *epoch), Got::Unanswered)
            }
            Self::Get(_, what) => News::Got(*what, Got::Unanswered),
            Self::Watch(number, _) => News::WatchBroken(*number),
            Self::Open(id, _) | Self::Pull(id, _) | Self::Close(id) => News::ReaderBroken(*id),
            Self::Look(id, ..) => News::Looked(*id, None),
            Self::Scan(id, _) => News::Scanned(*id, None),
            Self::Ends => News::Ends(None),
        }
    }

    /// Whether it changes what is stored.
    pub fn is_write(&self) -> bool {
        matches!(self, Self::Put(..) | Self::Replace(..))
    }
}

// === impl Got ===

impl Got {
    /// As a member takes it.
    pub fn found(self) -> Found {
        match self {
            Self::Value(revision, Doc::Offset(record)) => {
                Found::Record(revision, Box::new((*record).clone()))
            }
            Self::Value(..) => Found::Damaged("another document stands there".to_owned()),
            Self::Absent => Found::Absent,
            Self::Unanswered => Found::Unanswered("no answer in time".to_owned()),
        }
    }
}
