//! The judge of histories: what a group promised, held against what its applications saw.
//!
//! * `content`: nothing is lost, made up or altered.
//! * `order`: what an application is handed, and what it is handed again.
//! * `ownership`: one owner per partition and epoch; epochs never fall.
//! * `commits`: they never move back, and pass nothing that is not acknowledged.
//! * `duplicates`: none across a clean hand-over, a bounded number across an unclean one.
//! * `pauses`: how long each partition stood still around each event; measured, not judged.
//!
//! Each rule is a function from the prepared history to violations, and each is tested with
//! histories that break it (see `checker/tests`).

mod commits;
mod content;
mod duplicates;
mod order;
mod ownership;
mod pauses;
mod prepared;
#[cfg(test)]
mod tests;
mod verdict;

use std::collections::BTreeSet;
use std::time::Duration;

use crate::history::Record;
use prepared::{Message, Prepared};

pub use pauses::EventPauses;
pub use verdict::{Rule, Verdict, Violation};

/// What the judge may expect of a run.
#[derive(Clone, Debug)]
pub struct Expectations {
    /// Most messages that an application holds un-acknowledged per partition.
    pub in_flight: u64,
    /// Most messages that are acknowledged and not yet committed per partition.
    pub uncommitted: u64,
    /// Whether everything published has to be committed by the end.
    pub completeness: Completeness,
    /// Keys whose messages a policy may pass over: they need not be acknowledged.
    pub given_up: BTreeSet<String>,
    /// Messages of the stream below this sequence were removed by somebody's hand: they need not be
    /// seen, and may be passed.
    pub removed_below: u64,
    /// Partitions whose commit record was damaged and put back by hand: what was acknowledged
    /// meanwhile comes again, in the same epoch.
    pub put_back: BTreeSet<u32>,
    /// How often the policy for another history of the stream may move a partition's position back.
    pub moves_back: usize,
    /// After this revision the bucket is another one: offsets go back to what members reported.
    pub state_lost_after: Option<u64>,
    /// How far the server's times may be from ours: it reads another clock of the machine.
    pub clock_tolerance: Duration,
}

/// What the end of a run looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completeness {
    /// Everything was seen and committed.
    All,
    /// These partitions were stopped (a message that nobody can process), all others are done.
    AllBut(BTreeSet<u32>),
    /// The run was cut off anywhere.
    Nothing,
}

impl Default for Expectations {
    fn default() -> Self {
        Self {
            in_flight: 1,
            uncommitted: 1000,
            completeness: Completeness::All,
            given_up: BTreeSet::new(),
            removed_below: 0,
            put_back: BTreeSet::new(),
            moves_back: 0,
            state_lost_after: None,
            clock_tolerance: Duration::from_millis(100),
        }
    }
}

impl Expectations {
    /// Whether everything of this partition has to be done.
    pub(crate) fn complete(&self, partition: u32) -> bool {
        match &self.completeness {
            Completeness::All => true,
            Completeness::AllBut(stopped) => !stopped.contains(&partition),
            Completeness::Nothing => false,
        }
    }
}

impl Expectations {
    /// Whether the bucket was replaced between these two revisions.
    pub(crate) fn lost_between(&self, earlier: u64, later: u64) -> bool {
        self.state_lost_after
            .is_some_and(|lost| earlier <= lost && lost < later)
    }

    /// Whether a message may be passed without having been acknowledged.
    pub(crate) fn excuses(&self, sequence: u64, message: &Message) -> bool {
        sequence < self.removed_below || self.given_up.contains(&message.key)
    }
}

/// Judges a history; the order of its records does not matter, their times do.
#[must_use = "a verdict nobody reads proves nothing"]
pub fn judge(records: &[Record], expect: &Expectations) -> Verdict {
    let prepared = Prepared::of(records);
    let mut violations = content::check(&prepared, expect);
    violations.extend(order::check(&prepared, expect));
    violations.extend(ownership::check(&prepared));
    violations.extend(commits::check(&prepared, expect));
    let (repeats, bounds) = duplicates::check(&prepared, expect);
    violations.extend(bounds);
    Verdict::of(&prepared, violations, repeats, pauses::measure(&prepared))
}
