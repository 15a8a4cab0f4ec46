//! The streams of the group's messages, and the consumers that read them.

use std::collections::BTreeMap;

use lockstep::group::{Mark, Partition, Sequence, ServerTime};

use super::stream::Stream;
use crate::message::{Ask, Facts, Msg, News, ReaderId};
use crate::net::{Event, Net, Request, Who};
use crate::time::At;

/// Messages that one delivery brings at most.
const TOGETHER: usize = 50;

/// How often an idle consumer says so; in a real one it is every 2 s.
const HEARTBEAT: u64 = 10_000;

/// A consumer without acknowledgements.
#[derive(Clone, Debug)]
struct Consumer {
    of: Who,
    id: ReaderId,
    next: u64,
    asked: u64,
    sent: u64,
}

/// All streams.
#[derive(Debug)]
pub struct Data {
    streams: Vec<Stream<Partition, u64>>,
    consumers: BTreeMap<u64, Consumer>,
    made: u64,
    away_until: Option<At>,
}

// === impl Data ===

impl Data {
    /// So many streams: one for all partitions, or one for each.
    pub fn new(streams: usize, now: At) -> Self {
        let stream = Stream::new(now.server_time(), false);
        Self {
            streams: vec![stream; streams.max(1)],
            consumers: BTreeMap::new(),
            made: 0,
            away_until: None,
        }
    }

    /// Which stream a partition is in.
    pub fn index(&self, partition: Partition) -> usize {
        partition.index() % self.streams.len()
    }

    /// How many streams there are.
    pub fn count(&self) -> usize {
        self.streams.len()
    }

    /// A partition's stream.
    pub fn stream(&self, partition: Partition) -> Option<&Stream<Partition, u64>> {
        self.streams.get(self.index(partition))
    }

    /// A stream by its index.
    pub fn stream_mut(&mut self, index: usize) -> Option<&mut Stream<Partition, u64>> {
        self.streams.get_mut(index)
    }

    /// A partition's messages that are there, from this sequence on.
    pub fn messages(&self, partition: Partition, from: u64) -> impl Iterator<Item = Msg> {
        let stream = self.stream(partition).into_iter();
        let all = stream.flat_map(move |stream| stream.from(from));
        all.filter(move |(_, stored)| stored.subject == partition)
            .map(|(seq, stored)| Msg {
                seq,
                ts: stored.ts,
                id: stored.value,
            })
    }

    /// Stores a message, and delivers it to whoever waits for it.
    pub fn publish(&mut self, net: &mut Net, partition: Partition, id: u64) -> u64 {
        let index = self.index(partition);
        let ts = net.now.server_time();
        let Some(stream) = self.streams.get_mut(index) else {
            return 0;
        };
        // Two messages of one stream never have the same time.
        let ts = ServerTime(ts.0 + i64::try_from(id % 1000).unwrap_or(0));
        let stored = stream.publish((partition, id), ts, None);
        let seq = stored.unwrap_or(0);
        net.say(|| format!("  published {partition}/{seq} (message {id})"));
        let waiting: Vec<u64> = self.consumers_of(index).collect();
        for number in waiting {
            self.deliver(net, number);
        }
        seq
    }

    fn consumers_of(&self, stream: usize) -> impl Iterator<Item = u64> {
        let all = self.consumers.iter();
        all.filter(move |(_, consumer)| self.index(consumer.id.partition) == stream)
            .map(|(number, _)| *number)
    }

    /// Serves a request.
    pub fn serve(&mut self, net: &mut Net, request: &Request) {
        if self.away_until.is_some_and(|until| until > net.now) {
            return net.drop_request(request);
        }
        match request.ask.clone() {
            Ask::Open(id, start) => {
                if request.unheard {
                    return;
                }
                self.made += 1;
                let consumer = Consumer {
                    of: request.from,
                    id,
                    next: start,
                    asked: 0,
                    sent: 0,
                };
                self.consumers.insert(self.made, consumer);
                net.after(
                    std::time::Duration::from_millis(HEARTBEAT),
                    Event::Idle(self.made),
                );
                net.answer(request, News::Opened(id));
            }
            Ask::Look(id, mark, delivered) => {
                let facts = self.facts(id.partition, mark, delivered);
                net.answer(request, News::Looked(id, facts));
            }
            Ask::Pull(id, more) => {
                if let Some(number) = self.number(request.from, id) {
                    if let Some(consumer) = self.consumers.get_mut(&number) {
                        consumer.asked += more;
                    }
                    self.deliver(net, number);
                } else {
                    net.answer(request, News::ReaderBroken(id)); // no responders
                }
            }
            Ask::Close(id) => {
                let number = self.number(request.from, id);
                number.and_then(|number| self.consumers.remove(&number));
            }
            Ask::Scan(id, up_to) => {
                let mark = self.mark_at_most(id.partition, up_to);
                net.answer(request, News::Scanned(id, mark));
            }
            Ask::Ends => {
                let ends = self.streams.iter();
                let ends = ends
                    .map(|s| (s.first(), s.last() + 1, s.created()))
                    .collect();
                net.answer(request, News::Ends(Some(ends)));
            }
            Ask::Put(..) | Ask::Replace(..) | Ask::Get(..) | Ask::Watch(..) | Ask::LateSeed(..) => {
            }
        }
    }

