//! The member's handle: everything that an application or the process around a member may ask.
//!
//! Cheap to clone, safe to use from many tasks. A call that is dropped before its answer takes
//! nothing with it: messages that were handed to it are handed over again to the same session.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, broadcast, mpsc, oneshot, watch};

pub use crate::group::SessionId;
use crate::group::{Epoch, Partition, Sequence};

use super::command::{Command, Reply};
use super::delivered::Delivered;
use super::events::{EventStream, MemberEvent};
use super::status::Status;

/// Frames that may wait for the reader of one stream; credit bounds what is in them.
const FRAMES: usize = 64;

/// A running member.
#[derive(Clone, Debug)]
pub struct MemberHandle {
    pub(super) commands: mpsc::Sender<Command>,
    pub(super) events: broadcast::Sender<MemberEvent>,
    pub(super) health: watch::Receiver<Health>,
}

/// What a fetch asks for; what is not said is as the group's settings say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FetchOptions {
    /// Most messages.
    pub max_messages: Option<u32>,
    /// How long to wait for the first message.
    pub max_wait: Option<Duration>,
    /// How long to wait for more after it.
    pub batch_wait: Option<Duration>,
    /// Most bytes; one message is given whatever its size.
    pub max_bytes: Option<u64>,
    /// Only these partitions.
    pub partitions: Option<BTreeSet<Partition>>,
}

/// What a fetch got.
#[derive(Clone, Debug, Default)]
pub struct Fetched {
    /// Messages, those that were handed over before first.
    pub messages: Vec<Delivered>,
    /// How many of them this session had been given before.
    pub redelivered: u32,
}

/// One message by its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The partition.
    pub partition: Partition,
    /// The epoch under which it was handed over.
    pub epoch: Epoch,
    /// Its sequence.
    pub sequence: Sequence,
}

/// What an acknowledgement covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AckMode {
    /// Everything of the partition up to the position.
    #[default]
    UpTo,
    /// The message alone.
    Each,
}

/// What the answer to an acknowledgement waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AckWait {
    /// Nothing.
    #[default]
    Accepted,
    /// The commit that covers it.
    Committed,
}

/// What became of one position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckResult {
    /// The position as it was given.
    pub position: Position,
    /// What became of it.
    pub status: AckStatus,
    /// The first sequence of the partition that is not committed; 0 if it is not owned.
    pub committed: Sequence,
}

/// What became of an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckStatus {
    /// Taken; the commit follows.
    Accepted,
    /// Stored in the commit record.
    Committed,
    /// The partition is not owned at that epoch, or the message is not this session's.
    NotOwned,
}

/// A message to publish.
#[derive(Clone, Debug)]
pub struct Publish {
    /// Where to.
    pub to: PublishTo,
    /// Its content.
    pub payload: Bytes,
    /// Its headers.
    pub headers: Vec<(String, Vec<String>)>,
    /// The id by which the server recognises a repetition.
    pub id: Option<String>,
    /// The consumed message that it is made from: gives the id where none is given.
    pub derived_from: Option<Position>,
}

/// Where a message is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublishTo {
    /// Into the partition of this key, in the group's own source.
    Key(String),
    /// Under this subject, into whatever stream takes it.
    Subject(String),
}

/// The stream's answer to a publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The stream that stored it.
    pub stream: String,
    /// Its sequence.
    pub sequence: Sequence,
    /// Its partition, where it is one of this group.
    pub partition: Option<Partition>,
    /// Whether the stream had it already.
    pub duplicate: bool,
}

/// How much a stream may be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credit {
    /// Messages.
    pub messages: u64,
    /// Bytes of payload and subject.
    pub bytes: u64,
}

/// What a stream is told.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ConsumeFrame {
    /// These partitions are owned from now on.
    Assigned(Vec<(Partition, Epoch)>),
    /// Finish this partition: nothing more of it comes.
    Revoking {
        /// The partition.
        partition: Partition,
        /// The epoch of the ownership.
        epoch: Epoch,
        /// How long there is for it.
        deadline: Duration,
    },
    /// This partition is gone; acknowledgements for it are not taken any more.
    Revoked {
        /// The partition.
        partition: Partition,
        /// The epoch that ended.
        epoch: Epoch,
    },
    /// Nothing comes and nothing is committed until NATS answers again.
    Suspended,
    /// It goes on.
    Resumed,
    /// Messages.
    Batch(Vec<Delivered>),
}

