//! The judge: what the protocol promises, held against what happens, as it happens.
//!
//! * `writes`: the commit records and group documents, in the order in which the bucket stored them.
//! * `deliveries`: what applications are handed, in which order, and how often.
//! * `end`: what has to be true when the trouble is over.
//!
//! The judge knows what no process knows: the true time, each message's identity, every write.

mod deliveries;
mod end;
mod writes;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use lockstep::group::member::MemberEvent;
use lockstep::group::{Beat, Epoch, GroupDocument, Incarnation, OffsetRecord, Partition};

use crate::time::At;

pub use end::Final;

use deliveries::Hold;

/// What may be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A (partition, epoch) has one owner, and nobody commits after the claim of a later one. P69, P132
    Exclusive,
    /// Epochs and terms never fall. P68
    EpochsRise,
    /// A commit record never moves back in one history of its stream. P122
    NeverBack,
    /// A commit passes no message whose effect was not stored. P118, P134
    AtLeastOnce,
    /// No message is left out when messages are handed over.
    NoGap,
    /// Within an epoch messages are handed over in order, and nothing overtakes. P133
    Order,
    /// No more are in flight than may be. P114
    Window,
    /// A clean hand-over brings no duplicate. P135
    CleanHandOver,
    /// An unclean one brings a bounded number of them. P135
    BoundedDuplicates,
    /// Nothing new is handed over once a later epoch was claimed. P91, P92
    HandedWhileFenced,
    /// Nobody is given up for dead who is heard steadily. P44, P45
    NeedlessEviction,
    /// A stream that was made anew or cut is noticed. P109
    Detected,
    /// Once the trouble is over all that is left is handed over and committed.
    Complete,
    /// A group that nothing happens to settles, and then writes nothing. P67
    Quiet,
    /// Nobody is given what it cannot read. P57, P131
    Eligible,
}

/// A rule that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// When.
    pub at: At,
    /// Which.
    pub rule: Rule,
    /// How.
    pub what: String,
}

/// What the judge has to know of the group.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// `maxInFlight`.
    pub in_flight: u64,
    /// `maxUncommitted`.
    pub uncommitted: u64,
    /// The session timeout.
    pub session: std::time::Duration,
}

/// A message as it was published.
#[derive(Clone, Copy, Debug)]
pub(super) struct Published {
    pub(super) partition: Partition,
    pub(super) seq: u64,
    /// Its effect is in the application's store.
    pub(super) effected: bool,
    /// Some application was through with it.
    pub(super) worked: bool,
    /// It was passed over by a policy, or by a person.
    pub(super) excused: bool,
    /// The last epoch in which it was handed over.
    pub(super) handed: Option<Epoch>,
    /// How that ended.
    pub(super) outcome: Outcome,
}

/// What became of a message that was handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    InHand,
    Acked,
    Failed,
}

/// The judge.
#[derive(Debug)]
pub struct Checker {
    pub(super) bounds: Bounds,
    violations: Vec<Violation>,
    now: At,
    pub(super) messages: Vec<Published>,
    /// The store of the applications: the highest epoch per partition.
    store: BTreeMap<Partition, Epoch>,
    pub(super) records: BTreeMap<Partition, OffsetRecord>,
    pub(super) document: Option<GroupDocument>,
    /// To whom each epoch was granted, and whether as unclean.
    granted: BTreeMap<(Partition, Epoch), (Incarnation, bool)>,
    pub(super) holds: BTreeMap<(Partition, Epoch, Incarnation), Hold>,
    duplicates: BTreeMap<(Partition, Epoch), u64>,
    /// When the beat of each member last rose, since when without a long break, and the beat.
    beats: BTreeMap<Incarnation, (At, At, Beat)>,
    /// Partitions whose position a policy moved, until that is on record.
    moved: BTreeSet<Partition>,
    /// Partitions whose stream lost what was committed, until somebody noticed.
    pub(super) cut: BTreeMap<Partition, At>,
    /// Partitions whose stream was ever cut or made anew.
    pub(super) history_broke: BTreeSet<Partition>,
    /// Partitions whose stream was cut below a position that has no mark yet: once the stream has grown
    /// past it, nothing shows that.
    pub(super) unmarked: BTreeSet<Partition>,
    /// Partitions whose commit record was lost.
    pub(super) record_lost: BTreeSet<Partition>,
    /// Acknowledged writes of the bucket were lost, or it was replaced.
    pub(super) lossy: bool,
    /// The first message of each partition that the group owes to its applications.
    owed_from: BTreeMap<Partition, u64>,
    /// Whether nothing may happen any more.
    quiet_since: Option<At>,
    pub(super) quiet_documents: u64,
    pub(super) quiet_commits: u64,
    /// Members that read no format in use.
    pub(super) outdated: BTreeSet<Incarnation>,
    /// Messages that retention removed before they were committed, and partitions of which somebody
    /// has said so.
    removed: Vec<u64>,
    loss_noticed: BTreeSet<Partition>,
    /// Counted for reports.
    pub tally: Tally,
}

