//! What partitions wish for: a member of the zone of their leader, a member of the id that had them.

use std::collections::BTreeMap;

use super::{Candidate, PartitionInput, Previous};
use crate::group::MemberId;

/// What a partition may have in common with a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    ZoneAndId,
    Zone,
    Id,
}

/// The common thing itself: zone and id, as far as the wish is about them.
type Label<'a> = (Option<&'a str>, Option<&'a str>);

/// Who has what in common by one wish. Labels are spoken of by index; what no member has is none.
pub(super) struct Labels {
    pub(super) wish: Wish,
    pub(super) count: usize,
    pub(super) of_member: Vec<Option<usize>>,
    pub(super) of_partition: Vec<Option<usize>>,
}

// === impl Wish ===

impl Wish {
    fn label<'a>(self, zone: Option<&'a str>, id: Option<&'a str>) -> Option<Label<'a>> {
        match self {
            Self::ZoneAndId => Some((Some(zone?), Some(id?))),
            Self::Zone => Some((Some(zone?), None)),
            Self::Id => Some((None, Some(id?))),
        }
    }
}

// === impl Labels ===

impl Labels {
    pub(super) fn of(
        wish: Wish,
        members: &[Candidate],
        partitions: &[&PartitionInput],
        previous: &Previous,
    ) -> Self {
        let mut known: BTreeMap<Label<'_>, usize> = BTreeMap::new();
        let of_member: Vec<Option<usize>> = members
            .iter()
            .map(|m| {
                let label = wish.label(m.zone.as_deref(), Some(m.id.as_str()))?;
                let next = known.len();
                Some(*known.entry(label).or_insert(next))
            })
            .collect();
        let of_partition = |p: &&PartitionInput| {
            let id = previous.last_ids.get(&p.partition);
            let label = wish.label(p.zone.as_deref(), id.map(MemberId::as_str))?;
            known.get(&label).copied()
        };
        Self {
            wish,
            count: known.len(),
            of_partition: partitions.iter().map(of_partition).collect(),
            of_member,
        }
    }

    /// Whether this owner is whom the partition would wish for.
    pub(super) fn is_at_home(&self, p: usize, owner: Option<usize>) -> bool {
        let wanted = self.of_partition[p];
        wanted.is_some() && wanted == owner.and_then(|m| self.of_member[m])
    }
}
