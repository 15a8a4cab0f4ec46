//! Handing over: what the ledgers let go, to the sessions that wait for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::clock;
use crate::group::ledger::{Ask, Budget, HandOver, Message};
use crate::group::member::Member;
use crate::group::{Epoch, Partition, Sequence, ServerTime, SessionId, Source, Timestamp};
use crate::metrics::WorkerMetrics;
use crate::nats::StreamMessage;

use super::delivered::Delivered;
use super::handle::CallError;
use super::readers::{Readers, Share};
use super::sessions::{Reader, Session, Sessions};

/// The most that one frame of a stream holds.
const FRAME_MESSAGES: u64 = 500;
const FRAME_BYTES: u64 = 1 << 20;

/// What is needed to make a message presentable.
#[derive(Debug)]
pub(super) struct Presenter {
    pub(super) source: Arc<Source>,
    pub(super) streams: Vec<Arc<str>>,
}

/// One round of handing over.
pub(super) struct Round<'a> {
    pub(super) member: &'a mut Member<StreamMessage>,
    pub(super) readers: &'a mut Readers,
    pub(super) presenter: &'a Presenter,
    pub(super) metrics: &'a WorkerMetrics,
    pub(super) share: Share,
    pub(super) held: Vec<(Partition, Epoch)>,
    pub(super) now: Timestamp,
    pub(super) wall: ServerTime,
}

/// What one session is given in one go.
struct Given {
    messages: Vec<Delivered>,
    again: u32,
}

impl Message for StreamMessage {
    fn sequence(&self) -> Sequence {
        self.sequence
    }
    fn stored(&self) -> ServerTime {
        self.timestamp
    }
    fn size(&self) -> u64 {
        self.size
    }
}

// === impl Round ===

