//! What holds for a member whatever happens, on a bucket that answers late, wrongly or not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;

use super::scene::*;
use crate::group::ledger::{Ask, Budget};
use crate::group::member::{Accepted, AckKind, Effect, Event, Found, MemberEvent, Written};
use crate::group::*;

/// Messages of the stream: sparse, as those of one partition are.
const STREAM: u64 = 60;
const IN_FLIGHT: u32 = 4;

/// Something that happens.
#[derive(Clone, Debug)]
enum Step {
    Reads(u64),
    Rewinds,
    Gives(u8, u64, Ask),
    Acks(u8, AckKind, u64),
    Nacks(u8, u64),
    Loses(u8),
    Passes(u64),
    HeartbeatsCome(bool),
    Connected,
    Answers(Ending),
    Revokes,
    Keeps,
    Grants { unclean: bool },
    IsOvertaken,
    Pauses(bool),
    Resumes,
}

/// How the oldest open read or write ends.
#[derive(Clone, Copy, Debug)]
enum Ending {
    AsItIs,
    Busy,
    LandsUnheard,
    Lost,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let session = || 0..2u8;
    let ask = prop_oneof![
        Just(Ask::FromItsFirst),
        Just(Ask::OnlyNew),
        (0_u64..40).prop_map(|after| Ask::After(Sequence(after)))
    ];
    let kind = prop_oneof![3 => Just(AckKind::UpTo), 1 => Just(AckKind::Each)];
    let step = prop_oneof![
        6 => (1..8u64).prop_map(Step::Reads),
        1 => Just(Step::Rewinds),
        8 => (session(), 1..6u64, ask).prop_map(|(s, n, a)| Step::Gives(s, n, a)),
        6 => (session(), kind, 0..6u64).prop_map(|(s, k, n)| Step::Acks(s, k, n)),
        2 => (session(), 0..6u64).prop_map(|(s, n)| Step::Nacks(s, n)),
        1 => session().prop_map(Step::Loses),
        4 => (1..2000u64).prop_map(Step::Passes),
        1 => (2000..40_000u64).prop_map(Step::Passes),
        2 => any::<bool>().prop_map(Step::HeartbeatsCome),
        1 => Just(Step::Connected),
        8 => prop_oneof![
            6 => Just(Ending::AsItIs), 1 => Just(Ending::Busy),
            1 => Just(Ending::LandsUnheard), 1 => Just(Ending::Lost),
        ].prop_map(Step::Answers),
        1 => Just(Step::Revokes),
        1 => Just(Step::Keeps),
        2 => any::<bool>().prop_map(|unclean| Step::Grants { unclean }),
        1 => Just(Step::IsOvertaken),
        1 => any::<bool>().prop_map(Step::Pauses),
        1 => Just(Step::Resumes),
    ];
    proptest::collection::vec(step, 1..120)
}

/// A member, its bucket, its stream, and what an observer has seen.
struct World {
    t: Scene,
    /// Effects already looked at, and those that wait for an answer.
    looked: usize,
    open: Vec<Effect>,
    /// What the reader of an epoch has delivered.
    read: u64,
    reading: Option<Epoch>,
    /// In the application's hands, by session, as the application believes.
    given: BTreeMap<u8, BTreeSet<(Epoch, u64)>>,
    /// Handed over, by epoch.
    handed: BTreeMap<Epoch, BTreeSet<u64>>,
    /// Where each epoch began.
    began: BTreeMap<Epoch, u64>,
    acked: BTreeSet<u64>,
    committed: u64,
    top_epoch: u64,
    lease: Timestamp,
}

fn messages(from: u64, to: u64) -> impl Iterator<Item = u64> {
    (from..to).filter(|s| s % 3 != 0 && *s <= STREAM)
}

fn name(session: u8) -> String {
    format!("s{session}")
}

impl World {
    fn new() -> Self {
        let mut t = Scene::joined(1);
        t.changes(|meta| {
            meta.delivery.max_in_flight = IN_FLIGHT;
            meta.delivery.max_uncommitted = 6;
            meta.delivery.on_failure = OnFailure::Block;
        });
        t.records = Answers::No;
        let mut world = Self {
            t,
            looked: 0,
            open: Vec::new(),
            read: 1,
            reading: None,
            given: BTreeMap::new(),
            handed: BTreeMap::new(),
            began: BTreeMap::new(),
            acked: BTreeSet::new(),
            committed: 1,
            top_epoch: 0,
            lease: Timestamp::default(),
        };
        world.look();
        world
    }

