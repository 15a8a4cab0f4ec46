//! The task behind a reader: create, ask the gate, deliver; and again, after what was delivered.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{Delivered, GateClosed, ReadEvent, ReadPlan, Stopped};
use crate::backoff::Backoff;
use crate::chance;
use crate::group::{Mark, Sequence};
use crate::nats::connect::Connection;
use crate::nats::feed::{
    Broken, Consumer, ConsumerInfo, CreateError, Fed, Feed, Start, StreamMessage, Window, delete,
};

/// How often the server is asked what it has left, while nothing else says so.
const PROBE: Duration = Duration::from_secs(10);

pub(super) struct Run {
    connection: Connection,
    plan: ReadPlan,
    window: Arc<Window>,
    events: mpsc::Sender<ReadEvent>,
    delivered: Delivered,
    /// What the consumer still had after what was delivered.
    pending: u64,
    attempt: u64,
    backoff: Backoff,
    /// What may be on the server, to be deleted.
    consumer: Option<Consumer>,
}

/// How following a consumer ended.
enum Ended {
    /// Another one has to be made.
    Again(Broken),
    /// There was none, or it was not to be used yet; with the reason.
    Wait(String),
    /// Nothing more is to be read.
    For(Stopped),
    /// The owner does not listen any more.
    Unheard,
}

/// What is asked before messages are delivered, with the last one that was.
pub(super) trait Gate {
    fn ask(&self, delivered: Delivered) -> impl Future<Output = Result<(), GateClosed>> + Send;
}

impl<G, F> Gate for G
where
    G: Fn(Delivered) -> F,
    F: Future<Output = Result<(), GateClosed>> + Send,
{
    fn ask(&self, delivered: Delivered) -> impl Future<Output = Result<(), GateClosed>> + Send {
        self(delivered)
    }
}

// === impl Run ===

impl Run {
    pub(super) fn new(
        connection: Connection,
        plan: ReadPlan,
        window: Arc<Window>,
        events: mpsc::Sender<ReadEvent>,
    ) -> Self {
        Self {
            connection,
            plan,
            window,
            events,
            delivered: None,
            pending: 0,
            attempt: 0,
            backoff: Backoff::doubling(Duration::from_millis(50), Duration::from_secs(5)),
            consumer: None,
        }
    }

    /// Reads until told to stop, and leaves nothing behind.
    pub(super) async fn until(mut self, stop: impl Future<Output = ()>, gate: impl Gate) {
        tokio::select! {
            () = self.read(gate) => {}
            () = stop => {}
        }
        if let Some(consumer) = self.consumer.take() {
            delete(&self.connection, &consumer).await;
        }
    }

    async fn read(&mut self, gate: impl Gate) {
        loop {
            let event = match self.follow(&gate).await {
                Ended::Again(why) => ReadEvent::Restarted { why },
                Ended::Wait(why) => ReadEvent::Waiting { why },
                Ended::For(why) => {
                    self.tell(ReadEvent::Stopped { why }).await;
                    return;
                }
                Ended::Unheard => return,
            };
            self.forget();
            if self.tell(event).await.is_none() {
                return;
            }
            tokio::time::sleep(self.backoff.next(chance::fraction())).await;
        }
    }

    /// Makes a consumer, asks the gate, and delivers as long as the consumer can be trusted.
    async fn follow(&mut self, gate: &impl Gate) -> Ended {
        // What is sent into an outage arrives after it, as consumers that nobody wants.
        self.connection.up().await;
        let (consumer, info) = match self.create().await {
            Ok(made) => made,
            Err(why) => return Ended::Wait(why),
        };
        if let Err(ended) = self.ask(gate).await {
            return ended;
        }
        let after = self.from().before().unwrap_or(Sequence(0));
        let feed = match Feed::listen(&self.connection, &consumer, after).await {
            Ok(feed) => feed,
            Err(why) => return Ended::Wait(why),
        };
        self.pending = info.num_pending;
        let pending = ReadEvent::Pending(info.num_pending);
        if self.tell(pending).await.is_none() {
            return Ended::Unheard;
        }
        match self.deliver(feed, &consumer, gate).await {
            Ok(()) => Ended::Unheard,
            Err(ended) => ended,
        }
    }

    /// Whether what comes next may be delivered.
    async fn ask(&self, gate: &impl Gate) -> Result<(), Ended> {
        match gate.ask(self.delivered).await {
            Ok(()) => Ok(()),
            Err(GateClosed::Unknown(why)) => Err(Ended::Wait(why)),
            Err(closed @ (GateClosed::NotOurs | GateClosed::Invalid(_))) => {
                Err(Ended::For(Stopped::Gate(closed)))
            }
        }
    }

