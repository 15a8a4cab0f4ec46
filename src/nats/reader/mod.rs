//! Reading one partition: exclusively, in order, and nothing twice.
//!
//! One ephemeral consumer without acknowledgements per partition and epoch; the position is ours,
//! so that it can be fenced. The server never delivers anything again, so that order holds in
//! every failure: whatever is wrong with a consumer, another one is made that begins after the
//! last message delivered. After *every* creation and before its first delivery the owner is asked
//! whether it may go on (its lease stands, the position still fits the stream).

mod name;
mod run;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

pub use name::ConsumerName;

use super::connect::Connection;
use super::feed::{Broken, StreamMessage, Window};
use crate::group::validity::Validity;
use crate::group::{Mark, Sequence};

/// Events that the owner may be behind; messages among them are bounded by the window.
const EVENTS: usize = 64;

/// What to read, and how.
#[derive(Clone, Debug)]
pub struct ReadPlan {
    /// The stream.
    pub stream: String,
    /// The partition's subjects as they are stored; none if the stream holds nothing else, which
    /// is about twice as fast.
    pub filter: Option<String>,
    /// The first sequence wanted.
    pub from: Sequence,
    /// What the consumer is named after.
    pub name: ConsumerName,
    /// Most messages in the owner's hands and on their way.
    pub window_messages: u32,
    /// Most bytes in the owner's hands and on their way; one message may exceed it.
    pub window_bytes: u64,
    /// Written into the consumer, for people who look at it.
    pub metadata: BTreeMap<String, String>,
}

/// A partition being read. Dropping it ends it, and deletes its consumer.
#[derive(Debug)]
pub struct PartitionReader {
    events: mpsc::Receiver<ReadEvent>,
    window: Arc<Window>,
    stop: DropGuard,
}

/// What comes from a partition.
#[derive(Debug)]
pub enum ReadEvent {
    /// The next messages of the partition, without a gap, each above the one before.
    Messages(Vec<StreamMessage>),
    /// Nothing is left to read at the moment, and the server has looked up to here. It may name
    /// positions that the stream has not reached: bound it before it is used.
    Idle {
        /// Nothing of this partition is unread at or below this.
        scanned_to: Sequence,
    },
    /// What the server has for this partition and has not delivered.
    Pending(u64),
    /// The consumer could not be trusted any further and another one is made.
    Restarted {
        /// Why.
        why: Broken,
    },
    /// No consumer can be made at the moment; the attempt is repeated.
    Waiting {
        /// What stands in the way.
        why: String,
    },
    /// The reader has ended and delivers nothing more.
    Stopped {
        /// Why.
        why: Stopped,
    },
}

/// The last message that a reader has delivered; none before the first.
pub type Delivered = Option<Mark>;

/// Why the owner lets nothing pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GateClosed {
    /// It may not read at the moment: its lease is over, or the partition is no longer its own.
    NotOurs,
    /// The position does not fit the stream.
    Invalid(Validity),
    /// Whether it fits could not be found out: asked again, since no policy may act on an error.
    Unknown(String),
}

/// Why a reader has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The owner let nothing pass.
    Gate(GateClosed),
    /// The server says that our requests are wrong: asking again would not help.
    Wrong(String),
}

// === impl PartitionReader ===

impl PartitionReader {
    /// Begins to read.
    ///
    /// `gate` is asked, with the last message delivered, after every creation of a consumer, and where
    /// messages that were still to come are gone.
    pub fn open<G, F>(connection: &Connection, plan: ReadPlan, gate: G) -> Self
    where
        G: Fn(Delivered) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), GateClosed>> + Send + 'static,
    {
        let window = Arc::new(Window::new(plan.window_messages, plan.window_bytes));
        let stop = CancellationToken::new();
        let (sender, events) = mpsc::channel(EVENTS);
        let run = run::Run::new(connection.clone(), plan, Arc::clone(&window), sender);
        let ended = stop.clone();
        connection
            .tasks()
            .spawn("partition reader", |stopping| async move {
                let stop = async {
                    tokio::select! {
                        () = ended.cancelled() => {}
                        () = stopping.cancelled() => {}
                    }
                };
                run.until(stop, gate).await;
            });
        Self {
            events,
            window,
            stop: stop.drop_guard(),
        }
    }

    /// What comes next; none after [`ReadEvent::Stopped`], or when the connection was closed. May
    /// be dropped at any moment.
    pub async fn next(&mut self) -> Option<ReadEvent> {
        self.events.recv().await
    }

    /// Gives back the room of messages that the owner has done with: their number and the sum of
    /// their sizes.
    pub fn grant(&self, messages: u64, bytes: u64) {
        self.window.give_back(messages, bytes);
    }

    /// To give room back from elsewhere.
    pub fn credit(&self) -> Credit {
        Credit(Arc::clone(&self.window))
    }

    /// Ends it, and waits until its consumer is deleted or could not be.
    pub async fn close(mut self) {
        drop(self.stop);
        while self.events.recv().await.is_some() {}
    }
}

/// Gives room back to a reader.
#[derive(Clone, Debug)]
pub struct Credit(Arc<Window>);

// === impl Credit ===

impl Credit {
    /// Gives back the room of messages that the owner has done with.
    pub fn grant(&self, messages: u64, bytes: u64) {
        self.0.give_back(messages, bytes);
    }
}

// === impl GateClosed ===

impl fmt::Display for GateClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOurs => f.write_str("the partition may not be read at the moment"),
            Self::Invalid(validity) => {
                write!(f, "the position does not fit the stream: {validity:?}")
            }
            Self::Unknown(why) => write!(
                f,
                "whether the position fits the stream is not known yet: {why}"
            ),
        }
    }
}

// === impl Stopped ===

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gate(closed) => closed.fmt(f),
            Self::Wrong(text) => write!(f, "the server does not accept our requests: {text}"),
        }
    }
}