/// An open stream: a session of its own that pushes messages as far as there is credit.
///
/// Dropping it ends the session: what it had is tried again.
#[derive(Debug)]
pub struct Consuming {
    stream: u64,
    session: SessionId,
    frames: mpsc::Receiver<ConsumeFrame>,
    room: Arc<Notify>,
    commands: mpsc::Sender<Command>,
}

/// How a drain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Partitions that were given back with everything acknowledged and committed.
    pub clean: u32,
    /// Partitions whose application was not through in time.
    pub unclean: u32,
}

/// The three questions of probes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// The member's loop is running.
    pub listening: bool,
    /// The member takes part in its group (standby included).
    pub joined: bool,
    /// The member is not stuck: its loop turns, whatever NATS does.
    pub alive: bool,
}

/// Why a call could not be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The member is not part of its group yet.
    #[error("the member has not joined its group yet: {why}")]
    NotJoined {
        /// What it waits for.
        why: String,
    },
    /// The member is leaving.
    #[error("the member is draining and hands out nothing more")]
    Draining,
    /// The session is used in another way already.
    #[error("session {session:?} is in use by an open Consume stream")]
    SessionConflict {
        /// The session.
        session: String,
    },
    /// The request cannot be understood.
    #[error("{field}: {sentence}")]
    BadRequest {
        /// The field.
        field: &'static str,
        /// What is wrong with it, and what to change.
        sentence: String,
    },
    /// The message is larger than the server takes.
    #[error("the message has {size} bytes; the server takes at most {limit}")]
    TooLarge {
        /// Its size.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// The member or its server cannot do it now.
    #[error("{why}")]
    Unavailable {
        /// What is missing.
        why: String,
    },
}

// === impl MemberHandle ===

impl MemberHandle {
    /// Hands over messages of owned partitions: what this session has and did not acknowledge
    /// first, again and in order. A second fetch of the same session waits for the first.
    pub async fn fetch(
        &self,
        session: &SessionId,
        options: FetchOptions,
    ) -> Result<Fetched, CallError> {
        let session = session.clone();
        self.ask(|reply| Command::Fetch {
            session,
            options,
            reply,
        })
        .await
    }

    /// Says that messages are done.
    pub async fn ack(
        &self,
        session: &SessionId,
        positions: Vec<Position>,
        mode: AckMode,
        wait: AckWait,
    ) -> Result<Vec<AckResult>, CallError> {
        let session = session.clone();
        self.ask(|reply| Command::Ack {
            session,
            positions,
            mode,
            wait,
            reply,
        })
        .await
    }

    /// Says that messages failed: each is tried again in its place, after a back-off or `delay`.
    pub async fn nack(
        &self,
        session: &SessionId,
        positions: Vec<Position>,
        error: String,
        delay: Option<Duration>,
    ) -> Result<Vec<AckResult>, CallError> {
        let session = session.clone();
        self.ask(|reply| Command::Nack {
            session,
            positions,
            error,
            delay,
            reply,
        })
        .await
    }

    /// Publishes a message.
    pub async fn publish(&self, message: Publish) -> Result<Published, CallError> {
        let message = Box::new(message);
        self.ask(|reply| Command::Publish { message, reply }).await
    }

    /// The member's state in full.
    pub async fn status(&self) -> Result<Status, CallError> {
        self.ask(|reply| Command::Status { reply }).await
    }

    /// Stops feeding these partitions (all, if none are named) on this member, until it is told
    /// to resume or ends.
    pub async fn pause(&self, partitions: Option<BTreeSet<Partition>>) -> Result<(), CallError> {
        self.ask(|reply| Command::Pause { partitions, reply }).await
    }

    /// Feeds these partitions (all, if none are named) again. What the group's `meta` pauses
    /// stays paused.
    pub async fn resume(&self, partitions: Option<BTreeSet<Partition>>) -> Result<(), CallError> {
        self.ask(|reply| Command::Resume { partitions, reply })
            .await
    }

