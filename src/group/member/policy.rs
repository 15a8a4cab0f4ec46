//! What follows when a stream lost what comes next, when nothing comes, and when the application
//! does not answer. P84, P109 - P113

use std::time::Duration;

use super::super::ledger::{Ledger, Message, SessionEnd, Verdict};
use super::super::{Epoch, Mark, OnGap, OnTruncation, Partition, Sequence, StopReason, Timestamp};
use super::{Finding, Member, MemberEvent};

/// How often the position of a partition without traffic moves on. P113
const IDLE_MOVE: Duration = Duration::from_secs(60);

/// Before a reader that ended by itself is opened again.
const REOPEN: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(250));

// === impl Member ===

impl<M: Message> Member<M> {
    pub(super) fn take_finding(
        &mut self,
        (partition, epoch): (Partition, Epoch),
        finding: &Finding,
        now: Timestamp,
    ) {
        let Some(meta) = self.meta.as_ref().map(|(_, meta)| meta) else {
            return;
        };
        let (on_gap, on_truncation) = (meta.on_gap, meta.on_truncation);
        let Some(hold) = self.holds.get_mut(&partition).filter(|h| h.epoch == epoch) else {
            return;
        };
        hold.reading = false;
        match finding.reason {
            StopReason::MessagesLost => match on_gap {
                OnGap::Earliest => self.skip_what_is_lost(partition, finding),
                OnGap::Stop => self.stop_at(partition, finding),
            },
            StopReason::StreamRecreated | StopReason::StreamTruncated => match on_truncation {
                OnTruncation::Stop => self.stop_at(partition, finding),
                OnTruncation::Earliest => self.begin_anew(partition, finding, finding.first, None),
                OnTruncation::Latest => {
                    let next = finding.last.next();
                    self.begin_anew(partition, finding, next, finding.last_mark);
                }
            },
            StopReason::MessageStuck => self.stop_at(partition, finding),
        }
        self.tend(partition, now);
    }

    fn stop_at(&mut self, partition: Partition, finding: &Finding) {
        let ledger = self.holds.get_mut(&partition).and_then(|h| h.ledger_mut());
        if let Some(ledger) = ledger {
            ledger.stop(finding.position, finding.reason, finding.detail.clone());
            self.say_if_stopped(partition);
        }
    }

    fn skip_what_is_lost(&mut self, partition: Partition, finding: &Finding) {
        let Some(ledger) = self.holds.get_mut(&partition).and_then(|h| h.ledger_mut()) else {
            return;
        };
        ledger.read_on_from(finding.first);
        self.tell(MemberEvent::MessagesLost {
            partition,
            from: finding.position,
            to: finding.first,
        });
    }

    /// Goes on in another history of the stream. What was read of the old one at this epoch makes
    /// its tokens ambiguous: then the partition is given back, and its next epoch begins anew.
    fn begin_anew(
        &mut self,
        partition: Partition,
        finding: &Finding,
        next: Sequence,
        mark: Option<Mark>,
    ) {
        let Some(hold) = self.holds.get_mut(&partition) else {
            return;
        };
        let next = next.max(Sequence::FIRST);
        let begun = hold.ledger_mut().is_some_and(|l| l.begin_anew(next, mark));
        if !begun {
            return self.release(partition, false);
        }
        hold.stream_created = Some(finding.created);
        hold.urgent = true;
        self.tell(MemberEvent::PositionMoved {
            partition,
            from: finding.position,
            to: next,
            reason: finding.reason,
        });
    }

    pub(super) fn take_reader_end(
        &mut self,
        (partition, epoch): (Partition, Epoch),
        unreadable: Option<(Sequence, String)>,
        now: Timestamp,
    ) {
        let wait = self.spread(REOPEN.0, REOPEN.1);
        let Some(hold) = self.holds.get_mut(&partition).filter(|h| h.epoch == epoch) else {
            return;
        };
        hold.reading = false;
        hold.read_after = Some(now.after(wait));
        if let (Some((sequence, detail)), Some(ledger)) = (unreadable, hold.ledger_mut()) {
            ledger.stop(sequence, StopReason::MessageStuck, detail);
            self.say_if_stopped(partition);
        }
        self.tend(partition, now);
    }

