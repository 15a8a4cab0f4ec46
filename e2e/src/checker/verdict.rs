//! What the judge says, for people and for programs.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};

use super::pauses::EventPauses;
use super::prepared::Prepared;

/// How many violations a verdict spells out; all are counted.
const SHOWN: usize = 20;

/// What can be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// A message was published and never seen.
    Lost,
    /// A message was seen that nobody published.
    MadeUp,
    /// A message was seen with another content.
    Altered,
    /// A message was seen before an earlier one was done.
    OutOfOrder,
    /// A message of a key was seen before an earlier one of the key.
    KeyOutOfOrder,
    /// A message came again in the epoch that had accepted its acknowledgement.
    SeenAfterAck,
    /// A message came in an epoch that began after it.
    SeenAfterCommit,
    /// Two owners of one partition and epoch.
    TwoOwners,
    /// An application read an epoch of somebody else's.
    ForeignReader,
    /// An epoch came after a higher one.
    EpochFell,
    /// A commit came after a higher one.
    CommitFell,
    /// A commit at an epoch that its writer was not granted.
    NotGranted,
    /// A commit passed a message that was not acknowledged.
    UnsoundCommit,
    /// The end of a partition was not committed.
    NotCommitted,
    /// A message was seen again after a clean hand-over.
    DuplicateAfterClean,
    /// More messages were seen again after an unclean hand-over than were in the air.
    TooManyDuplicates,
}

/// One thing that must not be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// Which promise it breaks.
    pub rule: Rule,
    /// Where.
    pub partition: u32,
    /// What exactly.
    pub text: String,
}

/// The whole judgement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Whether every promise was kept, and there was something to keep.
    pub passed: bool,
    /// Messages that were published.
    pub messages: u64,
    /// Hand-overs to applications, repeats included.
    pub sightings: u64,
    /// Messages seen again in a later epoch.
    pub duplicates: u64,
    /// Messages seen again in the same epoch (given back, or their application was restarted).
    pub redeliveries: u64,
    /// Messages that were published and never seen.
    pub lost: u64,
    /// Sightings out of order, of a partition or a key.
    pub order_violations: u64,
    /// Grants of a partition to an owner, and how many of them followed an unclean end.
    pub grants: u64,
    /// See `grants`.
    pub unclean_grants: u64,
    /// Revisions of commit records that were looked at.
    pub commits: u64,
    /// How many of each kind.
    pub violations: BTreeMap<Rule, u64>,
    /// The first of them, spelled out.
    pub examples: Vec<Violation>,
    /// The longest pause per partition for each event.
    pub pauses: Vec<EventPauses>,
}

// === impl Violation ===

impl Violation {
    pub(crate) fn new(rule: Rule, partition: u32, text: String) -> Self {
        Self {
            rule,
            partition,
            text,
        }
    }
}

// === impl Verdict ===

/// A count of things in memory.
fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

impl Verdict {
    pub(crate) fn of(
        history: &Prepared,
        violations: Vec<Violation>,
        duplicates: u64,
        pauses: Vec<EventPauses>,
    ) -> Self {
        let mut counted: BTreeMap<Rule, u64> = BTreeMap::new();
        for violation in &violations {
            *counted.entry(violation.rule).or_default() += 1;
        }
        let of_rule = |rule: Rule| counted.get(&rule).copied().unwrap_or(0);
        let sightings = count(history.sightings().count());
        let mut places = std::collections::BTreeSet::new();
        places.extend(
            history
                .sightings()
                .map(|seen| (seen.partition, seen.sequence, seen.epoch)),
        );
        let grants = || history.grants.values().flat_map(BTreeMap::values);
        let messages = count(history.messages().count());
        Self {
            passed: violations.is_empty() && messages > 0,
            messages,
            sightings,
            duplicates,
            redeliveries: sightings - count(places.len()),
            lost: of_rule(Rule::Lost),
            order_violations: of_rule(Rule::OutOfOrder) + of_rule(Rule::KeyOutOfOrder),
            grants: count(grants().count()),
            unclean_grants: count(grants().filter(|grant| grant.unclean).count()),
            commits: history
                .commits
                .values()
                .map(|commits| count(commits.len()))
                .sum(),
            violations: counted,
            examples: violations.into_iter().take(SHOWN).collect(),
            pauses,
        }
    }

    /// Whether this promise was broken.
    pub fn breaks(&self, rule: Rule) -> bool {
        self.violations.contains_key(&rule)
    }
}

/// A table for people.
impl Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  published messages        {:>8}", self.messages)?;
        writeln!(f, "  handed to applications    {:>8}", self.sightings)?;
        writeln!(f, "  lost                      {:>8}", self.lost)?;
        writeln!(
            f,
            "  order violations          {:>8}",
            self.order_violations
        )?;
        writeln!(f, "  duplicates across owners  {:>8}", self.duplicates)?;
        writeln!(f, "  redelivered to one owner  {:>8}", self.redeliveries)?;
        writeln!(
            f,
            "  grants (unclean)          {:>8} ({})",
            self.grants, self.unclean_grants
        )?;
        writeln!(f, "  commits looked at         {:>8}", self.commits)?;
        for pauses in &self.pauses {
            let Some((partition, longest)) = pauses.worst() else {
                continue;
            };
            writeln!(f, "\n  longest pause after: {}", pauses.event)?;
            let each: Vec<String> = pauses
                .longest_ms
                .iter()
                .map(|(p, pause)| format!("{p}: {pause} ms"))
                .collect();
            for row in each.chunks(6) {
                writeln!(f, "    {}", row.join("   "))?;
            }
            writeln!(
                f,
                "    worst: partition {partition}, {} ms",
                longest.as_millis()
            )?;
        }
        for (rule, count) in &self.violations {
            writeln!(f, "  BROKEN {rule:?}: {count}")?;
        }
        for Violation {
            rule,
            partition,
            text,
        } in &self.examples
        {
            writeln!(f, "    {rule:?}, partition {partition}: {text}")?;
        }
        write!(
            f,
            "  verdict: {}",
            if self.passed { "passed" } else { "FAILED" }
        )
    }
}
