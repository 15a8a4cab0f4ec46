//! A member, and a bucket that answers it as it is told to.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::group::ledger::{Ask, Budget, HandOver, Message, SessionEnd};
use crate::group::member::{
    Accepted, AckKind, Effect, Event, Found, HoldView, Identity, Member, MemberEvent, Written,
};
use crate::group::*;

pub(super) const ME: &str = "me";
pub(super) const S: Duration = Duration::from_secs(20);

/// A message is its sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Msg(pub(super) u64);

impl Message for Msg {
    fn sequence(&self) -> Sequence {
        Sequence(self.0)
    }
    fn stored(&self) -> ServerTime {
        ServerTime(i64::try_from(self.0).unwrap() * 10)
    }
    fn size(&self) -> u64 {
        10
    }
}

/// How the bucket answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answers {
    /// At once, and as it is.
    Yes,
    /// Not at all.
    No,
}

pub(super) struct Scene {
    pub(super) member: Member<Msg>,
    pub(super) now: Timestamp,
    pub(super) meta: Meta,
    pub(super) document: GroupDocument,
    pub(super) offsets: BTreeMap<u32, (Revision, OffsetRecord)>,
    pub(super) revision: u64,
    pub(super) heartbeats: Answers,
    pub(super) records: Answers,
    /// Everything that the member wanted done.
    pub(super) log: Vec<Effect>,
    pub(super) beats: Vec<MemberDocument>,
}

pub(super) fn p(partition: u32) -> Partition {
    Partition(partition)
}

pub(super) fn me() -> Incarnation {
    ME.parse().unwrap()
}

pub(super) fn record(epoch: u64, owner: Option<&str>, next_seq: u64) -> OffsetRecord {
    OffsetRecord {
        epoch: Epoch(epoch),
        owner: owner.map(|o| o.parse().unwrap()),
        next_seq: Sequence(next_seq),
        mark: None,
        stream: "S".to_owned(),
        stream_created: ServerTime(7),
        head: None,
        stopped: None,
        unknown: Unknown::new(),
    }
}

pub(super) fn meta(partitions: u32) -> Meta {
    Meta {
        bucket: BucketId::new("b1"),
        manager: "standalone".to_owned(),
        generation: MetaGeneration(1),
        group_uid: String::new(),
        state: GroupState::Active,
        source: Source::Streams {
            pattern: "S-{partition}".to_owned(),
            partitions,
            subjects: String::new(),
        },
        streams: BTreeMap::new(),
        start_from: StartFrom::Earliest,
        delivery: Delivery {
            max_in_flight: 10,
            batch: 100,
            fetch_wait: Duration::from_secs(5),
            batch_wait: Duration::from_millis(5),
            buffer_messages: 5000,
            buffer_bytes: 1 << 24,
            retry: Retry {
                max_attempts: 3,
                initial: Duration::from_millis(200),
                max: Duration::from_secs(30),
                factor: 2.0,
            },
            on_failure: OnFailure::Block,
            commit_interval: Duration::from_millis(100),
            max_uncommitted: 1000,
        },
        membership: Membership {
            assignor: AssignorSetting::Sticky,
            heartbeat_interval: Duration::from_secs(3),
            session_timeout: S,
            rebalance_timeout: Duration::from_secs(60),
            processing_timeout: Duration::from_secs(300),
            initial_rebalance_delay: Duration::from_secs(3),
            rebalance_delay: Duration::from_secs(1),
            balance_interval: Duration::from_secs(10),
            max_members: 64,
        },
        on_truncation: OnTruncation::Stop,
        on_gap: OnGap::Earliest,
        pause: Pause::default(),
        resumed: BTreeMap::new(),
        unknown: Unknown::new(),
    }
}

impl Scene {
    /// A member that has started and seen nothing.
    pub(super) fn started(partitions: u32) -> Self {
        let now = Timestamp(Duration::from_secs(1000));
        let identity = Identity {
            incarnation: me(),
            id: MemberId::new("host-1"),
            zone: None,
            pod: None,
            version: "0".to_owned(),
        };
        Self {
            member: Member::new(identity, now),
            now,
            meta: meta(partitions),
            document: GroupDocument {
                term: Term(1),
                epoch: GroupEpoch(1),
                meta_generation: MetaGeneration(1),
                seeded: true,
                partitions: vec![Assignment::default(); partitions as usize],
                ..GroupDocument::default()
            },
            offsets: (0..partitions)
                .map(|p| (p, (Revision(u64::from(p) + 1), record(0, None, 1))))
                .collect(),
            revision: u64::from(partitions) + 10,
            heartbeats: Answers::Yes,
            records: Answers::Yes,
            log: Vec::new(),
            beats: Vec::new(),
        }
    }

