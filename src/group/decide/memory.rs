//! What the coordinator remembers between two documents: since when, how often, who before.
//!
//! All of it is read off the documents as they pass, so that a candidate that merely watches knows
//! it, too. None of it is needed for safety: after a take-over by a stranger everybody gets his full
//! time again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::healthy_time::Healthy;
use super::members::Members;
use crate::group::{
    Epoch, GroupDocument, Incarnation, MemberEntry, MemberId, MemberState, Partition,
    StandbyReason, Standing,
};

/// Two deaths within this time make a member one that flaps. // P63
pub(super) const FLAPPING: Duration = Duration::from_secs(300);

/// The first wait before a partition that was given back is granted again. // P80
const FIRST_BACKOFF: Duration = Duration::from_secs(1);

/// The longest of these waits.
const LONGEST_BACKOFF: Duration = Duration::from_secs(30);

/// What passed.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    holder_since: Healthy,
    took_over: Option<Healthy>,
    take_overs: Vec<Healthy>,
    listed: BTreeMap<Incarnation, Healthy>,
    revoking: BTreeMap<Partition, Revoking>,
    refusals: BTreeMap<Partition, Refusal>,
    last_ids: BTreeMap<Partition, MemberId>,
    deaths: BTreeMap<MemberId, Vec<Healthy>>,
    replaced: BTreeSet<Incarnation>,
    last_balance: Option<Healthy>,
    rolled_back: BTreeSet<Partition>,
}

/// A revocation under way.
#[derive(Clone, Copy, Debug)]
struct Revoking {
    epoch: Epoch,
    since: Healthy,
}

/// An owner gave back what the document gave to it.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub(super) by: Incarnation,
    pub(super) at: Healthy,
    pub(super) times: u32,
}

// === impl Refusal ===

impl Refusal {
    /// When the partition may be granted again.
    pub(super) fn over(&self) -> Healthy {
        let doubled = FIRST_BACKOFF.saturating_mul(1 << self.times.saturating_sub(1).min(5));
        self.at.after(doubled.min(LONGEST_BACKOFF))
    }

    /// When it does not matter any more.
    fn forgotten(&self) -> Healthy {
        self.over().after(LONGEST_BACKOFF)
    }
}

// === impl Memory ===

impl Memory {
    /// The watch has delivered what was there. Moves made before are not known: they count as just
    /// made.
    pub(super) fn loaded(&mut self, at: Healthy, has_owners: bool) {
        self.holder_since = self.holder_since.max(at);
        if has_owners && self.last_balance.is_none() {
            self.last_balance = Some(at);
        }
    }

    /// The own take-over was stored. // P41
    pub(super) fn took_over(&mut self, at: Healthy) {
        self.took_over = Some(at);
        self.revoking.values_mut().for_each(|r| r.since = at);
    }

    /// Reads off one document after another.
    pub(super) fn learn(
        &mut self,
        (old, new): (Option<&GroupDocument>, &GroupDocument),
        members: &Members,
        at: Healthy,
    ) {
        let nothing = GroupDocument::default();
        if old.is_none_or(|old| (old.term, &old.holder) != (new.term, &new.holder)) {
            self.holder_since = at;
            self.take_overs.extend(old.map(|_| at));
        }
        let old = old.unwrap_or(&nothing);
        self.learn_members((old, new), members, at);
        self.learn_partitions((old, new), at);
    }

    fn learn_members(
        &mut self,
        (old, new): (&GroupDocument, &GroupDocument),
        members: &Members,
        at: Healthy,
    ) {
        self.listed
            .retain(|member, _| new.members.contains_key(member));
        for member in new.members.keys() {
            self.listed.entry(member.clone()).or_insert(at);
        }
        for (member, entry) in &old.members {
            if entry.standing == Standing::Standby(StandbyReason::DuplicateMember) {
                continue; // it never had the place
            }
            let replaced = is_replaced(member, entry, new);
            if replaced {
                self.replaced.insert(member.clone());
            }
            let known = members.get(member).map(|sight| sight.says.state);
            let on_purpose = matches!(known, Some(MemberState::Left | MemberState::Draining));
            let gone = replaced || !new.members.contains_key(member);
            if gone && !on_purpose && !is_replaced(member, entry, old) {
                self.deaths.entry(entry.id.clone()).or_default().push(at);
            }
        }
        for deaths in self.deaths.values_mut() {
            deaths.retain(|death| at.since(*death) <= FLAPPING * 2);
        }
        self.deaths.retain(|_, deaths| !deaths.is_empty());
    }

