//! The ledger of one partition at one epoch: what is with the application, what may be given next,
//! and how far all is done.
//!
//! A message is *buffered* (read, not handed over), then in the *window* (handed over at least
//! once), then *done*. The window is in stream order, and its front is never done: what is done at
//! the front leaves it and moves the position that may be committed. All steps take amortized
//! constant time per message.

mod acknowledge;
mod commit;
mod fail;
mod feed;
mod window;

use std::collections::VecDeque;
use std::time::Duration;

use super::{
    Head, Mark, Meta, MetaGeneration, OffsetRecord, OnFailure, Retry, Sequence, ServerTime,
    SessionId, Stopped, Timestamp,
};

pub use acknowledge::Acknowledged;
pub use commit::Commit;
pub use fail::{Failure, SessionEnd, Verdict};
pub use feed::{Ask, Budget, Feed, HandOver};
use window::Slot;

/// What the ledger has to know of a message.
pub trait Message {
    /// Its sequence in the stream.
    fn sequence(&self) -> Sequence;
    /// When the server stored it.
    fn stored(&self) -> ServerTime;
    /// Its size in bytes, as budgets count it.
    fn size(&self) -> u64;
}

/// The settings of a group that the ledger follows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// Messages in the application's hands.
    pub max_in_flight: u32,
    /// Acknowledged messages that may wait for their commit.
    pub max_uncommitted: u32,
    /// Retries.
    pub retry: Retry,
    /// What follows the last attempt.
    pub on_failure: OnFailure,
    /// Time that the application has for a message.
    pub processing_timeout: Duration,
    /// The edition of `meta` that says so.
    pub generation: MetaGeneration,
}

/// One partition's messages in one member's hands, at one epoch.
#[derive(Clone, Debug)]
pub struct Ledger<M> {
    rules: Rules,
    /// Handed over at least once, in stream order; the front is not done.
    window: VecDeque<Slot<M>>,
    /// Read and not handed over, in stream order.
    buffer: VecDeque<M>,
    buffered_bytes: u64,
    /// The newest sequence that was read: nothing at or below it is taken again.
    last_read: Sequence,
    /// The newest message that was read at this epoch.
    last_mark: Option<Mark>,
    /// The newest sequence that was handed over.
    last_handed: Sequence,
    /// The first sequence that is not done.
    done: Sequence,
    /// The last message below `done`.
    mark: Option<Mark>,
    /// Messages that left the window since the beginning.
    left: u64,
    /// How many of these are committed.
    left_and_committed: u64,
    /// How often a policy has chosen another history of the stream.
    history: u32,
    /// Slots by state: in the application's hands; waiting for another attempt or spent; done.
    in_hand: u32,
    waiting: u32,
    done_in_window: u32,
    /// Who has the messages that are in hand.
    holder: Option<SessionId>,
    /// Whose messages came back when it ended: a late acknowledgement of it still counts, as long
    /// as nobody else was given them.
    former_holder: Option<SessionId>,
    /// Attempts by the commit record, for the first message that comes.
    inherited: Option<Head>,
    /// Why nothing is handed over until somebody acts.
    stopped: Option<Stopped>,
    /// What the commit record says.
    stored: Stored,
    /// How long the processing timer has stood still altogether.
    stood_still: Duration,
    still_since: Option<Timestamp>,
    last_ack: Option<Timestamp>,
    failures: Vec<Failure>,
}

/// The parts of the commit record that the ledger writes, as they are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stored {
    next: Sequence,
    mark: Option<Mark>,
    head: Option<Head>,
    stopped: Option<Stopped>,
    history: u32,
}

// === impl Rules ===

impl Rules {
    /// The rules of this group.
    pub fn of(meta: &Meta) -> Self {
        Self {
            max_in_flight: meta.delivery.max_in_flight.max(1),
            max_uncommitted: meta.delivery.max_uncommitted.max(1),
            retry: meta.delivery.retry,
            on_failure: meta.delivery.on_failure,
            processing_timeout: meta.membership.processing_timeout,
            generation: meta.generation,
        }
    }
}

// === impl Ledger ===