    /// A member that takes part and owns nothing.
    pub(super) fn joined(partitions: u32) -> Self {
        let mut t = Self::started(partitions);
        t.sees_meta();
        t.sees_document();
        t
    }

    /// A member that owns these partitions at epoch 1.
    pub(super) fn owning(partitions: &[u32]) -> Self {
        let count = partitions.iter().max().map_or(1, |p| p + 1);
        let mut t = Self::joined(count);
        for p in partitions {
            t.gives(*p, 1);
        }
        t.sees_document();
        t.clear();
        t
    }

    pub(super) fn clear(&mut self) {
        self.log.clear();
        self.beats.clear();
    }

    pub(super) fn next_revision(&mut self) -> Revision {
        self.revision += 1;
        Revision(self.revision)
    }

    pub(super) fn sees_meta(&mut self) {
        let (revision, meta) = (self.next_revision(), Box::new(self.meta.clone()));
        self.happens(Event::Meta { revision, meta });
    }

    pub(super) fn sees_document(&mut self) {
        self.document.epoch = self.document.epoch.next();
        let (revision, document) = (self.next_revision(), Box::new(self.document.clone()));
        self.happens(Event::Group { revision, document });
    }

    /// `meta` changes, as its next generation.
    pub(super) fn changes(&mut self, change: impl FnOnce(&mut Meta)) {
        self.meta.generation = MetaGeneration(self.meta.generation.0 + 1);
        change(&mut self.meta);
        self.sees_meta();
    }

    /// This heartbeat comes back through the watch.
    pub(super) fn echo_of(&mut self, beat: u64) {
        let (revision, beat) = (self.next_revision(), Beat(beat));
        self.happens(Event::Echo { revision, beat });
    }

    /// Heartbeats come back again, beginning with the next one.
    pub(super) fn comes_back(&mut self) {
        self.heartbeats = Answers::Yes;
        self.happens(Event::Application { connected: true });
        self.happens(Event::Application { connected: false });
    }

    /// The next document gives this partition to the member, at this epoch.
    pub(super) fn gives(&mut self, partition: u32, epoch: u64) {
        self.assigns(partition, Some(ME), epoch, Some(ME));
    }

    /// The next document wants this partition back for somebody else.
    pub(super) fn revokes(&mut self, partition: u32) {
        let epoch = self.document.partitions[partition as usize].epoch.0;
        self.assigns(partition, Some(ME), epoch, Some("other"));
    }

    pub(super) fn assigns(&mut self, p: u32, owner: Option<&str>, epoch: u64, to: Option<&str>) {
        for member in [owner, to].into_iter().flatten() {
            self.document.members.insert(
                member.parse().unwrap(),
                MemberEntry {
                    id: MemberId::new(member),
                    zone: None,
                    standing: Standing::Active,
                },
            );
        }
        self.document.partitions[p as usize] = Assignment {
            owner: owner.map(|o| o.parse().unwrap()),
            epoch: Epoch(epoch),
            target: to.map(|t| t.parse().unwrap()),
            unclean: false,
        };
    }

    /// One event, and everything that follows from it at once.
    pub(super) fn happens(&mut self, event: Event<Msg>) {
        let mut queue = VecDeque::from([event]);
        let mut turns = 0;
        loop {
            let event = match queue.pop_front() {
                Some(event) => event,
                None if self.member.deadline().is_some_and(|at| at <= self.now) => Event::Deadline,
                None => break,
            };
            turns += 1;
            assert!(
                turns < 10_000,
                "it spins: {:?}",
                self.log.iter().rev().take(5)
            );
            for effect in self.member.step(event, self.now) {
                self.answer(&effect, &mut queue);
                self.log.push(effect);
            }
        }
    }

