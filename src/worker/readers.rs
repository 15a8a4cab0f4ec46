//! One reader per held partition: opened when the member says so, fed with credit by what the
//! application takes, and closed with its consumer.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::group::member::Finding;
use crate::group::validity::{Believed, Validity};
use crate::group::{
    BucketId, Epoch, GroupRef, Incarnation, Mark, Meta, OffsetRecord, Partition, PartitionSource,
    Sequence, Source, StopReason, Timestamp,
};
use crate::nats::{
    Connection, ConsumerName, Credit, GateClosed, PartitionReader, ReadEvent, ReadPlan,
    Stopped as ReaderStopped, StreamError, StreamFacts, streams, validity,
};
use crate::tasks::Tasks;

use super::inbox::{FromReader, Inbox, Incoming};

/// No partition has less, however many there are.
const LEAST_BYTES: u64 = 16 * 1024;

/// Until when this member may read, as the gates of its readers see it.
#[derive(Clone, Debug, Default)]
pub(super) struct LeaseGauge(Arc<AtomicU64>);

/// Everything that readers of one life of the member share.
#[derive(Debug)]
pub(super) struct Readers {
    connection: Connection,
    tasks: Tasks,
    inbox: Inbox,
    lease: LeaseGauge,
    group: GroupRef,
    bucket: String,
    open: BTreeMap<Partition, Open>,
    /// Readers that wait for a look at their stream.
    looking: BTreeMap<Partition, Epoch>,
}

/// One reader that is open.
#[derive(Debug)]
struct Open {
    epoch: Epoch,
    credit: Credit,
    /// What it may have in the buffer and on its way.
    window: Share,
    stop: CancellationToken,
}

/// A partition's share of the member's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    messages: u64,
    bytes: u64,
}

/// What a reader is opened for.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) partition: Partition,
    pub(super) epoch: Epoch,
    pub(super) from: Sequence,
    pub(super) record: Box<OffsetRecord>,
    pub(super) last: Option<Mark>,
}

// === impl LeaseGauge ===

impl LeaseGauge {
    pub(super) fn set(&self, until: Option<Timestamp>) {
        let nanos = until.map_or(0, |at| u64::try_from(at.0.as_nanos()).unwrap_or(u64::MAX));
        self.0.store(nanos, Ordering::Relaxed);
    }

    fn stands(&self) -> bool {
        let until = Timestamp(Duration::from_nanos(self.0.load(Ordering::Relaxed)));
        clock::now() < until
    }
}

// === impl Share ===

impl Share {
    /// A fair share of what the group's settings let one member buffer.
    pub(super) fn of(meta: &Meta, held: usize) -> Self {
        let held = u64::try_from(held.max(1)).unwrap_or(u64::MAX);
        Self {
            messages: (u64::from(meta.delivery.buffer_messages) / held).max(1),
            bytes: (meta.delivery.buffer_bytes / held).max(LEAST_BYTES),
        }
    }
}

// === impl Readers ===

impl Readers {
    pub(super) fn new(
        connection: Connection,
        tasks: Tasks,
        inbox: Inbox,
        lease: LeaseGauge,
        (group, bucket): (GroupRef, String),
    ) -> Self {
        Self {
            bucket,
            connection,
            tasks,
            inbox,
            lease,
            group,
            open: BTreeMap::new(),
            looking: BTreeMap::new(),
        }
    }

    /// Opens a reader, in place of a former one. Where the stream might hold nothing but this
    /// partition it is looked at first: without a filter it is read about twice as fast. P5
    pub(super) fn order(&mut self, order: Order, who: (&Incarnation, &Meta), held: usize) {
        let meta = who.1;
        let Some(source) = meta.source.of(order.partition) else {
            tracing::error!(partition = %order.partition, "the source has no such partition");
            return;
        };
        match source.filter.clone() {
            Some(filter) if may_be_alone(&meta.source) => {
                self.looking.insert(order.partition, order.epoch);
                let (connection, inbox) = (self.connection.clone(), self.inbox.clone());
                self.tasks.spawn("look", |_| async move {
                    let facts = streams::info(&connection, &source.stream).await;
                    let alone = facts
                        .is_ok_and(|f| f.transform.is_none() && f.subjects == [filter.as_str()]);
                    let source = PartitionSource {
                        filter: (!alone).then_some(filter),
                        ..source
                    };
                    inbox.say(Incoming::Looked(Box::new(order), source)).await;
                });
            }
            Some(_) | None => self.open(order, source, who, held),
        }
    }

