//! Taking messages in from the reader and handing them to the application.

use super::super::{Head, Mark, OnFailure, Sequence, SessionId, Timestamp};
use super::fail::{Failure, Verdict};
use super::window::{Slot, State};
use super::{Ledger, Message};

/// What of the partition may be handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feed {
    /// Whatever there is.
    Open,
    /// Only again what the session has already: the partition is paused or being revoked.
    OnlyAgain,
    /// The same, and what a session had that has ended meanwhile: the member leaves. P126a
    OnlyBegun,
}

/// What a reader of the application wants of its own messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// What it has and did not acknowledge, again, then more: a fetch.
    FromItsFirst,
    /// The same, but only above this sequence: a fetch that has got so far, and goes on.
    After(Sequence),
    /// Only what it was not given yet: a stream.
    OnlyNew,
}

/// How much may be handed over in one go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Messages.
    pub messages: u64,
    /// Bytes; the first message is given whatever its size.
    pub bytes: u64,
    /// Messages given so far.
    pub given: u64,
}

/// How a message is handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandOver {
    /// 1 for the first time.
    pub attempt: u32,
    /// Whether this session has had it before and it did not fail meanwhile.
    pub again: bool,
    /// When it counts as not processed in time.
    pub ends: Timestamp,
}

// === impl Budget ===

impl Budget {
    /// This much, nothing of it given.
    pub fn new(messages: u64, bytes: u64) -> Self {
        Self {
            messages,
            bytes,
            given: 0,
        }
    }

    fn covers(&self, size: u64) -> bool {
        self.messages > 0 && (size <= self.bytes || self.given == 0)
    }

    fn spend(&mut self, size: u64) {
        self.messages -= 1;
        self.bytes = self.bytes.saturating_sub(size);
        self.given += 1;
    }
}

// === impl Ask ===

impl Ask {
    /// Whether this message, which the application has, is to be handed over once more.
    fn repeats<M: Message>(self, slot: &Slot<M>) -> bool {
        let wanted = match self {
            Self::FromItsFirst => true,
            Self::After(reached) => slot.message.sequence() > reached,
            Self::OnlyNew => false,
        };
        wanted && slot.state == State::InHand
    }
}

// === impl Ledger ===

impl<M: Message> Ledger<M> {
    /// Takes in what was read, in stream order. What is not above everything read before is left
    /// out (P106); says how many that were.
    pub fn take_in(&mut self, batch: impl IntoIterator<Item = M>, now: Timestamp) -> usize {
        let mut left_out = 0;
        for message in batch {
            if message.sequence() <= self.last_read {
                left_out += 1;
                continue;
            }
            self.last_read = message.sequence();
            self.last_mark = Some(Mark {
                seq: message.sequence(),
                ts: message.stored(),
            });
            self.buffered_bytes += message.size();
            self.buffer.push_back(message);
        }
        self.judge_the_inherited_head(now);
        left_out
    }

