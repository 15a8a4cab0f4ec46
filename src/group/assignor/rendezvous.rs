//! Consistent hashing with bounded load: no memory needed, few moves when members change.

use super::roster::{in_order, named, willing};
use super::{Assignor, Candidate, PartitionInput, Previous, Target};
use crate::group::MemberId;

/// Each partition goes to the member that ranks it highest and still has room.
///
/// A member's rank of a partition depends on its id alone, so a restart moves nothing. No member
/// gets more than 5/4 of the average, rounded up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rendezvous;

// === impl Rendezvous ===

impl Rendezvous {
    /// The most partitions that one of this many members gets.
    pub fn bound(partitions: usize, members: usize) -> usize {
        match members {
            0 => 0,
            _ => (partitions * 5).div_ceil(members * 4),
        }
    }
}

impl Assignor for Rendezvous {
    fn name(&self) -> &'static str {
        "Rendezvous"
    }

    fn assign(&self, members: &[Candidate], partitions: &[PartitionInput], _: &Previous) -> Target {
        let (members, partitions) = (willing(members), in_order(partitions));
        let bound = Self::bound(partitions.len(), members.len());
        let mut open: Vec<(usize, u64)> = members.iter().map(|m| seed(&m.id)).enumerate().collect();
        let mut load = vec![0; members.len()];
        let mut owners = Vec::with_capacity(partitions.len());
        for p in &partitions {
            let salt = mix(u64::from(p.partition.0) + 1);
            // The later of equals loses, so that two members of one id are told apart by order.
            let best = (0..open.len())
                .rev()
                .max_by_key(|at| rank(open[*at].1, salt));
            let Some(at) = best else { break };
            let member = open[at].0;
            owners.push(member);
            load[member] += 1;
            if load[member] == bound {
                open.remove(at);
            }
        }
        named(&members, &partitions, owners)
    }
}

/// What a member's id adds to its ranks: FNV-1a 64, spread.
fn seed(id: &MemberId) -> u64 {
    let hash = id
        .as_str()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    mix(hash)
}

/// How highly a member ranks a partition. One multiplication: it is done members x partitions
/// times, and only the upper bits, which depend on all others, decide.
fn rank(seed: u64, salt: u64) -> u64 {
    (seed ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Spreads a difference in any bit over all bits (the finaliser of splitmix64).
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