    fn mark_at_most(&self, partition: Partition, up_to: u64) -> Option<Mark> {
        let stream = self.stream(partition)?;
        let at = up_to.min(stream.last());
        Some(Mark {
            seq: Sequence(at),
            ts: stream.at(at)?.ts,
        })
    }

    fn number(&self, of: Who, id: ReaderId) -> Option<u64> {
        let found = self.consumers.iter();
        let mut found = found.filter(|(_, consumer)| consumer.of == of && consumer.id == id);
        found.next().map(|(number, _)| *number)
    }

    fn facts(
        &self,
        partition: Partition,
        mark: Option<u64>,
        delivered: Option<u64>,
    ) -> Option<Facts> {
        let stream = self.stream(partition)?;
        let stored_at = |seq: Option<u64>| Some(stream.at(seq?)?.ts);
        let last = stream.last();
        Some(Facts {
            created: stream.created(),
            first: stream.first(),
            last,
            at_mark: stored_at(mark),
            at_delivered: stored_at(delivered),
            last_mark: stored_at(Some(last)).map(|ts| Mark {
                seq: Sequence(last),
                ts,
            }),
        })
    }

    /// Sends what was asked for, as far as there is any.
    fn deliver(&mut self, net: &mut Net, number: u64) {
        loop {
            let Some(consumer) = self.consumers.get(&number) else {
                return;
            };
            let most = usize::try_from(consumer.asked)
                .unwrap_or(TOGETHER)
                .min(TOGETHER);
            let batch: Vec<Msg> = self
                .messages(consumer.id.partition, consumer.next)
                .take(most)
                .collect();
            let Some(last) = batch.last() else {
                return;
            };
            let (next, count) = (last.seq + 1, batch.len() as u64);
            let Some(consumer) = self.consumers.get_mut(&number) else {
                return;
            };
            let first = consumer.sent + 1;
            consumer.next = next;
            consumer.asked -= count;
            consumer.sent += count;
            let (of, id) = (consumer.of, consumer.id);
            if net.chance.per_mille(net.weather.gaps) {
                // The next heartbeat counts more than has come: the tail was lost.
                let wait = net.chance.millis(1, 4500);
                net.after(wait, Event::News(of, News::ReaderBroken(id)));
            } else {
                net.push(of, News::Messages(id, first, batch));
            }
        }
    }

    /// A consumer with nothing to deliver says how far it has looked. Begun above the stream's end, it
    /// says where it began.
    pub fn heartbeat(&mut self, net: &mut Net, number: u64) {
        let Some(consumer) = self.consumers.get(&number) else {
            return;
        };
        net.after(
            std::time::Duration::from_millis(HEARTBEAT),
            Event::Idle(number),
        );
        let (of, id, next) = (consumer.of, consumer.id, consumer.next);
        let nothing = self.messages(id.partition, next).next().is_none();
        if nothing && consumer.asked > 0 {
            let last = self.stream(id.partition).map_or(0, Stream::last);
            let scanned = last.max(next.saturating_sub(1));
            net.push(of, News::Idle(id, scanned));
        }
    }

    /// A process has ended, or cannot be reached: its consumers are of no more use.
    pub fn forget(&mut self, of: Who) {
        self.consumers.retain(|_, consumer| consumer.of != of);
    }

    /// Consumers of a stream vanish: their readers hear of it some time later.
    pub fn break_consumers(&mut self, net: &mut Net, stream: usize) {
        let gone: Vec<u64> = self.consumers_of(stream).collect();
        for number in gone {
            if let Some(consumer) = self.consumers.remove(&number) {
                let wait = net.chance.millis(1, 4500);
                net.after(
                    wait,
                    Event::News(consumer.of, News::ReaderBroken(consumer.id)),
                );
            }
        }
    }

    /// One consumer vanishes.
    pub fn break_one(&mut self, net: &mut Net) {
        let all: Vec<u64> = self.consumers.keys().copied().collect();
        let one = net
            .chance
            .pick(&all)
            .and_then(|number| self.consumers.remove(&number));
        if let Some(consumer) = one {
            let wait = net.chance.millis(1, 4500);
            net.after(
                wait,
                Event::News(consumer.of, News::ReaderBroken(consumer.id)),
            );
        }
    }

    /// The streams do not answer until then.
    pub fn go_away(&mut self, until: At) {
        self.away_until = Some(until);
    }

    /// The stream is deleted and made anew.
    pub fn recreate(&mut self, net: &mut Net, stream: usize) {
        let created = net.now.server_time();
        if let Some(it) = self.streams.get_mut(stream) {
            *it = Stream::new(created, false);
        }
        self.break_consumers(net, stream);
    }

    /// The stream loses its end; a restore from an older copy does the same.
    pub fn truncate(&mut self, net: &mut Net, stream: usize, last: u64) {
        if let Some(it) = self.streams.get_mut(stream) {
            it.truncate(last);
        }
        self.break_consumers(net, stream);
    }
}
