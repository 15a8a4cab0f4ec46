//! What is to be written into the commit record.

use super::super::{Mark, OffsetRecord, Sequence};
use super::window::Slot;
use super::{Ledger, Message, Stored};

/// The content of one commit: what the ledger has to say, and how much of it that covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    content: Stored,
    left: u64,
}

// === impl Commit ===

impl Commit {
    /// The record with this content; everything else as it was.
    #[must_use]
    pub fn applied_to(&self, record: &OffsetRecord) -> OffsetRecord {
        OffsetRecord {
            next_seq: self.content.next,
            mark: self.content.mark,
            head: self.content.head.clone(),
            stopped: self.content.stopped.clone(),
            ..record.clone()
        }
    }

    /// The first sequence that it leaves uncommitted.
    pub fn next_seq(&self) -> Sequence {
        self.content.next
    }
}

// === impl Ledger ===

impl<M: Message> Ledger<M> {
    /// Acknowledged messages that are not committed.
    pub fn uncommitted(&self) -> u64 {
        self.left - self.left_and_committed + u64::from(self.done_in_window)
    }

    /// Messages that a commit would cover now.
    pub fn committable(&self) -> u64 {
        self.left - self.left_and_committed
    }

    /// Whether a commit has anything to say.
    pub fn has_news(&self) -> bool {
        self.done != self.stored.next || self.news_beside_the_position()
    }

    /// Whether attempts or a stop are not on record yet.
    fn news_beside_the_position(&self) -> bool {
        self.stopped != self.stored.stopped
            || self.head_attempts() != self.stored.head.as_ref().map_or(0, |h| h.attempts)
            || self.head() != self.stored.head
    }

    /// What the next commit says; to be settled by [`Ledger::stored`] before the one after it.
    pub fn next_commit(&self) -> Commit {
        Commit {
            content: Stored {
                next: self.done,
                mark: self.mark,
                head: self.head(),
                stopped: self.stopped.clone(),
                history: self.history,
            },
            left: self.left,
        }
    }

    /// This commit is on record.
    ///
    /// # Panics
    ///
    /// If it moved the position back, which no commit of a ledger does.
    pub fn stored(&mut self, commit: Commit) {
        assert!(
            commit.content.next >= self.stored.next || commit.content.history > self.stored.history,
            "a commit moved back"
        );
        self.stored = commit.content;
        self.left_and_committed = self.left_and_committed.max(commit.left);
    }

    /// A write of this owner stands on record, whichever it was: an attempt whose end was unknown.
    /// Answers no, and changes nothing, if the record was moved back: no owner does that.
    #[must_use = "a record that was moved back is damage"]
    pub fn adopt(&mut self, record: &OffsetRecord) -> bool {
        if record.next_seq < self.stored.next && self.history == self.stored.history {
            return false;
        }
        self.stored = Stored {
            next: record.next_seq,
            mark: record.mark,
            head: record.head.clone(),
            stopped: record.stopped.clone(),
            history: self.history,
        };
        if record.next_seq == self.done {
            self.left_and_committed = self.left;
        }
        true
    }

    /// Whether all that was acknowledged is committed and nothing is in the application's hands:
    /// it may be given back. P126
    pub fn is_drained(&self) -> bool {
        self.in_hand == 0 && !self.awaits_a_session() && !self.has_news()
    }

    /// Whether a session has ended with messages for which somebody may still come back. P126a
    pub fn awaits_a_session(&self) -> bool {
        self.waiting > 0 && self.window.iter().any(Slot::may_be_wanted)
    }

    /// Whether giving it back now brings no duplicate. P74
    pub fn is_clean(&self) -> bool {
        self.is_drained() && self.done_in_window == 0
    }

    /// Moves the position of a partition with nothing in it, past others' messages or past what
    /// retention removed. Answers whether it moved. P110, P113
    pub fn move_to(&mut self, next: Sequence, mark: Option<Mark>) -> bool {
        if !self.is_empty() || next <= self.done {
            return false;
        }
        self.set_position(next, mark.or(self.mark));
        true
    }

    /// Retention removed what was to be read next: reading goes on here. P110
    pub fn read_on_from(&mut self, next: Sequence) {
        if !self.move_to(next, None) {
            self.last_read = self.last_read.max(Sequence(next.0.saturating_sub(1)));
        }
    }

    /// The stream has another history: a policy chose where to go on in it, perhaps lower than
    /// before. Only while nothing of the old one was read at this epoch. P109, P112
    pub fn begin_anew(&mut self, next: Sequence, mark: Option<Mark>) -> bool {
        if !self.is_empty() || self.left > 0 {
            return false;
        }
        self.history += 1;
        self.last_read = Sequence(0);
        self.last_mark = None;
        self.last_handed = Sequence(0);
        self.set_position(next, mark);
        true
    }

    fn set_position(&mut self, next: Sequence, mark: Option<Mark>) {
        self.done = next;
        self.mark = mark;
        self.inherited = None;
        let below = Sequence(next.0.saturating_sub(1));
        self.last_read = self.last_read.max(below);
        self.last_handed = self.last_handed.max(below);
    }
}
