//! Revoke, release, grant: how a partition changes hands.

use super::draft::Draft;
use super::members::takes_part;
use super::observed::Observed;
use super::reason::Reason;
use crate::group::{Incarnation, Released, Timestamp};

impl Observed {
    /// Takes back what owners have released: only what they name, at exactly that epoch. // P76
    pub(super) fn take_back(&self, draft: &mut Draft) {
        let listed: Vec<Incarnation> = draft.now.members.keys().cloned().collect();
        for member in listed {
            let Some(sight) = self.members.get(&member) else {
                continue;
            };
            for release in &sight.says.released {
                let ends = if takes_part(&sight.says) {
                    Ends::Refused
                } else {
                    Ends::Leaving
                };
                take_back_one(draft, &member, release, ends);
            }
        }
    }

    /// Ends the ownership of who did not let go in time. // P77
    pub(super) fn end_overdue_revocations(&self, draft: &mut Draft) {
        let Some(meta) = self.meta.known() else {
            return;
        };
        let timeout = meta.membership.rebalance_timeout;
        let revoked: Vec<_> = draft
            .partitions()
            .filter(|(_, a)| a.is_being_revoked())
            .map(|(partition, a)| (partition, a.epoch))
            .collect();
        for (partition, epoch) in revoked {
            let since = self.memory.revoking_since(partition, epoch);
            if since.is_some_and(|s| self.healthy.confirmed() >= s.after(timeout)) {
                draft.because(Reason::RebalanceTimeout(partition, epoch));
                draft.free(partition, true);
            }
        }
    }

    /// Gives every ownerless partition to its target. // P59
    pub(super) fn grant_what_is_free(&self, draft: &mut Draft, now: Timestamp) {
        let at = self.healthy.at(now);
        if !draft.now.seeded {
            return; // P87
        }
        for partition in draft.numbers() {
            let Some(entry) = draft.now.assignment(partition) else {
                continue;
            };
            let target_can = entry.target.as_ref().is_some_and(|t| draft.is_active(t));
            let refusal = self.memory.refusal(partition, at);
            let too_early =
                draft.refused.contains_key(&partition) || refusal.is_some_and(|r| at < r.over()); // P80
            if entry.owner.is_none()
                && target_can
                && !too_early
                && self.offsets.can_be_claimed(partition)
            {
                draft.grant(partition);
            }
        }
    }

    /// When an owner's time to let go, or a partition's back-off, is next over.
    pub(super) fn next_handover(&self, draft: &Draft, now: Timestamp) -> Option<Timestamp> {
        let timeout = self.meta.known()?.membership.rebalance_timeout;
        let at = self.healthy.at(now);
        let ends = draft.partitions().filter_map(|(partition, a)| {
            if a.is_being_revoked() {
                let since = self.memory.revoking_since(partition, a.epoch);
                since.map(|s| s.after(timeout))
            } else if a.owner.is_none() {
                let refusal = self.memory.refusal(partition, at);
                refusal
                    .map(super::memory::Refusal::over)
                    .filter(|over| *over > at)
            } else {
                None
            }
        });
        self.healthy.expected_at(ends.min()?)
    }
}

/// What it means when an owner gives back what is meant for it.
#[derive(Clone, Copy)]
enum Ends {
    /// It goes.
    Leaving,
    /// It stays, and cannot or may not hold this partition. // P80
    Refused,
}

fn take_back_one(draft: &mut Draft, member: &Incarnation, release: &Released, ends: Ends) {
    let partition = release.partition;
    let Some(entry) = draft.now.assignment(partition) else {
        return;
    };
    if entry.owner.as_ref() != Some(member) || entry.epoch != release.epoch {
        return;
    }
    let given_back = entry.target.as_ref() == Some(member);
    draft.because(Reason::Released(partition, release.epoch));
    draft.free(partition, !release.clean);
    match ends {
        Ends::Refused if given_back => {
            if let Some(entry) = draft.entry(partition) {
                entry.target = None;
            }
            draft.refused.insert(partition, member.clone());
        }
        Ends::Refused | Ends::Leaving => {}
    }
}
