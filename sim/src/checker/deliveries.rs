//! What is handed to applications: order, window, duplicates, and by whom.

use std::collections::{BTreeMap, BTreeSet};

use lockstep::group::member::AckKind;
use lockstep::group::{Epoch, Incarnation, Partition, Sequence, SessionId};

use super::{Checker, Outcome, Rule};
use crate::model::data::Data;
use crate::worker::Given;

/// One owner's partition at one epoch, as its application saw it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hold {
    /// The newest sequence handed over.
    newest: u64,
    /// What was handed over and is not done, by its sequence.
    open: BTreeMap<u64, Open>,
    /// Whether the place of the first message was looked at.
    begun: bool,
}

#[derive(Clone, Debug)]
struct Open {
    id: u64,
    session: SessionId,
    /// Its attempt has failed, and it waits for another.
    failed: bool,
    /// The application itself refused it: no later acknowledgement covers it. P117
    refused: bool,
}

// === impl Checker ===

impl Checker {
    /// A message is handed to an application. Of a member whose clock was stopped nobody can ask that it
    /// knows the time.
    pub fn handed(
        &mut self,
        (me, session): (&Incarnation, &SessionId),
        given: &Given,
        clock_stopped: bool,
    ) {
        let (partition, epoch, seq) = (given.partition, given.epoch, given.message.seq);
        self.tally.handed += 1;
        let key = (partition, epoch, me.clone());
        let mut hold = self.holds.remove(&key).unwrap_or_default();
        let known = hold
            .open
            .get(&seq)
            .is_some_and(|open| open.id == given.message.id);
        if known {
            self.judge_again((partition, seq), &hold, given);
        } else {
            self.judge_new((me, partition, epoch), &hold, given, clock_stopped);
            self.count_duplicate(given);
            hold.newest = seq;
            hold.begun = true;
        }
        let open = Open {
            id: given.message.id,
            session: session.clone(),
            failed: false,
            refused: false,
        };
        hold.open.insert(seq, open);
        self.holds.insert(key, hold);
        if let Some(message) = self.message_mut(given.message.id) {
            message.handed = Some(epoch);
            message.outcome = Outcome::InHand;
        }
    }

    fn judge_again(&mut self, (partition, seq): (Partition, u64), hold: &Hold, given: &Given) {
        let waits = hold.open.range(..seq).find(|(_, open)| open.failed);
        if let Some((before, _)) = waits.filter(|_| !given.again) {
            self.broken(Rule::Order, || {
                format!("{partition}/{seq} is handed over again before {partition}/{before}")
            });
        }
    }

    fn judge_new(
        &mut self,
        (me, partition, epoch): (&Incarnation, Partition, Epoch),
        hold: &Hold,
        given: &Given,
        clock_stopped: bool,
    ) {
        let seq = given.message.seq;
        if seq <= hold.newest {
            self.broken(Rule::Order, || {
                format!(
                    "{partition}/{seq}@{epoch} is handed over after {}",
                    hold.newest
                )
            });
        }
        if let Some((before, _)) = hold.open.iter().find(|(_, open)| open.failed) {
            self.broken(Rule::Order, || {
                format!("{partition}/{seq}@{epoch} overtakes {partition}/{before}, which waits for another attempt")
            });
        }
        let in_flight = hold.open.len() as u64;
        if in_flight >= self.bounds.in_flight {
            self.broken(Rule::Window, || {
                format!("{partition}/{seq}@{epoch} is handed over while {in_flight} are in flight")
            });
        }
        let Some(record) = self.records.get(&partition) else {
            return;
        };
        let on_record = record.epoch;
        if on_record > epoch && !clock_stopped && !self.lossy {
            self.broken(Rule::HandedWhileFenced, || {
                format!("{me} hands {partition}/{seq}@{epoch} over, though epoch {on_record} was claimed")
            });
        }
    }

    /// No message that is there may be left out. The judge looks at it before it is told of the
    /// hand-over.
    pub fn judge_gap(&mut self, me: &Incarnation, given: &Given, data: &Data) {
        let (partition, epoch, seq) = (given.partition, given.epoch, given.message.seq);
        let hold = self.holds.get(&(partition, epoch, me.clone()));
        if hold.is_some_and(|hold| hold.open.contains_key(&seq)) {
            return;
        }
        let there = data.stream(partition).and_then(|stream| stream.at(seq));
        if there.is_none_or(|stored| stored.value != given.message.id) {
            return; // of a former history
        }
        let Some(record) = self.records.get(&partition) else {
            return;
        };
        let newest = hold.map_or(0, |hold| hold.newest);
        if newest == 0 && record.epoch != epoch {
            return; // where it began is not on record any more
        }
        let from = if newest > 0 {
            newest + 1
        } else {
            record.next_seq.0
        };
        let skipped = data.messages(partition, from).take_while(|m| m.seq < seq);
        let handed = |id| {
            self.message(id)
                .is_some_and(|m| m.excused || m.handed.is_some_and(|e| e >= epoch))
        };
        let missing = skipped.filter(|m| !handed(m.id)).map(|m| m.seq).next();
        if let Some(missing) = missing {
            self.broken(Rule::NoGap, || {
                format!(
                    "{partition}/{seq}@{epoch} is handed over, and {partition}/{missing} was not"
                )
            });
        }
        if let Some(since) = self.cut.get(&partition).copied() {
            self.broken(Rule::Detected, || {
                let since = since.to_string();
                format!("{partition}/{seq}@{epoch} is handed over though its stream lost what was committed at {}", since.trim())
            });
        }
    }

