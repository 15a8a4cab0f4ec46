//! An assignment written by hand, or by a program of one's own.

use std::collections::{BTreeMap, BTreeSet};

use super::roster::{in_order, willing};
use super::{Assignor, Candidate, PartitionInput, Previous, Sticky, Target};
use crate::group::{Incarnation, Partition};

/// A map from member id to its partitions.
///
/// What the map gives to nobody, or to a member that is not there, falls to [`Sticky`] over all
/// members. A partition that two present members are given goes to the smaller id.
#[derive(Clone, Debug, Default)]
pub struct Manual {
    map: BTreeMap<String, BTreeSet<Partition>>,
}

// === impl Manual ===

impl Manual {
    /// An assignor that follows this map.
    pub fn new(map: BTreeMap<String, BTreeSet<Partition>>) -> Self {
        Self { map }
    }

    /// The ids that the map gives partitions to and that are not there.
    pub fn absent(&self, members: &[Candidate]) -> Vec<String> {
        let present: BTreeSet<&str> = members.iter().map(|m| m.id.as_str()).collect();
        let given = self
            .map
            .iter()
            .filter(|(_, partitions)| !partitions.is_empty());
        given
            .map(|(id, _)| id)
            .filter(|id| !present.contains(id.as_str()))
            .cloned()
            .collect()
    }

    /// Whom the map gives each partition to, among these members in order.
    fn wanted(&self, members: &[Candidate]) -> BTreeMap<Partition, Incarnation> {
        let mut wanted = BTreeMap::new();
        for member in members {
            let Some(partitions) = self.map.get(member.id.as_str()) else {
                continue;
            };
            for partition in partitions {
                wanted
                    .entry(*partition)
                    .or_insert_with(|| member.incarnation.clone());
            }
        }
        wanted
    }
}

impl Assignor for Manual {
    fn name(&self) -> &'static str {
        "Manual"
    }

    fn assign(
        &self,
        members: &[Candidate],
        partitions: &[PartitionInput],
        previous: &Previous,
    ) -> Target {
        let members = willing(members);
        let mut wanted = self.wanted(&members);
        let (mut target, mut left) = (Target::new(), Vec::new());
        for p in in_order(partitions) {
            match wanted.remove(&p.partition) {
                Some(member) => drop(target.insert(p.partition, member)),
                None => left.push(p.clone()),
            }
        }
        target.extend(Sticky.assign(&members, &left, previous));
        target
    }
}
