//! Why a document was written: a closed set, for people and for Events.

use std::fmt;

use crate::group::{Epoch, Incarnation, MemberId, Partition, Term};

/// What brought a document about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// A candidate took over.
    TookOver(Term),
    /// Every commit record has been written once.
    Seeded,
    /// The group's settings changed.
    SettingsChanged,
    /// The group was deleted.
    GroupDeleted,
    /// Evidence of a higher epoch than the document's: the state was rolled back.
    RolledBack(Partition, Epoch),
    /// A member takes part from now on.
    Joined(MemberId),
    /// A member left.
    Left(MemberId),
    /// A member was silent for its session timeout.
    Died(MemberId),
    /// A later incarnation took the place of an earlier one.
    Replaced(MemberId, Incarnation),
    /// A member's standing changed.
    StandingChanged(MemberId),
    /// Partitions have another target.
    Retargeted(usize),
    /// An owner released a partition.
    Released(Partition, Epoch),
    /// An owner did not let go in time.
    RebalanceTimeout(Partition, Epoch),
    /// A partition was granted.
    Granted(Partition, Epoch),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TookOver(term) => write!(f, "coordinator took over with term {term}"),
            Self::Seeded => f.write_str("start positions are written"),
            Self::SettingsChanged => f.write_str("settings changed"),
            Self::GroupDeleted => f.write_str("the group was deleted"),
            Self::RolledBack(p, epoch) => {
                write!(
                    f,
                    "partition {p} was seen at epoch {epoch}: the state was rolled back"
                )
            }
            Self::Joined(id) => write!(f, "member {id} joined"),
            Self::Left(id) => write!(f, "member {id} left"),
            Self::Died(id) => write!(f, "member {id} was silent for its session timeout"),
            Self::Replaced(id, by) => write!(f, "member {id} was replaced by incarnation {by}"),
            Self::StandingChanged(id) => write!(f, "standing of member {id} changed"),
            Self::Retargeted(count) => write!(f, "{count} partitions have a new target"),
            Self::Released(p, epoch) => write!(f, "partition {p} was released at epoch {epoch}"),
            Self::RebalanceTimeout(p, epoch) => {
                write!(f, "partition {p} was not released in time at epoch {epoch}")
            }
            Self::Granted(p, epoch) => write!(f, "partition {p} was granted at epoch {epoch}"),
        }
    }
}

/// Reasons as one line: the causes first, cut off where it gets long.
pub fn summary(reasons: &[Reason]) -> String {
    const SHOWN: usize = 3;
    let mut causes: Vec<&Reason> = reasons.iter().collect();
    causes.sort();
    let mut words: Vec<String> = causes.iter().take(SHOWN).map(ToString::to_string).collect();
    if causes.len() > SHOWN {
        words.push(format!("and {} more", causes.len() - SHOWN));
    }
    words.join("; ")
}
