//! What an application is handed, and what it is handed again.
//!
//! One rule says it all: when an application sees a message, every earlier message of the
//! partition was acknowledged before, or was seen before by the same session in the same epoch
//! (and not given back since). It forbids gaps, first sightings out of order, and redeliveries
//! that are overtaken. With a window of one, "seen before" does not suffice.

use std::collections::{BTreeMap, BTreeSet};

use super::Expectations;
use super::prepared::{Prepared, Sighting, Step};
use super::verdict::{Rule, Violation};
use crate::history::Ack;

pub(crate) fn check(history: &Prepared, expect: &Expectations) -> Vec<Violation> {
    let mut replay = Replay::new(history, expect);
    for step in &history.steps {
        match step {
            Step::Seen(sighting) => replay.seen(sighting),
            Step::Acking(ack) => replay.acking(ack),
            Step::Acked(ack) => replay.acked(ack),
            Step::Nacking(ack) => replay.nacking(ack),
        }
    }
    replay.violations
}

/// One session's view of one partition in one epoch.
type View<'a> = (&'a str, &'a str, u32, u64);

struct Replay<'a> {
    history: &'a Prepared,
    expect: &'a Expectations,
    /// What each session holds or held, per epoch.
    seen: BTreeMap<View<'a>, BTreeSet<u64>>,
    /// What anybody acknowledged, per partition.
    acknowledged: BTreeMap<u32, BTreeSet<u64>>,
    /// Below this all published messages are acknowledged, per partition.
    done_below: BTreeMap<u32, u64>,
    /// How far acknowledgements were accepted, per partition and epoch.
    accepted: BTreeMap<(u32, u64), BTreeSet<u64>>,
    /// The highest `n` seen of each key.
    keys: BTreeMap<&'a str, u64>,
    /// The highest epoch that a session saw of a partition.
    epochs: BTreeMap<(&'a str, &'a str, u32), u64>,
    violations: Vec<Violation>,
}

fn view_of(ack: &Ack) -> View<'_> {
    (&ack.member, &ack.session, ack.partition, ack.epoch)
}

impl<'a> Replay<'a> {
    fn new(history: &'a Prepared, expect: &'a Expectations) -> Self {
        Self {
            history,
            expect,
            seen: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            done_below: BTreeMap::new(),
            accepted: BTreeMap::new(),
            keys: BTreeMap::new(),
            epochs: BTreeMap::new(),
            violations: Vec::new(),
        }
    }

    fn seen(&mut self, sighting: &'a Sighting) {
        self.nothing_was_overtaken(sighting);
        self.not_after_its_acknowledgement(sighting);
        self.key_goes_up(sighting);
        self.epoch_does_not_fall(sighting);
        let Sighting {
            member,
            session,
            partition,
            epoch,
            sequence,
            ..
        } = sighting;
        self.seen
            .entry((member, session, *partition, *epoch))
            .or_default()
            .insert(*sequence);
    }

    fn nothing_was_overtaken(&mut self, sighting: &'a Sighting) {
        let Sighting {
            member,
            session,
            partition,
            epoch,
            sequence,
            ..
        } = sighting;
        let Some(published) = self.history.published.get(partition) else {
            return;
        };
        let none = BTreeSet::new();
        let held = self
            .seen
            .get(&(member.as_str(), session.as_str(), *partition, *epoch));
        let held = if self.expect.in_flight == 1 {
            &none
        } else {
            held.unwrap_or(&none)
        };
        let acknowledged = self.acknowledged.get(partition).unwrap_or(&none);
        let from = self
            .done_below
            .get(partition)
            .copied()
            .unwrap_or(0)
            .min(*sequence);
        let overtaken = published.range(from..*sequence).find(|(earlier, message)| {
            !acknowledged.contains(earlier)
                && !held.contains(earlier)
                && !self.expect.excuses(**earlier, message)
        });
        if let Some((earlier, _)) = overtaken {
            let text = format!(
                "{member} ({session}) saw sequence {sequence} at epoch {epoch} before {earlier} \
                 was done"
            );
            self.violations
                .push(Violation::new(Rule::OutOfOrder, *partition, text));
        }
    }

