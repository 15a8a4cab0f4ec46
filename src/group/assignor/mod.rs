//! Who gets which partition: the one question of a rebalance, behind one trait.
//!
//! An assignor is a pure function. It sees the members that may own partitions, the partitions, and
//! what was before; it returns the whole target, never a difference. Equal inputs give equal
//! targets, in whatever order they are listed.

mod dealt;
mod manual;
mod rendezvous;
mod roster;
mod sticky;
mod wishes;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

pub use dealt::{Range, RoundRobin};
pub use manual::Manual;
pub use rendezvous::Rendezvous;
pub use sticky::{Sticky, ZoneAware};

use super::{AssignorSetting, Incarnation, MemberId, Partition};

/// The whole target: each partition's member. Empty when nobody can own anything.
pub type Target = BTreeMap<Partition, Incarnation>;

/// A member that may own partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The member.
    pub incarnation: Incarnation,
    /// Its label, which outlives a restart.
    pub id: MemberId,
    /// Where it runs, if it said so.
    pub zone: Option<String>,
    /// It keeps dying: it gets partitions only when there is nobody else.
    pub by_need: bool,
}

/// A partition to be assigned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionInput {
    /// The partition.
    pub partition: Partition,
    /// Where the leader of its stream runs, if that is known.
    pub zone: Option<String>,
}

/// What was before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Previous {
    /// Who has each partition now, be it eligible or not. Keeping it there costs no pause.
    pub owners: BTreeMap<Partition, Incarnation>,
    /// The id that had it last when its owner is gone, or that had it before its present owner:
    /// when that id comes back, it gets its own again as far as balance allows.
    pub last_ids: BTreeMap<Partition, MemberId>,
}

/// Decides which member is to own which partition.
///
/// Guarantees asked of an implementation: equal inputs give equal targets; every partition is given
/// to one of `members` as long as there is one. [`target`] mends a target that breaks the second
/// rule, so that a mistake here cannot leave a partition without an owner.
///
/// ```
/// use lockstep::group::assignor::{Assignor, Candidate, PartitionInput, Previous, Target};
///
/// /// Everything to the member with the smallest id; the others are spares.
/// #[derive(Debug)]
/// struct ActivePassive;
///
/// impl Assignor for ActivePassive {
///     fn name(&self) -> &str {
///         "ActivePassive"
///     }
///
///     fn assign(&self, members: &[Candidate], partitions: &[PartitionInput], _: &Previous) -> Target {
///         let Some(active) = members.iter().min_by_key(|m| &m.id) else {
///             return Target::new();
///         };
///         partitions.iter().map(|p| (p.partition, active.incarnation.clone())).collect()
///     }
/// }
/// ```
pub trait Assignor: fmt::Debug + Send + Sync {
    /// What to call it in logs. Two assignors that decide differently have different names.
    fn name(&self) -> &str;

    /// The target for these members and partitions.
    fn assign(
        &self,
        members: &[Candidate],
        partitions: &[PartitionInput],
        previous: &Previous,
    ) -> Target;
}

/// The built-in assignor that a group's settings ask for.
pub fn of(setting: &AssignorSetting) -> Box<dyn Assignor> {
    match setting {
        AssignorSetting::Sticky => Box::new(Sticky),
        AssignorSetting::Range => Box::new(Range),
        AssignorSetting::RoundRobin => Box::new(RoundRobin),
        AssignorSetting::Rendezvous => Box::new(Rendezvous),
        AssignorSetting::ZoneAware => Box::new(ZoneAware),
        AssignorSetting::Manual { map } => Box::new(Manual::new(map.clone())),
    }
}

/// What `assignor` wants, held to the rules: only these partitions, only these members, nobody
/// who is to be used by need while there are others. What is left over falls to [`Sticky`].
pub fn target(
    assignor: &dyn Assignor,
    members: &[Candidate],
    partitions: &[PartitionInput],
    previous: &Previous,
) -> Target {
    let willing = roster::willing(members);
    let mut target = assignor.assign(&willing, partitions, previous);
    let numbers: BTreeSet<Partition> = partitions.iter().map(|p| p.partition).collect();
    let known: BTreeSet<&Incarnation> = willing.iter().map(|m| &m.incarnation).collect();
    target.retain(|partition, member| numbers.contains(partition) && known.contains(member));
    let left: Vec<PartitionInput> = partitions
        .iter()
        .filter(|p| !target.contains_key(&p.partition))
        .cloned()
        .collect();
    if !left.is_empty() {
        target.extend(Sticky.assign(&willing, &left, previous));
    }
    target
}
