//! Balanced to one with the least movement; optionally near the streams' leaders.
//!
//! Of n partitions over m members each gets q = n/m, and n mod m of them get one more. Whoever
//! holds more than its share lets the surplus go and nobody lets go of anything else; the larger
//! shares go first to members that hold more than q. No balanced target keeps more than
//! Σ min(held, q) + min(n mod m, members that hold more than q), and this one keeps exactly that.
//! Among targets that keep as much, *wishes* decide: an id that came back gets its own again, a
//! zone gets the partitions whose leader it has.

use std::collections::{BTreeMap, VecDeque};

use super::roster::{in_order, named, willing};
use super::wishes::{Labels, Wish};
use super::{Assignor, Candidate, PartitionInput, Previous, Target};
use crate::group::Incarnation;

/// Balanced to one, with the least movement; a returning id gets its own back.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sticky;

/// As [`Sticky`]; what has to move goes to the zone of its stream's leader where balance allows.
///
/// Balance comes first, then what is already there, then the zone: a leader that moves, moves no
/// partition. Without zones it is [`Sticky`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ZoneAware;

/// An assignment in the making. Members and partitions are spoken of by index.
struct Desk {
    wishes: Vec<Labels>,
    owner: Vec<Option<usize>>,
    held: Vec<usize>,
    share: Vec<usize>,
}

// === impl Sticky ===

impl Assignor for Sticky {
    fn name(&self) -> &'static str {
        "Sticky"
    }

    fn assign(
        &self,
        members: &[Candidate],
        partitions: &[PartitionInput],
        previous: &Previous,
    ) -> Target {
        assign(members, partitions, previous, &[Wish::Id])
    }
}

// === impl ZoneAware ===

impl Assignor for ZoneAware {
    fn name(&self) -> &'static str {
        "ZoneAware"
    }

    fn assign(
        &self,
        members: &[Candidate],
        partitions: &[PartitionInput],
        previous: &Previous,
    ) -> Target {
        let wishes = &[Wish::ZoneAndId, Wish::Zone, Wish::Id];
        assign(members, partitions, previous, wishes)
    }
}

fn assign(
    members: &[Candidate],
    partitions: &[PartitionInput],
    previous: &Previous,
    wishes: &[Wish],
) -> Target {
    let (members, partitions) = (willing(members), in_order(partitions));
    if members.is_empty() {
        return Target::new();
    }
    let mut desk = Desk::of(&members, &partitions, previous);
    let labels = |wish: &Wish| Labels::of(*wish, &members, &partitions, previous);
    desk.wishes = wishes.iter().map(labels).collect();
    desk.set_shares();
    desk.let_go();
    desk.fulfil_wishes();
    desk.deal_the_rest();
    let owners = desk.owner.iter().map(|o| o.unwrap_or_default());
    named(&members, &partitions, owners)
}

// === impl Desk ===

impl Desk {
    /// Everything with whoever has it.
    fn of(members: &[Candidate], partitions: &[&PartitionInput], previous: &Previous) -> Self {
        let at: BTreeMap<&Incarnation, usize> = members
            .iter()
            .enumerate()
            .map(|(m, member)| (&member.incarnation, m))
            .collect();
        let owner_of = |p: &&PartitionInput| at.get(previous.owners.get(&p.partition)?).copied();
        let owner: Vec<Option<usize>> = partitions.iter().map(owner_of).collect();
        let mut held = vec![0; members.len()];
        owner.iter().flatten().for_each(|m| held[*m] += 1);
        Self {
            wishes: Vec::new(),
            owner,
            held,
            share: vec![partitions.len() / members.len(); members.len()],
        }
    }

    fn room(&self, m: usize) -> usize {
        self.share[m].saturating_sub(self.held[m])
    }

    /// Hands out the larger shares: to members that hold more than q, then to those for whom
    /// there are more wishes than q, then in order.
    fn set_shares(&mut self) {
        let q = self.owner.len() / self.share.len();
        let mut extra = self.owner.len() % self.share.len();
        let mut takes: Vec<usize> = (0..self.share.len()).collect();
        takes.sort_by_key(|m| self.held[*m] <= q); // stable
        let rich = self.held.iter().filter(|held| **held > q).count();
        let (first, second) = takes.split_at(rich);
        for tier in [first, second] {
            let mut waiting = tier.to_vec();
            for wish in &self.wishes {
                let mut unmet = self.unmet(wish);
                waiting.retain(|m| {
                    let unmet = wish.of_member[*m].map(|l| &mut unmet[l]);
                    let Some(unmet) = unmet.filter(|u| **u > 0 && extra > 0) else {
                        return true;
                    };
                    *unmet -= 1;
                    extra -= 1;
                    self.share[*m] += 1;
                    false
                });
            }
            for m in waiting.into_iter().take(extra) {
                self.share[m] += 1;
                extra -= 1;
            }
        }
    }