    /// Hands over what this session may have now, in order, as far as the budget goes.
    ///
    /// # Panics
    ///
    /// If the buffer were out of order, which [`Ledger::take_in`] does not let happen.
    #[expect(
        clippy::too_many_arguments,
        reason = "to whom, what, how much, when, whereto"
    )]
    pub fn hand_over(
        &mut self,
        session: &SessionId,
        (ask, feed): (Ask, Feed),
        budget: &mut Budget,
        now: Timestamp,
        mut to: impl FnMut(&M, HandOver),
    ) {
        if self.stopped.is_some() || self.holder.as_ref().is_some_and(|h| h != session) {
            return; // P115, P121
        }
        if self.give_again(session, (ask, feed), budget, now, &mut to) && feed == Feed::Open {
            self.give_new(session, budget, now, &mut to);
        }
    }

    /// Whether this session would be given something now.
    pub fn has_for(&self, session: &SessionId, (ask, feed): (Ask, Feed), now: Timestamp) -> bool {
        if self.stopped.is_some() || self.holder.as_ref().is_some_and(|h| h != session) {
            return false;
        }
        let repeats = match ask {
            Ask::OnlyNew => false, // asked for every frame of a stream: the window is not gone through
            Ask::FromItsFirst => self.in_hand > 0,
            Ask::After(_) => self.in_hand > 0 && self.window.iter().any(|slot| ask.repeats(slot)),
        };
        if repeats {
            return true;
        }
        let retry = self.waiting > 0 && self.retry_at().is_some_and(|at| at <= now);
        match feed {
            Feed::OnlyAgain => false,
            Feed::OnlyBegun => retry && self.first_back().is_some_and(Slot::may_be_wanted),
            Feed::Open if self.waiting > 0 => retry,
            Feed::Open => !self.buffer.is_empty() && self.has_room(),
        }
    }

    /// Whether this session would be given a new message if there were one.
    pub fn could_take(&self, session: &SessionId) -> bool {
        self.stopped.is_none()
            && self.waiting == 0
            && self.holder.as_ref().is_none_or(|holder| holder == session)
            && self.has_room()
    }

    /// When a message that waits for another attempt may be handed over.
    pub fn retry_at(&self) -> Option<Timestamp> {
        if self.waiting == 0 {
            return None;
        }
        match self.first_back()?.state {
            State::Waiting(at, _) => Some(at),
            State::InHand | State::Spent | State::Done => None,
        }
    }

    /// The first message that was handed over and is here again.
    fn first_back(&self) -> Option<&Slot<M>> {
        let back = |s: &&Slot<M>| matches!(s.state, State::Waiting(..) | State::Spent);
        self.window.iter().find(back)
    }

    /// Goes through the window; answers whether nothing in it stands before new messages. P115
    #[expect(
        clippy::too_many_arguments,
        reason = "to whom, what, how much, when, whereto"
    )]
    fn give_again(
        &mut self,
        session: &SessionId,
        (ask, feed): (Ask, Feed),
        budget: &mut Budget,
        now: Timestamp,
        to: &mut impl FnMut(&M, HandOver),
    ) -> bool {
        if self.waiting == 0 && (ask == Ask::OnlyNew || self.in_hand == 0) {
            return true;
        }
        let (stamp, alone) = (self.stamp(now), self.goes_alone());
        for index in 0..self.window.len() {
            let Some(slot) = self.window.get_mut(index) else {
                break;
            };
            let wanted = match feed {
                Feed::Open => true,
                Feed::OnlyAgain => false,
                Feed::OnlyBegun => slot.may_be_wanted(),
            };
            let again = match slot.state {
                State::Done => continue,
                State::InHand if !ask.repeats(slot) => continue,
                State::InHand => true,
                State::Waiting(at, _) if at <= now && wanted => false,
                State::Waiting(..) | State::Spent => return false,
            };
            if !budget.covers(slot.message.size()) || (alone && !again && self.in_hand > 0) {
                return false;
            }
            if !again {
                slot.handed_at = stamp;
            }
            budget.spend(slot.message.size());
            self.tell(index, again, to);
            if !again {
                self.set(index, State::InHand);
                self.bind(session);
            }
        }
        true
    }

    fn give_new(
        &mut self,
        session: &SessionId,
        budget: &mut Budget,
        now: Timestamp,
        to: &mut impl FnMut(&M, HandOver),
    ) {
        let stamp = self.stamp(now);
        while self.has_room() {
            let Some(next) = self.buffer.front() else {
                break;
            };
            if !budget.covers(next.size()) {
                break;
            }
            let Some(message) = self.buffer.pop_front() else {
                break;
            };
            self.buffered_bytes -= message.size();
            assert!(
                message.sequence() > self.last_handed,
                "order within a partition"
            );
            self.last_handed = message.sequence();
            budget.spend(message.size());
            let slot = self.slot_for(message, stamp);
            self.window.push_back(slot);
            self.in_hand += 1;
            self.tell(self.window.len() - 1, false, to);
        }
        if self.in_hand > 0 {
            self.bind(session);
        }
    }

    fn bind(&mut self, session: &SessionId) {
        if self.holder.is_none() {
            self.holder = Some(session.clone());
            self.former_holder = None;
        }
    }

    fn tell(&self, index: usize, again: bool, to: &mut impl FnMut(&M, HandOver)) {
        if let Some(slot) = self.window.get(index) {
            let hand_over = HandOver {
                attempt: slot.attempt,
                again,
                ends: self.processing_end_of(slot.handed_at),
            };
            to(&slot.message, hand_over);
        }
    }

    /// Whether one more message may be given to the application. P114, P124
    fn has_room(&self) -> bool {
        let limit = if self.goes_alone() {
            1
        } else {
            self.rules.max_in_flight
        };
        self.in_hand + self.waiting < limit
            && self.uncommitted() < self.rules.max_uncommitted.into()
    }

    /// A head whose process died or hung more than once is handed over alone, so that the message
    /// that does it is found, and not its neighbour blamed.
    fn goes_alone(&self) -> bool {
        let most = self.rules.retry.max_attempts.saturating_sub(1).min(2);
        self.window
            .front()
            .is_some_and(|head| head.mute && most > 0 && head.failures >= most)
    }

    fn slot_for(&mut self, message: M, handed_at: Timestamp) -> Slot<M> {
        let inherited = self
            .inherited
            .take()
            .filter(|head| self.is_about(head, message.sequence()));
        let failures = inherited.as_ref().map_or(0, |head| head.attempts);
        Slot {
            message,
            state: State::InHand,
            handed_at,
            attempt: failures + 1,
            failures,
            mute: failures > 0,
            error: inherited.map(|head| head.last_error.into()),
        }
    }

    /// Whether these attempts were of this message: a head may name the position before it.
    fn is_about(&self, head: &Head, sequence: Sequence) -> bool {
        self.window.is_empty() && (head.seq == sequence || head.seq == self.done)
    }

    /// A message whose attempts were used up by former owners is not handed over. P99, P121
    fn judge_the_inherited_head(&mut self, now: Timestamp) {
        let max = self.rules.retry.max_attempts.max(1);
        let Some(next) = self.buffer.front() else {
            return;
        };
        let spent = self.window.is_empty()
            && self
                .inherited
                .as_ref()
                .is_some_and(|head| head.attempts >= max && self.is_about(head, next.sequence()));
        if !spent || self.stopped.is_some() {
            return;
        }
        let Some(message) = self.buffer.pop_front() else {
            return;
        };
        self.buffered_bytes -= message.size();
        self.last_handed = message.sequence();
        let mut slot = self.slot_for(message, now);
        let skip = self.rules.on_failure == OnFailure::Skip;
        slot.state = if skip { State::Done } else { State::Spent };
        self.failures.push(Failure {
            sequence: slot.message.sequence(),
            attempts: slot.failures,
            error: slot.error.as_deref().unwrap_or_default().to_owned(),
            verdict: if skip {
                Verdict::Skipped
            } else {
                Verdict::Stuck
            },
        });
        *self.count(slot.state) += 1;
        self.window.push_back(slot);
        self.advance();
    }

    /// Attempts that a former owner's unclean end adds to the head. P99
    pub fn unclean_head(head: Option<&Head>, next_seq: Sequence) -> Head {
        let head = head.filter(|h| h.seq >= next_seq);
        Head {
            seq: head.map_or(next_seq, |h| h.seq),
            attempts: head.map_or(0, |h| h.attempts).saturating_add(1),
            last_error: head.map_or_else(
                || "its owner ended without giving it back".to_owned(),
                |h| h.last_error.clone(),
            ),
        }
    }
}
