//! What the application says of messages that it is done with.

use std::time::Duration;

use super::super::{Sequence, SessionId, Timestamp};
use super::window::{Return, State};
use super::{Ledger, Message};

/// What became of an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledged {
    /// It counts, or had been counted already.
    Accepted {
        /// The position that has to be committed for it to be on record.
        until: Sequence,
        /// How long the application had the newest message that it covers; none if it had been
        /// counted already.
        took: Option<Duration>,
    },
    /// The message is not this session's.
    NotTheirs,
}

/// Whether an acknowledgement covers a message, in rising order of what it brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Covered {
    /// It does not.
    No,
    /// It was done before.
    Before,
    /// It is done now; it was handed over then.
    Now(Timestamp),
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
        let mut covered = self.left_before(sequence);
        if self.may_ack(session) {
            for index in 0..self.window.len() {
                match self.window.get(index) {
                    Some(slot) if slot.message.sequence() <= sequence => {
                        covered = covered.max(self.finish(index, session));
                    }
                    Some(_) | None => break,
                }
            }
        }
        self.after_ack(covered, sequence, now)
    }

    /// This message is done. P117
    pub fn ack_each(
        &mut self,
        session: &SessionId,
        sequence: Sequence,
        now: Timestamp,
    ) -> Acknowledged {
        let covered = match self.find(sequence) {
            Some(index) if self.may_ack(session) => self.finish(index, session),
            Some(_) => Covered::No,
            None => self.left_before(sequence),
        };
        self.after_ack(covered, sequence, now)
    }

    fn may_ack(&self, session: &SessionId) -> bool {
        self.holder.as_ref().is_none_or(|holder| holder == session)
    }

    fn left_before(&self, sequence: Sequence) -> Covered {
        if sequence < self.done {
            Covered::Before
        } else {
            Covered::No
        }
    }

    /// Marks a slot as done if it is this session's.
    fn finish(&mut self, index: usize, session: &SessionId) -> Covered {
        let Some(slot) = self.window.get(index) else {
            return Covered::No;
        };
        let handed_at = slot.handed_at;
        match slot.state {
            State::Done => return Covered::Before,
            State::InHand => {}
            State::Waiting(_, Return::SessionEnded | Return::MayBeWanted)
                if self.former_holder.as_ref() == Some(session) => {}
            State::Waiting(..) | State::Spent => return Covered::No,
        }
        self.set(index, State::Done);
        Covered::Now(handed_at)
    }

    fn after_ack(&mut self, covered: Covered, sequence: Sequence, now: Timestamp) -> Acknowledged {
        let took = match covered {
            Covered::No => return Acknowledged::NotTheirs,
            Covered::Before => None,
            Covered::Now(handed_at) => Some(self.stamp(now).since(handed_at)),
        };
        self.last_ack = Some(now);
        self.advance();
        Acknowledged::Accepted {
            until: sequence.min(self.last_handed).next(),
            took,
        }
    }
}