    /// What happens from now on.
    pub fn events(&self) -> EventStream {
        EventStream(self.events.subscribe())
    }

    /// Opens a stream as the session's only reader.
    pub async fn consume(
        &self,
        session: SessionId,
        credit: Credit,
    ) -> Result<Consuming, CallError> {
        let (sender, frames) = mpsc::channel(FRAMES);
        let asked = session.clone();
        let (stream, room) = self
            .ask(|reply| Command::Consume {
                session: asked,
                credit,
                frames: sender,
                reply,
            })
            .await?;
        Ok(Consuming {
            stream,
            session,
            frames,
            room,
            commands: self.commands.clone(),
        })
    }

    /// Keeps this session for as long as the process runs, however rarely it asks.
    pub async fn keep_session(&self, session: &SessionId) -> Result<(), CallError> {
        let session = session.clone();
        self.ask(|reply| Command::KeepSession { session, reply })
            .await
    }

    /// Ends the session: what it had and did not acknowledge is free for others, without counting
    /// as a failed attempt.
    pub async fn close_session(&self, session: &SessionId) -> Result<(), CallError> {
        let session = session.clone();
        self.ask(|reply| Command::CloseSession { session, reply })
            .await
    }

    /// Stops feeding, waits for the application, commits, gives everything back and leaves.
    /// Answers once everything is released; what is not finished in time is released as it is.
    pub async fn drain(&self, timeout: Duration) -> Result<Drained, CallError> {
        self.ask(|reply| Command::Drain { timeout, reply }).await
    }

    /// The answers to probes.
    pub fn health(&self) -> Health {
        let running = !self.commands.is_closed();
        let seen = *self.health.borrow();
        Health {
            listening: seen.listening && running,
            joined: seen.joined && running,
            alive: seen.alive && running,
        }
    }

    /// Waits until the member takes part in its group. An error means that it has stopped.
    pub async fn joined(&self) -> Result<(), CallError> {
        let mut health = self.health.clone();
        let joined = health.wait_for(|health| health.joined).await;
        joined.map(|_| ()).map_err(|_| gone())
    }

    async fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T, CallError> {
        let (reply, answer) = oneshot::channel();
        self.commands
            .send(command(reply))
            .await
            .map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

fn gone() -> CallError {
    CallError::Unavailable {
        why: "the member has stopped; start the worker again".to_owned(),
    }
}

// === impl Consuming ===

impl Consuming {
    /// The session that this stream is.
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// The next frame; none once the member has ended the stream.
    pub async fn next(&mut self) -> Option<ConsumeFrame> {
        let frame = self.frames.recv().await;
        self.room.notify_one();
        frame
    }

    /// Lets this much more come.
    pub async fn add_credit(&self, credit: Credit) -> Result<(), CallError> {
        let stream = self.stream;
        self.tell(Command::Grant { stream, credit }).await
    }

    /// Says that the application is through with a partition that is being revoked, although not
    /// everything of it was acknowledged.
    pub async fn released(&self, partition: Partition, epoch: Epoch) -> Result<(), CallError> {
        self.tell(Command::Released {
            session: self.session.clone(),
            partition,
            epoch,
        })
        .await
    }

    async fn tell(&self, command: Command) -> Result<(), CallError> {
        self.commands.send(command).await.map_err(|_| gone())
    }
}

impl Drop for Consuming {
    fn drop(&mut self) {
        // The pump also sees the closed channel; this only wakes it.
        self.frames.close();
        self.room.notify_one();
    }
}

// === impl Position ===

impl Position {
    /// The token of a message.
    pub fn of(message: &Delivered) -> Self {
        Self {
            partition: message.partition,
            epoch: message.epoch,
            sequence: message.sequence,
        }
    }
}

// === impl CallError ===

impl CallError {
    /// What the caller can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NotJoined { .. } => "try again; /readyz says when the member has joined",
            Self::Draining => "go on with another member of the group; this one is leaving",
            Self::SessionConflict { .. } => {
                "name another session (lockstep-session), or close the stream first"
            }
            Self::BadRequest { .. } => "correct the field and send the request again",
            Self::TooLarge { .. } => "send less, or raise max_payload on the server",
            Self::Unavailable { .. } => "try again; the worker's log says what it waits for",
        }
    }
}
