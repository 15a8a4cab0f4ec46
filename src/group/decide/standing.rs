//! Who may own partitions, who waits, and why.

use super::draft::Draft;
use super::healthy_time::Healthy;
use super::incarnations::has_no_place;
use super::members::{has_application, reads_the_formats, takes_part};
use super::observed::Observed;
use super::reason::Reason;
use crate::group::{
    GroupState, Incarnation, MemberDocument, MemberEntry, MemberState, Meta, StandbyReason,
    Standing, Timestamp,
};

/// Members that could own partitions and are not active yet, in the order in which they will be.
#[derive(Debug, Default)]
pub(super) struct Joiners {
    pub(super) members: Vec<Incarnation>,
    pub(super) first: Option<Healthy>,
    pub(super) last: Option<Healthy>,
}

impl Observed {
    /// Writes each member's standing into the table, and takes joiners in when it is time.
    /// Returns when the wait of those who are not taken in yet is over.
    pub(super) fn seat(&self, meta: &Meta, draft: &mut Draft, now: Timestamp) -> Option<Healthy> {
        let newcomers = self.newcomers(draft);
        for member in &newcomers.replaced {
            self.list(draft, member, Standing::Standby(StandbyReason::Replaced));
        }
        for member in &newcomers.duplicates {
            self.list(
                draft,
                member,
                Standing::Standby(StandbyReason::DuplicateMember),
            );
        }
        let placed = draft.now.members.iter();
        let placed: Vec<Incarnation> = placed
            .filter(|(member, entry)| {
                !has_no_place(entry.standing) || newcomers.first.contains(member)
            })
            .map(|(member, _)| member.clone())
            .collect();
        let fresh = newcomers.first.iter().filter(|m| !placed.contains(m));
        let mut eligible = Vec::new();
        let candidates: Vec<&Incarnation> = placed.iter().chain(fresh).collect();
        let heeded = self.asks_are_heeded(meta, &candidates);
        for member in candidates {
            let Some(sight) = self.members.get(member) else {
                continue; // in the document, and nothing of it is known yet: it stays as it is
            };
            match self.fitness_when_asked(meta, &sight.says, heeded) {
                Fitness::Eligible if sight.ready_since.is_some() || draft.is_active(member) => {
                    eligible.push(member.clone());
                }
                Fitness::Standby(reason) => self.list(draft, member, Standing::Standby(reason)),
                Fitness::Draining if draft.standing(member).is_some() => {
                    self.list(draft, member, Standing::Draining);
                }
                Fitness::Draining | Fitness::Eligible => {} // leaving, or not heard yet // P47
            }
        }
        let joiners = self.take_places(meta, draft, eligible);
        if !self.may_join(meta, draft, &joiners, now) {
            return self.joins_due(meta, draft, &joiners);
        }
        for member in &joiners.members {
            self.list(draft, member, Standing::Active);
        }
        None
    }

    /// Whether those who are asked to leave are to give their partitions up: only if somebody else
    /// could have them. // P57a
    fn asks_are_heeded(&self, meta: &Meta, candidates: &[&Incarnation]) -> bool {
        let sights = candidates
            .iter()
            .filter_map(|member| self.members.get(member));
        let mut others =
            sights.filter(|sight| !self.asked_to_leave.contains(sight.says.id.as_str()));
        others.any(|sight| fitness(meta, &sight.says) == Fitness::Eligible)
    }

    fn fitness_when_asked(&self, meta: &Meta, says: &MemberDocument, heeded: bool) -> Fitness {
        let fitness = fitness(meta, says);
        let asked = heeded && self.asked_to_leave.contains(says.id.as_str());
        if asked && fitness == Fitness::Eligible {
            Fitness::Draining
        } else {
            fitness
        }
    }

    /// Gives the places to those who are there longest. The rest stands by; returns who waits for
    /// the end of a delay. // P64
    fn take_places(&self, meta: &Meta, draft: &mut Draft, eligible: Vec<Incarnation>) -> Joiners {
        let places = meta.membership.max_members.min(meta.partitions()) as usize;
        let mut line: Vec<_> = eligible
            .into_iter()
            .map(|member| (self.seniority(draft, &member), member))
            .collect();
        line.sort();
        let unknown = draft
            .actives()
            .filter(|(m, _)| self.members.get(m).is_none());
        let places = places.saturating_sub(unknown.count());
        let mut joiners = Joiners::default();
        for (place, (seniority, member)) in line.into_iter().enumerate() {
            if place >= places {
                self.list(draft, &member, Standing::Standby(StandbyReason::Surplus));
            } else if seniority.is_new {
                let since = joiners.first.into_iter().chain(seniority.since);
                joiners.first = since.min();
                joiners.last = joiners.last.max(seniority.since);
                joiners.members.push(member);
            } else {
                self.list(draft, &member, Standing::Active);
            }
        }
        joiners
    }

    fn seniority(&self, draft: &Draft, member: &Incarnation) -> Seniority {
        let sight = self.members.get(member);
        let owns = draft
            .partitions()
            .any(|(_, a)| a.owner.as_ref() == Some(member) || a.target.as_ref() == Some(member));
        let is_new = !draft.is_active(member);
        let flaps = sight.and_then(|s| self.memory.flaps_until(&s.says.id));
        Seniority {
            is_new,
            owns_nothing: !owns,
            flaps: is_new && flaps.is_some_and(|until| self.healthy.confirmed() < until),
            since: sight.and_then(|s| s.ready_since),
        }
    }

    fn list(&self, draft: &mut Draft, member: &Incarnation, standing: Standing) {
        let Some(sight) = self.members.get(member) else {
            return;
        };
        let entry = MemberEntry {
            id: sight.says.id.clone(),
            zone: sight.says.zone.clone(),
            standing,
        };
        match draft.now.members.insert(member.clone(), entry) {
            None => draft.because(Reason::Joined(sight.says.id.clone())),
            Some(before) if before.standing != standing => {
                draft.because(Reason::StandingChanged(sight.says.id.clone()));
            }
            Some(_) => {}
        }
    }
}

/// What a member is fit for, by what it says of itself. // P57
fn fitness(meta: &Meta, says: &MemberDocument) -> Fitness {
    if meta.state == GroupState::Deleted {
        Fitness::Standby(StandbyReason::GroupDeleted)
    } else if says.state == MemberState::Draining {
        Fitness::Draining
    } else if !reads_the_formats(says) {
        Fitness::Standby(StandbyReason::VersionTooOld)
    } else if takes_part(says) && has_application(says) {
        Fitness::Eligible
    } else {
        Fitness::Standby(StandbyReason::NoApplication)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fitness {
    Eligible,
    Standby(StandbyReason),
    Draining,
}

/// Who goes first when there are fewer places than members; fields in order of importance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Seniority {
    is_new: bool,
    owns_nothing: bool,
    flaps: bool,
    since: Option<Healthy>,
}