    async fn deliver(
        &mut self,
        mut feed: Feed,
        consumer: &Consumer,
        gate: &impl Gate,
    ) -> Result<(), Ended> {
        let mut probe_at = Instant::now() + PROBE;
        loop {
            let came = tokio::select! {
                came = feed.next(&self.window) => came,
                () = tokio::time::sleep_until(probe_at) => {
                    probe_at = Instant::now() + PROBE;
                    if self.probe(consumer).await.is_none() {
                        return Ok(());
                    }
                    continue;
                }
            };
            if feed.is_proved() {
                self.backoff.reset();
            }
            let heard = match came {
                Fed::Messages(messages) => self.hand_over(messages, gate).await?,
                Fed::Idle(scanned_to) => self.tell(ReadEvent::Idle { scanned_to }).await,
                Fed::Broken(broken) => return Err(Ended::Again(broken)),
                Fed::Wrong(text) => return Err(Ended::For(Stopped::Wrong(text))),
            };
            probe_at = Instant::now() + PROBE;
            if heard.is_none() {
                return Ok(());
            }
            feed.listened_elsewhere();
        }
    }

    /// Hands messages over. Where some that were still to come are gone and have not come, the
    /// gate is asked again: retention, or somebody's hand, may have overtaken us. P110
    async fn hand_over(
        &mut self,
        mut messages: Vec<StreamMessage>,
        gate: &impl Gate,
    ) -> Result<Option<()>, Ended> {
        while let Some(hole) = self.first_hole(&messages) {
            let behind = messages.split_off(hole);
            if self.pass_on(messages).await.is_none() {
                return Ok(None);
            }
            self.ask(gate).await?;
            // Gone from the middle: that is nobody's loss but theirs who removed it.
            self.pending = behind.first().map_or(0, |message| message.pending + 1);
            messages = behind;
        }
        Ok(self.pass_on(messages).await)
    }

    /// The index of the first message before which the consumer lost some: it has less to come
    /// than there was after the message before.
    fn first_hole(&self, messages: &[StreamMessage]) -> Option<usize> {
        let mut before = self.pending;
        messages.iter().position(|message| {
            let hole = message.pending + 1 < before;
            before = message.pending;
            hole
        })
    }

    async fn pass_on(&mut self, messages: Vec<StreamMessage>) -> Option<()> {
        if messages.is_empty() {
            return Some(());
        }
        self.note(&messages);
        self.tell(ReadEvent::Messages(messages)).await
    }

    /// The position is taken before the messages are handed over: what is on its way to the owner
    /// is delivered, and never delivered again.
    fn note(&mut self, messages: &[StreamMessage]) {
        if let Some(last) = messages.last() {
            self.pending = last.pending;
            self.delivered = Some(Mark {
                seq: last.sequence,
                ts: last.timestamp,
            });
        }
    }

    /// The first sequence that is still wanted.
    fn from(&self) -> Sequence {
        match self.delivered {
            Some(mark) => mark.seq.next(),
            None => self.plan.from.max(Sequence::FIRST),
        }
    }

    async fn create(&mut self) -> Result<(Consumer, ConsumerInfo), String> {
        loop {
            self.attempt += 1;
            let consumer = Consumer {
                stream: self.plan.stream.clone(),
                name: self.plan.name.attempt(self.attempt),
                filters: self.plan.filter.iter().cloned().collect(),
                start: Start::At(self.from()),
                metadata: self.plan.metadata.clone(),
            };
            let made = consumer.create(self.connection.jetstream()).await;
            match made {
                Ok(info) => {
                    self.consumer = Some(consumer.clone());
                    return Ok((consumer, info));
                }
                // An answer of an earlier request that we did not live to see, or another's.
                Err(CreateError::NameTaken) => {}
                Err(error @ (CreateError::NoStream(_) | CreateError::Api(_))) => {
                    // Whether it was made is not known: then it is to be deleted.
                    self.consumer = Some(consumer);
                    return Err(error.to_string());
                }
            }
        }
    }

    async fn probe(&self, consumer: &Consumer) -> Option<()> {
        match consumer.info(self.connection.jetstream()).await {
            Ok(info) => self.tell(ReadEvent::Pending(info.num_pending)).await,
            // A consumer that is gone shows itself at the next pull.
            Err(_) => Some(()),
        }
    }

    /// Deletes what the last attempt may have left, without waiting for it.
    fn forget(&mut self) {
        let Some(consumer) = self.consumer.take() else {
            return;
        };
        let connection = self.connection.clone();
        self.connection
            .tasks()
            .spawn("reader's leftover", |_| async move {
                delete(&connection, &consumer).await;
            });
    }

    async fn tell(&self, event: ReadEvent) -> Option<()> {
        self.events.send(event).await.ok()
    }
}