    fn does(&mut self, step: &Step) {
        match step {
            Step::Reads(count) => self.reads(self.read, self.read + count),
            Step::Rewinds => self.reads(1, self.read),
            Step::Gives(session, most, ask) => self.gives(*session, *most, *ask),
            Step::Acks(session, kind, which) => self.acks(*session, *kind, *which),
            Step::Nacks(session, which) => {
                if let Some((epoch, sequence)) = self.one_of(*session, *which) {
                    let position = (p(0), epoch, Sequence(sequence));
                    let session = SessionId::new(name(*session));
                    let now = self.t.now;
                    self.t.member.nack(&session, position, ("no", None), now);
                }
            }
            Step::Loses(session) => {
                self.given.remove(session);
                self.t.loses(&name(*session));
            }
            Step::Passes(millis) => self.passes(*millis),
            Step::HeartbeatsCome(come) => {
                self.t.heartbeats = if *come { Answers::Yes } else { Answers::No };
            }
            Step::Connected => self.t.happens(Event::Connected),
            Step::Answers(ending) => self.answers(*ending),
            Step::Revokes => {
                let Assignment { owner, epoch, .. } = self.t.document.partitions[0].clone();
                if owner.is_some() {
                    self.t.assigns(0, Some(ME), epoch.0, Some("other"));
                    self.t.sees_document();
                }
            }
            Step::Keeps => {
                let Assignment { owner, epoch, .. } = self.t.document.partitions[0].clone();
                if owner.is_some() {
                    self.t.gives(0, epoch.0);
                    self.t.sees_document();
                }
            }
            Step::Grants { unclean } => {
                self.top_epoch += 1;
                self.t.gives(0, self.top_epoch);
                self.t.document.partitions[0].unclean = *unclean;
                self.t.sees_document();
            }
            Step::IsOvertaken => {
                // Another member claims at a higher epoch; the document comes later, or never.
                self.top_epoch += 1;
                let (_, mut record) = self.t.offsets[&0].clone();
                (record.epoch, record.owner) =
                    (Epoch(self.top_epoch), Some("other".parse().unwrap()));
                let revision = self.t.next_revision();
                self.t.offsets.insert(0, (revision, record));
            }
            Step::Pauses(pause) => self.t.changes(|meta| meta.pause.all = *pause),
            Step::Resumes => self.t.changes(|meta| {
                let generation = meta.generation;
                meta.resumed.insert(p(0), generation);
            }),
        }
        self.t.happens(Event::Deadline);
        self.look();
    }

    /// Time goes by in small steps, so that what is done on the way is seen at its time.
    fn passes(&mut self, millis: u64) {
        let end = self.t.now.after(Duration::from_millis(millis));
        while let Some(at) = self.t.member.deadline().filter(|at| *at <= end) {
            self.t.now = self.t.now.max(at);
            self.t.happens(Event::Deadline);
            self.look();
        }
        self.t.now = end;
    }

    fn reads(&mut self, from: u64, to: u64) {
        let Some(epoch) = self.reading else { return };
        self.read = self.read.max(to);
        self.t.happens(Event::Read {
            partition: p(0),
            epoch,
            batch: messages(from, to).map(Msg).collect(),
        });
    }

    fn gives(&mut self, session: u8, most: u64, ask: Ask) {
        let mut got = Vec::new();
        let mut budget = Budget::new(most, u64::MAX);
        let id = SessionId::new(name(session));
        let now = self.t.now;
        let given = |epoch: Epoch, m: &Msg, how| got.push((epoch, m.0, how));
        self.t
            .member
            .hand_over(&id, (p(0), ask), &mut budget, now, given);
        assert!(
            got.is_empty() || now < self.lease,
            "handed over past the lease"
        );
        assert!(
            got.windows(2).all(|pair| pair[0].1 < pair[1].1),
            "out of order: {got:?}"
        );
        for (epoch, sequence, _) in got {
            let began = self.began[&epoch];
            let handed = self.handed.entry(epoch).or_default();
            if handed.insert(sequence) {
                let before: BTreeSet<u64> = messages(began, sequence + 1).collect();
                assert_eq!(&before, handed, "a message of epoch {epoch} was left out");
            }
            self.given
                .entry(session)
                .or_default()
                .insert((epoch, sequence));
        }
    }

    fn one_of(&self, session: u8, which: u64) -> Option<(Epoch, u64)> {
        let given = self.given.get(&session)?;
        let at = usize::try_from(which).unwrap() % given.len().max(1);
        given.iter().nth(at).copied()
    }

    fn acks(&mut self, session: u8, kind: AckKind, which: u64) {
        let Some((epoch, sequence)) = self.one_of(session, which) else {
            return;
        };
        let position = (p(0), epoch, Sequence(sequence));
        let now = self.t.now;
        let id = SessionId::new(name(session));
        let accepted = self.t.member.ack(&id, position, kind, now);
        if accepted == Accepted::NotOwned {
            return;
        }
        let done: Vec<_> = self.given[&session]
            .iter()
            .copied()
            .filter(|(e, s)| match kind {
                AckKind::UpTo => *e == epoch && *s <= sequence,
                AckKind::Each => (*e, *s) == (epoch, sequence),
            })
            .collect();
        for (epoch, sequence) in done {
            self.acked.insert(sequence);
            if kind == AckKind::Each {
                self.given
                    .get_mut(&session)
                    .unwrap()
                    .remove(&(epoch, sequence));
            }
        }
    }

