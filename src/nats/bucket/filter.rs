//! Which keys a watch or a listing is about.

use crate::group::Incarnation;
use crate::wire::keys::Key;

/// Some keys of a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyFilter {
    /// `meta`.
    Meta,
    /// `group`.
    Group,
    /// One member's key.
    Member(Incarnation),
    /// Every member's key.
    AllMembers,
    /// Every candidate's key.
    AllCandidates,
    /// Every reset.
    AllResets,
    /// Every commit record. For listings: in a watch, commits would flood it.
    AllOffsets,
    /// Every key.
    Everything,
}

// === impl KeyFilter ===

impl KeyFilter {
    /// What a member watches: the description, the assignment, and its own heartbeats coming back.
    pub fn of_a_member(own: &Incarnation) -> Vec<Self> {
        vec![Self::Meta, Self::Group, Self::Member(own.clone())]
    }

    /// What a coordinator watches: everything but the commit records.
    pub fn of_a_coordinator() -> Vec<Self> {
        vec![
            Self::Meta,
            Self::Group,
            Self::AllMembers,
            Self::AllCandidates,
            Self::AllResets,
        ]
    }

    /// The filter after `$KV.<bucket>.`.
    pub(super) fn pattern(&self) -> String {
        match self {
            Self::Meta => Key::Meta.to_string(),
            Self::Group => Key::Group.to_string(),
            Self::Member(incarnation) => Key::Member(incarnation.clone()).to_string(),
            Self::AllMembers => "member.>".to_owned(),
            Self::AllCandidates => "candidate.>".to_owned(),
            Self::AllResets => "reset.>".to_owned(),
            Self::AllOffsets => "offset.>".to_owned(),
            Self::Everything => ">".to_owned(),
        }
    }
}
