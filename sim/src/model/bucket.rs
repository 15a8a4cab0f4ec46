//! The group's bucket: compare-and-set, old reads, watches that stand still, elections, lost writes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lockstep::group::member::Written;
use lockstep::group::{BucketId, MemberDocument, Revision};
use lockstep::wire::keys::Key;

use super::stream::Stream;
use super::{Doc, Entry};
use crate::guard::Guard;
use crate::message::{Ask, Filter, Got, News};
use crate::net::{Event, Net, Request, Who};
use crate::time::At;

/// A standing watch.
#[derive(Clone, Debug)]
struct Watch {
    number: u64,
    filter: Filter,
    /// Everything below this revision has been delivered or passed over.
    next: u64,
    /// It stands still, with healthy heartbeats, for ever or until somebody wakes it.
    stands: bool,
}

/// A write that is stored now, as the checker has to know it.
#[derive(Clone, Debug)]
pub struct StoredWrite {
    /// Who wrote it.
    pub by: Who,
    /// What stands there now.
    pub entry: Entry,
}

/// The bucket, as long as there is one.
#[derive(Debug)]
pub struct Bucket {
    /// Its identity.
    pub id: BucketId,
    /// Whether it has three replicas.
    pub replicated: bool,
    /// Whether it is there at all.
    pub is_there: bool,
    stream: Stream<Key, Doc>,
    /// Every value that a key ever had, for reads of the past.
    past: BTreeMap<Key, Vec<(u64, Doc)>>,
    in_flight: BTreeMap<Key, u32>,
    watches: BTreeMap<Who, Watch>,
    electing_until: Option<At>,
    applied_at: At,
}

// === impl Filter ===

impl Filter {
    fn covers(&self, key: &Key) -> bool {
        match (self, key) {
            (Self::Member(own), Key::Member(member)) => own == member,
            (_, Key::Meta | Key::Group)
            | (Self::Coordinator, Key::Member(_) | Key::Candidate(_)) => true,
            (Self::Member(_), Key::Candidate(_))
            | (_, Key::Offset(_) | Key::Reset(_) | Key::Foreign(_)) => false,
        }
    }
}

// === impl Bucket ===

impl Bucket {
    /// An empty bucket.
    pub fn new(id: BucketId, replicated: bool, now: At) -> Self {
        Self {
            id,
            replicated,
            is_there: true,
            stream: Stream::new(now.server_time(), true),
            past: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            watches: BTreeMap::new(),
            electing_until: None,
            applied_at: now,
        }
    }

    /// The newest value of a key.
    pub fn newest(&self, key: &Key) -> Option<&Doc> {
        self.stream.newest(key).map(|(_, stored)| &stored.value)
    }

    /// What members said last.
    pub fn heartbeats(&self) -> Vec<Arc<MemberDocument>> {
        let all = self.past.values().filter_map(|values| values.last());
        all.filter_map(|(_, doc)| match doc {
            Doc::Member(says) => Some(Arc::clone(says)),
            Doc::Meta(_) | Doc::Group(_) | Doc::Candidate(_) | Doc::Offset(_) => None,
        })
        .collect()
    }

    /// Writes as its manager does, whom nothing disturbs.
    pub fn set(&mut self, net: &mut Net, key: &Key, doc: &Doc) -> u64 {
        self.store(net, key, doc)
    }

    /// Serves a request. A write that becomes true at once is returned.
    pub fn serve(&mut self, net: &mut Net, request: Request) -> Option<StoredWrite> {
        if !self.is_there {
            if matches!(request.ask, Ask::Watch(..)) {
                let news = request.ask.silence();
                net.answer(&request, news);
            } else {
                net.drop_request(&request);
            }
            return None;
        }
        if let Some(until) = self.electing_until.filter(|until| *until > net.now) {
            self.wait_for_the_election(net, request, until);
            return None;
        }
        match request.ask.clone() {
            Ask::Put(key, doc, _) => self.propose(net, request, (key, doc)),
            Ask::Replace(key, doc, expected, _) => {
                if self.refuses(net, &request, (&key, expected)) {
                    return None;
                }
                self.propose(net, request, (key, doc))
            }
            Ask::Get(key, what) => {
                let got = self.read(net, &key);
                net.answer(&request, News::Got(what, got));
                None
            }
            Ask::Watch(number, filter) => {
                self.begin_to_watch(net, &request, (number, filter));
                None
            }
            Ask::Open(..)
            | Ask::Look(..)
            | Ask::Pull(..)
            | Ask::Close(_)
            | Ask::Scan(..)
            | Ask::Ends
            | Ask::LateSeed(..) => None,
        }
    }

    /// While the servers elect a leader nothing is stored; a former leader may go on answering reads.
    fn wait_for_the_election(&mut self, net: &mut Net, request: Request, until: At) {
        match &request.ask {
            Ask::Get(key, what) if net.chance.per_mille(500) => {
                let got = self.read_as_of(key, self.stream.last());
                let what = *what;
                net.answer(&request, News::Got(what, got));
            }
            ask if ask.is_write() && net.chance.per_mille(700) => {
                let wait = net.chance.millis(0, 50);
                net.park(request, until.after(wait)); // it was in the socket of the stopped leader
            }
            _ => net.drop_request(&request),
        }
    }

