//! The bucket's keys.

use std::fmt;

use crate::group::{Incarnation, Partition};

/// A key of the group's bucket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// What the group is.
    Meta,
    /// The assignment document.
    Group,
    /// A member's heartbeat.
    Member(Incarnation),
    /// A partition's commit record.
    Offset(Partition),
    /// A coordinator candidate's heartbeat.
    Candidate(Incarnation),
    /// An offset reset, by its id.
    Reset(String),
    /// Anything else: not ours, and ignored.
    Foreign(String),
}

// === impl Key ===

impl Key {
    /// The key as it stands after `$KV.<bucket>.`; what is not ours becomes [`Key::Foreign`].
    pub fn parse(text: &str) -> Self {
        let foreign = || Self::Foreign(text.to_owned());
        match text.split_once('.') {
            None if text == "meta" => Self::Meta,
            None if text == "group" => Self::Group,
            Some(("member", rest)) => rest.parse().map_or_else(|_| foreign(), Self::Member),
            Some(("candidate", rest)) => rest.parse().map_or_else(|_| foreign(), Self::Candidate),
            Some(("offset", rest)) => partition(rest).map_or_else(foreign, Self::Offset),
            Some(("reset", rest)) if is_token(rest) => Self::Reset(rest.to_owned()),
            None | Some(_) => foreign(),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Meta => f.write_str("meta"),
            Self::Group => f.write_str("group"),
            Self::Member(incarnation) => write!(f, "member.{incarnation}"),
            Self::Offset(partition) => write!(f, "offset.{partition}"),
            Self::Candidate(incarnation) => write!(f, "candidate.{incarnation}"),
            Self::Reset(id) => write!(f, "reset.{id}"),
            Self::Foreign(text) => f.write_str(text),
        }
    }
}

/// Only the one spelling that we write: `offset.07` is not partition 7.
fn partition(text: &str) -> Option<Partition> {
    text.parse()
        .ok()
        .map(Partition)
        .filter(|p| p.to_string() == text)
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && !text.contains(['.', '*', '>', ' '])
}