impl<M: Message> Ledger<M> {
    /// An empty ledger that starts where the commit record says.
    pub fn starting_at(record: &OffsetRecord, rules: Rules) -> Self {
        Self {
            rules,
            window: VecDeque::new(),
            buffer: VecDeque::new(),
            buffered_bytes: 0,
            last_read: Sequence(record.next_seq.0.saturating_sub(1)),
            last_mark: None,
            last_handed: Sequence(record.next_seq.0.saturating_sub(1)),
            done: record.next_seq,
            mark: record.mark,
            left: 0,
            left_and_committed: 0,
            history: 0,
            in_hand: 0,
            waiting: 0,
            done_in_window: 0,
            holder: None,
            former_holder: None,
            inherited: record.head.clone(),
            stopped: record.stopped.clone(),
            stored: Stored {
                next: record.next_seq,
                mark: record.mark,
                head: record.head.clone(),
                stopped: record.stopped.clone(),
                history: 0,
            },
            stood_still: Duration::ZERO,
            still_since: None,
            last_ack: None,
            failures: Vec::new(),
        }
    }

    /// Other settings from now on.
    pub fn follow(&mut self, rules: Rules) {
        self.rules = rules;
    }

    /// Messages in the application's hands.
    pub fn in_flight(&self) -> u32 {
        self.in_hand
    }

    /// Who has them.
    pub fn holder(&self) -> Option<&SessionId> {
        self.holder.as_ref()
    }

    /// Messages that were read and not handed over.
    pub fn buffered(&self) -> usize {
        self.buffer.len()
    }

    /// Their size.
    pub fn buffered_bytes(&self) -> u64 {
        self.buffered_bytes
    }

    /// The next sequence to hand over.
    pub fn position(&self) -> Sequence {
        self.done.max(self.last_handed.next())
    }

    /// The newest sequence that was taken from the reader; where it goes on after a restart.
    pub fn last_read(&self) -> Sequence {
        self.last_read
    }

    /// The newest message that was read at this epoch, by which a reader that begins anew
    /// recognises the stream.
    pub fn last_mark(&self) -> Option<Mark> {
        self.last_mark
    }

    /// The first sequence that is not committed.
    pub fn committed(&self) -> Sequence {
        self.stored.next
    }

    /// The first sequence that is not done.
    pub fn done(&self) -> Sequence {
        self.done
    }

    /// Whether nothing was read that is not done.
    pub fn is_empty(&self) -> bool {
        self.window.is_empty() && self.buffer.is_empty()
    }

    /// Why nothing is handed over.
    pub fn stopped(&self) -> Option<&Stopped> {
        self.stopped.as_ref()
    }

    /// When the application last acknowledged something.
    pub fn last_ack(&self) -> Option<Timestamp> {
        self.last_ack
    }

    /// Failed attempts since the last call, for events and the log.
    pub fn take_failures(&mut self) -> Vec<Failure> {
        std::mem::take(&mut self.failures)
    }

    /// The processing timer stands still from now on.
    pub fn stand_still(&mut self, now: Timestamp) {
        self.still_since.get_or_insert(now);
    }

    /// The processing timer goes on.
    pub fn go_on(&mut self, now: Timestamp) {
        if let Some(since) = self.still_since.take() {
            self.stood_still += now.since(since);
        }
    }

    /// When the application has had its oldest message for too long; none while the timer stands
    /// still or nothing is in hand. P83, P85
    pub fn processing_ends(&self) -> Option<Timestamp> {
        if self.still_since.is_some() || self.in_hand == 0 {
            return None;
        }
        self.oldest_in_hand()
            .map(|slot| self.processing_end_of(slot.handed_at))
    }

    /// The message whose processing timer runs.
    pub fn oldest(&self) -> Option<Sequence> {
        self.oldest_in_hand().map(|slot| slot.message.sequence())
    }

    fn processing_end_of(&self, handed_at: Timestamp) -> Timestamp {
        handed_at
            .after(self.stood_still)
            .after(self.rules.processing_timeout)
    }

    /// The time by which hand-overs are stamped: it stands still when the processing timer does.
    fn stamp(&self, now: Timestamp) -> Timestamp {
        let now = self.still_since.unwrap_or(now);
        Timestamp(now.0.saturating_sub(self.stood_still))
    }

    fn oldest_in_hand(&self) -> Option<&Slot<M>> {
        self.window.iter().find(|slot| slot.is_in_hand())
    }
}
