//! The claim: fence first, everything else after. P96 - P100

use std::time::Duration;

use super::super::ledger::{Ledger, Message};
use super::super::{Epoch, OffsetRecord, Partition, Revision, Timestamp};
use super::hold::{Hold, Io, Stage, Writing};
use super::{Effect, Member, MemberEvent};

/// Claims that run at the same time. P98
pub(super) const CLAIMS_AT_ONCE: usize = 16;

/// Between two attempts of a claim. P98
pub(super) const LEAST_WAIT: Duration = Duration::from_millis(5);
pub(super) const MOST_WAIT: Duration = Duration::from_millis(100);

/// How often a damaged record is looked at again: somebody may have mended it.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(5);

// === impl Member ===

impl<M: Message> Member<M> {
    /// A partition that was granted.
    pub(super) fn begin_claim(
        &mut self,
        (partition, epoch): (Partition, Epoch),
        unclean: bool,
        now: Timestamp,
    ) {
        self.holds
            .insert(partition, Hold::claimed_next(epoch, unclean, now));
        self.mind_the_timer(partition, now);
    }

    pub(super) fn tend_claim(&mut self, partition: Partition, now: Timestamp) {
        let running = self.claiming.len();
        let session = self
            .meta
            .as_ref()
            .map(|(_, m)| m.membership.session_timeout);
        let (may_write, Some(hold)) = (self.may_write(now), self.holds.get_mut(&partition)) else {
            return;
        };
        if hold.revoking.is_some() {
            return self.release(partition, true); // P78: it holds nothing of it
        }
        if let (Some(since), Some(session)) = (hold.failing_since, session)
            && now.since(since) > session
        {
            return self.release(partition, false); // P80
        }
        if !hold.is_idle() || !may_write {
            return;
        }
        if hold.next_try.is_some_and(|at| at > now) {
            let at = hold.next_try;
            return self.wake_at(partition, at);
        }
        if !self.claiming.contains(&partition) && running >= CLAIMS_AT_ONCE {
            return; // looked at again when another claim has ended
        }
        let epoch = hold.epoch;
        if let Some(writing) = hold.resend.take() {
            return self.write(partition, writing);
        }
        hold.io = Io::Reading;
        self.claiming.insert(partition);
        self.effects.push(Effect::ReadOffset { partition, epoch });
    }

    /// What stands at the key decides.
    pub(super) fn judge_for_claim(
        &mut self,
        partition: Partition,
        (revision, record): (Revision, OffsetRecord),
        now: Timestamp,
    ) {
        let me = self.identity.incarnation.clone();
        let may_write = self.may_write(now);
        let Some(hold) = self.holds.get_mut(&partition) else {
            return;
        };
        if revision < hold.least {
            return self.try_later(partition, now); // P26: an old read
        }
        let mine = record.owner.as_ref() == Some(&me);
        if record.epoch > hold.epoch || (record.epoch == hold.epoch && !mine) {
            return self.fenced(partition); // P97
        }
        if record.epoch == hold.epoch {
            return self.own(partition, (revision, record), now); // P97: it is claimed already
        }
        if !may_write {
            return; // P91: it is read again when the lease is back
        }
        let mut claim = OffsetRecord {
            epoch: hold.epoch,
            owner: Some(me),
            ..record.clone()
        };
        if hold.unclean && record.stopped.is_none() {
            let head = Ledger::<M>::unclean_head(record.head.as_ref(), record.next_seq);
            claim.head = Some(head); // P99
        }
        let writing = Writing {
            record: claim,
            expected: revision,
            commit: None,
        };
        self.write(partition, writing);
    }

    /// The commit record is ours: the partition's ledger opens.
    pub(super) fn own(
        &mut self,
        partition: Partition,
        (revision, record): (Revision, OffsetRecord),
        now: Timestamp,
    ) {
        self.claim_ended(partition);
        let Some(rules) = self.rules() else {
            return;
        };
        let suspended = self.suspended;
        let Some(hold) = self.holds.get_mut(&partition) else {
            return;
        };
        hold.went_well();
        hold.least = hold.least.max(revision);
        hold.stage = Stage::Owned(Box::new(Ledger::starting_at(&record, rules)));
        hold.known = Some((revision, record));
        if suspended {
            hold.suspend(now);
        }
        let (epoch, position) = (hold.epoch, hold.ledger().map(Ledger::position));
        if let Some(position) = position {
            self.tell(MemberEvent::Assigned {
                partition,
                epoch,
                position,
            });
        }
        self.lift_if_resumed(partition, now);
        self.say_if_stopped(partition);
        self.mind_the_timer(partition, now);
    }

    /// One claim less is running: the next one may go.
    pub(super) fn claim_ended(&mut self, partition: Partition) {
        self.claiming.remove(&partition);
        let waiting = self.holds.iter().find(|(p, hold)| {
            hold.is_claiming()
                && hold.is_idle()
                && hold.next_try.is_none()
                && **p != partition
                && !self.claiming.contains(p)
        });
        if let Some(next) = waiting.map(|(p, _)| *p) {
            self.wake_at(next, Some(Timestamp::default()));
        }
    }
}