    fn answer(&mut self, effect: &Effect, queue: &mut VecDeque<Event<Msg>>) {
        match effect {
            Effect::Heartbeat(document) => {
                self.beats.push((**document).clone());
                if self.heartbeats == Answers::Yes {
                    let (beat, revision) = (document.beat, self.next_revision());
                    queue.push_back(Event::PutStored { beat, revision });
                    queue.push_back(Event::Echo { revision, beat });
                }
            }
            Effect::ReadOffset { partition, epoch } if self.records == Answers::Yes => {
                queue.push_back(Event::Offset {
                    partition: *partition,
                    epoch: *epoch,
                    found: self.found(partition.0),
                });
            }
            Effect::WriteOffset {
                partition,
                epoch,
                record,
                expected,
            } if self.records == Answers::Yes => {
                let outcome = self.replace(partition.0, record, *expected);
                queue.push_back(Event::Written {
                    partition: *partition,
                    epoch: *epoch,
                    outcome,
                });
            }
            Effect::ReadOffset { .. }
            | Effect::WriteOffset { .. }
            | Effect::Open { .. }
            | Effect::Close { .. }
            | Effect::Tell(_)
            | Effect::Reincarnate
            | Effect::Over => {}
        }
    }

    pub(super) fn found(&self, partition: u32) -> Found {
        self.offsets
            .get(&partition)
            .map_or(Found::Absent, |(revision, record)| {
                Found::Record(*revision, Box::new(record.clone()))
            })
    }

    /// What the server does with a compare-and-set.
    pub(super) fn replace(&mut self, p: u32, record: &OffsetRecord, expected: Revision) -> Written {
        let stands_at = self
            .offsets
            .get(&p)
            .map_or(Revision(0), |(revision, _)| *revision);
        if stands_at != expected {
            return Written::Conflict(Some(stands_at));
        }
        let revision = self.next_revision();
        self.offsets.insert(p, (revision, record.clone()));
        Written::Stored(revision)
    }

    /// The read of this commit record is answered as it is.
    pub(super) fn answers_read(&mut self, partition: u32) {
        let found = self.found(partition);
        self.finds(partition, found);
    }

    /// The newest write of this commit record is judged as a server would.
    pub(super) fn answers_write(&mut self, partition: u32) {
        let (record, expected) = self.writes_of(partition).pop().expect("a write");
        let outcome = self.replace(partition, &record, expected);
        self.writes_end(partition, outcome);
    }

    /// The write of this commit record ends.
    pub(super) fn writes_end(&mut self, partition: u32, outcome: Written) {
        let epoch = self.epoch(partition);
        let partition = p(partition);
        self.happens(Event::Written {
            partition,
            epoch,
            outcome,
        });
    }