    fn not_after_its_acknowledgement(&mut self, sighting: &Sighting) {
        let Sighting {
            member,
            partition,
            epoch,
            sequence,
            ..
        } = sighting;
        let accepted = self.accepted.get(&(*partition, *epoch));
        let again = accepted.is_some_and(|accepted| accepted.contains(sequence));
        if again && !self.expect.put_back.contains(partition) {
            let text = format!(
                "{member} saw sequence {sequence} again at epoch {epoch}, acknowledged before"
            );
            self.violations
                .push(Violation::new(Rule::SeenAfterAck, *partition, text));
        }
    }

    /// Across epochs and members: a key's messages are first seen as they were published.
    fn key_goes_up(&mut self, sighting: &'a Sighting) {
        let passed = self.passes_what_must_be_seen(sighting);
        let highest = self.keys.entry(&sighting.key).or_default();
        if passed {
            let text = format!(
                "{} saw {}/{} first, before {}/{}",
                sighting.member,
                sighting.key,
                sighting.n,
                sighting.key,
                *highest + 1
            );
            self.violations.push(Violation::new(
                Rule::KeyOutOfOrder,
                sighting.partition,
                text,
            ));
        }
        *highest = (*highest).max(sighting.n);
    }

    /// Whether messages of the key lie between the newest one seen and this one.
    fn passes_what_must_be_seen(&self, sighting: &Sighting) -> bool {
        let highest = self.keys.get(sighting.key.as_str()).copied().unwrap_or(0);
        if sighting.n <= highest + 1 || self.expect.given_up.contains(&sighting.key) {
            return false;
        }
        let published = self.history.published.get(&sighting.partition);
        let from = self.expect.removed_below.min(sighting.sequence);
        let mut between = published
            .into_iter()
            .flat_map(|all| all.range(from..sighting.sequence));
        from == 0 || between.any(|(_, message)| message.key == sighting.key && message.n > highest)
    }

    fn epoch_does_not_fall(&mut self, sighting: &'a Sighting) {
        let reader = (
            sighting.member.as_str(),
            sighting.session.as_str(),
            sighting.partition,
        );
        let highest = self.epochs.entry(reader).or_default();
        if sighting.epoch < *highest {
            let text = format!(
                "{} saw sequence {} at epoch {} after epoch {highest}",
                sighting.member, sighting.sequence, sighting.epoch
            );
            self.violations
                .push(Violation::new(Rule::EpochFell, sighting.partition, text));
        }
        *highest = (*highest).max(sighting.epoch);
    }

    fn acking(&mut self, ack: &'a Ack) {
        let Some(held) = self.seen.get(&view_of(ack)) else {
            return;
        };
        let done = self.acknowledged.entry(ack.partition).or_default();
        done.extend(held.range(..=ack.sequence).copied());
        let Some(published) = self.history.published.get(&ack.partition) else {
            return;
        };
        let below = self.done_below.entry(ack.partition).or_default();
        let open = published
            .range(*below..)
            .find(|(sequence, _)| !done.contains(sequence));
        *below = open.map_or(u64::MAX, |(sequence, _)| *sequence);
    }

    fn acked(&mut self, ack: &'a Ack) {
        let Some(held) = self.seen.get(&view_of(ack)) else {
            return;
        };
        let covered = held.range(..=ack.sequence).copied();
        self.accepted
            .entry((ack.partition, ack.epoch))
            .or_default()
            .extend(covered);
    }

    fn nacking(&mut self, ack: &'a Ack) {
        if let Some(held) = self.seen.get_mut(&view_of(ack)) {
            held.remove(&ack.sequence);
        }
    }
}
