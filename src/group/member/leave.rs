//! Releases, and leaving the group. P73 - P78, P126

use std::time::Duration;

use super::super::ledger::Message;
use super::super::{Epoch, Partition, Released, Timestamp};
use super::{Effect, Life, Member, MemberEvent};

/// How long every session may be closed before nobody is waited for any more. P126a
const NOBODY_RETURNS: Duration = Duration::from_secs(1);

// === impl Member ===

impl<M: Message> Member<M> {
    /// Gives a partition back. Final from here on; said at once and with every beat. P75
    pub(super) fn release(&mut self, partition: Partition, clean: bool) {
        let Some(epoch) = self.let_go(partition) else {
            return;
        };
        self.released.insert(
            partition,
            Released {
                partition,
                epoch,
                clean,
            },
        );
        self.speak = true;
        if clean {
            self.given_back.0 += 1;
        } else {
            self.given_back.1 += 1;
        }
        self.tell(MemberEvent::Revoked {
            partition,
            epoch,
            clean,
        });
    }

    /// Forgets everything of the partition and stops its reader.
    pub(super) fn let_go(&mut self, partition: Partition) -> Option<Epoch> {
        let hold = self.holds.remove(&partition)?;
        let epoch = hold.epoch;
        if let Some(at) = hold.wake {
            self.wakes.remove(&(at, partition));
        }
        if hold.reading {
            self.effects.push(Effect::Close { partition, epoch });
        }
        self.claim_ended(partition);
        Some(epoch)
    }

    /// The process is to end: everything is given back, within this time.
    pub(super) fn drain(&mut self, timeout: Duration, now: Timestamp) {
        let deadline = now.after(timeout);
        self.life = match self.life {
            Life::Here => Life::Leaving(deadline),
            Life::Leaving(before) => Life::Leaving(before.min(deadline)),
            other @ (Life::Left | Life::Over) => other,
        };
        self.speak = true;
        let held: Vec<Partition> = self.holds.keys().copied().collect();
        for partition in held {
            self.revoke(partition, now);
        }
    }

    /// States `left` once nothing is held any more.
    pub(super) fn leave_if_done(&mut self, now: Timestamp) {
        let Life::Leaving(deadline) = self.life else {
            return;
        };
        if deadline <= now {
            let held: Vec<Partition> = self.holds.keys().copied().collect();
            for partition in held {
                self.release(partition, false);
            }
        }
        if !self.holds.is_empty() {
            return;
        }
        if self.last_sent.is_none() {
            self.life = Life::Over; // nobody has heard of this member
            self.effects.push(Effect::Over);
        } else {
            self.life = Life::Left;
            self.speak = true;
        }
    }

    /// When a member that leaves waits for no acknowledgement any more, unless a session is opened.
    /// P126a
    pub(super) fn nobody_returns_at(&self) -> Option<Timestamp> {
        let alone = matches!(self.life, Life::Leaving(_)) && !self.app.connected;
        alone.then(|| self.app.since.after(NOBODY_RETURNS))
    }

    /// How many partitions were given back clean and unclean.
    pub fn given_back(&self) -> (u32, u32) {
        self.given_back
    }

    /// Whether the member is on its way out.
    pub fn is_leaving(&self) -> bool {
        self.life != Life::Here
    }

    /// Whether nothing more is to be done.
    pub fn is_over(&self) -> bool {
        self.life == Life::Over
    }
}
