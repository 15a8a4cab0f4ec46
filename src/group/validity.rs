//! Whether a position still fits its stream.
//!
//! A sequence is meaningful in one history of a stream only. A stream can be deleted and made
//! anew, lose its end in a crash, be restored from an older copy, or have removed by retention
//! what a group had not read. This is asked after every creation of a consumer, before its first
//! delivery.

use super::{Mark, OffsetRecord, Sequence, ServerTime};

/// What we believe of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Believed {
    /// When it was created.
    pub created: ServerTime,
    /// The next sequence to commit.
    pub next: Sequence,
    /// A message at or below that position.
    pub mark: Option<Mark>,
    /// The last message that was delivered under this claim.
    pub delivered: Option<Mark>,
}

/// What the stream says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// When it was created.
    pub created: ServerTime,
    /// The first message still there; `last + 1` in an empty stream.
    pub first: Sequence,
    /// The newest message; 0 if there never was one.
    pub last: Sequence,
    /// When the message at the mark was stored; none if there is no message.
    pub at_mark: Option<ServerTime>,
    /// When the message at the last delivered sequence was stored; none if there is no message.
    pub at_delivered: Option<ServerTime>,
}

/// Whether the position fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// It fits.
    Valid,
    /// It is plausible, and the message that would prove it is gone: worth a metric.
    Uncheckable,
    /// Retention removed messages before they were read.
    Overtaken {
        /// How many sequences lie between the position and the first message: at most so many
        /// messages of this partition are lost.
        lost: u64,
        /// The first message still there.
        first: Sequence,
    },
    /// The stream lost its end or was restored: sequences may be used again for other messages.
    Truncated,
    /// The stream was deleted and made anew.
    Recreated,
}

// === impl Believed ===

impl Believed {
    /// What a commit record says, and what was delivered since.
    pub fn of(record: &OffsetRecord, delivered: Option<Mark>) -> Self {
        Self {
            created: record.stream_created,
            next: record.next_seq,
            mark: record.mark,
            delivered,
        }
    }

    /// The next message wanted: after what was delivered, which is never below what is committed.
    pub fn wanted(&self) -> Sequence {
        let after = self.delivered.map_or(Sequence(0), |mark| mark.seq.next());
        after.max(self.next)
    }

    /// Compares with what the stream says.
    pub fn check(&self, found: &Found) -> Validity {
        if found.created != self.created {
            return Validity::Recreated;
        }
        if self.ends_too_early(found) || self.holds_another_message(found) {
            return Validity::Truncated;
        }
        let wanted = self.wanted();
        if wanted < found.first {
            return Validity::Overtaken {
                lost: found.first.0 - wanted.0,
                first: found.first,
            };
        }
        let unproved = |mark: Option<Mark>, at: Option<ServerTime>| mark.is_some() && at.is_none();
        if unproved(self.mark, found.at_mark) && unproved(self.delivered, found.at_delivered)
            || self.delivered.is_none() && unproved(self.mark, found.at_mark)
        {
            return Validity::Uncheckable;
        }
        Validity::Valid
    }

    /// Everything below the wanted position has been in the stream, and so has the mark.
    fn ends_too_early(&self, found: &Found) -> bool {
        let behind = self.wanted().before().unwrap_or(Sequence(0));
        let mark = self.mark.map_or(Sequence(0), |mark| mark.seq);
        found.last < behind.max(mark)
    }

