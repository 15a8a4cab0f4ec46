//! How the group is, in words from a closed set.

use std::fmt;

use super::draft::Draft;
use super::observed::{Observed, Slot};
use super::offsets::OffsetFact;
use crate::group::{GroupState, StandbyReason, Standing, StopReason};

/// One aspect of a group: whether it is well, why not, and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Which aspect.
    pub aspect: Aspect,
    /// Why it is not well; none if it is.
    pub trouble: Option<Trouble>,
    /// A sentence for people; empty if all is well.
    pub detail: String,
}

/// The aspects of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Aspect {
    /// What the group needs exists and matches.
    Provisioned,
    /// A fenced coordinator is active.
    CoordinatorReady,
    /// Every partition has one live owner.
    PartitionsAssigned,
    /// No partition with messages stands still.
    PartitionsProgressing,
    /// Offsets fit their streams.
    OffsetsValid,
}

/// Why an aspect is not well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// The bucket that was there is missing or another one.
    StateLost,
    /// A document in the bucket cannot be understood.
    StateDamaged,
    /// Another manager coordinates this group.
    OwnershipConflict,
    /// Nobody coordinates.
    NoCoordinator,
    /// Coordinators take over from each other too often.
    CoordinatorFlapping,
    /// Partitions change hands.
    Rebalancing,
    /// There is no member.
    NoMembers,
    /// There are members, and none may own anything.
    NoEligibleMember,
    /// Two live members have the same id.
    DuplicateMember,
    /// A member cannot read the formats in use.
    VersionTooOld,
    /// A message used up its attempts.
    MessageStuck,
    /// Members have no application.
    AppNotConnected,
    /// A stream was made anew.
    StreamRecreated,
    /// A stream lost its end or was restored.
    StreamTruncated,
    /// Retention removed messages before they were read.
    MessagesLost,
    /// A commit record is absent or damaged.
    OffsetLost,
    /// The bucket was rolled back to an earlier state.
    StateRolledBack,
}

// === impl Condition ===

impl Condition {
    /// All is well in this respect.
    pub fn well(aspect: Aspect) -> Self {
        Self {
            aspect,
            trouble: None,
            detail: String::new(),
        }
    }

    /// It is not, and why.
    pub fn trouble(aspect: Aspect, trouble: Trouble, detail: impl Into<String>) -> Self {
        Self {
            aspect,
            trouble: Some(trouble),
            detail: detail.into(),
        }
    }
}

// === impl Aspect, Trouble ===

impl fmt::Display for Aspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

// === impl Observed ===

impl Observed {
    /// How the group is, as far as this candidate can tell.
    pub(super) fn conditions(&self, draft: Option<&Draft>) -> Vec<Condition> {
        let mut conditions = vec![self.coordinator_ready()];
        if let Some(draft) = draft {
            let deleted = self
                .meta
                .known()
                .is_some_and(|m| m.state == GroupState::Deleted);
            conditions.push(if deleted {
                Condition::well(Aspect::PartitionsAssigned)
            } else {
                partitions_assigned(draft)
            });
            conditions.push(self.partitions_progressing(draft));
            conditions.push(self.offsets_valid(draft));
        }
        conditions
    }

    /// Which of the documents that everything depends on cannot be understood, and why. // P14
    pub(super) fn damage(&self) -> Option<(&'static str, &str)> {
        match (&self.meta, &self.group) {
            (Slot::Damaged(why), _) => Some(("meta", why)),
            (_, Slot::Damaged(why)) => Some(("group", why)),
            (Slot::Absent | Slot::Known(_), Slot::Absent | Slot::Known(_)) => None,
        }
    }

    fn coordinator_ready(&self) -> Condition {
        let trouble =
            |trouble, detail| Condition::trouble(Aspect::CoordinatorReady, trouble, detail);
        if let Some((key, why)) = self.damage() {
            let detail = format!("{key} cannot be read ({why}); nothing is overwritten");
            return trouble(Trouble::StateDamaged, detail);
        }
        if let Some(meta) = self
            .meta
            .known()
            .filter(|meta| meta.manager != self.me.manager)
        {
            let detail = format!(
                "the group belongs to {}, this is {}; `lockstep group adopt` moves it",
                meta.manager, self.me.manager
            );
            return trouble(Trouble::OwnershipConflict, detail);
        }
        let flaps = self.memory.office_flaps_until(self.me.session_timeout);
        if flaps.is_some_and(|until| self.healthy.confirmed() < until) {
            let detail = "coordinators take over from each other within their session timeout";
            return trouble(Trouble::CoordinatorFlapping, detail.to_owned()); // P42
        }
        if !self.is_coordinating() && self.office_is_vacant() {
            return trouble(Trouble::NoCoordinator, "nobody coordinates".to_owned());
        }
        Condition::well(Aspect::CoordinatorReady)
    }

