//! The members as they were heard, and who of them is alive.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::healthy_time::Healthy;
use super::observed::{Observed, Watch};
use crate::group::{
    Assignment, Epoch, Formats, GroupDocument, Incarnation, MemberDocument, MemberState, Partition,
    Timestamp,
};

/// The longest session timeout that a member may claim for itself.
const LONGEST_SESSION: Duration = Duration::from_secs(1800);

/// A key goes by itself an hour after the last heartbeat; what came from it is not needed longer.
pub(super) const FORGOTTEN_AFTER: Duration = Duration::from_secs(2 * 60 * 60);

/// Every member whose document was seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    seen: BTreeMap<Incarnation, Sight>,
}

/// One member, as it was heard.
#[derive(Clone, Debug)]
pub(super) struct Sight {
    /// Its newest document.
    pub(super) says: MemberDocument,
    /// When its beat was last seen to rise.
    pub(super) heard: Option<Healthy>,
    /// When its newest document was seen, be it a sign of life or not.
    seen: Healthy,
    /// Since when it could have been given partitions, without a break.
    pub(super) ready_since: Option<Healthy>,
}

/// How a member of the document stands with life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// Its beat rose within its session timeout, or it has not had the time yet.
    Alive,
    /// It said so itself, or its pod was seen to go.
    Left,
    /// Silence.
    Dead,
}

// === impl Members ===

impl Members {
    /// Takes in a heartbeat; returns the partitions whose commit records are worth a look.
    pub(super) fn see(
        &mut self,
        member: &Incarnation,
        says: MemberDocument,
        (watch, at): (Watch, Healthy),
    ) -> BTreeSet<Partition> {
        let before = self.seen.get(member);
        if before.is_some_and(|sight| says.beat <= sight.says.beat) {
            return BTreeSet::new(); // an equal beat is no sign of life, a lower one an old put // P46
        }
        // What was there when the watch was loaded is no sign of life. // P47
        let rose = before.is_some() || watch == Watch::Current;
        let heard = if rose { Some(at) } else { None };
        let gap = before
            .and_then(|sight| sight.heard)
            .is_none_or(|last| at.since(last) >= session(&says, Duration::ZERO));
        let ready_before = before.and_then(|sight| sight.ready_since).filter(|_| !gap);
        let ready = rose && is_ready(&says);
        let news = before.map_or_else(BTreeSet::new, |sight| worth_a_look(&sight.says, &says));
        let sight = Sight {
            ready_since: ready.then(|| ready_before.unwrap_or(at)),
            says,
            heard,
            seen: at,
        };
        self.seen.insert(member.clone(), sight);
        news
    }

    /// Forgets who is not in the document and of whom nothing was seen for as long as keys live.
    pub(super) fn forget(&mut self, at: Healthy, listed: impl Fn(&Incarnation) -> bool) {
        self.seen.retain(|member, sight| {
            let lately = at.since(sight.seen) < FORGOTTEN_AFTER;
            lately || listed(member)
        });
    }

    pub(super) fn get(&self, member: &Incarnation) -> Option<&Sight> {
        self.seen.get(member)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Incarnation, &Sight)> {
        self.seen.iter()
    }
}

// === impl Observed ===

impl Observed {
    /// How a member of the document stands with life. // P45
    pub(super) fn life(&self, member: &Incarnation) -> Life {
        let sight = self.members.get(member);
        if sight.is_some_and(|s| self.has_left(s)) {
            return Life::Left;
        }
        match self.silence_ends(member) {
            Some(deadline) if self.healthy.confirmed() >= deadline => Life::Dead,
            Some(_) | None => Life::Alive,
        }
    }

    /// Whether this member, in the document or not, was heard within its session timeout.
    pub(super) fn is_heard(&self, member: &Incarnation) -> bool {
        let Some(sight) = self.members.get(member) else {
            return false;
        };
        let here = self
            .meta
            .known()
            .is_some_and(|m| m.bucket == sight.says.bucket); // P51
        let end = sight.heard.map(|at| at.after(self.session_of(sight)));
        here && !self.has_left(sight) && end.is_some_and(|end| self.healthy.confirmed() < end)
    }

    /// Whether there is nobody whose time could run out: this candidate coordinates, the document lists
    /// nobody and gives nobody anything, and nobody is heard. // P44a
    pub fn is_deserted(&self) -> bool {
        let free = |a: &Assignment| a.owner.is_none() && a.target.is_none();
        let lists_nobody = |document: &GroupDocument| {
            document.members.is_empty() && document.partitions.iter().all(free)
        };
        self.is_coordinating()
            && self.group.known().is_some_and(lists_nobody)
            && !self.members.iter().any(|(member, _)| self.is_heard(member))
    }

    /// When a member of the document counts as dead unless it is heard before.
    pub(super) fn silence_ends(&self, member: &Incarnation) -> Option<Healthy> {
        let sight = self.members.get(member);
        let timeout = sight.map_or_else(|| self.least_session(), |s| self.session_of(s));
        let heard = sight.and_then(|s| s.heard);
        let grace = self.memory.grace_from(member); // P41
        heard.max(grace).map(|from| from.after(timeout))
    }

    /// When the next member of the document would be given up, on this machine's clock.
    pub(super) fn next_silence(&self, members: &[&Incarnation]) -> Option<Timestamp> {
        let end = members.iter().filter_map(|m| self.silence_ends(m)).min()?;
        self.healthy.expected_at(end)
    }

    fn has_left(&self, sight: &Sight) -> bool {
        let pod = sight.says.pod.as_ref();
        sight.says.state == MemberState::Left
            || pod.is_some_and(|pod| self.gone_pods.contains(&pod.uid)) // P48
    }

    fn session_of(&self, sight: &Sight) -> Duration {
        session(&sight.says, self.least_session())
    }

    fn least_session(&self) -> Duration {
        let meta = self.meta.known();
        meta.map_or(LONGEST_SESSION, |m| m.membership.session_timeout)
    }
}

fn session(says: &MemberDocument, least: Duration) -> Duration {
    says.session_timeout.min(LONGEST_SESSION).max(least)
}

/// Whether a member could be given partitions by what it says of itself. // P57
fn is_ready(says: &MemberDocument) -> bool {
    takes_part(says) && has_application(says) && reads_the_formats(says)
}

/// Neither draining nor gone.
pub(super) fn takes_part(says: &MemberDocument) -> bool {
    matches!(says.state, MemberState::Joining | MemberState::Active)
}

/// Whether its application is connected, or was within the last session timeout.
pub(super) fn has_application(says: &MemberDocument) -> bool {
    let since = Duration::from_millis(says.app.since_ms);
    says.app.connected || (says.app.seen && since <= says.session_timeout)
}

/// Whether it reads every format that is in use. // P131
pub(super) fn reads_the_formats(says: &MemberDocument) -> bool {
    let in_use = Formats::CURRENT;
    let Formats {
        meta,
        group,
        member: _,
        offset,
    } = says.formats;
    meta >= in_use.meta && group >= in_use.group && offset >= in_use.offset
}

/// Partitions that were given up since the last heartbeat.
fn worth_a_look(before: &MemberDocument, says: &MemberDocument) -> BTreeSet<Partition> {
    let unclean = |d: &MemberDocument| -> BTreeSet<(Partition, Epoch)> {
        let released = d.released.iter().filter(|r| !r.clean);
        released.map(|r| (r.partition, r.epoch)).collect()
    };
    let fresh = &unclean(says) - &unclean(before);
    fresh.into_iter().map(|(partition, _)| partition).collect()
}