/// What a run was like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Messages published.
    pub published: u64,
    /// Messages handed over, each time.
    pub handed: u64,
    /// Claims stored.
    pub claims: u64,
    /// Commits stored.
    pub commits: u64,
    /// Group documents stored.
    pub documents: u64,
    /// Messages that retention removed unread although their partition was being read: nothing shows
    /// that to a reader whose consumer lives, and it is not judged.
    pub lost_unseen: u64,
}

// === impl Checker ===

impl Checker {
    /// A judge who has seen nothing.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            violations: Vec::new(),
            now: At::default(),
            messages: Vec::new(),
            store: BTreeMap::new(),
            records: BTreeMap::new(),
            document: None,
            granted: BTreeMap::new(),
            holds: BTreeMap::new(),
            duplicates: BTreeMap::new(),
            beats: BTreeMap::new(),
            moved: BTreeSet::new(),
            cut: BTreeMap::new(),
            history_broke: BTreeSet::new(),
            unmarked: BTreeSet::new(),
            record_lost: BTreeSet::new(),
            lossy: false,
            owed_from: BTreeMap::new(),
            quiet_since: None,
            quiet_documents: 0,
            quiet_commits: 0,
            outdated: BTreeSet::new(),
            removed: Vec::new(),
            loss_noticed: BTreeSet::new(),
            tally: Tally::default(),
        }
    }

    /// The time, which the judge is told before anything happens.
    pub fn tick(&mut self, now: At) {
        self.now = now;
    }

    /// Everything that was broken so far.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    pub(super) fn broken(&mut self, rule: Rule, what: impl FnOnce() -> String) {
        let (at, what) = (self.now, what());
        self.violations.push(Violation { at, rule, what });
    }

    /// A message will be published: its number.
    pub fn will_publish(&mut self, partition: Partition) -> u64 {
        let id = self.messages.len() as u64;
        self.tally.published += 1;
        self.messages.push(Published {
            partition,
            seq: 0,
            effected: false,
            worked: false,
            excused: false,
            handed: None,
            outcome: Outcome::InHand,
        });
        id
    }

    /// It was.
    pub fn published(&mut self, id: u64, seq: u64) {
        if let Some(message) = self.message_mut(id) {
            message.seq = seq;
        }
    }

    pub(super) fn message(&self, id: u64) -> Option<&Published> {
        self.messages.get(usize::try_from(id).ok()?)
    }

    pub(super) fn message_mut(&mut self, id: u64) -> Option<&mut Published> {
        self.messages.get_mut(usize::try_from(id).ok()?)
    }

    /// An application's effect reaches its store.
    pub fn effect(&mut self, partition: Partition, epoch: Epoch, id: u64) {
        let newest = self.store.entry(partition).or_insert(epoch);
        let counts = epoch >= *newest;
        *newest = epoch.max(*newest);
        if let Some(message) = self.message_mut(id) {
            message.effected |= counts;
            message.worked = true;
        }
    }

    /// Whether a commit may pass this message.
    pub(super) fn is_done(&self, id: u64) -> bool {
        self.message(id)
            .is_none_or(|m| m.effected || m.excused || (self.lossy && m.worked))
    }

    /// The group is seeded: it owes its applications everything from these messages on, by number.
    pub fn owes_from(&mut self, partition: Partition, id: u64) {
        self.owed_from.entry(partition).or_insert(id);
    }

    /// Whether the group promised to hand this message over.
    pub(super) fn is_owed(&self, id: u64) -> bool {
        let partition = self.message(id).map(|m| m.partition);
        partition.is_some_and(|p| self.owed_from.get(&p).is_some_and(|from| id >= *from))
    }

    /// A member said something of itself.
    pub fn told(&mut self, _now: At, me: &Incarnation, event: &MemberEvent) {
        match event {
            MemberEvent::Skipped {
                partition,
                sequence,
                ..
            } => self.excuse(*partition, sequence.0, me),
            MemberEvent::PositionMoved { partition, to, .. } => {
                self.moved.insert(*partition);
                self.cut.remove(partition);
                self.excuse_below(*partition, to.0);
            }
            MemberEvent::ProcessingTimedOut { partition, .. } => self.all_failed(*partition, me),
            MemberEvent::Stopped { partition, .. } => {
                self.cut.remove(partition);
            }
            MemberEvent::MessagesLost { partition, .. } => {
                self.loss_noticed.insert(*partition);
            }
            MemberEvent::OffsetLost { partition, .. } => {
                self.record_lost.insert(*partition);
            }
            _ => {}
        }
    }

    /// Acknowledged writes of the bucket are lost: what stood there may stand there again.
    pub fn bucket_lost_writes(&mut self) {
        self.lossy = true;
        self.forget_the_bucket();
    }

    /// A commit record is gone, and nothing stands in its place: a person has to act.
    pub fn record_was_lost(&mut self, partition: Partition) {
        self.record_lost.insert(partition);
    }

    /// The world does not come to an end.
    pub fn spins(&mut self) {
        self.broken(Rule::Quiet, || {
            "somebody spins: there are too many events".to_owned()
        });
    }

    /// Another bucket takes the place of this one.
    pub fn bucket_replaced(&mut self) {
        self.lossy = true;
        self.forget_the_bucket();
    }

    fn forget_the_bucket(&mut self) {
        self.records.clear();
        self.owed_from.clear();
        self.document = None;
        self.granted.clear();
        self.beats.clear();
    }

    /// A stream is cut after `last`, or made anew (`last` is 0). `position` is the newest of the
    /// partition's messages that was there: what is committed beyond must be noticed.
    pub fn stream_broke(&mut self, partition: Partition, last: u64, anew: bool) {
        self.history_broke.insert(partition);
        let Some(record) = self.records.get(&partition) else {
            return;
        };
        let mark_gone = record.mark.is_some_and(|mark| mark.seq.0 > last);
        if record.mark.is_none() && record.next_seq.0 > last + 1 {
            self.unmarked.insert(partition);
        }
        if anew && record.next_seq.0 > 1 || mark_gone {
            self.cut.insert(partition, self.now);
        }
    }

    /// Retention removes a message that is not committed.
    pub fn will_remove(&mut self, id: u64) {
        self.removed.push(id);
    }

    /// Counts what was lost and nobody noticed.
    pub(super) fn count_what_was_lost(&mut self) {
        let unseen = self.removed.iter().filter(|id| {
            let noticed = |m: &Published| self.loss_noticed.contains(&m.partition);
            self.message(**id)
                .is_some_and(|m| !m.worked && m.handed.is_none() && !noticed(m))
        });
        self.tally.lost_unseen = unseen.count() as u64;
    }

    /// After the loss of the bucket a partition begins where a member said. If its stream was made anew or
    /// cut before, that position is of the former history, and nothing shows it.
    pub fn rebuilt(&mut self, partition: Partition, next: u64) {
        if self.history_broke.contains(&partition) {
            self.excuse_below(partition, next);
        }
    }

    /// The message by which a position is recognised is gone: what its stream lost cannot be noticed.
    /// P111
    pub fn mark_was_removed(&mut self, partition: Partition) {
        self.cut.remove(&partition);
    }

    /// From now on nothing may happen.
    pub fn expects_quiet(&mut self) {
        self.quiet_since = Some(self.now);
    }
}

// === impl Rule ===

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} at {}: {}",
            self.rule,
            self.at.to_string().trim(),
            self.what
        )
    }
}