    /// Whether a compare-and-set is refused.
    fn refuses(&mut self, net: &mut Net, request: &Request, at: (&Key, Revision)) -> bool {
        let (key, expected) = at;
        let Ask::Replace(_, _, _, what) = &request.ask else {
            return false;
        };
        if net.is_off(Guard::Cas) {
            return false;
        }
        let stands_at = self.stream.stands_at(key);
        let in_flight = self.in_flight.get(key).is_some_and(|n| *n > 0);
        let outcome = if in_flight {
            Written::Busy // 10164
        } else if stands_at != expected.0 {
            Written::Conflict(Some(Revision(stands_at))) // 10071
        } else if self.replicated && net.chance.per_mille(net.weather.unanswered) {
            Written::Busy // 10163
        } else {
            return false;
        };
        net.say(|| format!("          {} at {key}: {outcome:?}", request.from));
        net.answer(request, News::Replaced(*what, outcome));
        true
    }

    /// A write that the leader takes: stored at once, or when the replicas have it.
    fn propose(
        &mut self,
        net: &mut Net,
        request: Request,
        write: (Key, Doc),
    ) -> Option<StoredWrite> {
        let (key, doc) = write;
        if !self.replicated {
            return Some(self.apply_now(net, &request, key, doc));
        }
        if matches!(request.ask, Ask::Replace(..)) {
            *self.in_flight.entry(key).or_default() += 1;
        }
        self.applied_at = self
            .applied_at
            .max(net.now.after(net.chance.micros(200, 3000)));
        net.at(self.applied_at, Event::Apply(request));
        None
    }

    /// The replicas have it.
    pub fn apply(&mut self, net: &mut Net, request: &Request) -> Option<StoredWrite> {
        let (Ask::Put(key, doc, _) | Ask::Replace(key, doc, ..)) = request.ask.clone() else {
            return None;
        };
        if let Some(n) = self.in_flight.get_mut(&key) {
            *n = n.saturating_sub(1);
        }
        if !self.is_there {
            net.drop_request(request);
            return None;
        }
        Some(self.apply_now(net, request, key, doc))
    }

    fn apply_now(&mut self, net: &mut Net, request: &Request, key: Key, doc: Doc) -> StoredWrite {
        let by = request.from;
        let revision = self.store(net, &key, &doc);
        let late = if request.unheard { " (late)" } else { "" };
        net.say(|| format!("  #{revision:<5} {by} wrote {key}{late}: {doc}"));
        let news = match &request.ask {
            Ask::Put(_, _, beat) => News::Put(*beat, Some(Revision(revision))),
            Ask::Replace(_, _, _, what) => {
                News::Replaced(*what, Written::Stored(Revision(revision)))
            }
            other => other.silence(),
        };
        net.answer(request, news);
        let entry = Entry { revision, key, doc };
        StoredWrite { by, entry }
    }

    fn store(&mut self, net: &mut Net, key: &Key, doc: &Doc) -> u64 {
        let ts = net.now.server_time();
        let stored = self.stream.publish((key.clone(), doc.clone()), ts, None);
        let revision = stored.unwrap_or_else(|_| self.stream.last());
        self.past
            .entry(key.clone())
            .or_default()
            .push((revision, doc.clone()));
        for (who, watch) in &mut self.watches {
            if watch.stands || !watch.filter.covers(key) {
                continue;
            }
            watch.next = revision + 1;
            let (key, doc) = (key.clone(), doc.clone());
            let entry = Entry { revision, key, doc };
            net.push(*who, News::Entry(watch.number, entry));
        }
        revision
    }

    // --- reads

    fn read(&self, net: &mut Net, key: &Key) -> Got {
        let back = if net.chance.per_mille(net.weather.stale) {
            net.chance.between(1, 40)
        } else {
            0
        };
        self.read_as_of(key, self.stream.last().saturating_sub(back))
    }

    /// What a replica that has got as far as this knows of a key.
    fn read_as_of(&self, key: &Key, revision: u64) -> Got {
        let known = self.past.get(key).into_iter().flatten();
        match known.rev().find(|(at, _)| *at <= revision) {
            Some((at, doc)) => Got::Value(Revision(*at), doc.clone()),
            None => Got::Absent,
        }
    }

    // --- watches