    fn learn_partitions(&mut self, (old, new): (&GroupDocument, &GroupDocument), at: Healthy) {
        for (partition, is) in Partition::all(u32::MAX).zip(&new.partitions) {
            let was = old.assignment(partition).cloned().unwrap_or_default();
            if is.epoch.0 > was.epoch.0 + 1 && !old.partitions.is_empty() {
                self.rolled_back.insert(partition);
            }
            if is.is_being_revoked() {
                let fresh = Revoking {
                    epoch: is.epoch,
                    since: at,
                };
                let entry = self.revoking.entry(partition).or_insert(fresh);
                if entry.epoch != is.epoch {
                    *entry = fresh; // once per (partition, epoch) // P77
                }
            } else {
                self.revoking.remove(&partition); // done, or withdrawn // P79
            }
            let id_of = |member: &Option<Incarnation>| {
                let member = member.as_ref()?;
                let entry = old.members.get(member).or_else(|| new.members.get(member));
                entry.map(|e| e.id.clone())
            };
            if let Some(id) = id_of(&was.owner)
                && id_of(&is.owner).as_ref() != Some(&id)
            {
                self.last_ids.insert(partition, id);
            }
            let listed = |member: &Option<Incarnation>| {
                let entry = member.as_ref().and_then(|m| new.members.get(m));
                entry.is_some_and(|e| e.standing == Standing::Active)
            };
            if is.owner.is_none()
                && is.epoch == was.epoch
                && was.owner == was.target
                && listed(&was.owner)
                && let Some(by) = was.owner
            {
                self.refused(partition, by, at);
            }
            if was.target != is.target
                && listed(&was.target)
                && listed(&is.target)
                && self.refusal(partition, at).is_none()
            {
                self.last_balance = Some(at); // P62
            }
        }
    }

    fn refused(&mut self, partition: Partition, by: Incarnation, at: Healthy) {
        let before = self.refusals.get(&partition);
        let lately = before.filter(|r| at < r.forgotten());
        let times = lately.map_or(1, |r| r.times.saturating_add(1));
        self.refusals.insert(partition, Refusal { by, at, times });
    }

    // --- what is asked of it

    /// Forgets replaced incarnations that nobody has seen for long.
    pub(super) fn forget(&mut self, members: &Members) {
        self.replaced.retain(|member| members.get(member).is_some());
    }

    pub(super) fn holder_since(&self) -> Healthy {
        self.holder_since
    }

    pub(super) fn grace_from(&self, member: &Incarnation) -> Option<Healthy> {
        self.took_over.max(self.listed.get(member).copied())
    }

    /// Since when this revocation runs.
    pub(super) fn revoking_since(&self, partition: Partition, epoch: Epoch) -> Option<Healthy> {
        let entry = self.revoking.get(&partition)?;
        (entry.epoch == epoch).then_some(entry.since)
    }

    /// Who gave this partition back, as long as it matters.
    pub(super) fn refusal(&self, partition: Partition, at: Healthy) -> Option<&Refusal> {
        let refusal = self.refusals.get(&partition)?;
        (at < refusal.forgotten()).then_some(refusal)
    }

    /// What was given back not long ago, and by whom.
    pub(super) fn refusals(&self, at: Healthy) -> impl Iterator<Item = (Partition, &Incarnation)> {
        let all = self.refusals.iter();
        let matter = all.filter(move |(_, r)| at < r.forgotten());
        matter.map(|(partition, r)| (*partition, &r.by))
    }

    /// When the next of them is forgotten.
    pub(super) fn next_forgotten(&self, at: Healthy) -> Option<Healthy> {
        let ends = self.refusals.values().map(Refusal::forgotten);
        ends.filter(|end| *end > at).min()
    }

    pub(super) fn last_ids(&self) -> &BTreeMap<Partition, MemberId> {
        &self.last_ids
    }

    pub(super) fn was_replaced(&self, member: &Incarnation) -> bool {
        self.replaced.contains(member)
    }

    /// Until when this id is one that flaps; none if it is not. // P63
    pub(super) fn flaps_until(&self, id: &MemberId) -> Option<Healthy> {
        let deaths = self.deaths.get(id)?;
        let pairs = deaths
            .windows(2)
            .filter(|pair| pair[1].since(pair[0]) <= FLAPPING);
        pairs.map(|pair| pair[1].after(FLAPPING)).max()
    }

    pub(super) fn last_balance(&self) -> Option<Healthy> {
        self.last_balance
    }

    /// When take-overs stop being too many; none if they are not. // P42
    pub(super) fn office_flaps_until(&self, session: Duration) -> Option<Healthy> {
        let pairs = self.take_overs.windows(2);
        let close = pairs.filter(|pair| pair[1].since(pair[0]) < session);
        close.map(|pair| pair[1].after(session)).max()
    }

    pub(super) fn rolled_back(&self) -> &BTreeSet<Partition> {
        &self.rolled_back
    }
}

/// Whether `document` has another incarnation in this member's place.
fn is_replaced(member: &Incarnation, entry: &MemberEntry, document: &GroupDocument) -> bool {
    match document.members.get(member) {
        Some(now) => now.standing == Standing::Standby(StandbyReason::Replaced),
        None => document.members.values().any(|other| {
            other.id == entry.id
                && other.standing != Standing::Standby(StandbyReason::Replaced)
                && other.standing != Standing::Standby(StandbyReason::DuplicateMember)
        }),
    }
}
