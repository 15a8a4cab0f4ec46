//! What the application asks: messages, acknowledgements, refusals, pauses.
//!
//! These calls are the fast path: they change ledgers, and leave what follows from it to the next
//! step, which is due at once.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::ledger::{Acknowledged, Ask, Budget, Feed, HandOver, Message, SessionEnd};
use super::super::{Epoch, Partition, Sequence, SessionId, Timestamp};
use super::hold::Hold;
use super::{Life, Member, MemberEvent};

/// What an acknowledgement covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckKind {
    /// Everything of the partition up to the sequence.
    UpTo,
    /// The message alone.
    Each,
}

/// What became of an acknowledgement or a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// It counts.
    Yes {
        /// The first sequence that is not committed.
        committed: Sequence,
        /// The position that has to be committed for it to be on record.
        until: Sequence,
        /// How long the application had the message.
        took: Option<Duration>,
    },
    /// The partition is not held at that epoch, or the message is not this session's. P116
    NotOwned,
}

// === impl Member ===

impl<M: Message> Member<M> {
    /// The partitions that may have something to hand over.
    pub fn held(&self) -> impl Iterator<Item = (Partition, Epoch)> {
        self.holds.iter().map(|(p, hold)| (*p, hold.epoch))
    }

    /// Whether this session would be given something of the partition now.
    pub fn has_for(
        &self,
        session: &SessionId,
        (partition, ask): (Partition, Ask),
        now: Timestamp,
    ) -> bool {
        let Some(hold) = self.holds.get(&partition) else {
            return false;
        };
        self.has_lease(now)
            && hold.feed(self.life).is_some_and(|feed| {
                hold.ledger()
                    .is_some_and(|l| l.has_for(session, (ask, feed), now))
            })
    }

    /// Whether this session would be given a new message of the partition if there were one.
    pub fn could_take(&self, session: &SessionId, partition: Partition) -> bool {
        self.holds.get(&partition).is_some_and(|hold| {
            hold.feed(self.life) == Some(Feed::Open)
                && hold.ledger().is_some_and(|l| l.could_take(session))
        })
    }

