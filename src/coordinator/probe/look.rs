//! One look at a group's streams.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::{StreamExt, stream};

use super::{Findings, Question, SourceLag};
use crate::clock;
use crate::coordinator::start::{self, Record};
use crate::group::lag::{Evidence, Lag, Reported};
use crate::group::oldest::{Answer, Search, Step};
use crate::group::{
    Epoch, Meta, OffsetRecord, Partition, PartitionSource, Sequence, ServerTime, Timestamp,
};
use crate::nats::streams::{self, MessageFacts, StreamError};
use crate::nats::{Bucket, Connection, StreamFacts};

/// Questions to the server that are open at a time.
const AT_ONCE: usize = 8;

/// Messages that are read in one look to find the oldest. What is not found then is found by the
/// next looks, which know what these have read.
const READS: usize = 32;

/// How long a commit record that was read is taken for what it is, unless the partition is granted:
/// all that can happen to it is a former owner's last commit that was late.
const REMEMBERED: Duration = Duration::from_secs(60);

/// Looks, and what they remember so that they need not ask again.
#[derive(Debug)]
pub(super) struct Looks {
    connection: Connection,
    bucket: Bucket,
    /// Commit records of partitions without an owner.
    records: BTreeMap<Partition, Remembered>,
    /// What was counted, and at which position in which state of the stream.
    counted: BTreeMap<Partition, (Counted, u64)>,
    /// The first message at or above a position.
    first: BTreeMap<Partition, (Sequence, Option<MessageFacts>)>,
    /// When a message of a derived stream was stored in its origin.
    origin_time: Option<(Sequence, ServerTime)>,
}

/// Where and in what a count was made: in the same place there is as much left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counted {
    next: Sequence,
    created: ServerTime,
    first: Sequence,
    last: Sequence,
    messages: u64,
}

/// A commit record, in which epoch of the group document it was read, and when.
#[derive(Clone, Debug)]
struct Remembered {
    record: OffsetRecord,
    epoch: Epoch,
    at: Timestamp,
}

/// A partition that has something left.
struct Lagging {
    partition: Partition,
    source: PartitionSource,
    next: Sequence,
}

// === impl Looks ===

impl Looks {
    pub(super) fn new(connection: Connection, bucket: Bucket) -> Self {
        Self {
            connection,
            bucket,
            records: BTreeMap::new(),
            counted: BTreeMap::new(),
            first: BTreeMap::new(),
            origin_time: None,
        }
    }

    /// Looks at what is asked.
    pub(super) async fn at(&mut self, question: &Question) -> Findings {
        let Some(meta) = &question.group else {
            self.records.clear();
            self.counted.clear();
            self.first.clear();
            return Findings::default();
        };
        let facts = self.streams(meta, &question.partitions).await;
        let records = self.records(&question.partitions).await;
        let mut left = vec![None; question.partitions.len()];
        for (partition, record) in &records {
            if let Some(left) = left.get_mut(partition.index()) {
                *left = self.left_of(meta, *partition, record, &facts).await;
            }
        }
        let oldest = match lagging(meta, question, &records, &left) {
            Some(lagging) => self.oldest(meta, lagging, &facts).await,
            None => None,
        };
        Findings {
            oldest,
            source: source_lag(meta, &facts),
            left,
        }
    }

    /// The streams that have to be looked at: of partitions without an owner or with something left,
    /// and one that is derived.
    async fn streams(&self, meta: &Meta, partitions: &[Reported]) -> BTreeMap<String, StreamFacts> {
        let derived = meta.source.origin().is_some();
        let all = Partition::all(u32::MAX).zip(partitions);
        let wanted = all.filter(|(_, p)| derived || !p.owned || p.lag.is_some_and(|lag| lag > 0));
        let wanted = wanted.filter_map(|(partition, _)| Some(meta.source.of(partition)?.stream));
        let wanted: BTreeSet<String> = wanted.collect();
        let looks = stream::iter(wanted).map(|name| async move {
            let facts = streams::info(&self.connection, &name).await;
            told(facts, &name).map(|facts| (name, facts))
        });
        let looks: Vec<_> = looks.buffer_unordered(AT_ONCE).collect().await;
        looks.into_iter().flatten().collect()
    }

