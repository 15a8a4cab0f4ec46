//! A member: the core's [`Member`], and what its driver and its application do around it.

use std::collections::BTreeSet;
use std::time::Duration;

use lockstep::group::ledger::{Ask, Budget};
use lockstep::group::member::{Accepted, AckKind, Effect, Event, Found, Identity, Member, Written};
use lockstep::group::{
    Beat, Epoch, HoldState, Incarnation, MemberDocument, MemberId, Meta, OffsetRecord, Partition,
    Revision, Sequence, SessionId, Timestamp,
};

use crate::application::{InHand, Msg};
use crate::bucket::{Bucket, Key, Watch, Write};
use crate::settings::{META_REVISION, SHORT};

/// Steps of a member in which nothing but its own deadlines come: more would be a spinning driver.
const TURNS: u32 = 100;

/// Where a member's process is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// Not started.
    Unborn,
    /// Runs.
    Runs,
    /// Was asked to end, and gives back what it has.
    Leaves,
    /// Ended, one way or the other.
    Over,
}

/// A request to the bucket on its way.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Request {
    pub(crate) partition: Partition,
    pub(crate) epoch: Epoch,
    /// None: a read.
    pub(crate) write: Option<Write>,
}

/// What a member's step asks of its surroundings.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// Heartbeats, in order.
    pub(crate) heartbeats: Vec<MemberDocument>,
    /// It takes its bucket for another one, or never stops.
    pub(crate) confused: bool,
}

/// One member.
#[derive(Clone, Debug)]
pub(crate) struct Worker {
    pub(crate) life: Life,
    pub(crate) member: Member<Msg>,
    /// Its clock: that of all, and its short waits.
    pub(crate) now: Timestamp,
    pub(crate) watch: Watch,
    pub(crate) requests: Vec<Request>,
    pub(crate) in_hand: Vec<InHand>,
    messages: u64,
}

// === impl Worker ===

impl Worker {
    /// A member that has not started.
    pub(crate) fn unborn(me: Incarnation, messages: u64, now: Timestamp) -> Self {
        let identity = Identity {
            id: MemberId::new(me.as_str()),
            incarnation: me,
            zone: None,
            pod: None,
            version: String::new(),
        };
        Self {
            life: Life::Unborn,
            member: Member::new(identity, now),
            now,
            watch: Watch::default(),
            requests: Vec::new(),
            in_hand: Vec::new(),
            messages,
        }
    }

    /// The process starts: it sees `meta`, and its application is there.
    pub(crate) fn start(&mut self, meta: &Meta) -> Said {
        self.life = Life::Runs;
        self.watch.note(Key::Group);
        let (revision, meta) = (META_REVISION, Box::new(meta.clone()));
        self.happens([
            Event::Application { connected: true },
            Event::Meta { revision, meta },
        ])
    }

    pub(crate) fn runs(&self) -> bool {
        matches!(self.life, Life::Runs | Life::Leaves)
    }

    pub(crate) fn incarnation(&self) -> &Incarnation {
        &self.member.identity().incarnation
    }

    /// The clock goes on.
    pub(crate) fn time_is(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
    }

    /// Events, and everything that is due then and soon after.
    pub(crate) fn happens(&mut self, events: impl IntoIterator<Item = Event<Msg>>) -> Said {
        let mut said = Said::default();
        for event in events {
            self.step(event, &mut said);
        }
        for _ in 0..TURNS {
            let soon = self.now.after(SHORT);
            let Some(at) = self.member.deadline().filter(|at| *at < soon) else {
                return said;
            };
            self.now = self.now.max(at);
            self.step(Event::Deadline, &mut said);
        }
        said.confused = true;
        said
    }

    fn step(&mut self, event: Event<Msg>, said: &mut Said) {
        for effect in self.member.step(event, self.now) {
            self.perform(effect, said);
        }
    }

    fn perform(&mut self, effect: Effect, said: &mut Said) {
        match effect {
            Effect::Heartbeat(document) => said.heartbeats.push(*document),
            Effect::ReadOffset { partition, epoch } => self.requests.push(Request {
                partition,
                epoch,
                write: None,
            }),
            Effect::WriteOffset {
                partition,
                epoch,
                record,
                expected,
            } => self.requests.push(Request {
                partition,
                epoch,
                write: Some(Write::Offset(partition, record, expected)),
            }),
            Effect::Open {
                partition,
                epoch,
                from,
                ..
            } => {
                let batch = (from.0..=self.messages).map(|s| Msg(Sequence(s))).collect();
                let read = Event::Read {
                    partition,
                    epoch,
                    batch,
                };
                self.step(read, said);
            }
            Effect::Close { .. } | Effect::Tell(_) => {}
            Effect::Reincarnate => said.confused = true,
            Effect::Over => self.life = Life::Over,
        }
    }

