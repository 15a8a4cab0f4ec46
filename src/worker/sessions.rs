//! The application's sessions: who reads, who waits, and who has gone.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::group::ledger::Budget;
use crate::group::{Meta, Partition, SessionId, Timestamp};

use super::command::Reply;
use super::delivered::Delivered;
use super::handle::{CallError, ConsumeFrame, Credit, FetchOptions, Fetched};

/// A session without a stream ends this long after its last request.
pub(super) const EXPIRY: Duration = Duration::from_secs(60);

/// Sessions at the same time; each may bind partitions, so more of them help nobody.
const SESSIONS: usize = 1024;

/// Fetches of one session that may wait for each other.
const FETCHES: usize = 64;

/// Frames that may wait for a stream's reader beside its channel; one that lets more pile up has
/// stopped reading.
const WAITING_FRAMES: usize = 8192;

/// The most that one fetch is given, whatever it asks for.
const MOST_MESSAGES: u32 = 10_000;
const MOST_BYTES: u64 = 64 << 20;

/// All sessions.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    all: BTreeMap<SessionId, Session>,
    next_stream: u64,
    /// Who was served first in the last round.
    last_first: SessionId,
}

/// One logical reader of the application.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) reader: Reader,
    last_request: Timestamp,
    kept: bool,
    /// The partition to be looked at first, so that none is starved.
    pub(super) cursor: Partition,
}

/// How a session reads.
#[derive(Debug)]
pub(super) enum Reader {
    /// By fetches, one after another.
    Fetches(VecDeque<Fetch>),
    /// By a stream.
    Stream(Stream),
}

/// A fetch that waits.
#[derive(Debug)]
pub(super) struct Fetch {
    pub(super) options: FetchOptions,
    pub(super) reply: Reply<Fetched>,
    pub(super) budget: Budget,
    pub(super) got: Fetched,
    batch_wait: Duration,
    /// When it is answered with what there is.
    pub(super) until: Timestamp,
}

/// An open stream.
#[derive(Debug)]
pub(super) struct Stream {
    number: u64,
    pub(super) credit: Credit,
    pub(super) frames: mpsc::Sender<ConsumeFrame>,
    /// Frames that did not fit into the channel, in order.
    waiting: VecDeque<ConsumeFrame>,
}

// === impl Sessions ===

impl Sessions {
    /// Whether the application is there.
    pub(super) fn is_connected(&self) -> bool {
        !self.all.is_empty()
    }