    fn holds_another_message(&self, found: &Found) -> bool {
        let other = |mark: Option<Mark>, at: Option<ServerTime>| {
            mark.zip(at).is_some_and(|(mark, at)| mark.ts != at)
        };
        other(self.mark, found.at_mark) || other(self.delivered, found.at_delivered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREATED: ServerTime = ServerTime(1_000);

    fn mark(seq: u64) -> Mark {
        Mark {
            seq: Sequence(seq),
            ts: stored(seq),
        }
    }

    fn stored(seq: u64) -> ServerTime {
        ServerTime(10_000 + i64::try_from(seq).unwrap())
    }

    /// Committed up to and including 9, the mark at 9, nothing delivered since.
    fn believed() -> Believed {
        Believed {
            created: CREATED,
            next: Sequence(10),
            mark: Some(mark(9)),
            delivered: None,
        }
    }

    /// The same stream, with messages 1 to 20.
    fn found() -> Found {
        Found {
            created: CREATED,
            first: Sequence(1),
            last: Sequence(20),
            at_mark: Some(stored(9)),
            at_delivered: None,
        }
    }

    fn delivered(seq: u64) -> Believed {
        Believed {
            delivered: Some(mark(seq)),
            ..believed()
        }
    }

    #[test]
    fn an_unchanged_stream_is_valid() {
        assert_eq!(believed().check(&found()), Validity::Valid);
        let read_to_the_end = Found {
            last: Sequence(9),
            ..found()
        };
        assert_eq!(believed().check(&read_to_the_end), Validity::Valid);
        let unread = Believed {
            next: Sequence(1),
            mark: None,
            ..believed()
        };
        let empty = Found {
            last: Sequence(0),
            at_mark: None,
            ..found()
        };
        assert_eq!(unread.check(&empty), Validity::Valid);
    }

    // P109
    #[test]
    fn another_time_of_creation_is_another_stream() {
        let created = ServerTime(2_000);
        let found = Found { created, ..found() };
        assert_eq!(believed().check(&found), Validity::Recreated);
        // Even if everything else has gone, too.
        let found = Found {
            last: Sequence(0),
            at_mark: None,
            ..found
        };
        assert_eq!(believed().check(&found), Validity::Recreated);
    }

    // P109
    #[test]
    fn an_end_below_the_position_is_a_truncation() {
        let found = Found {
            last: Sequence(8),
            at_mark: None,
            ..found()
        };
        assert_eq!(believed().check(&found), Validity::Truncated);
    }

    // P109
    #[test]
    fn an_end_below_what_was_delivered_is_a_truncation() {
        let short = Found {
            last: Sequence(14),
            at_delivered: None,
            ..found()
        };
        assert_eq!(believed().check(&short), Validity::Valid);
        assert_eq!(delivered(15).check(&short), Validity::Truncated);
    }

    #[test]
    fn an_end_below_the_mark_is_a_truncation_although_the_position_is_not_reached() {
        let believed = Believed {
            mark: Some(mark(15)),
            ..believed()
        };
        let found = Found {
            last: Sequence(12),
            at_mark: None,
            ..found()
        };
        assert_eq!(believed.check(&found), Validity::Truncated);
    }

    // P109
    #[test]
    fn another_message_at_the_mark_is_a_truncation() {
        let found = Found {
            at_mark: Some(ServerTime(99)),
            ..found()
        };
        assert_eq!(believed().check(&found), Validity::Truncated);
    }

    #[test]
    fn another_message_at_the_last_delivered_sequence_is_a_truncation() {
        let found = Found {
            at_delivered: Some(ServerTime(99)),
            ..found()
        };
        assert_eq!(delivered(15).check(&found), Validity::Truncated);
    }

    // P110
    #[test]
    fn messages_removed_before_they_were_read_are_counted() {
        let found = Found {
            first: Sequence(13),
            at_mark: None,
            ..found()
        };
        let overtaken = Validity::Overtaken {
            lost: 3,
            first: Sequence(13),
        };
        assert_eq!(believed().check(&found), overtaken);
        // What was delivered is not lost, whether it is committed or not.
        let overtaken = Validity::Overtaken {
            lost: 1,
            first: Sequence(13),
        };
        assert_eq!(delivered(11).check(&found), overtaken);
        let found = Found {
            at_delivered: Some(stored(13)),
            ..found
        };
        assert_eq!(delivered(13).check(&found), Validity::Valid);
    }

    #[test]
    fn a_purge_after_everything_was_read_loses_nothing_and_cannot_be_checked() {
        let purged = Found {
            first: Sequence(10),
            last: Sequence(9),
            at_mark: None,
            ..found()
        };
        assert_eq!(believed().check(&purged), Validity::Uncheckable);
    }

    // P111
    #[test]
    fn a_mark_that_was_removed_cannot_be_checked() {
        let found = Found {
            at_mark: None,
            ..found()
        };
        assert_eq!(believed().check(&found), Validity::Uncheckable);
        // The last delivered message proves it as well.
        let found = Found {
            at_delivered: Some(stored(15)),
            ..found
        };
        assert_eq!(delivered(15).check(&found), Validity::Valid);
    }
}