    fn partitions_progressing(&self, draft: &Draft) -> Condition {
        let aspect = Aspect::PartitionsProgressing;
        let stuck = self.stopped(draft, |reason| reason == StopReason::MessageStuck);
        if !stuck.is_empty() {
            let detail = format!(
                "a message used up its attempts in partitions {stuck:?}; mend the application, \
                 then `lockstep group resume`"
            );
            return Condition::trouble(aspect, Trouble::MessageStuck, detail);
        }
        let alone = ids(draft, Standing::Standby(StandbyReason::NoApplication));
        if alone.is_empty() {
            Condition::well(aspect)
        } else {
            let detail = format!("no application is connected to {alone:?}");
            Condition::trouble(aspect, Trouble::AppNotConnected, detail)
        }
    }

    fn offsets_valid(&self, draft: &Draft) -> Condition {
        let aspect = Aspect::OffsetsValid;
        let lost: Vec<u32> = draft
            .partitions()
            .filter(|(p, _)| match self.offsets.get(*p) {
                Some(OffsetFact::Absent) => draft.now.seeded, // P13
                Some(OffsetFact::Damaged(_)) => true,
                Some(OffsetFact::Present { .. }) | None => false,
            })
            .map(|(p, _)| p.0)
            .collect();
        if !lost.is_empty() {
            let detail = format!("the commit records of partitions {lost:?} are absent or damaged");
            return Condition::trouble(aspect, Trouble::OffsetLost, detail);
        }
        let kinds = [
            (
                StopReason::StreamRecreated,
                Trouble::StreamRecreated,
                "the stream was made anew",
            ),
            (
                StopReason::StreamTruncated,
                Trouble::StreamTruncated,
                "the stream lost its end",
            ),
            (
                StopReason::MessagesLost,
                Trouble::MessagesLost,
                "retention overtook the group",
            ),
        ];
        for (reason, trouble, words) in kinds {
            let stopped = self.stopped(draft, |r| r == reason);
            if !stopped.is_empty() {
                let detail = format!("{words}: partitions {stopped:?} stand still");
                return Condition::trouble(aspect, trouble, detail);
            }
        }
        let rolled_back = self.memory.rolled_back();
        if rolled_back.is_empty() {
            return Condition::well(aspect);
        }
        let numbers: Vec<u32> = rolled_back.iter().map(|p| p.0).collect();
        let detail = format!(
            "epochs above the document's were seen in partitions {numbers:?}: the bucket was rolled \
             back; the group goes on above them"
        );
        Condition::trouble(aspect, Trouble::StateRolledBack, detail)
    }

    /// Partitions that stand still for this reason, by their commit records.
    fn stopped(&self, draft: &Draft, which: impl Fn(StopReason) -> bool) -> Vec<u32> {
        draft
            .partitions()
            .filter(|(p, _)| match self.offsets.get(*p) {
                Some(OffsetFact::Present { stopped, .. }) => stopped.is_some_and(&which),
                Some(OffsetFact::Absent | OffsetFact::Damaged(_)) | None => false,
            })
            .map(|(p, _)| p.0)
            .collect()
    }
}

fn partitions_assigned(draft: &Draft) -> Condition {
    let trouble = |trouble, detail| Condition::trouble(Aspect::PartitionsAssigned, trouble, detail);
    if draft.now.members.is_empty() {
        return trouble(Trouble::NoMembers, "the group has no members".to_owned());
    }
    let outdated = ids(draft, Standing::Standby(StandbyReason::VersionTooOld));
    let too_old = format!("the formats in use are too new for {outdated:?}; update these members");
    if draft.actives().next().is_none() {
        return if outdated.is_empty() {
            let detail = "none of the members may own partitions: their applications are not \
                          connected, or they are leaving";
            trouble(Trouble::NoEligibleMember, detail.to_owned()) // P58
        } else {
            trouble(Trouble::VersionTooOld, too_old)
        };
    }
    let moving: Vec<u32> = draft
        .partitions()
        .filter(|(_, a)| a.owner.is_none() || a.owner != a.target)
        .map(|(p, _)| p.0)
        .collect();
    if !moving.is_empty() {
        return trouble(
            Trouble::Rebalancing,
            format!("partitions {moving:?} change hands"),
        );
    }
    let duplicates = ids(draft, Standing::Standby(StandbyReason::DuplicateMember));
    if !duplicates.is_empty() {
        let detail = format!("{duplicates:?} run twice; give each member an id of its own");
        return trouble(Trouble::DuplicateMember, detail); // P53
    }
    if !outdated.is_empty() {
        return trouble(Trouble::VersionTooOld, too_old);
    }
    Condition::well(Aspect::PartitionsAssigned)
}

fn ids(draft: &Draft, standing: Standing) -> Vec<&str> {
    let members = draft.now.members.values();
    members
        .filter(|entry| entry.standing == standing)
        .map(|entry| entry.id.as_str())
        .collect()
}
