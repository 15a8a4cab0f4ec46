//! One partition's next step, whatever has happened.

use super::super::ledger::{Ledger, Message};
use super::super::{Partition, Timestamp};
use super::hold::{Hold, Io, Stage, Writing};
use super::{Effect, Member};

/// Acknowledged messages after which a commit does not wait for its interval. P123
const AT_ONCE: u64 = 1000;

// === impl Member ===

impl<M: Message> Member<M> {
    pub(super) fn tend_all(&mut self, now: Timestamp) {
        let all: Vec<Partition> = self.holds.keys().copied().collect();
        for partition in all {
            self.tend(partition, now);
        }
    }

    pub(super) fn tend_what_is_due(&mut self, now: Timestamp) {
        let due: Vec<Partition> = self
            .wakes
            .iter()
            .take_while(|(at, _)| *at <= now)
            .map(|(_, partition)| *partition)
            .collect();
        for partition in due {
            self.tend(partition, now);
        }
    }

    /// Looks at what is so and does the next thing.
    pub(super) fn tend(&mut self, partition: Partition, now: Timestamp) {
        let Some(hold) = self.holds.get_mut(&partition) else {
            return;
        };
        if let Some(at) = hold.wake.take() {
            self.wakes.remove(&(at, partition));
        }
        match &hold.stage {
            Stage::Claiming => self.tend_claim(partition, now),
            Stage::Lost(_) => self.tend_lost(partition, now),
            Stage::Owned(_) => {
                self.report_failures(partition, now);
                if self.has_lease(now) {
                    self.tend_owned(partition, now);
                }
            }
        }
    }

    pub(super) fn wake_at(&mut self, partition: Partition, at: Option<Timestamp>) {
        let (Some(at), Some(hold)) = (at, self.holds.get_mut(&partition)) else {
            return;
        };
        if hold.wake.is_some_and(|before| before <= at) {
            return;
        }
        if let Some(before) = hold.wake.replace(at) {
            self.wakes.remove(&(before, partition));
        }
        self.wakes.insert((at, partition));
    }

    fn tend_owned(&mut self, partition: Partition, now: Timestamp) {
        let ends = self.hold_ledger(partition, Ledger::processing_ends);
        if ends.flatten().is_some_and(|at| at <= now) {
            self.processing_timed_out(partition, now);
        }
        if self.give_back_if_through(partition, now) {
            return;
        }
        if self.may_write(now) {
            self.commit_if_due(partition, now);
        }
        self.read_or_not(partition, now);
        self.note_wakes(partition, now);
    }

    /// Releases what is to be given back, once nothing of it is open or its time is over. P73, P77
    fn give_back_if_through(&mut self, partition: Partition, now: Timestamp) -> bool {
        let alone = self.nobody_returns_at().is_some_and(|at| at <= now);
        let Some(hold) = self.holds.get(&partition) else {
            return true;
        };
        let Some(ledger) = hold.ledger() else {
            return true;
        };
        if hold.revoking.is_none() && !hold.giving_up {
            return false;
        }
        // What was acknowledged is committed first, even when nobody is waited for. P126a
        let settled = !ledger.has_news() && hold.is_idle() && !hold.resolve;
        if (ledger.is_drained() || alone) && settled && hold.resend.is_none() {
            let clean = ledger.is_clean() && !hold.giving_up;
            self.release(partition, clean);
            return true;
        }
        if hold.revoking.is_some_and(|at| at <= now) {
            self.release(partition, false);
            return true;
        }
        false
    }

    /// One write at a time; what comes meanwhile is joined to the next. P122, P123
    fn commit_if_due(&mut self, partition: Partition, now: Timestamp) {
        let interval = self.commit_interval();
        let Some(hold) = self.holds.get_mut(&partition).filter(|h| h.is_idle()) else {
            return;
        };
        if hold.next_try.is_some_and(|at| at > now) {
            let at = hold.next_try;
            return self.wake_at(partition, at);
        }
        hold.next_try = None;
        if hold.resolve {
            hold.io = Io::Reading;
            let epoch = hold.epoch;
            return self.effects.push(Effect::ReadOffset { partition, epoch });
        }
        if let Some(writing) = hold.resend.take() {
            return self.write(partition, writing);
        }
        let Stage::Owned(ledger) = &hold.stage else {
            return;
        };
        if !hold.verify && !ledger.has_news() {
            return;
        }
        let at_once = hold.verify
            || hold.urgent
            || hold.giving_up
            || hold.revoking.is_some()
            || ledger.committable() >= AT_ONCE;
        let due = hold.committed_at.map_or(now, |at| at.after(interval));
        if !at_once && due > now {
            return self.wake_at(partition, Some(due));
        }
        hold.committed_at = Some(now);
        if let Some(writing) = hold.next_writing() {
            self.write(partition, writing);
        }
    }

    fn commit_interval(&self) -> std::time::Duration {
        let least = std::time::Duration::from_millis(1);
        self.meta.as_ref().map_or(least, |(_, meta)| {
            meta.delivery.commit_interval.max(least * meta.partitions())
        })
    }

    fn read_or_not(&mut self, partition: Partition, now: Timestamp) {
        let Some(hold) = self.holds.get_mut(&partition) else {
            return;
        };
        let Stage::Owned(ledger) = &hold.stage else {
            return;
        };
        let epoch = hold.epoch;
        let over = ledger.stopped().is_some() || hold.revoking.is_some() || hold.giving_up;
        if over {
            if std::mem::take(&mut hold.reading) {
                self.effects.push(Effect::Close { partition, epoch });
            }
            return;
        }
        // A position that a policy has moved is stored before anything is read from it. P112
        let moved = ledger.is_empty() && ledger.done() != ledger.committed();
        let early = hold.read_after.is_some_and(|at| at > now);
        if hold.reading || hold.verify || moved || early {
            return;
        }
        let (from, Some((_, record))) = (ledger.last_read().next(), &hold.known) else {
            return;
        };
        let (record, last) = (Box::new(record.clone()), ledger.last_mark());
        hold.reading = true;
        hold.read_after = None;
        self.effects.push(Effect::Open {
            partition,
            epoch,
            from,
            record,
            last,
        });
    }

    fn note_wakes(&mut self, partition: Partition, now: Timestamp) {
        let Some(hold) = self.holds.get(&partition) else {
            return;
        };
        let ledger = hold.ledger();
        let alone = self.nobody_returns_at().filter(|at| *at > now);
        let wakes = [
            alone,
            ledger.and_then(Ledger::processing_ends),
            ledger.and_then(Ledger::retry_at).filter(|at| *at > now),
            hold.revoking,
            hold.read_after.filter(|at| *at > now),
        ];
        self.wake_at(partition, wakes.into_iter().flatten().min());
    }

    pub(super) fn hold_ledger<T>(
        &self,
        partition: Partition,
        look: impl FnOnce(&Ledger<M>) -> T,
    ) -> Option<T> {
        self.holds.get(&partition)?.ledger().map(look)
    }
}

// === impl Hold ===

impl<M: Message> Hold<M> {
    /// The next commit as a record.
    fn next_writing(&self) -> Option<Writing> {
        let (expected, record) = self.known.as_ref()?;
        let commit = self.ledger()?.next_commit();
        let mut next = commit.applied_to(record);
        if let Some(created) = self.stream_created {
            next.stream_created = created;
        }
        Some(Writing {
            record: next,
            expected: *expected,
            commit: Some(commit),
        })
    }
}