    /// The look at the stream has ended; the reader is opened if it is wanted still.
    pub(super) fn looked(
        &mut self,
        (order, source): (Order, PartitionSource),
        who: (&Incarnation, &Meta),
        held: usize,
    ) {
        if self.looking.get(&order.partition) == Some(&order.epoch) {
            self.looking.remove(&order.partition);
            self.open(order, source, who, held);
        }
    }

    fn open(
        &mut self,
        order: Order,
        source: PartitionSource,
        (me, meta): (&Incarnation, &Meta),
        held: usize,
    ) {
        let (partition, epoch) = (order.partition, order.epoch);
        let window = Share::of(meta, held);
        let plan = self.plan(&order, &source, (me, meta), window);
        let stop = CancellationToken::new();
        let finding = Arc::new(Mutex::new(None));
        let gate = Gate {
            connection: self.connection.clone(),
            stream: source.stream,
            from: order.from,
            record: order.record,
            last: order.last,
            lease: self.lease.clone(),
            stop: stop.clone(),
            finding: Arc::clone(&finding),
        };
        let gate = Arc::new(gate);
        let reader = PartitionReader::open(&self.connection, plan, move |delivered| {
            let gate = Arc::clone(&gate);
            async move { gate.look(delivered).await }
        });
        let open = Open {
            epoch,
            credit: reader.credit(),
            window,
            stop: stop.clone(),
        };
        if let Some(former) = self.open.insert(partition, open) {
            former.stop.cancel();
        }
        let inbox = self.inbox.clone();
        self.tasks.spawn("reader", |stopping| async move {
            let forwarder = Forwarder {
                partition,
                epoch,
                from: order.from,
                inbox,
                finding,
            };
            tokio::select! {
                () = stop.cancelled() => {}
                () = stopping.cancelled() => {}
                () = forwarder.run(reader) => {}
            }
        });
    }

    fn plan(
        &self,
        order: &Order,
        source: &PartitionSource,
        (me, meta): (&Incarnation, &Meta),
        window: Share,
    ) -> ReadPlan {
        let metadata = [
            ("lockstep.group", self.group.to_string()),
            ("lockstep.partition", order.partition.to_string()),
            ("lockstep.epoch", order.epoch.to_string()),
        ];
        ReadPlan {
            stream: source.stream.clone(),
            filter: source.filter.clone(),
            from: order.from,
            name: self.name(order, me, &meta.bucket),
            window_messages: u32::try_from(window.messages).unwrap_or(u32::MAX),
            window_bytes: window.bytes,
            metadata: metadata
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
        }
    }

    fn name(&self, order: &Order, me: &Incarnation, bucket: &BucketId) -> ConsumerName {
        ConsumerName {
            bucket: self.bucket.clone(),
            bucket_id: bucket.clone(),
            partition: order.partition,
            epoch: order.epoch,
            incarnation: me.clone(),
        }
    }

    /// Stops a reader; its consumer is deleted.
    pub(super) fn close(&mut self, partition: Partition, epoch: Epoch) {
        if self.looking.get(&partition) == Some(&epoch) {
            self.looking.remove(&partition);
        }
        if self.open.get(&partition).is_some_and(|o| o.epoch == epoch)
            && let Some(open) = self.open.remove(&partition)
        {
            open.stop.cancel();
        }
    }

    /// The reader has ended by itself.
    pub(super) fn ended(&mut self, partition: Partition, epoch: Epoch) {
        self.close(partition, epoch);
    }

    pub(super) fn close_all(&mut self) {
        self.looking.clear();
        for (_, open) in std::mem::take(&mut self.open) {
            open.stop.cancel();
        }
    }

    /// The application has taken this much out of the partition's buffer: more may be read, as far
    /// as the share allows.
    pub(super) fn taken(&mut self, partition: Partition, messages: u64, bytes: u64, share: Share) {
        let Some(open) = self.open.get_mut(&partition) else {
            return;
        };
        let target = share;
        // What is above a share that has become smaller is not given back; a larger one is filled.
        let excess = open
            .window
            .messages
            .saturating_sub(target.messages)
            .min(messages);
        let excess_bytes = open.window.bytes.saturating_sub(target.bytes).min(bytes);
        let growth = target.messages.saturating_sub(open.window.messages);
        let growth_bytes = target.bytes.saturating_sub(open.window.bytes);
        open.window.messages = open.window.messages - excess + growth;
        open.window.bytes = open.window.bytes - excess_bytes + growth_bytes;
        open.credit.grant(
            messages - excess + growth,
            bytes - excess_bytes + growth_bytes,
        );
    }
}

/// Whether a stream of this source may hold a single partition.
fn may_be_alone(source: &Source) -> bool {
    match source {
        Source::Stream { partitions, .. } => *partitions == 1,
        Source::Streams { .. } => false,
        Source::List(_) => true,
    }
}

