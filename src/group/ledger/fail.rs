//! Attempts that end without an acknowledgement: tried again in place, in order. P119, P121

use std::time::Duration;

use super::super::{Head, OnFailure, Sequence, SessionId, StopReason, Stopped, Timestamp};
use super::window::{Return, State};
use super::{Acknowledged, Ledger, Message};

/// A failed attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The message.
    pub sequence: Sequence,
    /// Attempts that have failed.
    pub attempts: u32,
    /// What was said of it.
    pub error: String,
    /// What follows.
    pub verdict: Verdict,
}

/// What follows a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is tried again, not before this moment.
    Retry(Timestamp),
    /// It was the last: the message is passed over.
    Skipped,
    /// It was the last: the partition stops at it.
    Stuck,
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    /// On purpose: what it had goes back, and nothing is counted.
    Closed,
    /// Without a word: an attempt of the oldest message that it had.
    Lost,
    /// Without a word, while the member leaves its group: it may be opened again. Nothing is
    /// counted; if it stays away, the unclean grant of the next epoch does. P99, P126a
    WhileLeaving,
}

// === impl Ledger ===

impl<M: Message> Ledger<M> {
    /// The application refuses this message.
    #[expect(
        clippy::too_many_arguments,
        reason = "who, what, why, when, and until when"
    )]
    pub fn nack(
        &mut self,
        session: &SessionId,
        sequence: Sequence,
        error: &str,
        delay: Option<Duration>,
        now: Timestamp,
    ) -> Acknowledged {
        let theirs = self.holder.as_ref() == Some(session);
        match self.find(sequence) {
            Some(index) if theirs && self.window[index].is_in_hand() => {
                self.window[index].mute = false;
                self.fail(index, error, delay, now);
                Acknowledged::Accepted {
                    until: sequence.next(),
                    took: None,
                }
            }
            Some(_) | None => Acknowledged::NotTheirs,
        }
    }

    /// The session has ended: what it had waits for another attempt.
    pub fn session_ended(&mut self, session: &SessionId, how: SessionEnd, now: Timestamp) {
        const ERROR: &str = "the session ended without an answer";
        if self.holder.as_ref() != Some(session) {
            return;
        }
        let oldest = self.oldest();
        self.take_back(now, how);
        if let Some(index) = oldest.and_then(|sequence| self.find(sequence)) {
            let slot = &mut self.window[index];
            match how {
                SessionEnd::Closed => {}
                SessionEnd::Lost => {
                    slot.attempt -= 1; // `fail` counts it
                    slot.mute = true;
                    self.fail(index, ERROR, None, now);
                }
                SessionEnd::WhileLeaving => {
                    slot.mute = true;
                    slot.error = Some(ERROR.into());
                }
            }
        }
        self.former_holder = Some(session.clone());
    }

    /// The application did not answer for its oldest message in time: a failed attempt of it. Says
    /// which. Where more attempts follow, the unclean grant of the next epoch counts this one: here
    /// only its reason is put on record. P84, P99
    pub fn processing_timed_out(&mut self, now: Timestamp) -> Option<Sequence> {
        const ERROR: &str = "not acknowledged within the processing timeout";
        let oldest = self.oldest()?;
        self.take_back(now, SessionEnd::Closed);
        let index = self.find(oldest)?;
        let slot = &mut self.window[index];
        slot.mute = true;
        if slot.failures + 1 >= self.rules.retry.max_attempts.max(1) {
            self.fail(index, ERROR, None, now);
        } else {
            slot.error = Some(ERROR.into());
            let attempts = slot.failures + 1;
            self.failures.push(Failure {
                sequence: oldest,
                attempts,
                error: ERROR.to_owned(),
                verdict: Verdict::Retry(now),
            });
        }
        Some(oldest)
    }

    /// Everything in hand is here again.
    fn take_back(&mut self, now: Timestamp, how: SessionEnd) {
        for index in 0..self.window.len() {
            if self.window[index].is_in_hand() {
                if how != SessionEnd::Closed {
                    self.window[index].attempt += 1;
                }
                let back = match how {
                    SessionEnd::Closed | SessionEnd::Lost => Return::SessionEnded,
                    SessionEnd::WhileLeaving => Return::MayBeWanted,
                };
                self.set(index, State::Waiting(now, back));
            }
        }
    }

    fn fail(&mut self, index: usize, error: &str, delay: Option<Duration>, now: Timestamp) {
        let retry = self.rules.retry;
        let slot = &mut self.window[index];
        slot.failures = slot.failures.saturating_add(1);
        slot.attempt = slot.attempt.saturating_add(1);
        slot.error = Some(error.into());
        let (failures, sequence) = (slot.failures, slot.message.sequence());
        let how = match slot.state {
            State::Waiting(_, how) => how,
            State::InHand | State::Spent | State::Done => Return::Refused,
        };
        let last = failures >= retry.max_attempts.max(1);
        let (state, verdict) = match self.rules.on_failure {
            OnFailure::Skip if last => (State::Done, Verdict::Skipped),
            OnFailure::Block if last => (State::Spent, Verdict::Stuck),
            OnFailure::Skip | OnFailure::Block => {
                let at = now.after(delay.unwrap_or_else(|| back_off(&retry, failures)));
                (State::Waiting(at, how), Verdict::Retry(at))
            }
        };
        self.failures.push(Failure {
            sequence,
            attempts: failures,
            error: error.to_owned(),
            verdict,
        });
        self.set(index, state);
        self.advance();
    }

    /// A spent message stops the partition once it is at the head. P121
    pub(super) fn block_if_the_head_is_spent(&mut self) {
        if self.stopped.is_some() {
            return;
        }
        let Some(front) = self.window.front().filter(|s| s.state == State::Spent) else {
            return;
        };
        let (seq, failures) = (front.message.sequence(), front.failures);
        let error = front.error.as_deref().unwrap_or_default().to_owned();
        let detail = format!("message {seq} failed {failures} times: {error}");
        self.stop(seq, StopReason::MessageStuck, detail);
    }

    /// The partition stands still from now on, until it is lifted.
    pub fn stop(&mut self, seq: Sequence, reason: StopReason, detail: String) {
        self.stopped = Some(Stopped {
            seq,
            reason,
            detail,
            generation: self.rules.generation,
        });
    }

    /// Somebody resumed the partition: it starts again at its head, with attempts set back. P128
    pub fn lift(&mut self, now: Timestamp) {
        self.stopped = None;
        self.inherited = None;
        for index in 0..self.window.len() {
            if self.window[index].state == State::Spent {
                let slot = &mut self.window[index];
                (slot.failures, slot.attempt, slot.mute) = (0, 1, false);
                slot.error = None;
                self.set(index, State::Waiting(now, Return::Refused));
            }
        }
    }

    /// Attempts by the commit record, until the message is read.
    pub fn inherited(&self) -> Option<&Head> {
        self.inherited.as_ref()
    }
}

/// The wait after this many failures.
fn back_off(retry: &super::Retry, failures: u32) -> Duration {
    let exponent = i32::try_from(failures.saturating_sub(1)).unwrap_or(i32::MAX);
    let wait = retry.initial.as_secs_f64() * retry.factor.max(1.0).powi(exponent);
    Duration::try_from_secs_f64(wait)
        .unwrap_or(retry.max)
        .min(retry.max)
}