    /// The oldest open read or write ends.
    fn answers(&mut self, ending: Ending) {
        if self.open.is_empty() {
            return;
        }
        let event = match self.open.remove(0) {
            Effect::ReadOffset { partition, epoch } => Event::Offset {
                partition,
                epoch,
                found: match ending {
                    Ending::AsItIs | Ending::Busy => self.t.found(0),
                    Ending::LandsUnheard | Ending::Lost => Found::Unanswered("lost".to_owned()),
                },
            },
            Effect::WriteOffset {
                partition,
                epoch,
                record,
                expected,
            } => Event::Written {
                partition,
                epoch,
                outcome: match ending {
                    Ending::AsItIs => self.t.replace(0, &record, expected),
                    Ending::Busy => Written::Busy,
                    Ending::LandsUnheard => {
                        self.t.replace(0, &record, expected);
                        Written::Unknown("lost".to_owned())
                    }
                    Ending::Lost => Written::Unknown("lost".to_owned()),
                },
            },
            other => unreachable!("{other:?}"),
        };
        self.look_at_the_record();
        self.t.happens(event);
    }

    /// Looks at what the member wants done.
    fn look(&mut self) {
        let new: Vec<Effect> = self.t.log[self.looked..].to_vec();
        self.looked = self.t.log.len();
        // What came back while this was done has renewed the lease.
        self.lease = self
            .lease
            .max(self.t.member.lease_until().unwrap_or_default());
        for effect in new {
            match effect {
                Effect::WriteOffset { epoch, .. } => {
                    assert!(self.t.now < self.lease, "wrote past the lease");
                    self.began.entry(epoch).or_insert(0);
                    self.open.push(effect);
                }
                Effect::ReadOffset { .. } => self.open.push(effect),
                Effect::Open { epoch, from, .. } => {
                    assert!(self.t.now < self.lease, "read past the lease");
                    let first = self.reading != Some(epoch);
                    self.reading = Some(epoch);
                    if first {
                        self.began.insert(epoch, from.0);
                    }
                    self.read = from.0;
                }
                Effect::Close { epoch, .. } if self.reading == Some(epoch) => {
                    // Messages that are on their way may still come.
                }
                Effect::Tell(MemberEvent::Revoked { epoch, .. }) => {
                    for given in self.given.values_mut() {
                        given.retain(|(e, _)| *e != epoch);
                    }
                }
                _ => {}
            }
        }
        self.look_at_the_record();
    }

    /// Sentences P118, P122, P125, P132 and P134 as an observer of the bucket sees them.
    fn look_at_the_record(&mut self) {
        let record = &self.t.offsets[&0].1;
        let next = record.next_seq.0;
        assert!(next >= self.committed, "the position fell to {next}");
        self.committed = next;
        for sequence in messages(1, next) {
            assert!(
                self.acked.contains(&sequence),
                "committed past {sequence}, which was not acknowledged: {record:?}"
            );
        }
        if let Some(view) = self.t.view(0) {
            assert!(view.in_flight <= IN_FLIGHT, "{view:?}");
        }
    }

    /// Everything works again: the stream is read to its end.
    fn heals(&mut self) {
        self.t.heartbeats = Answers::Yes;
        self.t.changes(|meta| {
            meta.pause.all = false;
            let generation = meta.generation;
            meta.resumed.insert(p(0), generation);
        });
        while !self.open.is_empty() {
            self.does(&Step::Answers(Ending::AsItIs));
        }
        self.passes(5000);
        self.does(&Step::Grants { unclean: false });
        for _ in 0..400 {
            while !self.open.is_empty() {
                self.does(&Step::Answers(Ending::AsItIs));
            }
            if self.t.view(0).is_some_and(|v| v.stopped.is_some()) {
                self.does(&Step::Resumes); // attempts were used up on the way
            }
            self.does(&Step::Reads(STREAM));
            self.does(&Step::Gives(0, 10, Ask::FromItsFirst));
            let last = self.given.get(&0).and_then(|g| g.last().copied());
            if let Some((epoch, sequence)) = last {
                let at = self.given[&0].iter().position(|g| *g == (epoch, sequence));
                self.does(&Step::Acks(0, AckKind::UpTo, at.unwrap() as u64));
            }
            self.does(&Step::Passes(500));
            if self.committed > STREAM - 1 {
                return;
            }
        }
        panic!("stuck: {:?} {:?}", self.t.view(0), self.t.offsets[&0].1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 96,
        failure_persistence: Some(Box::new(
            proptest::test_runner::FileFailurePersistence::WithSource("regressions")
        )),
        ..ProptestConfig::default()
    })]

    // The committed position never moves back nor passes a message that is not acknowledged; no
    // commit of a fenced epoch is stored; messages of an epoch are handed over in order and none
    // is left out; past the lease nothing is handed over, read or committed.
    #[test]
    fn whatever_happens_positions_are_sound_and_order_holds(steps in steps()) {
        let mut world = World::new();
        for step in &steps {
            world.does(step);
        }
    }

    // Every message is handed over at least once, whatever happened before.
    #[test]
    fn once_everything_works_again_every_message_is_done(steps in steps()) {
        let mut world = World::new();
        for step in &steps {
            world.does(step);
        }
        world.heals();
    }
}