    fn count_duplicate(&mut self, given: &Given) {
        let (partition, epoch) = (given.partition, given.epoch);
        let Some(message) = self.message(given.message.id) else {
            return;
        };
        let earlier = message.handed.is_some_and(|before| before < epoch);
        if !earlier || message.outcome == Outcome::Failed || self.lossy {
            return;
        }
        let (outcome, before) = (message.outcome, message.handed);
        let count = self.duplicates.entry((partition, epoch)).or_default();
        *count += 1;
        let count = *count;
        let most = self.bounds.in_flight + self.bounds.uncommitted;
        if count > most {
            self.broken(Rule::BoundedDuplicates, || {
                format!("{count} messages of {partition} are handed over again at epoch {epoch}, more than {most}")
            });
        }
        let since = before.map_or(epoch, Epoch::of_the_next_owner);
        let mut grants = self
            .granted
            .range((partition, since)..=(partition, epoch))
            .peekable();
        let known = grants.peek().is_some_and(|((_, first), _)| *first == since);
        if known && grants.all(|(_, (_, unclean))| !unclean) {
            self.broken(Rule::CleanHandOver, || {
                let seq = given.message.seq;
                format!("{partition}/{seq} was {outcome:?} at {before:?} and is handed over again at epoch {epoch}, which was granted as clean")
            });
        }
    }

    /// The member counts an acknowledgement.
    pub fn acked(
        &mut self,
        session: &SessionId,
        (partition, epoch, sequence): (Partition, Epoch, Sequence),
        kind: AckKind,
    ) {
        let mut done = Vec::new();
        for (_, hold) in self.holds_of(partition, epoch) {
            hold.open.retain(|seq, open| {
                let covered = match kind {
                    AckKind::UpTo => *seq <= sequence.0,
                    AckKind::Each => *seq == sequence.0,
                };
                let theirs = open.session == *session && !open.refused;
                if covered && theirs {
                    done.push(open.id);
                }
                !(covered && theirs)
            });
        }
        for id in done {
            if let Some(message) = self.message_mut(id) {
                message.outcome = Outcome::Acked;
            }
        }
    }

    /// The member counts a refusal.
    pub fn nacked(&mut self, (partition, epoch, sequence): (Partition, Epoch, Sequence)) {
        let mut failed = Vec::new();
        for (_, hold) in self.holds_of(partition, epoch) {
            if let Some(open) = hold.open.get_mut(&sequence.0) {
                (open.failed, open.refused) = (true, true);
                failed.push(open.id);
            }
        }
        self.note_failed(&failed);
    }

    /// A session of this member has ended: what it had waits for another attempt.
    pub fn session_ended(&mut self, me: &Incarnation, session: &SessionId) {
        let mut failed = Vec::new();
        for ((_, _, of), hold) in &mut self.holds {
            if of == me {
                for open in hold
                    .open
                    .values_mut()
                    .filter(|open| open.session == *session)
                {
                    open.failed = true;
                    failed.push(open.id);
                }
            }
        }
        self.note_failed(&failed);
    }

    pub(super) fn all_failed(&mut self, partition: Partition, me: &Incarnation) {
        let mut failed = BTreeSet::new();
        for ((p, _, of), hold) in &mut self.holds {
            if *p == partition && of == me {
                failed.extend(hold.open.values().map(|open| open.id));
            }
        }
        let failed: Vec<u64> = failed.into_iter().collect();
        self.note_failed(&failed);
    }

    fn note_failed(&mut self, failed: &[u64]) {
        for id in failed {
            if let Some(message) = self.message_mut(*id) {
                message.outcome = Outcome::Failed;
            }
        }
    }

    /// A policy has passed a message over.
    pub(super) fn excuse(&mut self, partition: Partition, seq: u64, me: &Incarnation) {
        let mut excused = Vec::new();
        for ((p, _, of), hold) in &mut self.holds {
            if *p == partition
                && of == me
                && let Some(open) = hold.open.remove(&seq)
            {
                excused.push(open.id);
            }
        }
        // Its attempts may have been used up by former owners: then it was not handed over here.
        for (id, message) in (0..).zip(&self.messages) {
            if message.partition == partition && message.seq == seq {
                excused.push(id);
            }
        }
        for id in excused {
            if let Some(message) = self.message_mut(id) {
                message.excused = true;
            }
        }
    }

    /// A policy has moved the position: what lies before it is passed over.
    pub(super) fn excuse_below(&mut self, partition: Partition, to: u64) {
        for message in &mut self.messages {
            if message.partition == partition {
                message.excused |= message.seq < to;
                message.handed = None;
            }
        }
    }

    fn holds_of(
        &mut self,
        partition: Partition,
        epoch: Epoch,
    ) -> impl Iterator<Item = (&(Partition, Epoch, Incarnation), &mut Hold)> {
        let all = self.holds.iter_mut();
        all.filter(move |((p, e, _), _)| *p == partition && *e == epoch)
    }
}
