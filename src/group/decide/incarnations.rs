//! The end of members, and who takes the place of whom.

use std::collections::BTreeSet;

use super::draft::Draft;
use super::members::{Life, takes_part};
use super::observed::Observed;
use super::reason::Reason;
use crate::group::{Incarnation, MemberEntry, MemberId, MemberState, StandbyReason, Standing};

/// Standing of who has no place of its own: another one with the same id has it, or had it later.
pub(super) fn has_no_place(standing: Standing) -> bool {
    matches!(
        standing,
        Standing::Standby(StandbyReason::DuplicateMember | StandbyReason::Replaced)
    )
}

impl Observed {
    /// Removes who is dead or has left; the next incarnation of the same id, if one waits, takes the
    /// place. // P49 P52
    pub(super) fn bury_the_dead(&self, draft: &mut Draft) {
        let listed: Vec<Incarnation> = draft.now.members.keys().cloned().collect();
        for member in listed {
            let life = self.life(&member);
            if life == Life::Alive {
                continue;
            }
            let Some(entry) = draft.now.members.get(&member).cloned() else {
                continue;
            };
            let heir = self.heir_of(&entry, &member, draft);
            match (&heir, life) {
                (Some(heir), _) => {
                    self.hand_the_place_to(heir, &member, draft);
                    draft.because(Reason::Replaced(entry.id, heir.clone()));
                }
                (None, Life::Left) => draft.because(Reason::Left(entry.id)),
                (None, Life::Alive | Life::Dead) => draft.because(Reason::Died(entry.id)),
            }
            self.free_what_was_never_taken(&member, draft);
            draft.remove(&member);
        }
    }

    /// What was granted to a member that has left, and that it neither held nor released, was granted
    /// in the instant in which it left: it ends as it was before the grant. // P76a
    fn free_what_was_never_taken(&self, member: &Incarnation, draft: &mut Draft) {
        let Some(sight) = self.members.get(member) else {
            return;
        };
        if sight.says.state != MemberState::Left {
            return; // silent, or seen to go: it may hold more than it said
        }
        let held = |partition| sight.says.held.iter().any(|h| h.partition == partition);
        for partition in draft.numbers() {
            let Some(entry) = draft.now.assignment(partition) else {
                continue;
            };
            if entry.owner.as_ref() == Some(member) && !held(partition) {
                let as_before = entry.unclean;
                draft.free(partition, as_before);
            }
        }
    }

    /// A second incarnation in the pod of the first: the container was restarted. // P52
    pub(super) fn replace_restarted(&self, draft: &mut Draft) {
        let holders: Vec<(Incarnation, MemberEntry)> = draft
            .now
            .members
            .iter()
            .filter(|(_, entry)| !has_no_place(entry.standing))
            .map(|(member, entry)| (member.clone(), entry.clone()))
            .collect();
        for (member, entry) in holders {
            let pod = self.members.get(&member).and_then(|s| s.says.pod.clone());
            let heir = self.heir_of(&entry, &member, draft).filter(|heir| {
                let its = self.members.get(heir).and_then(|s| s.says.pod.as_ref());
                pod.is_some() && its.map(|p| &p.uid) == pod.as_ref().map(|p| &p.uid)
            });
            let Some(heir) = heir else {
                continue;
            };
            self.hand_the_place_to(&heir, &member, draft);
            for partition in draft.numbers() {
                let owner = draft
                    .now
                    .assignment(partition)
                    .and_then(|a| a.owner.clone());
                if owner.as_ref() == Some(&member) {
                    draft.free(partition, true);
                }
            }
            if let Some(entry) = draft.now.members.get_mut(&member) {
                entry.standing = Standing::Standby(StandbyReason::Replaced);
            }
            draft.because(Reason::Replaced(entry.id, heir));
        }
    }

    /// Those who would take part, are not in the document or wait in it without a place; of each id
    /// the one that was there first. The others are duplicates.
    pub(super) fn newcomers(&self, draft: &Draft) -> Newcomers {
        let mut taken: BTreeSet<MemberId> = draft
            .now
            .members
            .values()
            .filter(|entry| !has_no_place(entry.standing))
            .map(|entry| entry.id.clone())
            .collect();
        let mut found = Newcomers::default();
        for member in self.waiting(draft) {
            let Some(sight) = self.members.get(&member) else {
                continue;
            };
            if self.memory.was_replaced(&member) {
                found.replaced.push(member); // P54
            } else if taken.insert(sight.says.id.clone()) {
                found.first.push(member);
            } else {
                found.duplicates.push(member); // P53
            }
        }
        found
    }

    fn heir_of(
        &self,
        entry: &MemberEntry,
        member: &Incarnation,
        draft: &Draft,
    ) -> Option<Incarnation> {
        if has_no_place(entry.standing) {
            return None;
        }
        let waiting = self.waiting(draft).into_iter();
        let mut same_id = waiting.filter(|heir| {
            let sight = self.members.get(heir);
            heir != member
                && !self.memory.was_replaced(heir)
                && sight.is_some_and(|s| s.says.id == entry.id && takes_part(&s.says))
        });
        same_id.next()
    }

    fn hand_the_place_to(&self, heir: &Incarnation, member: &Incarnation, draft: &mut Draft) {
        let (Some(entry), Some(sight)) = (draft.now.members.get(member), self.members.get(heir))
        else {
            return;
        };
        let entry = MemberEntry {
            id: entry.id.clone(),
            zone: sight.says.zone.clone(),
            standing: entry.standing,
        };
        draft.now.members.insert(heir.clone(), entry);
        draft.redirect(member, heir);
    }

    /// Heard members without a place, in the order in which they became ready.
    fn waiting(&self, draft: &Draft) -> Vec<Incarnation> {
        let mut waiting: Vec<_> = self
            .members
            .iter()
            .filter(|(member, _)| {
                let standing = draft.standing(member);
                let replaced = standing == Some(Standing::Standby(StandbyReason::Replaced));
                self.is_heard(member) && !replaced && standing.is_none_or(has_no_place)
            })
            .map(|(member, sight)| {
                (
                    sight.ready_since.is_none(),
                    sight.ready_since,
                    member.clone(),
                )
            })
            .collect();
        waiting.sort();
        waiting.into_iter().map(|(_, _, member)| member).collect()
    }
}

/// Members without a place yet.
#[derive(Debug, Default)]
pub(super) struct Newcomers {
    /// The first of its id.
    pub(super) first: Vec<Incarnation>,
    /// Another one has its id.
    pub(super) duplicates: Vec<Incarnation>,
    /// A later one took its place.
    pub(super) replaced: Vec<Incarnation>,
}