    fn begin_to_watch(&mut self, net: &mut Net, request: &Request, what: (u64, Filter)) {
        let (who, (number, filter)) = (request.from, what);
        if request.unheard || !net.is_up(who) {
            return;
        }
        // A replica that lags makes a consumer, too.
        let lags = net.chance.per_mille(net.weather.stale * 3);
        let back = if lags { net.chance.between(1, 60) } else { 0 };
        let as_of = self.stream.last().saturating_sub(back);
        let mut known: Vec<Entry> = Vec::new();
        for (key, values) in self.past.iter().filter(|(key, _)| filter.covers(key)) {
            if let Some((revision, doc)) = values.iter().rev().find(|(at, _)| *at <= as_of) {
                let (revision, key, doc) = (*revision, key.clone(), doc.clone());
                known.push(Entry { revision, key, doc });
            }
        }
        known.sort_by_key(|entry| entry.revision);
        for entry in known {
            net.push(who, News::Entry(number, entry));
        }
        net.push(who, News::Loaded(number));
        let watch = Watch {
            number,
            filter,
            next: as_of + 1,
            stands: lags,
        };
        self.watches.insert(who, watch);
        if lags {
            let wait = net.chance.millis(10, 8000);
            net.after(wait, Event::CatchUp(who));
        }
    }

    /// A watch delivers nothing for a while although its heartbeats come.
    pub fn stall(&mut self, net: &mut Net, who: Who, time: Duration) {
        if let Some(watch) = self.watches.get_mut(&who) {
            watch.stands = true;
            net.after(time, Event::CatchUp(who));
        }
    }

    /// A watch that stood still goes on: with all it has missed, with the newest of it, or not at all.
    pub fn catch_up(&mut self, net: &mut Net, who: Who) {
        let Some(watch) = self.watches.get_mut(&who).filter(|watch| watch.stands) else {
            return;
        };
        watch.stands = false;
        if net.chance.per_mille(300) {
            let number = watch.number;
            self.watches.remove(&who);
            return net.push(who, News::WatchBroken(number));
        }
        let only_newest = net.chance.either(true, false);
        let mut missed: Vec<Entry> = Vec::new();
        for (key, values) in self.past.iter().filter(|(key, _)| watch.filter.covers(key)) {
            let newer = values.iter().filter(|(at, _)| *at >= watch.next);
            let skip = if only_newest {
                newer.clone().count().saturating_sub(1)
            } else {
                0
            };
            missed.extend(newer.skip(skip).map(|(revision, doc)| Entry {
                revision: *revision,
                key: key.clone(),
                doc: doc.clone(),
            }));
        }
        missed.sort_by_key(|entry| entry.revision);
        watch.next = self.stream.last() + 1;
        let number = watch.number;
        for entry in missed {
            net.push(who, News::Entry(number, entry));
        }
    }

    /// A process's connection was cut, or its consumer has gone: the watch is of no more use.
    pub fn forget_watch(&mut self, who: Who) {
        self.watches.remove(&who);
    }

    /// Whoever watches finds that its consumer is gone, some later than others.
    pub fn break_watches(&mut self, net: &mut Net) {
        for (who, watch) in std::mem::take(&mut self.watches) {
            let wait = net.chance.millis(10, 5000);
            net.after(wait, Event::News(who, News::WatchBroken(watch.number)));
        }
    }

    /// All watches go on.
    pub fn wake_watches(&mut self, net: &mut Net) {
        let standing = self.watches.iter().filter(|(_, watch)| watch.stands);
        for who in standing.map(|(who, _)| *who).collect::<Vec<_>>() {
            net.after(Duration::ZERO, Event::CatchUp(who));
        }
    }

    // --- faults

    /// The servers elect a leader: nothing is stored for this long.
    pub fn elect(&mut self, now: At, time: Duration) {
        self.electing_until = Some(now.after(time));
    }

    /// The newest writes of a single server are lost, and their numbers are used again. What they
    /// replaced is there again, or erased already.
    pub fn lose_the_newest(&mut self, net: &mut Net, count: u64) -> Vec<Key> {
        let last = self.stream.last().saturating_sub(count);
        let mut lost = Vec::new();
        for (key, values) in &mut self.past {
            if values.last().is_none_or(|(at, _)| *at <= last) {
                continue;
            }
            values.retain(|(at, _)| *at <= last);
            if net.chance.either(true, false) {
                values.clear();
            }
            lost.push(key.clone());
        }
        let mut stream = Stream::new(self.stream.created(), true);
        let mut all: Vec<(u64, Key, Doc)> = Vec::new();
        for (key, values) in &self.past {
            let newest = values.last();
            all.extend(newest.map(|(at, doc)| (*at, key.clone(), doc.clone())));
        }
        all.sort_by_key(|(at, ..)| *at);
        for (at, key, doc) in all {
            stream.skip_to(at);
            let stored = stream.publish((key, doc), net.now.server_time(), None);
            debug_assert_eq!(stored, Ok(at));
        }
        stream.skip_to(last + 1);
        self.stream = stream;
        self.in_flight.clear();
        self.break_watches(net);
        lost
    }

    /// The bucket is deleted.
    pub fn delete(&mut self, net: &mut Net) {
        self.is_there = false;
        self.break_watches(net);
    }

    /// A bucket of the same name, with another identity and nothing in it.
    pub fn make_anew(&mut self, id: BucketId, now: At) {
        *self = Self::new(id, self.replicated, now);
    }
}
