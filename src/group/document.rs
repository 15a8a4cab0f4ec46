//! `group`: the assignment document. Written by the coordinator alone.

use std::collections::BTreeMap;

use super::json::Unknown;
use super::{Epoch, GroupEpoch, Incarnation, MemberId, MetaGeneration, Partition, Term};

/// Who may read what, at which epoch, under which coordinator's term. Always the full set.
///
/// On the wire partitions refer to the member table by index (see `wire`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupDocument {
    /// Under whose authority this was written.
    pub term: Term,
    /// The coordinator candidate that holds the term.
    pub holder: Option<Incarnation>,
    /// Rises with each document whose content changes.
    pub epoch: GroupEpoch,
    /// The `meta` that this document follows.
    pub meta_generation: MetaGeneration,
    /// Whether every `offset.<p>` was seeded. Nothing is granted before.
    pub seeded: bool,
    /// Fingerprint of what the target was computed from.
    pub input_hash: u64,
    /// The members, live as far as the coordinator knows.
    pub members: BTreeMap<Incarnation, MemberEntry>,
    /// One entry per partition, indexed by its number.
    pub partitions: Vec<Assignment>,
    /// What brought this edition about, for people.
    pub reason: String,
    /// Fields of newer versions.
    pub unknown: Unknown,
}

/// A member as the document lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberEntry {
    /// Its label.
    pub id: MemberId,
    /// Its zone, if it stated one.
    pub zone: Option<String>,
    /// What the coordinator makes of it.
    pub standing: Standing,
}

/// What the coordinator makes of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// May own partitions.
    Active,
    /// Healthy, owning nothing; the reason is in [`StandbyReason`].
    Standby(StandbyReason),
    /// Leaving: it owns what it has not released yet.
    Draining,
}

/// Why a member owns nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StandbyReason {
    /// There are more members than partitions or than `maxMembers`.
    Surplus,
    /// Its application has not connected (or went away).
    NoApplication,
    /// Another live member has the same id.
    DuplicateMember,
    /// A later incarnation of its id has taken its place; it is never admitted again.
    Replaced,
    /// It cannot read a document format that is in use.
    VersionTooOld,
    /// The group was deleted.
    GroupDeleted,
}

/// One partition's assignment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignment {
    /// Who may commit, at `epoch`; none after an owner's release or death until the next grant.
    pub owner: Option<Incarnation>,
    /// The epoch of the newest grant (never falls, also while there is no owner).
    pub epoch: Epoch,
    /// Who should have it. Differs from the owner while the partition is being revoked.
    pub target: Option<Incarnation>,
    /// Whether the newest grant followed an unclean end: one attempt is added to the head.
    pub unclean: bool,
}

// === impl GroupDocument ===

impl GroupDocument {
    /// This partition's assignment; none if the group has no such partition.
    pub fn assignment(&self, partition: Partition) -> Option<&Assignment> {
        self.partitions.get(partition.index())
    }

    /// Whether any partition has an owner.
    pub fn has_owners(&self) -> bool {
        self.partitions.iter().any(|a| a.owner.is_some())
    }

    /// Whether partitions are on their way from one member to another.
    pub fn is_rebalancing(&self) -> bool {
        self.partitions.iter().any(|a| a.owner != a.target)
    }

    /// What the document gives to this member.
    pub fn owned_by<'a>(
        &'a self,
        member: &'a Incarnation,
    ) -> impl Iterator<Item = (Partition, &'a Assignment)> {
        Partition::all(u32::MAX)
            .zip(&self.partitions)
            .filter(move |(_, a)| a.owner.as_ref() == Some(member))
    }
}

// === impl Assignment ===

impl Assignment {
    /// Whether the owner has to let go: the target is somebody else, or nobody.
    pub fn is_being_revoked(&self) -> bool {
        self.owner.is_some() && self.owner != self.target
    }
}
