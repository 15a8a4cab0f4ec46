//! The two assignors without memory: contiguous blocks, and in turn.

use super::roster::{in_order, named, willing};
use super::{Assignor, Candidate, PartitionInput, Previous, Target};

/// Contiguous blocks by member id, balanced to one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Range;

/// Dealt out in turn by member id, balanced to one.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundRobin;

// === impl Range ===

impl Assignor for Range {
    fn name(&self) -> &'static str {
        "Range"
    }

    fn assign(&self, members: &[Candidate], partitions: &[PartitionInput], _: &Previous) -> Target {
        let (members, partitions) = (willing(members), in_order(partitions));
        if members.is_empty() {
            return Target::new();
        }
        let (share, extra) = (
            partitions.len() / members.len(),
            partitions.len() % members.len(),
        );
        let blocks =
            (0..members.len()).flat_map(|m| std::iter::repeat_n(m, share + usize::from(m < extra)));
        named(&members, &partitions, blocks)
    }
}

// === impl RoundRobin ===

impl Assignor for RoundRobin {
    fn name(&self) -> &'static str {
        "RoundRobin"
    }

    fn assign(&self, members: &[Candidate], partitions: &[PartitionInput], _: &Previous) -> Target {
        let (members, partitions) = (willing(members), in_order(partitions));
        named(&members, &partitions, (0..members.len()).cycle())
    }
}