    /// Per label, how many partitions are wished for beyond the shares of its members.
    fn unmet(&self, wish: &Labels) -> Vec<usize> {
        let mut wished = vec![0_usize; wish.count];
        for (wanted, owner) in wish.of_partition.iter().zip(&self.owner) {
            if let Some(label) = wanted {
                wished[*label] += 1;
            }
            // What an id has is its own as well; what is in a zone by chance is not.
            let theirs = owner.and_then(|m| wish.of_member[m]);
            let theirs = theirs.filter(|t| wish.wish == Wish::Id && *wanted != Some(*t));
            if let Some(label) = theirs {
                wished[label] += 1;
            }
        }
        for (label, share) in wish.of_member.iter().zip(&self.share) {
            if let Some(label) = label {
                wished[*label] = wished[*label].saturating_sub(*share);
            }
        }
        wished
    }

    /// Takes the surplus from whoever holds more than its share: first what somebody with room
    /// wishes for, then what is not where it would wish to be, then the highest numbers.
    fn let_go(&mut self) {
        let wishes = std::mem::take(&mut self.wishes);
        for wish in &wishes {
            let mut room = self.room_by_label(wish);
            for p in (0..self.owner.len()).rev() {
                let wanted = wish.of_partition[p].filter(|label| room[*label] > 0);
                if let Some(label) = wanted
                    && !wish.is_at_home(p, self.owner[p])
                    && self.take_if_over(p)
                {
                    room[label] -= 1;
                }
            }
        }
        for p in (0..self.owner.len()).rev() {
            if !wishes.iter().any(|w| w.is_at_home(p, self.owner[p])) {
                self.take_if_over(p);
            }
        }
        for p in (0..self.owner.len()).rev() {
            self.take_if_over(p);
        }
        self.wishes = wishes;
    }

    /// Room per label that is not needed for partitions without an owner.
    fn room_by_label(&self, wish: &Labels) -> Vec<usize> {
        let mut room = vec![0_usize; wish.count];
        for (m, label) in wish.of_member.iter().enumerate() {
            if let Some(label) = label {
                room[*label] += self.room(m);
            }
        }
        for (wanted, owner) in wish.of_partition.iter().zip(&self.owner) {
            if let (Some(label), None) = (wanted, owner) {
                room[*label] = room[*label].saturating_sub(1);
            }
        }
        room
    }

    /// Takes the partition from an owner that holds more than its share.
    fn take_if_over(&mut self, p: usize) -> bool {
        let Some(owner) = self.owner[p].filter(|m| self.held[*m] > self.share[*m]) else {
            return false;
        };
        self.held[owner] -= 1;
        self.owner[p] = None;
        true
    }

    fn fulfil_wishes(&mut self) {
        let wishes = std::mem::take(&mut self.wishes);
        for wish in &wishes {
            let mut takers = vec![VecDeque::new(); wish.count];
            for (m, label) in wish.of_member.iter().enumerate() {
                if let Some(label) = label {
                    takers[*label].push_back(m);
                }
            }
            for (p, wanted) in wish.of_partition.iter().enumerate() {
                if let (Some(label), None) = (wanted, self.owner[p]) {
                    self.give_in_turn(p, &mut takers[*label]);
                }
            }
        }
        self.wishes = wishes;
    }

    fn deal_the_rest(&mut self) {
        let mut turn: VecDeque<usize> = (0..self.share.len()).collect();
        for p in 0..self.owner.len() {
            if self.owner[p].is_none() {
                self.give_in_turn(p, &mut turn);
            }
        }
    }

    /// To the next of them that has room; who has none leaves the queue.
    fn give_in_turn(&mut self, p: usize, turn: &mut VecDeque<usize>) {
        while let Some(m) = turn.pop_front() {
            if self.room(m) > 0 {
                self.owner[p] = Some(m);
                self.held[m] += 1;
                turn.push_back(m);
                return;
            }
        }
    }
}
