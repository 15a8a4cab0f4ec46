//! The commit record: reads, writes, and what their outcomes mean. P22 - P27, P122 - P125

use std::time::Duration;

use super::super::ledger::{Ledger, Message};
use super::super::{Epoch, OffsetRecord, Partition, Revision, Timestamp};
use super::claim::{LEAST_WAIT, LOOK_AGAIN, MOST_WAIT};
use super::hold::{Hold, Io, Stage, Writing};
use super::{Effect, Found, Member, MemberEvent, Written};

/// Before the same write is sent again. P24
const BUSY: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(50));

/// After so many old reads in a row the write is sent again: its answer is never old. P25
const WRITE_INSTEAD: u32 = 4;

/// The longest wait after many failures in a row.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

// === impl Member ===

impl<M: Message> Member<M> {
    pub(super) fn write(&mut self, partition: Partition, writing: Writing) {
        let Some(hold) = self.holds.get_mut(&partition) else {
            return;
        };
        let (record, expected) = (Box::new(writing.record.clone()), writing.expected);
        hold.io = Io::Writing(Box::new(writing));
        let epoch = hold.epoch;
        self.effects.push(Effect::WriteOffset {
            partition,
            epoch,
            record,
            expected,
        });
    }

    pub(super) fn take_written(
        &mut self,
        (partition, epoch): (Partition, Epoch),
        outcome: Written,
        now: Timestamp,
    ) {
        if let Written::Stored(revision) = outcome {
            self.highest = self.highest.max(revision);
        }
        let Some(hold) = self.holds.get_mut(&partition).filter(|h| h.epoch == epoch) else {
            return;
        };
        let Io::Writing(writing) = std::mem::replace(&mut hold.io, Io::Idle) else {
            return;
        };
        match outcome {
            Written::Stored(revision) => self.landed(partition, revision, *writing, now),
            Written::Busy => {
                hold.resend = Some(*writing);
                let wait = self.spread(BUSY.0, BUSY.1);
                self.try_at(partition, now.after(wait));
            }
            Written::Conflict(Some(Revision(0))) => {
                self.lost_record(partition, "the key is not there any more".to_owned(), now);
            }
            Written::Conflict(Some(there)) if hold.is_known_above(there) => {
                self.release(partition, false); // P27a
            }
            Written::Conflict(stands_at) => {
                hold.least = hold.least.max(stands_at.unwrap_or_default());
                hold.resolve = true;
                let wait = self.spread(LEAST_WAIT, MOST_WAIT / 4);
                self.try_at(partition, now.after(wait));
            }
            Written::Unknown(why) => {
                hold.resolve = true;
                hold.trouble = Some(why);
                self.try_later(partition, now);
            }
        }
        self.tend(partition, now);
    }

    fn landed(
        &mut self,
        partition: Partition,
        revision: Revision,
        writing: Writing,
        now: Timestamp,
    ) {
        let Some(hold) = self.holds.get_mut(&partition) else {
            return;
        };
        let Some(commit) = writing.commit else {
            return self.own(partition, (revision, writing.record), now);
        };
        hold.went_well();
        hold.verify = false;
        hold.least = hold.least.max(revision);
        hold.known = Some((revision, writing.record));
        if let Some(ledger) = hold.ledger_mut() {
            ledger.stored(commit);
        }
        self.tell_committed(partition);
        self.mind_the_timer(partition, now);
    }

    fn tell_committed(&mut self, partition: Partition) {
        let Some(hold) = self.holds.get_mut(&partition) else {
            return;
        };
        hold.urgent = false;
        let (epoch, next) = (hold.epoch, hold.ledger().map(Ledger::committed));
        if let Some(next) = next {
            self.tell(MemberEvent::Committed {
                partition,
                epoch,
                next,
            });
        }
    }

    pub(super) fn take_offset(
        &mut self,
        (partition, epoch): (Partition, Epoch),
        found: Found,
        now: Timestamp,
    ) {
        let Some(hold) = self.holds.get_mut(&partition).filter(|h| h.epoch == epoch) else {
            return;
        };
        if !matches!(hold.io, Io::Reading) {
            return;
        }
        hold.io = Io::Idle;
        match found {
            Found::Record(revision, record) => {
                hold.resolve = false;
                self.take_record(partition, (revision, *record), now);
            }
            // P26: it was there; whether it is still, only a write can show. P27
            Found::Absent if hold.ledger().is_some() => self.read_too_old(partition, now),
            Found::Absent => {
                self.lost_record(partition, "there is no commit record".to_owned(), now);
            }
            Found::Damaged(problem) => self.lost_record(partition, problem, now),
            Found::Unanswered(why) => {
                hold.trouble = Some(why);
                self.try_later(partition, now);
            }
        }
        self.tend(partition, now);
    }

