//! What the coordinator decides: a pure function of what it has seen and of the time.
//!
//! The driver watches the bucket, tells [`Observed`] what comes, asks [`decide`] after every event
//! and deadline, writes what it says by compare-and-set, and adopts only what was written. Equal
//! observations give equal decisions, and asked twice there is nothing to add: a crash anywhere is
//! harmless.
//!
//! ```text
//!   observed ── who says what, and since when (members, candidates, offsets, memory)
//!      │
//!   election ── whose turn is it?             ─► a take-over
//!      │ mine
//!   evidence → handover → incarnations → standing, joins → target → handover ─► the next document
//! ```

mod candidates;
mod conditions;
mod draft;
mod election;
mod evidence;
mod handover;
mod healthy_time;
mod incarnations;
mod joins;
mod members;
mod memory;
mod observed;
mod offsets;
mod reason;
mod seeding;
mod standing;
mod target;

use std::collections::BTreeSet;

pub use conditions::{Aspect, Condition, Trouble};
pub use observed::{Identity, Observed, Slot};
pub use offsets::{OffsetFact, Offsets};
pub use reason::{Reason, summary};
pub use seeding::seed;

use draft::Draft;
use election::Duty;
use healthy_time::Healthy;

use super::{GroupDocument, Meta, Partition, Timestamp};

/// What is to become true.
#[must_use = "a decision changes nothing until its document is written"]
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// The next document; none while the one in force still says it all.
    pub document: Option<GroupDocument>,
    /// Commit records to write, create-only, before anything is granted.
    pub seed: BTreeSet<Partition>,
    /// Commit records to read and report.
    pub read_offsets: BTreeSet<Partition>,
    /// What brought the document about, for the log and for Events.
    pub reasons: Vec<Reason>,
    /// When to look again although nobody stirs.
    pub next_deadline: Option<Timestamp>,
    /// How the group is.
    pub conditions: Vec<Condition>,
}

/// Decides what the bucket should say next.
pub fn decide(seen: &Observed, now: Timestamp) -> Decision {
    match seen.duty(now) {
        Duty::Watch => Decision {
            next_deadline: seen.next_election(now),
            conditions: seen.conditions(None),
            ..Decision::default()
        },
        Duty::TakeOver(document) => Decision {
            reasons: vec![Reason::TookOver(document.term)],
            document: Some(*document),
            conditions: seen.conditions(None),
            ..Decision::default()
        },
        Duty::Plan(meta, document) => plan(seen, meta, document, now),
    }
}

fn plan(seen: &Observed, meta: &Meta, document: &GroupDocument, now: Timestamp) -> Decision {
    let mut draft = Draft::of(document);
    seen.follow(meta, &mut draft);
    seen.heed_evidence(&mut draft);
    seen.take_back(&mut draft);
    seen.bury_the_dead(&mut draft);
    seen.replace_restarted(&mut draft);
    let joins_due = seen.seat(meta, &mut draft, now);
    seen.retarget(meta, &mut draft, now);
    seen.end_overdue_revocations(&mut draft);
    seen.grant_what_is_free(&mut draft, now);
    let conditions = seen.conditions(Some(&draft));
    let waiting = [
        joins_due,
        seen.next_balance(meta, &draft, now),
        seen.next_calm(&draft),
        seen.memory.next_forgotten(seen.healthy.at(now)),
    ];
    let next_deadline = seen.next_deadline(&waiting, &draft, now);
    let (document, reasons) = match draft.finish() {
        Some((document, reasons)) => (Some(document), reasons),
        None => (None, Vec::new()),
    };
    Decision {
        document,
        seed: seen.to_seed(),
        read_offsets: seen.offsets.to_read(meta.partitions()),
        reasons,
        next_deadline,
        conditions,
    }
}

impl Observed {
    fn next_deadline(
        &self,
        waiting: &[Option<Healthy>],
        draft: &Draft,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let listed: Vec<_> = draft.now.members.keys().collect();
        let waiting = waiting.iter().flatten();
        waiting
            .filter_map(|deadline| self.healthy.expected_at(*deadline))
            .chain(self.next_silence(&listed))
            .chain(self.next_handover(draft, now))
            .chain(self.healthy.silent_for(self.me.session_timeout * 2)) // P40
            .filter(|deadline| *deadline > now) // never in the past, or the driver would spin
            .min()
    }

    /// When a member stops counting as one that flaps. // P63
    fn next_calm(&self, draft: &Draft) -> Option<Healthy> {
        let ids = draft.now.members.values().map(|entry| &entry.id);
        let ends = ids.filter_map(|id| self.memory.flaps_until(id));
        ends.filter(|end| *end > self.healthy.confirmed()).min()
    }
}
