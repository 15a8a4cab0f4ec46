//! What the handle asks of the pump.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot};

use crate::group::{Epoch, Partition, SessionId};

use super::handle::{
    AckMode, AckResult, AckWait, CallError, ConsumeFrame, Credit, Drained, FetchOptions, Fetched,
    Position, Publish, Published,
};
use super::status::Status;

/// Where an answer goes. A caller that has gone away is no error.
pub(super) type Reply<T> = oneshot::Sender<Result<T, CallError>>;

/// Commands that may wait for the pump: as many as one turn of it can take in at ease.
pub(super) const COMMANDS: usize = 1024;

/// One request of the application or of the process around the member.
#[derive(Debug)]
pub(super) enum Command {
    /// Hand over messages.
    Fetch {
        session: SessionId,
        options: FetchOptions,
        reply: Reply<Fetched>,
    },
    /// These are done.
    Ack {
        session: SessionId,
        positions: Vec<Position>,
        mode: AckMode,
        wait: AckWait,
        reply: Reply<Vec<AckResult>>,
    },
    /// These failed.
    Nack {
        session: SessionId,
        positions: Vec<Position>,
        error: String,
        delay: Option<Duration>,
        reply: Reply<Vec<AckResult>>,
    },
    /// Publish a message of the application.
    Publish {
        message: Box<Publish>,
        reply: Reply<Published>,
    },
    /// How are you?
    Status { reply: Reply<Status> },
    /// Stop feeding these, or all.
    Pause {
        partitions: Option<BTreeSet<Partition>>,
        reply: Reply<()>,
    },
    /// Feed these again, or all.
    Resume {
        partitions: Option<BTreeSet<Partition>>,
        reply: Reply<()>,
    },
    /// Open a stream.
    Consume {
        session: SessionId,
        credit: Credit,
        frames: mpsc::Sender<ConsumeFrame>,
        /// The stream's number, and what it notifies when it has taken a frame out.
        reply: Reply<(u64, Arc<Notify>)>,
    },
    /// More credit for a stream.
    Grant { stream: u64, credit: Credit },
    /// The application is through with a partition that is being revoked.
    Released {
        session: SessionId,
        partition: Partition,
        epoch: Epoch,
    },
    /// This session does not expire.
    KeepSession {
        session: SessionId,
        reply: Reply<()>,
    },
    /// The session is over.
    CloseSession {
        session: SessionId,
        reply: Reply<()>,
    },
    /// Give everything back.
    Drain {
        timeout: Duration,
        reply: Reply<Drained>,
    },
}