    /// Whether somebody reads a stream, waits for a fetch, or has messages in hand. A session that
    /// has made its last fetch looks like one that goes on for a minute.
    pub(super) fn is_any_in_use(&self, has_messages: impl Fn(&SessionId) -> bool) -> bool {
        let mut all = self.all.iter();
        all.any(|(id, session)| match &session.reader {
            Reader::Stream(_) => true,
            Reader::Fetches(waiting) => !waiting.is_empty() || has_messages(id),
        })
    }

    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.all.len()).unwrap_or(u32::MAX)
    }

    /// The session, made if need be; it has just made a request.
    pub(super) fn touch(
        &mut self,
        id: &SessionId,
        now: Timestamp,
    ) -> Result<&mut Session, CallError> {
        if !self.all.contains_key(id) && self.all.len() >= SESSIONS {
            let why = format!("{SESSIONS} sessions are open; close some, or use fewer names");
            return Err(CallError::Unavailable { why });
        }
        let session = self.all.entry(id.clone()).or_insert_with(|| Session {
            reader: Reader::Fetches(VecDeque::new()),
            last_request: now,
            kept: false,
            cursor: Partition(0),
        });
        session.last_request = now;
        Ok(session)
    }

    pub(super) fn keep(&mut self, id: &SessionId, now: Timestamp) -> Result<(), CallError> {
        self.touch(id, now).map(|session| session.kept = true)
    }

    /// Queues a fetch behind those of the same session.
    pub(super) fn fetch(
        &mut self,
        id: &SessionId,
        (options, reply): (FetchOptions, Reply<Fetched>),
        meta: &Meta,
        now: Timestamp,
    ) {
        let refused = match self.touch(id, now) {
            Err(error) => error,
            Ok(session) => match &mut session.reader {
                Reader::Stream(_) => conflict(id),
                Reader::Fetches(waiting) if waiting.len() >= FETCHES => CallError::Unavailable {
                    why: format!("{FETCHES} fetches of session {id:?} wait for each other"),
                },
                Reader::Fetches(waiting) => {
                    return waiting.push_back(Fetch::new(options, reply, meta, now));
                }
            },
        };
        answer(reply, Err(refused));
    }

    /// Makes a session a stream.
    pub(super) fn open_stream(
        &mut self,
        id: &SessionId,
        (credit, frames): (Credit, mpsc::Sender<ConsumeFrame>),
        now: Timestamp,
    ) -> Result<u64, CallError> {
        self.next_stream += 1;
        let number = self.next_stream;
        let session = self.touch(id, now)?;
        match &session.reader {
            Reader::Fetches(waiting) if waiting.is_empty() => {}
            Reader::Fetches(_) | Reader::Stream(_) => return Err(conflict(id)),
        }
        session.reader = Reader::Stream(Stream {
            number,
            credit,
            frames,
            waiting: VecDeque::new(),
        });
        Ok(number)
    }

    pub(super) fn stream_mut(&mut self, number: u64) -> Option<&mut Stream> {
        self.streams().find(|stream| stream.number == number)
    }

    pub(super) fn streams(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.all
            .values_mut()
            .filter_map(|session| match &mut session.reader {
                Reader::Stream(stream) => Some(stream),
                Reader::Fetches(_) => None,
            })
    }

    /// Serves every session, beginning each time with another one, so that none is starved.
    pub(super) fn in_turn(&mut self, mut serve: impl FnMut(&SessionId, &mut Session)) {
        let last = self.last_first.clone();
        let after = (Bound::Excluded(last.clone()), Bound::Unbounded);
        let mut first = None;
        for (id, session) in self.all.range_mut(after) {
            first.get_or_insert_with(|| id.clone());
            serve(id, session);
        }
        for (id, session) in self.all.range_mut(..=last) {
            first.get_or_insert_with(|| id.clone());
            serve(id, session);
        }
        self.last_first = first.unwrap_or_default();
    }

    /// Ends a session; whoever waits in it is told.
    pub(super) fn close(&mut self, id: &SessionId) {
        let Some(session) = self.all.remove(id) else {
            return;
        };
        if let Reader::Fetches(waiting) = session.reader {
            for fetch in waiting {
                answer(fetch.reply, Ok(fetch.got));
            }
        }
    }

    /// Turns away whoever waits for a fetch. What it has been given so far was of a membership that
    /// is over.
    pub(super) fn turn_away(&mut self, why: &str) {
        for session in self.all.values_mut() {
            if let Reader::Fetches(waiting) = &mut session.reader {
                for fetch in std::mem::take(waiting) {
                    let why = why.to_owned();
                    answer(fetch.reply, Err(CallError::Unavailable { why }));
                }
            }
        }
    }

    /// Sessions that have ended without a word: no request for too long, or a stream whose reader
    /// has gone or stopped reading.
    pub(super) fn lost(&self, now: Timestamp) -> Vec<SessionId> {
        self.all
            .iter()
            .filter(|(_, session)| session.is_lost(now))
            .map(|(id, _)| id.clone())
            .collect()
    }

    /// When to look again.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        self.all.values().filter_map(Session::deadline).min()
    }
}

// === impl Session ===

impl Session {
    fn is_lost(&self, now: Timestamp) -> bool {
        match &self.reader {
            Reader::Stream(stream) => {
                stream.frames.is_closed() || stream.waiting.len() > WAITING_FRAMES
            }
            Reader::Fetches(waiting) => {
                !self.kept && waiting.is_empty() && now.since(self.last_request) >= EXPIRY
            }
        }
    }