    /// Time goes by, with everything that is due on the way.
    pub(super) fn passes(&mut self, time: Duration) {
        let end = self.now.after(time);
        while let Some(at) = self.member.deadline().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.happens(Event::Deadline);
        }
        self.now = end;
        self.happens(Event::Deadline);
    }

    pub(super) fn reads(&mut self, partition: u32, sequences: impl IntoIterator<Item = u64>) {
        let epoch = self.epoch(partition);
        self.happens(Event::Read {
            partition: p(partition),
            epoch,
            batch: sequences.into_iter().map(Msg).collect(),
        });
    }

    pub(super) fn epoch(&self, partition: u32) -> Epoch {
        self.view(partition).map_or(Epoch(0), |v| v.epoch)
    }

    pub(super) fn view(&self, partition: u32) -> Option<HoldView> {
        self.member.view(p(partition))
    }

    pub(super) fn state(&self, partition: u32) -> Option<HoldState> {
        self.view(partition).map(|v| v.state)
    }

    pub(super) fn holds(&self) -> Vec<u32> {
        self.member.held().map(|(p, _)| p.0).collect()
    }

    /// What a fetch of this session gets of one partition.
    pub(super) fn fetches(&mut self, session: &str, partition: u32) -> Vec<u64> {
        self.fetch(session, partition, 100)
            .iter()
            .map(|(s, _)| *s)
            .collect()
    }

    pub(super) fn fetch(
        &mut self,
        session: &str,
        partition: u32,
        most: u64,
    ) -> Vec<(u64, HandOver)> {
        self.takes(session, partition, (Ask::FromItsFirst, most))
    }

    /// What a stream of this session is pushed.
    pub(super) fn is_pushed(&mut self, session: &str, partition: u32) -> Vec<u64> {
        let got = self.takes(session, partition, (Ask::OnlyNew, 100));
        got.iter().map(|(s, _)| *s).collect()
    }

    /// What a fetch gets that has got as far as this in an earlier pass.
    pub(super) fn goes_on(&mut self, session: &str, partition: u32, after: u64) -> Vec<u64> {
        let got = self.takes(session, partition, (Ask::After(Sequence(after)), 100));
        got.iter().map(|(s, _)| *s).collect()
    }

    fn takes(
        &mut self,
        session: &str,
        partition: u32,
        (ask, most): (Ask, u64),
    ) -> Vec<(u64, HandOver)> {
        let mut got = Vec::new();
        let mut budget = Budget::new(most, u64::MAX);
        self.member.hand_over(
            &SessionId::new(session),
            (p(partition), ask),
            &mut budget,
            self.now,
            |_, message, how| got.push((message.0, how)),
        );
        self.happens(Event::Deadline);
        got
    }

    pub(super) fn acks(&mut self, session: &str, partition: u32, sequence: u64) -> Accepted {
        self.ack(
            session,
            (partition, self.epoch(partition), sequence),
            AckKind::UpTo,
        )
    }

    pub(super) fn acks_each(&mut self, session: &str, partition: u32, sequence: u64) -> Accepted {
        self.ack(
            session,
            (partition, self.epoch(partition), sequence),
            AckKind::Each,
        )
    }

    pub(super) fn ack(
        &mut self,
        session: &str,
        (partition, epoch, sequence): (u32, Epoch, u64),
        kind: AckKind,
    ) -> Accepted {
        let position = (p(partition), epoch, Sequence(sequence));
        let accepted = self
            .member
            .ack(&SessionId::new(session), position, kind, self.now);
        self.happens(Event::Deadline);
        accepted
    }

    pub(super) fn nacks(&mut self, session: &str, partition: u32, sequence: u64) -> Accepted {
        let position = (p(partition), self.epoch(partition), Sequence(sequence));
        let accepted = self
            .member
            .nack(&SessionId::new(session), position, ("no", None), self.now);
        self.happens(Event::Deadline);
        accepted
    }

    pub(super) fn loses(&mut self, session: &str) {
        self.member
            .session_ended(&SessionId::new(session), SessionEnd::Lost, self.now);
        self.happens(Event::Deadline);
    }

    pub(super) fn closes(&mut self, session: &str) {
        self.member
            .session_ended(&SessionId::new(session), SessionEnd::Closed, self.now);
        self.happens(Event::Deadline);
    }

    /// The process is to end, within so many seconds.
    pub(super) fn drains(&mut self, seconds: u64) {
        self.happens(Event::Drain {
            timeout: Duration::from_secs(seconds),
        });
    }

    /// Somebody waits for the commit.
    pub(super) fn hurries(&mut self, partition: u32) {
        self.member.hurry(p(partition), self.now);
        self.happens(Event::Deadline);
    }

    /// What the commit record says is not done.
    pub(super) fn committed(&self, partition: u32) -> u64 {
        self.offsets[&partition].1.next_seq.0
    }

    pub(super) fn last_beat(&self) -> &MemberDocument {
        self.beats.last().expect("no heartbeat was sent")
    }

    /// What the newest heartbeat gives back: partition, epoch, clean.
    pub(super) fn released(&self) -> Vec<(u32, u64, bool)> {
        self.last_beat()
            .released
            .iter()
            .map(|r| (r.partition.0, r.epoch.0, r.clean))
            .collect()
    }

    pub(super) fn told(&self) -> Vec<&MemberEvent> {
        self.log
            .iter()
            .filter_map(|effect| match effect {
                Effect::Tell(event) => Some(event),
                _ => None,
            })
            .collect()
    }

    pub(super) fn writes(&self) -> usize {
        self.log
            .iter()
            .filter(|e| matches!(e, Effect::WriteOffset { .. }))
            .count()
    }

    /// Every write of this commit record, with the revision that it expects.
    pub(super) fn writes_of(&self, partition: u32) -> Vec<(OffsetRecord, Revision)> {
        self.log
            .iter()
            .filter_map(|effect| match effect {
                Effect::WriteOffset {
                    partition: at,
                    record,
                    expected,
                    ..
                } if at.0 == partition => Some(((**record).clone(), *expected)),
                _ => None,
            })
            .collect()
    }

    pub(super) fn reads_of(&self, partition: u32) -> usize {
        self.log
            .iter()
            .filter(|e| matches!(e, Effect::ReadOffset { partition: at, .. } if at.0 == partition))
            .count()
    }

    pub(super) fn opened(&self) -> Vec<(u32, u64)> {
        self.log
            .iter()
            .filter_map(|effect| match effect {
                Effect::Open {
                    partition, from, ..
                } => Some((partition.0, from.0)),
                _ => None,
            })
            .collect()
    }

    pub(super) fn closed(&self) -> Vec<u32> {
        self.log
            .iter()
            .filter_map(|effect| match effect {
                Effect::Close { partition, .. } => Some(partition.0),
                _ => None,
            })
            .collect()
    }
}