impl Round<'_> {
    /// Gives every session what it waits for, as far as it goes.
    pub(super) fn run(&mut self, sessions: &mut Sessions) {
        sessions.in_turn(|id, session| match &session.reader {
            Reader::Fetches(_) => self.serve_fetches(id, session),
            Reader::Stream(_) => self.serve_stream(id, session),
        });
    }

    /// Serves fetches in turn, until one has to wait.
    fn serve_fetches(&mut self, id: &SessionId, session: &mut Session) {
        while let Some(result) = self.serve_front(id, session) {
            session.answer_front(self.now, result);
        }
    }

    /// What the first fetch is answered; none if it waits.
    fn serve_front(
        &mut self,
        id: &SessionId,
        session: &mut Session,
    ) -> Option<Result<(), CallError>> {
        let Reader::Fetches(waiting) = &mut session.reader else {
            return None;
        };
        let fetch = waiting.front_mut()?;
        if fetch.reply.is_closed() {
            return Some(Ok(()));
        }
        // What this fetch has got is not given again in it; what lies behind that is: the session
        // may have skipped it after a failure, and has to be shown it before anything newer.
        let mut reached = BTreeMap::new();
        for message in &fetch.got.messages {
            reached.insert(message.partition, message.sequence);
        }
        let ask = |partition| match reached.get(&partition) {
            Some(sequence) => Ask::After(*sequence),
            None => Ask::FromItsFirst,
        };
        let order = rotated(&self.held, session.cursor);
        let mut budget = fetch.budget;
        let wants = |partition| fetch.wants(partition);
        let given = self.give(id, &order, (&ask, &mut budget), wants);
        fetch.budget = budget;
        if let Some(last) = given.messages.last() {
            session.cursor = Partition(last.partition.0.wrapping_add(1));
        }
        let first = fetch.got.messages.is_empty() && !given.messages.is_empty();
        fetch.got.redelivered += given.again;
        fetch.got.messages.extend(given.messages);
        if first {
            fetch.has_begun(self.now);
        }
        let full = fetch.budget.messages == 0 || fetch.budget.bytes == 0;
        let began = !fetch.got.messages.is_empty();
        if self.member.is_leaving() && !began {
            return Some(Err(CallError::Draining)); // also to who would not wait at all
        }
        let over = fetch.until <= self.now
            || began && (full || !self.may_get_more(id, |p| fetch.wants(p)));
        over.then_some(Ok(()))
    }

    /// Whether waiting longer could bring this session anything before it acknowledges.
    fn may_get_more(&self, id: &SessionId, wants: impl Fn(Partition) -> bool) -> bool {
        self.held
            .iter()
            .any(|(partition, _)| wants(*partition) && self.member.could_take(id, *partition))
    }

    /// Pushes to a stream as far as its credit and its queue go.
    fn serve_stream(&mut self, id: &SessionId, session: &mut Session) {
        loop {
            let order = rotated(&self.held, session.cursor);
            let Reader::Stream(stream) = &mut session.reader else {
                return;
            };
            if !stream.is_ready() {
                return;
            }
            let mut budget = Budget::new(
                stream.credit.messages.min(FRAME_MESSAGES),
                stream.credit.bytes.min(FRAME_BYTES),
            );
            let new = |_| Ask::OnlyNew;
            let given = self.give(id, &order, (&new, &mut budget), |_| true);
            let Some(last) = given.messages.last() else {
                return;
            };
            session.cursor = Partition(last.partition.0.wrapping_add(1));
            stream.push(given.messages);
        }
    }

    fn give(
        &mut self,
        id: &SessionId,
        order: &[(Partition, Epoch)],
        (ask, budget): (&dyn Fn(Partition) -> Ask, &mut Budget),
        wants: impl Fn(Partition) -> bool,
    ) -> Given {
        let mut given = Given {
            messages: Vec::new(),
            again: 0,
        };
        for (partition, epoch) in order {
            if budget.messages == 0 || (budget.bytes == 0 && budget.given > 0) {
                break;
            }
            let ask = ask(*partition);
            if wants(*partition) && self.member.has_for(id, (*partition, ask), self.now) {
                self.give_of(id, (*partition, *epoch), (ask, budget), &mut given);
            }
        }
        self.count(&given);
        given
    }

    fn give_of(
        &mut self,
        id: &SessionId,
        (partition, epoch): (Partition, Epoch),
        (ask, budget): (Ask, &mut Budget),
        given: &mut Given,
    ) {
        let before = self.member.buffered((partition, epoch));
        let (presenter, now, wall) = (self.presenter, self.now, self.wall);
        self.member
            .hand_over(id, (partition, ask), budget, now, |epoch, message, how| {
                given.again += u32::from(how.again);
                let position = (partition, epoch);
                given
                    .messages
                    .push(presenter.present(position, message, how, (now, wall)));
            });
        let after = self.member.buffered((partition, epoch));
        if let (Some((messages, bytes)), Some((left, left_bytes))) = (before, after)
            && messages > left
        {
            let taken = (messages - left, bytes.saturating_sub(left_bytes));
            self.readers.taken(partition, taken.0, taken.1, self.share);
        }
    }

    fn count(&self, given: &Given) {
        let Some(last) = given.messages.last() else {
            return;
        };
        self.metrics
            .messages_delivered
            .inc_by(given.messages.len() as u64);
        let repeated = given.messages.iter().filter(|m| m.attempt > 1).count() as u64;
        self.metrics
            .redelivered
            .inc_by(repeated.max(given.again.into()));
        // One sample per batch: its last message.
        let age = self.wall.0.saturating_sub(last.timestamp.0).max(0);
        let age = std::time::Duration::from_nanos(u64::try_from(age).unwrap_or(0));
        self.metrics.end_to_end_seconds.observe(age.as_secs_f64());
    }
}

// === impl Presenter ===

impl Presenter {
    fn present(
        &self,
        (partition, epoch): (Partition, Epoch),
        message: &StreamMessage,
        how: HandOver,
        (now, wall): (Timestamp, ServerTime),
    ) -> Delivered {
        let stream = self.streams.get(partition.index());
        let time_left = how.ends.remaining(now);
        let nanos = i64::try_from(time_left.as_nanos()).unwrap_or(i64::MAX);
        Delivered {
            partition,
            epoch,
            sequence: message.sequence,
            stream: stream.map_or_else(|| "".into(), Arc::clone),
            subject: message.subject.clone(),
            source: Arc::clone(&self.source),
            payload: message.payload.clone(),
            headers: message.headers.to_vec().into(),
            timestamp: message.timestamp,
            attempt: how.attempt,
            time_left,
            deadline: ServerTime(wall.0.saturating_add(nanos)),
        }
    }
}

/// The wall clock, read once per round.
pub(super) fn wall_clock() -> ServerTime {
    clock::unix_now()
}

/// The partitions from this one on, then those before it.
fn rotated(held: &[(Partition, Epoch)], from: Partition) -> Vec<(Partition, Epoch)> {
    let start = held.partition_point(|(partition, _)| *partition < from);
    let (before, after) = held.split_at(start);
    [after, before].concat()
}