    /// The watch delivers its next value.
    pub(crate) fn see_next(&mut self, bucket: &Bucket, me: usize, deaf: bool) -> Said {
        match self.watch.next() {
            Some(Key::Group) if deaf => Said::default(),
            Some(Key::Group) => {
                let Some((revision, document)) = bucket.group.as_deref() else {
                    return Said::default();
                };
                self.happens([Event::Group {
                    revision: *revision,
                    document: Box::new(document.clone()),
                }])
            }
            Some(Key::Member(_)) => {
                let own = bucket.members.get(me).and_then(Option::as_ref);
                let Some(beat) = own.map(|document| document.beat) else {
                    return Said::default();
                };
                let revision = revision_of(beat);
                self.happens([Event::Echo { revision, beat }])
            }
            Some(Key::Candidate(_)) | None => Said::default(),
        }
    }

    /// The heartbeat is acknowledged.
    pub(crate) fn stored(&mut self, beat: Beat) -> Said {
        let revision = revision_of(beat);
        self.happens([Event::PutStored { beat, revision }])
    }

    /// A request is answered.
    pub(crate) fn answered(&mut self, request: &Request, answer: Answer) -> Said {
        let (partition, epoch) = (request.partition, request.epoch);
        let event = match answer {
            Answer::Found(found) => Event::Offset {
                partition,
                epoch,
                found,
            },
            Answer::Written(outcome) => Event::Written {
                partition,
                epoch,
                outcome,
            },
        };
        self.happens([event])
    }

    /// Partitions of which the application would be given a message.
    pub(crate) fn feeds(&self) -> Vec<Partition> {
        let held = self.member.held().map(|(partition, _)| partition);
        let ask = |partition| (partition, Ask::OnlyNew);
        held.filter(|p| {
            self.member
                .has_for(&SessionId::default(), ask(*p), self.now)
        })
        .collect()
    }

    /// The application takes one message.
    pub(crate) fn take(&mut self, partition: Partition) -> Said {
        let mut budget = Budget::new(1, u64::MAX);
        let session = SessionId::default();
        let in_hand = &mut self.in_hand;
        self.member.hand_over(
            &session,
            (partition, Ask::OnlyNew),
            &mut budget,
            self.now,
            |epoch, message, _| {
                in_hand.push(InHand {
                    partition,
                    epoch,
                    sequence: message.0,
                });
            },
        );
        self.happens([Event::Deadline])
    }

    /// The application is done with a message; answers whether its member heard of it.
    pub(crate) fn acknowledge(&mut self, which: usize) -> (Option<InHand>, Said) {
        let done = self.in_hand.remove(which);
        let position = (done.partition, done.epoch, done.sequence);
        let session = SessionId::default();
        let accepted = self.member.ack(&session, position, AckKind::UpTo, self.now);
        self.member.hurry(done.partition, self.now);
        let heard = match accepted {
            Accepted::Yes { .. } => Some(done),
            Accepted::NotOwned => None,
        };
        (heard, self.happens([Event::Deadline]))
    }

    /// The process is asked to end.
    pub(crate) fn drain(&mut self) -> Said {
        self.life = Life::Leaves;
        let timeout = Duration::from_secs(60);
        self.happens([Event::Drain { timeout }])
    }

    /// The process is no more; what it had on its way goes its way.
    pub(crate) fn crash(&mut self, bucket: &mut Bucket) {
        self.life = Life::Over;
        self.watch.clear();
        self.in_hand.clear();
        for request in std::mem::take(&mut self.requests) {
            if let Some(write) = request.write {
                bucket.give_up(write);
            }
        }
    }

    /// Partitions that it feeds under a valid lease.
    pub(crate) fn feeding(&self) -> BTreeSet<Partition> {
        if !self.runs() || !self.member.has_lease(self.now) {
            return BTreeSet::new();
        }
        let views = self.member.views().into_iter();
        views
            .filter(|v| matches!(v.state, HoldState::Feeding | HoldState::Revoking))
            .map(|v| v.partition)
            .collect()
    }
}

/// How a request ends.
pub(crate) enum Answer {
    /// A read.
    Found(Found),
    /// A write.
    Written(Written),
}

impl Answer {
    /// What stands at a commit record.
    pub(crate) fn of_read(entry: Option<&(Revision, OffsetRecord)>) -> Self {
        Self::Found(entry.map_or(Found::Absent, |(revision, record)| {
            Found::Record(*revision, Box::new(record.clone()))
        }))
    }

    /// The end of a request that nobody answers.
    pub(crate) fn none_to(request: &Request) -> Self {
        let why = "no answer in time".to_owned();
        match request.write {
            Some(_) => Self::Written(Written::Unknown(why)),
            None => Self::Found(Found::Unanswered(why)),
        }
    }
}

/// Revisions of heartbeats lie above those of the group document, which a member sees as well: they
/// rise for each member, which is all that it looks at. // P33
fn revision_of(beat: Beat) -> Revision {
    Revision(1_000_000 + beat.0)
}