    /// Hands over what this session may have of the partition, as far as the budget goes.
    #[expect(
        clippy::too_many_arguments,
        reason = "to whom, what, how much, when, whereto"
    )]
    pub fn hand_over(
        &mut self,
        session: &SessionId,
        (partition, ask): (Partition, Ask),
        budget: &mut Budget,
        now: Timestamp,
        mut to: impl FnMut(Epoch, &M, HandOver),
    ) {
        if !self.has_lease(now) {
            return; // P91
        }
        let Some(hold) = self.holds.get_mut(&partition) else {
            return;
        };
        let (Some(feed), epoch) = (hold.feed(self.life), hold.epoch) else {
            return;
        };
        let Some(ledger) = hold.ledger_mut() else {
            return;
        };
        let before = ledger.in_flight();
        ledger.hand_over(session, (ask, feed), budget, now, |message, how| {
            to(epoch, message, how);
        });
        if before == 0 && ledger.in_flight() > 0 {
            let ends = ledger.processing_ends();
            self.wake_at(partition, ends);
        }
    }

    /// The application is done with a message, or with all up to it. P116, P117
    pub fn ack(
        &mut self,
        session: &SessionId,
        (partition, epoch, sequence): (Partition, Epoch, Sequence),
        kind: AckKind,
        now: Timestamp,
    ) -> Accepted {
        let Some(ledger) = self.ledger_at(partition, epoch) else {
            return Accepted::NotOwned;
        };
        let outcome = match kind {
            AckKind::UpTo => ledger.ack_up_to(session, sequence, now),
            AckKind::Each => ledger.ack_each(session, sequence, now),
        };
        let committed = ledger.committed();
        self.settle(partition, outcome, committed, now)
    }

    /// The application refuses a message. P119
    pub fn nack(
        &mut self,
        session: &SessionId,
        (partition, epoch, sequence): (Partition, Epoch, Sequence),
        (error, delay): (&str, Option<Duration>),
        now: Timestamp,
    ) -> Accepted {
        let Some(ledger) = self.ledger_at(partition, epoch) else {
            return Accepted::NotOwned;
        };
        let outcome = ledger.nack(session, sequence, error, delay, now);
        let committed = ledger.committed();
        self.settle(partition, outcome, committed, now)
    }

    fn settle(
        &mut self,
        partition: Partition,
        outcome: Acknowledged,
        committed: Sequence,
        now: Timestamp,
    ) -> Accepted {
        match outcome {
            Acknowledged::Accepted { until, took } => {
                self.wake_at(partition, Some(now));
                Accepted::Yes {
                    committed,
                    until,
                    took,
                }
            }
            Acknowledged::NotTheirs => Accepted::NotOwned,
        }
    }

    fn ledger_at(
        &mut self,
        partition: Partition,
        epoch: Epoch,
    ) -> Option<&mut super::super::ledger::Ledger<M>> {
        self.holds
            .get_mut(&partition)
            .filter(|hold| hold.epoch == epoch)
            .and_then(Hold::ledger_mut)
    }

    /// Somebody waits for the commit of what is done.
    pub fn hurry(&mut self, partition: Partition, now: Timestamp) {
        if let Some(hold) = self.holds.get_mut(&partition) {
            hold.urgent = true;
            self.wake_at(partition, Some(now));
        }
    }

    /// Whether this session has messages in hand.
    pub fn is_holding(&self, session: &SessionId) -> bool {
        let mut ledgers = self.holds.values().filter_map(Hold::ledger);
        ledgers.any(|ledger| ledger.holder() == Some(session))
    }

    /// A session has ended.
    pub fn session_ended(&mut self, session: &SessionId, how: SessionEnd, now: Timestamp) {
        let held: Vec<Partition> = self.holds.keys().copied().collect();
        for partition in held {
            self.session_left(session, partition, how, now);
        }
    }

    /// A session is through with one partition.
    pub fn session_left(
        &mut self,
        session: &SessionId,
        partition: Partition,
        how: SessionEnd,
        now: Timestamp,
    ) {
        let how = match how {
            SessionEnd::Lost if self.life != Life::Here => SessionEnd::WhileLeaving,
            SessionEnd::Lost | SessionEnd::Closed | SessionEnd::WhileLeaving => how,
        };
        let Some(ledger) = self.holds.get_mut(&partition).and_then(Hold::ledger_mut) else {
            return;
        };
        if ledger.holder() == Some(session) {
            ledger.session_ended(session, how, now);
            self.wake_at(partition, Some(now));
        }
    }

    pub(super) fn take_batch(
        &mut self,
        (partition, epoch): (Partition, Epoch),
        batch: Vec<M>,
        now: Timestamp,
    ) {
        let Some(hold) = self.holds.get_mut(&partition).filter(|h| h.epoch == epoch) else {
            return; // a former reader
        };
        hold.moved_at = now;
        if let Some(ledger) = hold.ledger_mut() {
            ledger.take_in(batch, now);
            if ledger.stopped().is_some() || ledger.has_news() {
                self.wake_at(partition, Some(now));
            }
        }
    }

    pub(super) fn pause_here(&mut self, which: Option<BTreeSet<Partition>>, now: Timestamp) {
        match which {
            None => self.paused_here.all = true,
            Some(which) => self.paused_here.partitions.extend(which),
        }
        self.mind_all_timers(now);
    }

    pub(super) fn resume_here(&mut self, which: Option<BTreeSet<Partition>>, now: Timestamp) {
        match which {
            None => self.paused_here = super::PausedHere::default(),
            Some(which) => {
                if self.paused_here.all {
                    let all = self.meta.as_ref().map_or(0, |(_, meta)| meta.partitions());
                    self.paused_here.partitions.extend(Partition::all(all));
                    self.paused_here.all = false;
                }
                self.paused_here.partitions.retain(|p| !which.contains(p));
            }
        }
        self.mind_all_timers(now);
    }

    fn mind_all_timers(&mut self, now: Timestamp) {
        let held: Vec<Partition> = self.holds.keys().copied().collect();
        for partition in held {
            self.mind_the_timer(partition, now);
            self.tend(partition, now);
        }
    }

    /// Whether the partition is paused, and with it the processing timer. P85, P127
    pub(super) fn mind_the_timer(&mut self, partition: Partition, now: Timestamp) {
        let in_meta = self
            .meta
            .as_ref()
            .is_some_and(|(_, meta)| meta.is_paused(partition));
        let here = self.paused_here.all || self.paused_here.partitions.contains(&partition);
        let (paused, suspended) = (in_meta || here, self.suspended);
        let Some(hold) = self.holds.get_mut(&partition) else {
            return;
        };
        let before = std::mem::replace(&mut hold.paused, paused);
        if let Some(ledger) = hold.ledger_mut() {
            if paused || suspended {
                ledger.stand_still(now);
            } else {
                ledger.go_on(now);
            }
        }
        match (before, paused) {
            (false, true) => self.tell(MemberEvent::Paused { partition }),
            (true, false) => self.tell(MemberEvent::Unpaused { partition }),
            (true, true) | (false, false) => {}
        }
    }

    /// Lifts a stop that was resumed since. P128
    pub(super) fn lift_if_resumed(&mut self, partition: Partition, now: Timestamp) {
        let ledger = self.holds.get_mut(&partition).and_then(Hold::ledger_mut);
        let (Some((_, meta)), Some(ledger)) = (&self.meta, ledger) else {
            return;
        };
        let stopped = ledger.stopped();
        if stopped.is_some_and(|stopped| meta.has_lifted(partition, stopped)) {
            ledger.lift(now);
            self.tell(MemberEvent::Unpaused { partition });
        }
    }
}

// === impl Hold ===

impl<M: Message> Hold<M> {
    /// What may be handed over; none before the record is ours and known to be.
    fn feed(&self, life: Life) -> Option<Feed> {
        let owned = self.ledger().is_some() && !self.verify;
        owned.then(|| {
            if life != Life::Here {
                Feed::OnlyBegun
            } else if self.paused || self.giving_up || self.revoking.is_some() {
                Feed::OnlyAgain
            } else {
                Feed::Open
            }
        })
    }
}
