//! Heartbeats, their echo, and the lease that only an echo renews. P30, P90 - P94

use std::time::Duration;

use super::super::ledger::Message;
use super::super::{Beat, Revision, Timestamp};
use super::{Effect, Life, Member, MemberEvent};

/// Heartbeats that are remembered: an echo that comes later than this many beats is worth nothing.
const REMEMBERED: usize = 64;

/// A heartbeat on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    at: Timestamp,
    /// The session timeout that it states: the coordinator counts with no less.
    session_timeout: Duration,
    /// The highest revision seen before it was sent: its own has to be higher.
    highest_before: Revision,
}

// === impl Member ===

impl<M: Message> Member<M> {
    /// Whether something may be handed over or committed now. P91
    pub fn has_lease(&self, now: Timestamp) -> bool {
        self.lease_until.is_some_and(|until| now < until) && self.life != Life::Over
    }

    /// Until when, if it ever had one.
    pub fn lease_until(&self) -> Option<Timestamp> {
        self.lease_until
    }

    pub(super) fn may_write(&self, now: Timestamp) -> bool {
        self.has_lease(now) && self.commits_after.is_none()
    }

    pub(super) fn look_at_the_lease(&mut self, now: Timestamp) {
        if self.suspended || self.lease_until.is_none() || self.has_lease(now) {
            return;
        }
        self.suspended = true;
        for hold in self.holds.values_mut() {
            hold.suspend(now);
        }
        self.tell(MemberEvent::Suspended);
    }

    pub(super) fn take_echo(&mut self, revision: Revision, beat: Beat, now: Timestamp) {
        self.highest = self.highest.max(revision);
        let Some(sent) = self.sent.get(&beat).copied() else {
            return;
        };
        if self.echoed.is_some_and(|newest| newest >= beat) {
            return;
        }
        let first = self.echoed.is_none();
        self.echoed = Some(beat);
        self.commits_after = self.commits_after.filter(|after| beat < *after);
        let until = sent.at.after(sent.session_timeout * 3 / 4);
        self.lease_until = self.lease_until.max(Some(until));
        if first {
            self.speak = true; // the rise of the beat is what makes it join
        }
        self.follow_the_document(now);
        if self.suspended && self.has_lease(now) {
            self.resume(now);
        }
        self.tend_all(now);
    }

    fn resume(&mut self, now: Timestamp) {
        self.suspended = false;
        let held: Vec<_> = self.holds.keys().copied().collect();
        for partition in held {
            self.mind_the_timer(partition, now);
        }
        self.tell(MemberEvent::Resumed);
    }

    pub(super) fn take_put(&mut self, beat: Beat, revision: Revision) {
        if let Some(sent) = self.sent.get(&beat)
            && revision <= sent.highest_before
        {
            return self.be_born_again(); // P33
        }
        self.highest = self.highest.max(revision);
        if self.life == Life::Left && beat == self.beat {
            self.life = Life::Over;
            self.effects.push(Effect::Over);
        }
    }

    pub(super) fn take_connected(&mut self) {
        if self.meta.is_some() {
            self.speak = true;
            self.commits_after = Some(self.beat.next());
        }
    }

    /// How often a heartbeat is sent: as the group says, at most a quarter of the session timeout.
    fn interval(&self) -> Option<Duration> {
        let membership = &self.meta.as_ref()?.1.membership;
        Some(
            membership
                .heartbeat_interval
                .min(membership.session_timeout / 4),
        )
    }

    pub(super) fn next_beat_at(&self) -> Option<Timestamp> {
        let interval = self.interval()?;
        Some(
            self.last_sent
                .map_or(Timestamp::default(), |at| at.after(interval)),
        )
    }

    pub(super) fn send_a_heartbeat_if_due(&mut self, now: Timestamp) {
        let due = self.next_beat_at().is_some_and(|at| at <= now);
        if self.life == Life::Over || !(due || self.speak && self.meta.is_some()) {
            return;
        }
        self.speak = false;
        self.beat = self.beat.next();
        let Some(document) = self.document_of_mine(now) else {
            return;
        };
        let sent = Sent {
            at: now,
            session_timeout: document.session_timeout,
            highest_before: self.highest,
        };
        self.sent.insert(self.beat, sent);
        while self.sent.len() > REMEMBERED {
            self.sent.pop_first();
        }
        self.last_sent = Some(now);
        self.effects.push(Effect::Heartbeat(Box::new(document)));
    }
}