    fn take_record(
        &mut self,
        partition: Partition,
        found: (Revision, OffsetRecord),
        now: Timestamp,
    ) {
        let Some(hold) = self.holds.get_mut(&partition) else {
            return;
        };
        match &hold.stage {
            Stage::Claiming => self.judge_for_claim(partition, found, now),
            // Somebody mended it. What was read at this epoch before is not read at it again. P106
            Stage::Lost(_) if hold.known.is_some() => self.release(partition, false),
            Stage::Lost(_) => {
                hold.stage = Stage::Claiming;
                self.judge_for_claim(partition, found, now);
            }
            Stage::Owned(_) => self.judge_own(partition, found, now),
        }
    }

    /// After a write whose end is not known: whose is what stands there? P23, P25
    fn judge_own(
        &mut self,
        partition: Partition,
        (revision, record): (Revision, OffsetRecord),
        now: Timestamp,
    ) {
        let me = &self.identity.incarnation;
        let Some(hold) = self.holds.get_mut(&partition) else {
            return;
        };
        let mine = record.epoch == hold.epoch && record.owner.as_ref() == Some(me);
        if record.epoch > hold.epoch || (record.epoch == hold.epoch && !mine) {
            return self.fenced(partition); // P125; a higher epoch, seen once, is final (P26)
        }
        if revision < hold.least || !mine {
            return self.read_too_old(partition, now);
        }
        let moved = hold.known.as_ref().is_none_or(|(r, _)| *r < revision);
        hold.least = revision;
        if moved {
            if hold.ledger_mut().is_some_and(|l| !l.adopt(&record)) {
                let problem = format!("somebody moved the position back to {}", record.next_seq);
                return self.lost_record(partition, problem, now);
            }
            hold.known = Some((revision, record));
            self.tell_committed(partition);
        }
        if let Some(hold) = self.holds.get_mut(&partition) {
            hold.next_try = None;
        }
    }

    /// P26: a read is old; or the record was lost or rolled back, which only a write can show. P27a
    fn read_too_old(&mut self, partition: Partition, now: Timestamp) {
        if let Some(hold) = self.holds.get_mut(&partition) {
            hold.resolve = hold.tries % WRITE_INSTEAD != WRITE_INSTEAD - 1;
            self.try_later(partition, now);
        }
    }

    /// The record is missing or damaged: this partition waits for a person, the others run. P100
    fn lost_record(&mut self, partition: Partition, problem: String, now: Timestamp) {
        self.claim_ended(partition);
        let Some(hold) = self.holds.get_mut(&partition) else {
            return;
        };
        let first = !matches!(hold.stage, Stage::Lost(_));
        hold.resend = None;
        let epoch = hold.epoch;
        let was_reading = std::mem::take(&mut hold.reading);
        hold.stage = Stage::Lost(problem.clone());
        if was_reading {
            self.effects.push(Effect::Close { partition, epoch });
        }
        self.try_at(partition, now.after(LOOK_AGAIN));
        if first {
            self.tell(MemberEvent::OffsetLost {
                partition,
                detail: problem,
            });
        }
    }

    pub(super) fn tend_lost(&mut self, partition: Partition, now: Timestamp) {
        let may_write = self.may_write(now);
        let Some(hold) = self.holds.get_mut(&partition) else {
            return;
        };
        if hold.revoking.is_some() {
            return self.release(partition, false);
        }
        if !hold.is_idle() || !may_write {
            return;
        }
        if hold.next_try.is_some_and(|at| at > now) {
            let at = hold.next_try;
            return self.wake_at(partition, at);
        }
        hold.io = Io::Reading;
        let epoch = hold.epoch;
        self.effects.push(Effect::ReadOffset { partition, epoch });
    }

    /// A later owner is on record, or this epoch is not ours: the hold is over. P97, P125
    pub(super) fn fenced(&mut self, partition: Partition) {
        let Some(epoch) = self.holds.get(&partition).map(|h| h.epoch) else {
            return;
        };
        self.tell(MemberEvent::Fenced { partition, epoch });
        self.release(partition, false);
    }

    /// The next attempt comes after a wait that grows while attempts fail.
    pub(super) fn try_later(&mut self, partition: Partition, now: Timestamp) {
        let wait = self.spread(LEAST_WAIT, MOST_WAIT);
        let Some(hold) = self.holds.get_mut(&partition) else {
            return;
        };
        hold.tries = hold.tries.saturating_add(1);
        hold.failing_since.get_or_insert(now);
        let factor = 1u32 << hold.tries.saturating_sub(4).min(5);
        self.try_at(partition, now.after((wait * factor).min(LONGEST_WAIT)));
    }

    pub(super) fn try_at(&mut self, partition: Partition, at: Timestamp) {
        if let Some(hold) = self.holds.get_mut(&partition) {
            hold.next_try = Some(at);
        }
        self.wake_at(partition, Some(at));
    }

    pub(super) fn say_if_stopped(&mut self, partition: Partition) {
        let stopped = self
            .holds
            .get(&partition)
            .and_then(Hold::ledger)
            .and_then(|ledger| ledger.stopped().cloned());
        if let Some(stopped) = stopped {
            self.tell(MemberEvent::Stopped {
                partition,
                sequence: stopped.seq,
                reason: stopped.reason,
                detail: stopped.detail,
            });
        }
    }
}
