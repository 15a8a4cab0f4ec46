//! A coordinator: the core's [`Observed`] and [`decide`], and what its driver does around them.

use lockstep::group::decide::{Identity, Observed, OffsetFact, Slot, decide, seed};
use lockstep::group::{
    Beat, CandidateDocument, Formats, GroupDocument, Incarnation, Meta, Partition, Revision,
    Sequence, ServerTime, Timestamp, Unknown,
};

use crate::bounds::Sabotage;
use crate::bucket::{Bucket, Key, Watch, Write};
use crate::fingerprint::Hashed;
use crate::settings::{BEAT, OFFICE};

/// Decisions in a row that neither write nor wait: more would be a spinning driver.
const TURNS: u32 = 20;

/// One coordinator.
#[derive(Clone, Debug)]
pub(crate) struct Coordinator {
    pub(crate) me: Incarnation,
    pub(crate) seen: Observed,
    pub(crate) watch: Watch,
    /// The document that is being written.
    pub(crate) writing: Option<Write>,
    pub(crate) runs: bool,
}

// === impl Coordinator ===

impl Coordinator {
    /// A coordinator that has just loaded an empty bucket.
    pub(crate) fn new(number: usize, me: Incarnation, meta: &Meta, now: Timestamp) -> Self {
        let mut seen = Observed::new(Identity {
            incarnation: me.clone(),
            id: me.to_string(),
            priority: i32::try_from(number).unwrap_or(i32::MAX),
            manager: meta.manager.clone(),
            session_timeout: OFFICE,
            heartbeat_interval: BEAT,
            unix_seconds: 10,
            elected: false,
        });
        seen.see_meta(Slot::Known(meta.clone()));
        seen.loaded(now);
        Self {
            me,
            seen,
            watch: Watch::default(),
            writing: None,
            runs: true,
        }
    }

    /// Its first heartbeat.
    pub(crate) fn heartbeat(&self) -> CandidateDocument {
        let me = self.seen.identity();
        CandidateDocument {
            id: me.id.clone(),
            priority: me.priority,
            beat: Beat(1),
            formats: Formats::CURRENT,
            left: false,
            unknown: Unknown::new(),
        }
    }

    /// The watch delivers its next value.
    pub(crate) fn see_next(
        &mut self,
        bucket: &Bucket,
        incarnations: &[Incarnation],
        now: Timestamp,
    ) {
        match self.watch.next() {
            Some(Key::Group) => self.see_group(bucket, now),
            Some(Key::Member(number)) => {
                let says = bucket.members.get(number).and_then(Option::as_ref);
                if let (Some(member), Some(says)) = (incarnations.get(number), says) {
                    self.seen.see_member(member, (**says).clone(), now);
                }
            }
            Some(Key::Candidate(number)) => {
                if let Some(says) = bucket.candidates.get(number)
                    && let Ok(candidate) = says.id.parse()
                {
                    self.seen.see_candidate(&candidate, (**says).clone(), now);
                }
            }
            None => {}
        }
    }

    /// The watch delivers all that it has.
    pub(crate) fn see_all(
        &mut self,
        bucket: &Bucket,
        incarnations: &[Incarnation],
        now: Timestamp,
    ) {
        while !self.watch.is_empty() {
            self.see_next(bucket, incarnations, now);
        }
    }

    /// Whether it has something to see, and neither coordinates nor is about to.
    pub(crate) fn stands_by(&self) -> bool {
        let holder = self.seen.document().known().and_then(|d| d.holder.as_ref());
        self.runs
            && !self.watch.is_empty()
            && self.writing.is_none()
            && !self.seen.is_coordinating()
            && holder != Some(&self.me)
    }

    fn see_group(&mut self, bucket: &Bucket, now: Timestamp) {
        if let Some((revision, document)) = bucket.group.as_deref() {
            self.seen
                .see_group(*revision, Slot::Known(document.clone()), now);
        }
    }

    /// Decides until there is a document to write or nothing to add. Answers whether it came to an
    /// end.
    pub(crate) fn turn(&mut self, bucket: &mut Bucket, sabotage: Sabotage, now: Timestamp) -> bool {
        if !self.runs || self.writing.is_some() {
            return true;
        }
        for _ in 0..TURNS {
            if self.seen.is_coordinating() && self.seen.is_cut_off(now) {
                self.seen.step_down(); // P40
            }
            let decision = decide(&self.seen, now);
            if !decision.read_offsets.is_empty() {
                for partition in decision.read_offsets {
                    let record = bucket.offset(partition);
                    let fact = record.map_or(OffsetFact::Absent, |(_, r)| OffsetFact::from(r));
                    self.seen.offsets_mut().see(partition, fact);
                }
            } else if !decision.seed.is_empty() {
                for partition in decision.seed {
                    self.seed(partition, bucket);
                }
            } else {
                self.writing = decision.document.map(|mut document| {
                    document.reason.clear(); // for people only
                    sabotaged(&mut document, &self.seen, sabotage);
                    Write::Group(Box::new(document), self.seen.revision())
                });
                return true;
            }
        }
        false
    }

    /// Writes where a partition begins, unless somebody did. // P86
    fn seed(&mut self, partition: Partition, bucket: &mut Bucket) {
        let meta = self.seen.meta().known();
        let record = meta.and_then(|m| seed(m, partition, Sequence::FIRST, ServerTime(0)));
        let (Some(record), Some(place)) = (record, bucket.offsets.get_mut(partition.index()))
        else {
            return;
        };
        let entry = place.get_or_insert_with(|| Hashed::new((Revision(1), record)));
        let fact = OffsetFact::from(&entry.1);
        self.seen.offsets_mut().see(partition, fact);
    }

    /// The write has ended, and the answer has come.
    pub(crate) fn written(
        &mut self,
        write: Write,
        stored: Option<Revision>,
        bucket: &Bucket,
        now: Timestamp,
    ) {
        match (write, stored) {
            (Write::Group(document, _), Some(revision)) => {
                self.seen.adopt(*document, revision, now); // P22
            }
            (Write::Group(..) | Write::Offset(..), _) => self.look_up(bucket, now),
        }
    }

    /// The end of the write is not known, or it is lost: what stands there? // P23 P25
    pub(crate) fn look_up(&mut self, bucket: &Bucket, now: Timestamp) {
        let Some((revision, document)) = bucket.group.as_deref() else {
            return;
        };
        if self.seen.is_mine(document) && *revision > self.seen.revision() {
            self.seen.adopt(document.clone(), *revision, now);
        } else {
            self.see_group(bucket, now);
        }
    }
}

/// A document as a coordinator would write it that keeps a rule badly.
fn sabotaged(document: &mut GroupDocument, seen: &Observed, sabotage: Sabotage) {
    let before = seen.document().known();
    for (number, a) in document.partitions.iter_mut().enumerate() {
        let was = before.and_then(|d| d.partitions.get(number));
        match sabotage {
            Sabotage::GrantsWithoutRelease if a.is_being_revoked() => {
                a.owner.clone_from(&a.target);
                a.epoch = a.epoch.of_the_next_owner();
            }
            Sabotage::EpochsStay => {
                if let Some(was) = was.filter(|was| was.epoch.0 > 10) {
                    a.epoch = was.epoch;
                }
            }
            Sabotage::None
            | Sabotage::OffsetsWithoutCas
            | Sabotage::GroupWithoutCas
            | Sabotage::GrantsWithoutRelease
            | Sabotage::ClocksStandStill
            | Sabotage::CommitsAhead
            | Sabotage::CommitsBack
            | Sabotage::WatchesAreDead => {}
        }
    }
}