    pub(super) fn take_pending(&mut self, (partition, epoch): (Partition, Epoch), pending: u64) {
        if let Some(hold) = self.holds.get_mut(&partition).filter(|h| h.epoch == epoch) {
            hold.pending = Some(pending);
        }
    }

    /// Whether the position of this partition, which has nothing, is due to move to `next`.
    pub fn wants_to_move(
        &self,
        (partition, epoch): (Partition, Epoch),
        next: Sequence,
        now: Timestamp,
    ) -> bool {
        self.holds.get(&partition).is_some_and(|hold| {
            hold.epoch == epoch
                && now.since(hold.moved_at) >= IDLE_MOVE
                && hold
                    .ledger()
                    .is_some_and(|l| l.is_empty() && next > l.done())
        })
    }

    pub(super) fn take_scanned(
        &mut self,
        (partition, epoch): (Partition, Epoch),
        next: Sequence,
        mark: Option<Mark>,
        now: Timestamp,
    ) {
        let Some(hold) = self.holds.get_mut(&partition).filter(|h| h.epoch == epoch) else {
            return;
        };
        if !hold.reading {
            return; // it was looked through before something was found: that may be of another history
        }
        hold.moved_at = now;
        if hold.ledger_mut().is_some_and(|l| l.move_to(next, mark)) {
            self.tend(partition, now);
        }
    }

    /// P84: a failed attempt; then the partition goes, and all of them if none was acknowledged.
    pub(super) fn processing_timed_out(&mut self, partition: Partition, now: Timestamp) {
        let Some(membership) = self.meta.as_ref().map(|(_, meta)| &meta.membership) else {
            return;
        };
        let (timeout, limit) = (membership.processing_timeout, membership.rebalance_timeout);
        let Some(hold) = self.holds.get_mut(&partition) else {
            return;
        };
        let Some(sequence) = hold.ledger_mut().and_then(|l| l.processing_timed_out(now)) else {
            return;
        };
        hold.giving_up = true;
        hold.revoking = Some(now.after(limit)).min(hold.revoking.or(Some(now.after(limit))));
        self.tell(MemberEvent::ProcessingTimedOut {
            partition,
            sequence,
        });
        self.report_failures(partition, now);
        let alive = self.holds.values().any(|hold| {
            let ack = hold.ledger().and_then(Ledger::last_ack);
            ack.is_some_and(|at| now.since(at) < timeout)
        });
        if !alive {
            self.give_up_the_others(partition, now.after(limit), now);
        }
    }

    fn give_up_the_others(&mut self, but: Partition, until: Timestamp, now: Timestamp) {
        let mut others = Vec::new();
        for (partition, hold) in &mut self.holds {
            if *partition == but || hold.giving_up {
                continue;
            }
            hold.revoking = Some(hold.revoking.map_or(until, |at| at.min(until)));
            if let Some(ledger) = hold.ledger_mut()
                && let Some(holder) = ledger.holder().cloned()
            {
                ledger.session_ended(&holder, SessionEnd::Closed, now);
                hold.giving_up = true;
            }
            others.push(*partition);
        }
        for partition in others {
            self.wake_at(partition, Some(now));
        }
    }

    /// Tells what failed since the last look.
    pub(super) fn report_failures(&mut self, partition: Partition, now: Timestamp) {
        let Some(ledger) = self.holds.get_mut(&partition).and_then(|h| h.ledger_mut()) else {
            return;
        };
        for failure in ledger.take_failures() {
            let (sequence, attempts, error) = (failure.sequence, failure.attempts, failure.error);
            match failure.verdict {
                Verdict::Retry(at) => {
                    self.wake_at(partition, Some(at).filter(|at| *at > now));
                    self.tell(MemberEvent::AttemptFailed {
                        partition,
                        sequence,
                        attempts,
                        error,
                    });
                }
                Verdict::Skipped => self.tell(MemberEvent::Skipped {
                    partition,
                    sequence,
                    attempts,
                    error,
                }),
                Verdict::Stuck => {
                    self.tell(MemberEvent::AttemptFailed {
                        partition,
                        sequence,
                        attempts,
                        error,
                    });
                    self.say_if_stopped(partition);
                }
            }
        }
    }
}