    fn deadline(&self) -> Option<Timestamp> {
        match &self.reader {
            Reader::Stream(_) => None,
            Reader::Fetches(waiting) => match waiting.front() {
                Some(fetch) => Some(fetch.until),
                None => (!self.kept).then(|| self.last_request.after(EXPIRY)),
            },
        }
    }

    /// Answers the fetch that has had its turn.
    pub(super) fn answer_front(&mut self, now: Timestamp, result: Result<(), CallError>) {
        self.last_request = now;
        if let Reader::Fetches(waiting) = &mut self.reader
            && let Some(fetch) = waiting.pop_front()
        {
            answer(fetch.reply, result.map(|()| fetch.got));
        }
    }
}

// === impl Fetch ===

impl Fetch {
    fn new(options: FetchOptions, reply: Reply<Fetched>, meta: &Meta, now: Timestamp) -> Self {
        let delivery = &meta.delivery;
        let messages = options
            .max_messages
            .unwrap_or(delivery.batch)
            .clamp(1, MOST_MESSAGES);
        let bytes = options.max_bytes.unwrap_or(MOST_BYTES).min(MOST_BYTES);
        Self {
            budget: Budget::new(messages.into(), bytes),
            got: Fetched::default(),
            batch_wait: options.batch_wait.unwrap_or(delivery.batch_wait),
            until: now.after(options.max_wait.unwrap_or(delivery.fetch_wait)),
            options,
            reply,
        }
    }

    /// It has got something: from the first message on it waits for more only so long.
    pub(super) fn has_begun(&mut self, now: Timestamp) {
        self.until = self.until.min(now.after(self.batch_wait));
    }

    /// Whether this partition is asked for.
    pub(super) fn wants(&self, partition: Partition) -> bool {
        self.options
            .partitions
            .as_ref()
            .is_none_or(|wanted| wanted.contains(&partition))
    }
}

// === impl Stream ===

impl Stream {
    /// Sends a frame, or keeps it until there is room.
    pub(super) fn tell(&mut self, frame: ConsumeFrame) {
        self.waiting.push_back(frame);
        self.flush();
    }

    /// Sends what waited; whether nothing waits any more.
    pub(super) fn flush(&mut self) -> bool {
        while let Some(frame) = self.waiting.pop_front() {
            match self.frames.try_send(frame) {
                Ok(()) => {}
                Err(mpsc::error::TrySendError::Full(frame)) => {
                    self.waiting.push_front(frame);
                    return false;
                }
                Err(mpsc::error::TrySendError::Closed(_)) => return false,
            }
        }
        true
    }

    /// Whether messages may be pushed now.
    pub(super) fn is_ready(&mut self) -> bool {
        self.credit.messages > 0
            && self.credit.bytes > 0
            && self.flush()
            && self.frames.capacity() > 0
    }

    /// Pushes messages and takes their credit.
    pub(super) fn push(&mut self, batch: Vec<Delivered>) {
        let bytes: u64 = batch.iter().map(Delivered::size).sum();
        self.credit.messages = self.credit.messages.saturating_sub(batch.len() as u64);
        self.credit.bytes = self.credit.bytes.saturating_sub(bytes);
        self.tell(ConsumeFrame::Batch(batch));
    }
}

/// Answers a caller, who may have gone.
pub(super) fn answer<T>(reply: Reply<T>, result: Result<T, CallError>) {
    if reply.send(result).is_err() {
        tracing::debug!("a caller went away before its answer");
    }
}