    /// The commit records of partitions without an owner.
    async fn records(&mut self, partitions: &[Reported]) -> BTreeMap<Partition, OffsetRecord> {
        let all = Partition::all(u32::MAX).zip(partitions);
        let wanted = all.filter(|(_, p)| !p.owned).map(|(p, it)| (p, it.epoch));
        let wanted: BTreeMap<Partition, Epoch> = wanted.collect();
        let at = clock::now();
        self.records.retain(|partition, known| {
            wanted.get(partition) == Some(&known.epoch) && at.since(known.at) < REMEMBERED
        });
        let missing = wanted
            .into_iter()
            .filter(|(p, _)| !self.records.contains_key(p));
        let missing: Vec<(Partition, Epoch)> = missing.collect();
        let bucket = &self.bucket;
        let reads = stream::iter(missing).map(|(partition, epoch)| async move {
            match start::read(bucket, partition).await {
                Ok(Record::Present(record)) => Some((partition, Remembered { record, epoch, at })),
                Ok(Record::Absent | Record::Damaged(_)) => None,
                Err(error) => {
                    let error = &error as &(dyn std::error::Error + 'static);
                    tracing::debug!(error, %partition, "its lag is not known");
                    None
                }
            }
        });
        let reads: Vec<_> = reads.buffer_unordered(AT_ONCE).collect().await;
        self.records.extend(reads.into_iter().flatten());
        let known = self.records.iter();
        known.map(|(p, known)| (*p, known.record.clone())).collect()
    }

    /// What is left of a partition without an owner.
    async fn left_of(
        &mut self,
        meta: &Meta,
        partition: Partition,
        record: &OffsetRecord,
        facts: &BTreeMap<String, StreamFacts>,
    ) -> Option<u64> {
        let source = meta.source.of(partition)?;
        let facts = facts.get(&source.stream)?;
        // Sequences of another history of the stream say nothing about this one.
        if facts.created != record.stream_created {
            return None;
        }
        let evidence = Evidence {
            reported: None,
            next: Some(record.next_seq),
            ends: Some((facts.first, facts.last.next())),
            stored: source.filter.is_none().then_some(facts.messages),
        };
        match evidence.lag() {
            Lag::Counted(left) => Some(left),
            Lag::Reported(_) | Lag::Unknown => None,
            Lag::AtMost(_) => self.count(partition, &source, record.next_seq, facts).await,
        }
    }

    async fn count(
        &mut self,
        partition: Partition,
        source: &PartitionSource,
        next: Sequence,
        facts: &StreamFacts,
    ) -> Option<u64> {
        let place = Counted {
            next,
            created: facts.created,
            first: facts.first,
            last: facts.last,
            messages: facts.messages,
        };
        if let Some((known, left)) = self.counted.get(&partition)
            && *known == place
        {
            return Some(*left);
        }
        let filter = source.filter.as_deref();
        let counted = streams::count_from(&self.connection, &source.stream, filter, next).await;
        let left = told(counted, &source.stream)?;
        self.counted.insert(partition, (place, left));
        Some(left)
    }

    /// The age of the oldest message that is left; none if it cannot be said yet.
    async fn oldest(
        &mut self,
        meta: &Meta,
        lagging: Vec<Lagging>,
        facts: &BTreeMap<String, StreamFacts>,
    ) -> Option<Duration> {
        if lagging.is_empty() {
            // What arrives before the next look has an age that nobody has looked up.
            return None;
        }
        let mut by_stream: BTreeMap<String, Vec<Lagging>> = BTreeMap::new();
        for partition in lagging {
            let of = by_stream.entry(partition.source.stream.clone());
            of.or_default().push(partition);
        }
        let (mut oldest, mut reads) = (Duration::ZERO, READS);
        for (stream, partitions) in by_stream {
            let facts = facts.get(&stream)?;
            let Some(found) = self.search(&stream, &partitions, &mut reads).await? else {
                continue;
            };
            let since = match meta.source.origin() {
                Some(origin) => self.stored_in(origin, &stream, &found).await,
                None => found.timestamp,
            };
            // Both times are the server's.
            let age = facts.now?.0.saturating_sub(since.0);
            let age = Duration::from_nanos(u64::try_from(age).unwrap_or(0));
            oldest = oldest.max(age);
        }
        Some(Duration::from_secs(oldest.as_secs()))
    }

    /// The oldest message of these partitions of one stream. None: it cannot be said yet.
    async fn search(
        &mut self,
        stream: &str,
        partitions: &[Lagging],
        reads: &mut usize,
    ) -> Option<Option<MessageFacts>> {
        let mut search = Search::default();
        for it in partitions {
            let known = self.first.get(&it.partition);
            let known = known.filter(|(next, _)| *next == it.next);
            let known = known.map_or(Answer::NotAsked, |(_, found)| answer(found.as_ref()));
            search.add(it.partition, it.next, known);
        }
        loop {
            let (partition, next) = match search.step() {
                Step::Nothing => return Some(None),
                Step::Found(sequence) => {
                    let mut found = self.first.values().filter_map(|(_, found)| found.as_ref());
                    return Some(found.find(|m| m.sequence == sequence).cloned());
                }
                Step::Ask(partition, next) => (partition, next),
            };
            *reads = reads.checked_sub(1)?;
            let of = partitions.iter().find(|it| it.partition == partition)?;
            let filter = of.source.filter.as_deref();
            let found = streams::first_from(&self.connection, stream, filter, next).await;
            let found = told(found, stream)?;
            search.answer(partition, answer(found.as_ref()));
            self.first.insert(partition, (next, found));
        }
    }

    /// When a message that was taken over was stored in its origin; where that is gone, when it was
    /// taken over.
    async fn stored_in(
        &mut self,
        origin: &str,
        stream: &str,
        message: &MessageFacts,
    ) -> ServerTime {
        if let Some((_, time)) = self.origin_time.filter(|(at, _)| *at == message.sequence) {
            return time;
        }
        let of = streams::taken_over_up_to(&self.connection, stream, message.sequence, origin);
        let Some(Some(at)) = told(of.await, stream) else {
            return message.timestamp;
        };
        let found = streams::message_at(&self.connection, origin, at).await;
        let time = match told(found, origin).flatten() {
            Some(found) => found.timestamp,
            None => message.timestamp,
        };
        self.origin_time = Some((message.sequence, time));
        time
    }
}

/// The partitions that have something left; none while that of any is not known.
fn lagging(
    meta: &Meta,
    question: &Question,
    records: &BTreeMap<Partition, OffsetRecord>,
    left: &[Option<u64>],
) -> Option<Vec<Lagging>> {
    let mut lagging = Vec::new();
    for (partition, reported) in Partition::all(u32::MAX).zip(&question.partitions) {
        let (lag, next) = if reported.owned {
            (reported.lag?, reported.committed)
        } else {
            let record = records.get(&partition);
            let left = left.get(partition.index()).copied().flatten();
            (left?, record.map(|record| record.next_seq))
        };
        if lag > 0 {
            lagging.push(Lagging {
                partition,
                source: meta.source.of(partition)?,
                next: next?,
            });
        }
    }
    Some(lagging)
}

fn answer(found: Option<&MessageFacts>) -> Answer {
    found.map_or(Answer::Nothing, |message| Answer::At(message.sequence))
}

/// What an origin still has to hand over; of a group that reads its streams themselves, nothing.
fn source_lag(meta: &Meta, facts: &BTreeMap<String, StreamFacts>) -> SourceLag {
    if meta.source.origin().is_none() {
        return SourceLag::Known(0);
    }
    let sources = facts.values().flat_map(|facts| &facts.sources);
    let mut lags = sources.map(|source| source.lag);
    match (lags.next(), lags.next()) {
        (Some(Some(lag)), None) => SourceLag::Known(lag),
        (Some(_) | None, _) => SourceLag::Unknown,
    }
}

/// What was answered; a failure leaves something unknown, and is tried again with the next look.
fn told<T>(answer: Result<T, StreamError>, stream: &str) -> Option<T> {
    match answer {
        Ok(answer) => Some(answer),
        Err(error) => {
            let error = &error as &(dyn std::error::Error + 'static);
            tracing::debug!(error, stream, "a lag is not known");
            None
        }
    }
}