/// Passes on what one reader says.
struct Forwarder {
    partition: Partition,
    epoch: Epoch,
    from: Sequence,
    inbox: Inbox,
    finding: Arc<Mutex<Option<Finding>>>,
}

// === impl Forwarder ===

impl Forwarder {
    async fn run(self, mut reader: PartitionReader) {
        let (partition, epoch) = (self.partition, self.epoch);
        while let Some(event) = reader.next().await {
            let news = match event {
                ReadEvent::Messages(batch) => FromReader::Messages(partition, epoch, batch),
                ReadEvent::Pending(pending) => FromReader::Pending(partition, epoch, pending),
                ReadEvent::Idle { scanned_to } => FromReader::Idle(partition, epoch, scanned_to),
                ReadEvent::Restarted { why } => {
                    tracing::debug!(%partition, %epoch, %why, "another consumer is made");
                    continue;
                }
                ReadEvent::Waiting { why } => {
                    tracing::warn!(%partition, %epoch, why, "the partition cannot be read yet");
                    continue;
                }
                ReadEvent::Stopped { why } => return self.ended(why).await,
            };
            if self.inbox.batches.send(news).await.is_err() {
                return;
            }
        }
    }

    async fn ended(&self, why: ReaderStopped) {
        let (partition, epoch) = (self.partition, self.epoch);
        let finding = self
            .finding
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let said = match (why, finding) {
            (ReaderStopped::Gate(GateClosed::Invalid(_)), Some(finding)) => {
                Incoming::Invalid(partition, epoch, Box::new(finding))
            }
            (ReaderStopped::Gate(_), _) => Incoming::ReaderEnded(partition, epoch, None),
            (ReaderStopped::Wrong(text), _) => {
                tracing::error!(%partition, %epoch, text, "the partition cannot be read");
                Incoming::ReaderEnded(partition, epoch, Some((self.from, text)))
            }
        };
        self.inbox.say(said).await;
    }
}

/// Asked after every creation of a consumer, before its first delivery.
struct Gate {
    connection: Connection,
    stream: String,
    from: Sequence,
    record: Box<OffsetRecord>,
    last: Option<Mark>,
    lease: LeaseGauge,
    stop: CancellationToken,
    finding: Arc<Mutex<Option<Finding>>>,
}

// === impl Gate ===

impl Gate {
    async fn look(&self, delivered: Option<Mark>) -> Result<(), GateClosed> {
        if self.stop.is_cancelled() || !self.lease.stands() {
            return Err(GateClosed::NotOurs); // P91
        }
        let believed = Believed {
            next: self.from,
            ..Believed::of(&self.record, delivered.or(self.last))
        };
        let (found, facts) = validity(&self.connection, &self.stream, &believed)
            .await
            .map_err(|error| GateClosed::Unknown(error.to_string()))?;
        let reason = match found {
            Validity::Valid => return Ok(()),
            Validity::Uncheckable => {
                tracing::debug!(stream = self.stream, "the position cannot be checked");
                return Ok(());
            }
            Validity::Overtaken { .. } => StopReason::MessagesLost,
            Validity::Truncated => StopReason::StreamTruncated,
            Validity::Recreated => StopReason::StreamRecreated,
        };
        let finding = self
            .finding(reason, believed.wanted(), &facts)
            .await
            .map_err(|error| GateClosed::Unknown(error.to_string()))?;
        *self.finding.lock().unwrap_or_else(PoisonError::into_inner) = Some(finding);
        Err(GateClosed::Invalid(found))
    }

    async fn finding(
        &self,
        reason: StopReason,
        position: Sequence,
        facts: &StreamFacts,
    ) -> Result<Finding, StreamError> {
        let last = streams::message_at(&self.connection, &self.stream, facts.last).await?;
        let (stream, first, end) = (&self.stream, facts.first, facts.last);
        let detail = match reason {
            StopReason::MessagesLost => format!(
                "stream {stream} begins at {first}; messages {position} to {} were removed by \
                 retention before they were read",
                first.0.saturating_sub(1)
            ),
            StopReason::StreamTruncated => format!(
                "stream {stream} holds {first} to {end}, not what was read up to {position}: it \
                 lost its end or was restored"
            ),
            StopReason::StreamRecreated => {
                format!("stream {stream} was deleted and made anew; position {position} is void")
            }
            StopReason::MessageStuck => String::new(),
        };
        Ok(Finding {
            reason,
            first: facts.first,
            last: facts.last,
            created: facts.created,
            position,
            last_mark: last.map(|m| Mark {
                seq: m.sequence,
                ts: m.timestamp,
            }),
            detail,
        })
    }
}