fn conflict(id: &SessionId) -> CallError {
    CallError::SessionConflict {
        session: id.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp(Duration::from_secs(seconds))
    }

    fn id(name: &str) -> SessionId {
        SessionId::new(name)
    }

    fn open(sessions: &mut Sessions, name: &str) -> mpsc::Receiver<ConsumeFrame> {
        let (frames, received) = mpsc::channel(2);
        let credit = Credit {
            messages: 10,
            bytes: 100,
        };
        let opened = sessions.open_stream(&id(name), (credit, frames), at(0));
        assert!(opened.is_ok());
        received
    }

    #[test]
    fn a_session_ends_a_minute_after_its_last_request_unless_it_is_kept() {
        let mut sessions = Sessions::default();
        sessions.touch(&id("a"), at(0)).unwrap();
        sessions.keep(&id("kept"), at(0)).unwrap();
        assert_eq!(sessions.lost(at(59)), []);
        sessions.touch(&id("a"), at(30)).unwrap();
        assert_eq!(
            (sessions.lost(at(89)), sessions.deadline()),
            (vec![], Some(at(90)))
        );
        assert_eq!(sessions.lost(at(90)), [id("a")]);
        sessions.close(&id("a"));
        assert!(sessions.is_connected(), "the other one is kept");
    }

    #[test]
    fn a_stream_ends_with_its_reader_and_not_before() {
        let mut sessions = Sessions::default();
        let received = open(&mut sessions, "s");
        assert_eq!(sessions.lost(at(10_000)), []);
        drop(received);
        assert_eq!(sessions.lost(at(10_000)), [id("s")]);
    }

    #[test]
    fn a_session_is_a_stream_or_fetches_and_never_both() {
        let mut sessions = Sessions::default();
        let _received = open(&mut sessions, "s");
        let (frames, _) = mpsc::channel(2);
        let again = sessions.open_stream(&id("s"), (Credit::default(), frames), at(1));
        assert!(matches!(again, Err(CallError::SessionConflict { .. })));
    }

    #[test]
    fn frames_that_do_not_fit_wait_in_order_and_hold_messages_back() {
        let mut sessions = Sessions::default();
        let mut received = open(&mut sessions, "s");
        let stream = sessions.streams().next().unwrap();
        for _ in 0..3 {
            stream.tell(ConsumeFrame::Suspended);
        }
        stream.tell(ConsumeFrame::Resumed);
        assert!(!stream.is_ready());
        for _ in 0..3 {
            assert!(matches!(received.try_recv(), Ok(ConsumeFrame::Suspended)));
            stream.flush();
        }
        assert!(matches!(received.try_recv(), Ok(ConsumeFrame::Resumed)));
        assert!(stream.is_ready());
        stream.credit.bytes = 0;
        assert!(!stream.is_ready(), "without credit nothing is pushed");
    }

    #[test]
    fn a_session_without_a_stream_is_in_use_while_it_waits_or_has_messages() {
        let mut sessions = Sessions::default();
        sessions.touch(&id("a"), at(0)).unwrap();
        assert!(!sessions.is_any_in_use(|_| false));
        assert!(sessions.is_any_in_use(|of| *of == id("a")));
        let _received = open(&mut sessions, "s");
        assert!(sessions.is_any_in_use(|_| false));
    }

    #[test]
    fn each_round_begins_with_another_session() {
        let mut sessions = Sessions::default();
        for name in ["a", "b", "c"] {
            sessions.touch(&id(name), at(0)).unwrap();
        }
        let mut rounds = Vec::new();
        for _ in 0..4 {
            let mut round = String::new();
            sessions.in_turn(|id, _| round.push_str(id.as_str()));
            rounds.push(round);
        }
        let begins: Vec<&str> = rounds.iter().map(|r| &r[..1]).collect();
        assert!(rounds.iter().all(|r| r.len() == 3), "{rounds:?}");
        assert!(
            begins.windows(2).all(|pair| pair[0] != pair[1]),
            "{rounds:?}"
        );
        assert_eq!(begins[0], begins[3]);
    }

    #[test]
    fn sessions_are_bounded() {
        let mut sessions = Sessions::default();
        for n in 0..SESSIONS {
            sessions.touch(&id(&n.to_string()), at(0)).unwrap();
        }
        let refused = sessions.touch(&id("one more"), at(0));
        assert!(matches!(refused, Err(CallError::Unavailable { .. })));
        assert!(sessions.touch(&id("7"), at(0)).is_ok());
    }
}
