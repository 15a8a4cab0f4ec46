//! What the application says of messages that it is done with.

use super::super::{Sequence, SessionId, Timestamp};
use super::window::{Return, State};
use super::{Ledger, Message};

/// What became of an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledged {
    /// It counts, or had been counted already.
    Accepted,
    /// The message is not this session's.
    NotTheirs,
}

// === impl Ledger ===

impl<M: Message> Ledger<M> {
    /// Everything that this session was given at or below `sequence` is done. What it refused and
    /// what waits for another attempt is not. P117
    pub fn ack_up_to(
        &mut self,
        session: &SessionId,
        sequence: Sequence,
        now: Timestamp,
    ) -> Acknowledged {
        let mut covered = sequence < self.done;
        if self.may_ack(session) {
            for index in 0..self.window.len() {
                match self.window.get(index) {
                    Some(slot) if slot.message.sequence() <= sequence => {
                        covered |= self.finish(index, session);
                    }
                    Some(_) | None => break,
                }
            }
        }
        self.after_ack(covered, now)
    }

    /// This message is done. P117
    pub fn ack_each(
        &mut self,
        session: &SessionId,
        sequence: Sequence,
        now: Timestamp,
    ) -> Acknowledged {
        let covered = match self.find(sequence) {
            Some(index) => self.may_ack(session) && self.finish(index, session),
            None => sequence < self.done,
        };
        self.after_ack(covered, now)
    }

    fn may_ack(&self, session: &SessionId) -> bool {
        self.holder.as_ref().is_none_or(|holder| holder == session)
    }

    /// Marks a slot as done if it is this session's; answers whether it is done now.
    fn finish(&mut self, index: usize, session: &SessionId) -> bool {
        let Some(slot) = self.window.get(index) else {
            return false;
        };
        match slot.state {
            State::Done => true,
            State::InHand => {
                self.set(index, State::Done);
                true
            }
            State::Waiting(_, Return::SessionEnded)
                if self.former_holder.as_ref() == Some(session) =>
            {
                self.set(index, State::Done);
                true
            }
            State::Waiting(..) | State::Spent => false,
        }
    }

    fn after_ack(&mut self, covered: bool, now: Timestamp) -> Acknowledged {
        if !covered {
            return Acknowledged::NotTheirs;
        }
        self.last_ack = Some(now);
        self.advance();
        Acknowledged::Accepted
    }
}
