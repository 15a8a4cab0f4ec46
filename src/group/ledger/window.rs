//! A message that was handed over, and what became of it.

use super::super::{Head, Mark, Sequence, Timestamp};
use super::{Ledger, Message};

/// A message of the window.
#[derive(Clone, Debug)]
pub(super) struct Slot<M> {
    pub(super) message: M,
    pub(super) state: State,
    /// When it was handed over last, by the processing timer's clock.
    pub(super) handed_at: Timestamp,
    /// What the application is told: 1 for the first time.
    pub(super) attempt: u32,
    /// Failed attempts, as `maxAttempts` counts them.
    pub(super) failures: u32,
    /// Whether the last failure came without a word: the process died or hung.
    pub(super) mute: bool,
    pub(super) error: Option<Box<str>>,
}

/// What became of a message that was handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// With the application.
    InHand,
    /// Back here, to be handed over again, not before this moment.
    Waiting(Timestamp, Return),
    /// It has had its last attempt and blocks the partition.
    Spent,
    /// Acknowledged, or skipped.
    Done,
}

/// How a message came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Return {
    /// The application refused it.
    Refused,
    /// Its session ended: it may have been processed, and a late acknowledgement counts.
    SessionEnded,
    /// The same while the member leaves: whoever opens a session now is given it again.
    MayBeWanted,
}

// === impl Slot ===

impl<M> Slot<M> {
    pub(super) fn is_in_hand(&self) -> bool {
        matches!(self.state, State::InHand)
    }

    /// Whether its session ended while the member leaves.
    pub(super) fn may_be_wanted(&self) -> bool {
        matches!(self.state, State::Waiting(_, Return::MayBeWanted))
    }
}

// === impl Ledger ===

impl<M: Message> Ledger<M> {
    /// Moves one slot to another state and keeps count.
    pub(super) fn set(&mut self, index: usize, state: State) {
        let Some(slot) = self.window.get_mut(index) else {
            return;
        };
        let before = std::mem::replace(&mut slot.state, state);
        *self.count(before) -= 1;
        *self.count(state) += 1;
        if self.in_hand == 0 {
            self.holder = None;
        }
    }

    pub(super) fn count(&mut self, state: State) -> &mut u32 {
        match state {
            State::InHand => &mut self.in_hand,
            State::Waiting(..) | State::Spent => &mut self.waiting,
            State::Done => &mut self.done_in_window,
        }
    }

    /// Lets what is done leave at the front: the only way in which the position moves past a
    /// message. P118
    pub(super) fn advance(&mut self) {
        while let Some(front) = self.window.front() {
            if front.state != State::Done {
                break;
            }
            let (seq, ts) = (front.message.sequence(), front.message.stored());
            assert!(seq >= self.done, "the position would fall");
            self.done = seq.next();
            self.mark = Some(Mark { seq, ts });
            self.left += 1;
            self.done_in_window -= 1;
            self.window.pop_front();
        }
        self.block_if_the_head_is_spent();
    }

    /// Where in the window this message is.
    pub(super) fn find(&self, sequence: Sequence) -> Option<usize> {
        self.window
            .binary_search_by_key(&sequence, |slot| slot.message.sequence())
            .ok()
    }

    /// The attempts of the message at the head, as the commit record has them. P120
    pub(super) fn head(&self) -> Option<Head> {
        let Some(front) = self.window.front() else {
            return self.inherited.clone();
        };
        (front.failures > 0 || front.error.is_some()).then(|| Head {
            seq: front.message.sequence(),
            attempts: front.failures,
            last_error: front.error.as_deref().unwrap_or_default().to_owned(),
        })
    }

    /// Failed attempts of the message at the head.
    pub fn head_attempts(&self) -> u32 {
        self.window.front().map_or_else(
            || self.inherited.as_ref().map_or(0, |head| head.attempts),
            |front| front.failures,
        )
    }
}
