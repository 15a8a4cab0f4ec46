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
use super::{Assignor, Candidate, PartitionInput, Previous, Target};
use crate::group::{Incarnation, MemberId};

/// Balanced to one, with the least movement; a returning id gets its own back.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sticky;

/// As [`Sticky`]; what has to move goes to the zone of its stream's leader where balance allows.
///
/// Balance comes first, then what is already there, then the zone: a leader that moves, moves no
/// partition. Without zones it is [`Sticky`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ZoneAware;

/// What a partition may have in common with a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    ZoneAndId,
    Zone,
    Id,
}

/// The common thing itself: zone and id, as far as the wish is about them.
type Label<'a> = (Option<&'a str>, Option<&'a str>);

/// An assignment in the making. Members and partitions are spoken of by index.
struct Desk<'a> {
    members: &'a [Candidate],
    partitions: &'a [&'a PartitionInput],
    previous: &'a Previous,
    wishes: &'static [Wish],
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
    wishes: &'static [Wish],
) -> Target {
    let (members, partitions) = (willing(members), in_order(partitions));
    if members.is_empty() {
        return Target::new();
    }
    let mut desk = Desk::of(&members, &partitions, previous, wishes);
    desk.set_shares();
    desk.let_go();
    desk.fulfil_wishes();
    desk.deal_the_rest();
    let owners = desk.owner.iter().map(|o| o.unwrap_or_default());
    named(&members, &partitions, owners)
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

// === impl Desk ===

impl<'a> Desk<'a> {
    /// Everything with whoever has it.
    fn of(
        members: &'a [Candidate],
        partitions: &'a [&'a PartitionInput],
        previous: &'a Previous,
        wishes: &'static [Wish],
    ) -> Self {
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
            members,
            partitions,
            previous,
            wishes,
            owner,
            held,
            share: vec![partitions.len() / members.len(); members.len()],
        }
    }

    fn wanted_by(&self, p: usize, wish: Wish) -> Option<Label<'a>> {
        let partition = self.partitions[p];
        let id = self.previous.last_ids.get(&partition.partition);
        wish.label(partition.zone.as_deref(), id.map(MemberId::as_str))
    }

    fn label_of(&self, m: usize, wish: Wish) -> Option<Label<'a>> {
        let member = &self.members[m];
        wish.label(member.zone.as_deref(), Some(member.id.as_str()))
    }

    /// Whether the partition's owner is whom it would wish for.
    fn is_at_home(&self, p: usize, wish: Wish) -> bool {
        let wanted = self.wanted_by(p, wish);
        let owner = self.owner[p].and_then(|m| self.label_of(m, wish));
        wanted.is_some() && wanted == owner
    }

    fn room(&self, m: usize) -> usize {
        self.share[m].saturating_sub(self.held[m])
    }

    fn is_over(&self, m: usize) -> bool {
        self.held[m] > self.share[m]
    }

    /// Hands out the larger shares: to members that hold more than q, then to those for whom
    /// there are more wishes than q, then in order.
    fn set_shares(&mut self) {
        let q = self.partitions.len() / self.members.len();
        let mut extra = self.partitions.len() % self.members.len();
        let mut takes: Vec<usize> = (0..self.members.len()).collect();
        takes.sort_by_key(|m| self.held[*m] <= q); // stable
        let rich = self.held.iter().filter(|held| **held > q).count();
        let (first, second) = takes.split_at(rich);
        for tier in [first, second] {
            let mut waiting = tier.to_vec();
            for wish in self.wishes {
                let mut unmet = self.unmet(*wish, q);
                waiting.retain(|m| {
                    let wished = self.label_of(*m, *wish).and_then(|l| unmet.get_mut(&l));
                    let Some(unmet) = wished.filter(|u| **u > 0 && extra > 0) else {
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

    /// Per label, how many partitions are wished for beyond `q` for each of its members.
    fn unmet(&self, wish: Wish, q: usize) -> BTreeMap<Label<'a>, usize> {
        let mut wished: BTreeMap<Label<'a>, usize> = BTreeMap::new();
        for p in 0..self.partitions.len() {
            let theirs = self.owner[p].and_then(|m| self.label_of(m, wish));
            let theirs = theirs.filter(|_| wish == Wish::Id);
            let wanted = self.wanted_by(p, wish);
            for label in wanted
                .iter()
                .chain(theirs.iter().filter(|t| wanted != Some(**t)))
            {
                *wished.entry(*label).or_default() += 1;
            }
        }
        for m in 0..self.members.len() {
            if let Some(count) = self.label_of(m, wish).and_then(|l| wished.get_mut(&l)) {
                *count = count.saturating_sub(self.share[m].max(q));
            }
        }
        wished
    }

    /// Takes the surplus from whoever holds more than its share: first what somebody with room
    /// wishes for, then what is not where it would wish to be, then the highest numbers.
    fn let_go(&mut self) {
        for wish in self.wishes {
            let mut room = self.room_by_label(*wish);
            for p in (0..self.partitions.len()).rev() {
                let wanted = self
                    .wanted_by(p, *wish)
                    .filter(|_| !self.is_at_home(p, *wish));
                let place = wanted.and_then(|l| room.get_mut(&l)).filter(|r| **r > 0);
                if let Some(place) = place
                    && self.take_if_over(p)
                {
                    *place -= 1;
                }
            }
        }
        for p in (0..self.partitions.len()).rev() {
            if !self.wishes.iter().any(|w| self.is_at_home(p, *w)) {
                self.take_if_over(p);
            }
        }
        for p in (0..self.partitions.len()).rev() {
            self.take_if_over(p);
        }
    }

    /// Room per label that is not needed for partitions without an owner.
    fn room_by_label(&self, wish: Wish) -> BTreeMap<Label<'a>, usize> {
        let mut room: BTreeMap<Label<'a>, usize> = BTreeMap::new();
        for m in 0..self.members.len() {
            if let Some(label) = self.label_of(m, wish) {
                *room.entry(label).or_default() += self.room(m);
            }
        }
        for p in (0..self.partitions.len()).filter(|p| self.owner[*p].is_none()) {
            let wanted = self.wanted_by(p, wish);
            if let Some(room) = wanted.and_then(|l| room.get_mut(&l)) {
                *room = room.saturating_sub(1);
            }
        }
        room
    }

    fn take_if_over(&mut self, p: usize) -> bool {
        let Some(owner) = self.owner[p].filter(|m| self.is_over(*m)) else {
            return false;
        };
        self.held[owner] -= 1;
        self.owner[p] = None;
        true
    }

    fn give(&mut self, p: usize, m: usize) {
        self.owner[p] = Some(m);
        self.held[m] += 1;
    }

    fn fulfil_wishes(&mut self) {
        for wish in self.wishes {
            let mut takers: BTreeMap<Label<'a>, VecDeque<usize>> = BTreeMap::new();
            for m in 0..self.members.len() {
                if let Some(label) = self.label_of(m, *wish) {
                    takers.entry(label).or_default().push_back(m);
                }
            }
            for p in 0..self.partitions.len() {
                let free = self.owner[p].is_none();
                let wanted = self.wanted_by(p, *wish).filter(|_| free);
                if let Some(turn) = wanted.and_then(|l| takers.get_mut(&l)) {
                    self.give_in_turn(p, turn);
                }
            }
        }
    }

    fn deal_the_rest(&mut self) {
        let mut turn: VecDeque<usize> = (0..self.members.len()).collect();
        for p in 0..self.partitions.len() {
            if self.owner[p].is_none() {
                self.give_in_turn(p, &mut turn);
            }
        }
    }

    /// To the next of them that has room; who has none leaves the queue.
    fn give_in_turn(&mut self, p: usize, turn: &mut VecDeque<usize>) {
        while let Some(m) = turn.pop_front() {
            if self.room(m) > 0 {
                self.give(p, m);
                turn.push_back(m);
                return;
            }
        }
    }
}
