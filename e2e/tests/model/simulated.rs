//! The simulator's side: its bucket and its streams, behind its net.

use std::sync::Arc;

use lockstep::group::member::Written;
use lockstep::group::{
    Beat, BucketId, CandidateDocument, Epoch, Formats, Partition, Revision, Unknown,
};
use lockstep::wire::keys::Key;
use lockstep_sim::chance::Chance;
use lockstep_sim::log::Log;
use lockstep_sim::message::{Ask, Filter, For, Got, News, ReaderId};
use lockstep_sim::model::Doc;
use lockstep_sim::model::bucket::Bucket;
use lockstep_sim::model::data::Data;
use lockstep_sim::net::{Event, Net, Who};
use lockstep_sim::time::At;

use super::script::{Deed, Found, Seen, Step};

const ME: Who = Who::Coordinator(1);

/// What a request is made for; the model does not look at it.
const WHY: For = For::Group;

pub(crate) struct Simulated {
    pub(crate) net: Net,
    bucket: Bucket,
    data: Data,
    heard: Vec<News>,
    readers: u64,
}

impl Simulated {
    pub(crate) fn new(seed: u64, replicated: bool) -> Self {
        let mut net = Net::new(Chance::new(seed), Log::new(false), None);
        net.join(ME);
        Self {
            bucket: Bucket::new(BucketId::new("b"), replicated, At::default()),
            data: Data::new(1, At::default()),
            net,
            heard: Vec::new(),
            readers: 0,
        }
    }

    /// Time goes on until so many answers have come.
    fn until(&mut self, answers: usize) -> Vec<News> {
        while self.heard.len() < answers {
            let end = self.net.now.after(std::time::Duration::from_secs(60));
            let event = self.net.next(end).expect("no answer comes");
            self.happen(event);
        }
        std::mem::take(&mut self.heard)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive(request) => match request.ask {
                Ask::Put(..) | Ask::Replace(..) | Ask::Get(..) | Ask::Watch(..) => {
                    drop(self.bucket.serve(&mut self.net, request));
                }
                _ => self.data.serve(&mut self.net, &request),
            },
            Event::Apply(request) => drop(self.bucket.apply(&mut self.net, &request)),
            Event::News(_, news) => self.heard.push(news),
            _ => {}
        }
    }

    /// Lets everything that is on its way arrive.
    pub(crate) fn settle(&mut self) {
        let end = self.net.now.after(std::time::Duration::from_secs(60));
        while let Some(event) = self.net.next(end) {
            if !matches!(event, Event::Idle(_)) {
                self.happen(event);
            }
        }
        self.heard.clear();
    }

    fn ask(&mut self, ask: Ask) -> News {
        self.net.ask(ME, ask);
        self.until(1).remove(0)
    }

    pub(crate) fn step(&mut self, step: Step) -> Seen {
        match step {
            Step::Put(key) => match self.ask(Ask::Put(name(key), doc(), Beat(1))) {
                News::Put(_, Some(revision)) => Seen::Stored(revision.0),
                _ => Seen::Unknown,
            },
            Step::Replace(key, expected) => {
                let ask = Ask::Replace(name(key), doc(), Revision(expected), WHY);
                outcome(&self.ask(ask))
            }
            Step::Twice(key, expected) => {
                for _ in 0..2 {
                    let ask = Ask::Replace(name(key), doc(), Revision(expected), WHY);
                    self.net.ask(ME, ask);
                }
                let both: Vec<Seen> = self.until(2).iter().map(outcome).collect();
                one_of_two(&both)
            }
            Step::Get(key) => match self.ask(Ask::Get(name(key), WHY)) {
                News::Got(_, Got::Value(revision, _)) => Seen::Value(Some(revision.0)),
                News::Got(_, Got::Absent) => Seen::Value(None),
                other => panic!("{other:?}"),
            },
            Step::Watch => self.watch(),
        }
    }

    fn watch(&mut self) -> Seen {
        self.net.ask(ME, Ask::Watch(1, Filter::Coordinator));
        let mut seen = Vec::new();
        loop {
            for news in self.until(1) {
                match news {
                    News::Entry(_, entry) => seen.push((number(&entry.key), entry.revision)),
                    News::Loaded(_) => {
                        self.bucket.forget_watch(ME);
                        return Seen::Watched(seen);
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    pub(crate) fn deed(&mut self, deed: Deed) -> Found {
        let partition = Partition(0);
        let stream = || self.data.stream(partition).expect("there is one");
        match deed {
            Deed::Publish(p) => Found::At(self.data.publish(&mut self.net, Partition(p), 0)),
            Deed::Read(p, from, count) => self.read(Partition(p), from, count),
            Deed::Ends => Found::Between(stream().first(), stream().last()),
            Deed::Purge(first) => {
                self.data.stream_mut(0).unwrap().purge_below(first);
                Found::Done
            }
            Deed::Remove(seq) => {
                self.data.stream_mut(0).unwrap().remove(seq);
                Found::Done
            }
            Deed::Recreate => {
                let before = stream().created();
                self.settle();
                self.data.recreate(&mut self.net, 0);
                Found::Anew(self.data.stream(partition).unwrap().created() != before)
            }
        }
    }

    fn read(&mut self, partition: Partition, from: u64, count: usize) -> Found {
        self.readers += 1;
        let id = ReaderId {
            partition,
            epoch: Epoch(1),
            attempt: self.readers,
        };
        assert!(matches!(self.ask(Ask::Open(id, from)), News::Opened(_)));
        self.net.ask(ME, Ask::Pull(id, 100));
        let mut delivered = Vec::new();
        while delivered.len() < count {
            for news in self.until(1) {
                if let News::Messages(_, _, batch) = news {
                    delivered.extend(batch.iter().map(|m| m.seq));
                }
            }
        }
        self.data.forget(ME);
        Found::Delivered(delivered)
    }
}

fn name(key: u8) -> Key {
    Key::Candidate(format!("k{key}").parse().unwrap())
}

fn number(key: &Key) -> u8 {
    match key {
        Key::Candidate(name) => name.as_str()[1..].parse().unwrap(),
        other => panic!("{other}"),
    }
}

fn doc() -> Doc {
    Doc::Candidate(Arc::new(CandidateDocument {
        id: String::new(),
        priority: 0,
        beat: Beat(1),
        formats: Formats::CURRENT,
        left: false,
        unknown: Unknown::default(),
    }))
}

fn outcome(news: &News) -> Seen {
    match news {
        News::Replaced(_, Written::Stored(revision)) => Seen::Stored(revision.0),
        News::Replaced(_, Written::Conflict(Some(at))) => Seen::StandsAt(at.0),
        News::Replaced(_, Written::Busy | Written::Unknown(_)) => Seen::Unknown,
        other => panic!("{other:?}"),
    }
}

/// What two equal writes at once come to.
pub(crate) fn one_of_two(both: &[Seen]) -> Seen {
    let mut stored = both.iter().filter_map(|seen| match seen {
        Seen::Stored(revision) => Some(*revision),
        _ => None,
    });
    match (stored.next(), stored.next()) {
        (Some(revision), None) => Seen::OneOfTwo(revision),
        other => panic!("stored: {other:?}"),
    }
}
