//! The world of one seed: servers, processes, applications, publishers and what goes wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use lockstep::group::decide::seed;
use lockstep::group::{
    BucketId, Formats, Incarnation, Meta, MetaGeneration, Partition, Sequence, StartFrom,
    StopReason,
};
use lockstep::wire::keys::Key;

use crate::application::{Application, Habits};
use crate::chance::Chance;
use crate::checker::{Bounds, Checker, Final};
use crate::coordinator::Coordinator;
use crate::guard::Guard;
use crate::log::Log;
use crate::message::{Ask, For, Got, News};
use crate::model::Doc;
use crate::model::bucket::{Bucket, StoredWrite};
use crate::model::data::Data;
use crate::model::stream::Stream;
use crate::net::{Event, Later, Net, Request, Weather, Who};
use crate::plan::{CALM, END, Plan, QUIET, RESUME};
use crate::time::{At, Clock};
use crate::worker::{Around, Worker};

/// Events after which a world is taken for one that spins.
const MOST_EVENTS: u64 = 3_000_000;

/// A simulated world.
#[derive(Debug)]
pub struct World {
    pub(crate) plan: Plan,
    pub(crate) net: Net,
    pub(crate) checker: Checker,
    pub(crate) bucket: Bucket,
    pub(crate) data: Data,
    pub(crate) meta: Meta,
    pub(crate) workers: BTreeMap<Who, Worker>,
    pub(crate) coordinators: BTreeMap<Who, Coordinator>,
    pub(crate) applications: BTreeMap<Who, Application>,
    pub(crate) started: u32,
    pub(crate) calm: bool,
    buckets: u32,
    events: u64,
}

/// What came of a world.
#[derive(Debug)]
pub struct Outcome {
    /// The judge, with everything it found.
    pub checker: Checker,
    /// What happened, if it was kept.
    pub log: Vec<String>,
    /// How many events there were.
    pub events: u64,
}

// === impl World ===

impl World {
    /// The world of a seed.
    pub fn new(seed: u64, off: Option<Guard>, log: bool) -> Self {
        let mut chance = Chance::new(seed);
        let plan = Plan::draw(&mut chance, seed);
        let mut net = Net::new(chance, Log::new(log), off);
        net.weather = plan.weather;
        let delivery = &plan.meta.delivery;
        let bounds = Bounds {
            in_flight: delivery.max_in_flight.into(),
            uncommitted: delivery.max_uncommitted.into(),
            session: plan.meta.membership.session_timeout,
        };
        let streams = plan.meta.source.streams().len();
        net.log
            .say(At::default(), || format!("seed {seed}: {plan:?}"));
        Self {
            bucket: Bucket::new(plan.meta.bucket.clone(), plan.replicated, At::default()),
            data: Data::new(streams, At::default()),
            meta: plan.meta.clone(),
            plan,
            net,
            checker: Checker::new(bounds),
            workers: BTreeMap::new(),
            coordinators: BTreeMap::new(),
            applications: BTreeMap::new(),
            started: 0,
            calm: false,
            buckets: 0,
            events: 0,
        }
    }

    /// Runs it to its end, or to the first thing that is broken.
    pub fn run(mut self) -> Outcome {
        self.begin();
        while let Some(event) = self.net.next(END) {
            self.events += 1;
            self.checker.tick(self.net.now);
            self.happen(event);
            if !self.checker.violations().is_empty() {
                break;
            }
            if self.events > MOST_EVENTS {
                self.checker.spins();
                break;
            }
        }
        if self.checker.violations().is_empty() {
            self.finish();
        }
        Outcome {
            checker: self.checker,
            log: self.net.log.into_lines(),
            events: self.events,
        }
    }

    fn begin(&mut self) {
        for _ in 0..self.plan.backlog {
            self.publish_one();
        }
        let meta = Doc::Meta(Arc::new(self.meta.clone()));
        self.bucket.set(&mut self.net, &Key::Meta, &meta);
        for slot in 0..self.plan.coordinators {
            let wait = self.net.chance.millis(0, 2000);
            self.net
                .after(wait, Event::Later(Later::StartCoordinator(slot)));
        }
        for slot in 0..self.plan.members {
            let wait = self.net.chance.millis(0, 4000);
            self.net.after(wait, Event::Later(Later::StartMember(slot)));
        }
        for (index, (at, _)) in self.plan.faults.clone().iter().enumerate() {
            self.net.at(*at, Event::Fault(index));
        }
        self.net.after(Duration::from_millis(500), Event::Publish);
        self.net.at(CALM, Event::Later(Later::Calm));
        self.net.at(RESUME, Event::Later(Later::Resume));
        let again = At((RESUME.0 + QUIET.0) / 2);
        self.net.at(again, Event::Later(Later::Resume));
        self.net.at(QUIET, Event::Later(Later::Quiet));
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Wake(who) => self.wake(who),
            Event::News(who, news) => self.hear(who, news),
            Event::Application(who, life, step) => {
                let (net, checker, data) = (&mut self.net, &mut self.checker, &self.data);
                let application = self.applications.get_mut(&who);
                if let Some(it) = application.filter(|it| it.life == life) {
                    it.step(&mut Around { net, checker, data }, step);
                }
                self.look_after_application(who);
            }
            Event::Arrive(request) => self.arrive(request),
            Event::Apply(request) => {
                let stored = self.bucket.apply(&mut self.net, &request);
                self.judge_stored(stored);
            }
            Event::CatchUp(who) => self.bucket.catch_up(&mut self.net, who),
            Event::Idle(consumer) => self.data.heartbeat(&mut self.net, consumer),
            Event::Publish => self.publish(),
            Event::Fault(index) => self.fault(index),
            Event::Later(later) => self.later(later),
        }
    }

    // --- processes

    fn wake(&mut self, who: Who) {
        let (net, checker, data) = (&mut self.net, &mut self.checker, &self.data);
        let mut around = Around { net, checker, data };
        if let Some(worker) = self.workers.get_mut(&who) {
            worker.wake(&mut around);
            self.after_worker(who);
        } else if let Some(coordinator) = self.coordinators.get_mut(&who) {
            coordinator.wake(&mut around);
            self.after_coordinator(who);
        }
    }

    fn hear(&mut self, who: Who, news: News) {
        let (net, checker, data) = (&mut self.net, &mut self.checker, &self.data);
        let mut around = Around { net, checker, data };
        if let Some(worker) = self.workers.get_mut(&who) {
            worker.hear(&mut around, news);
            self.after_worker(who);
        } else if let Some(coordinator) = self.coordinators.get_mut(&who) {
            coordinator.hear(&mut around, news);
            self.after_coordinator(who);
        }
    }

    /// What a worker has said to its application, and whether it has ended.
    pub(crate) fn after_worker(&mut self, who: Who) {
        let Some(worker) = self.workers.get_mut(&who) else {
            return;
        };
        let said = std::mem::take(&mut worker.to_app);
        let (over, slot) = (worker.over, worker.slot);
        let (net, checker, data) = (&mut self.net, &mut self.checker, &self.data);
        if let Some(application) = self.applications.get_mut(&who) {
            for said in said {
                application.hear(&mut Around { net, checker, data }, said);
            }
        }
        if over {
            self.bury_worker(who, slot);
        }
    }

    /// A process has ended: its consumers will go, its id comes back some time later.
    pub(crate) fn bury_worker(&mut self, who: Who, slot: usize) {
        self.net.say(|| format!("{who} has ended"));
        self.workers.remove(&who);
        self.net.leave(who);
        self.bucket.forget_watch(who);
        self.data.forget(who);
        let wait = self.net.chance.millis(50, 20_000);
        self.net.after(wait, Event::Later(Later::StartMember(slot)));
    }

    pub(crate) fn after_coordinator(&mut self, who: Who) {
        let over = self.coordinators.get(&who).filter(|c| c.over);
        if let Some(slot) = over.map(|c| c.slot) {
            self.bury_coordinator(who, slot, Duration::from_millis(500));
        }
    }

    pub(crate) fn bury_coordinator(&mut self, who: Who, slot: usize, wait: Duration) {
        self.net.say(|| format!("{who} has ended"));
        self.coordinators.remove(&who);
        self.net.leave(who);
        self.bucket.forget_watch(who);
        self.net
            .after(wait, Event::Later(Later::StartCoordinator(slot)));
    }

    fn clock(&mut self) -> Clock {
        let boot = self.net.chance.millis(1000, 100_000_000);
        let drift = i64::try_from(self.net.chance.between(0, 4000)).unwrap_or(0) - 2000;
        Clock::new(boot, drift)
    }

    pub(crate) fn start_member(&mut self, slot: usize) {
        self.started += 1;
        let who = Who::Member(self.started);
        self.net.join(who);
        let clock = self.clock();
        let outdated = !self.calm && self.net.chance.per_mille(self.plan.outdated);
        let formats = if outdated {
            Formats {
                group: 0,
                ..Formats::CURRENT
            }
        } else {
            Formats::CURRENT
        };
        let (net, checker, data) = (&mut self.net, &mut self.checker, &self.data);
        let worker = Worker::start(
            &mut Around { net, checker, data },
            (who, slot),
            clock,
            formats,
        );
        self.workers.insert(who, worker);
        let wait = self.net.chance.millis(1, 1500);
        self.net
            .after(wait, Event::Later(Later::StartApplication(who)));
    }

    fn start_coordinator(&mut self, slot: usize) {
        if self.coordinators.values().any(|c| c.slot == slot) {
            return;
        }
        if !self.bucket.is_there {
            let wait = Duration::from_secs(2);
            return self
                .net
                .after(wait, Event::Later(Later::StartCoordinator(slot)));
        }
        self.started += 1;
        let who = Who::Coordinator(self.started);
        self.net.join(who);
        let (clock, bucket) = (self.clock(), self.bucket.id.clone());
        let (net, checker, data) = (&mut self.net, &mut self.checker, &self.data);
        let coordinator = Coordinator::start(
            &mut Around { net, checker, data },
            (who, slot),
            clock,
            bucket,
        );
        self.coordinators.insert(who, coordinator);
    }

    pub(crate) fn start_application(&mut self, who: Who) {
        if !self.workers.contains_key(&who) {
            return;
        }
        let life = self.applications.get(&who).map_or(1, |it| it.life + 1);
        let good = self.calm || !(self.plan.bad_habits || self.plan.stubborn);
        let habits = if good {
            Habits::good(&mut self.net)
        } else if self.plan.stubborn {
            Habits::stubborn(&mut self.net)
        } else {
            Habits::drawn(&mut self.net)
        };
        let application = Application::start(&mut self.net, who, life, habits);
        self.applications.insert(who, application);
    }

    fn look_after_application(&mut self, who: Who) {
        let Some(application) = self.applications.get_mut(&who).filter(|it| it.dead) else {
            return;
        };
        if !std::mem::replace(&mut application.mourned, true) {
            let wait = self.net.chance.millis(100, 8000);
            self.net
                .after(wait, Event::Later(Later::StartApplication(who)));
        }
    }

    // --- servers

    fn arrive(&mut self, request: Request) {
        match &request.ask {
            Ask::LateSeed(partition, epoch) => {
                let what = For::Hold(*partition, *epoch);
                let got = self.seed_late(*partition);
                self.net.answer(&request, News::Got(what, got));
            }
            Ask::Put(..) | Ask::Replace(..) | Ask::Get(..) | Ask::Watch(..) => {
                let stored = self.bucket.serve(&mut self.net, request);
                self.judge_stored(stored);
            }
            Ask::Open(..)
            | Ask::Look(..)
            | Ask::Pull(..)
            | Ask::Close(_)
            | Ask::Scan(..)
            | Ask::Ends => self.data.serve(&mut self.net, &request),
        }
    }

    fn judge_stored(&mut self, stored: Option<StoredWrite>) {
        let Some(stored) = stored else {
            return;
        };
        self.checker.stored(&stored.entry, &self.data);
        if let Doc::Group(document) = &stored.entry.doc
            && document.seeded
        {
            for partition in Partition::all(self.meta.partitions()) {
                let from = match self.meta.start_from {
                    StartFrom::Latest => self.checker.tally.published,
                    _ => 0,
                };
                self.checker.owes_from(partition, from);
            }
        }
    }

    /// What a naive consumer does: it begins where its policy says *now*.
    fn seed_late(&mut self, partition: Partition) -> Got {
        let key = Key::Offset(partition);
        let start = self
            .data
            .stream(partition)
            .map(|stream| match self.meta.start_from {
                StartFrom::Latest => (stream.last() + 1, stream.created()),
                _ => (stream.first(), stream.created()),
            });
        let record = start.and_then(|(at, made)| seed(&self.meta, partition, Sequence(at), made));
        let Some(record) = record else {
            return Got::Unanswered;
        };
        if self.bucket.newest(&key).is_none() {
            self.bucket
                .set(&mut self.net, &key, &Doc::Offset(Arc::new(record)));
        }
        Got::Unanswered // it is read again
    }

    fn publish(&mut self) {
        self.publish_one();
        let pace = u64::try_from(self.plan.pace.as_millis()).unwrap_or(1000);
        let wait = self.net.chance.millis(1, pace * 2);
        if self.net.now.after(wait) < CALM.after(Duration::from_secs(3)) {
            self.net.after(wait, Event::Publish);
        }
    }

    fn publish_one(&mut self) {
        let all = u64::from(self.meta.partitions());
        // The first partition gets half of it, the last one next to nothing.
        let (one, two) = (self.net.chance.below(all), self.net.chance.below(all));
        let partition = Partition(u32::try_from(one.min(two)).unwrap_or(0));
        let id = self.checker.will_publish(partition);
        let seq = self.data.publish(&mut self.net, partition, id);
        self.checker.published(id, seq);
    }

    // --- what comes later

    fn later(&mut self, later: Later) {
        match later {
            Later::StartMember(slot) => {
                if !self.workers.values().any(|w| w.slot == slot) {
                    self.start_member(slot);
                }
            }
            Later::StartCoordinator(slot) => self.start_coordinator(slot),
            Later::StartApplication(who) => self.start_application(who),
            Later::Reconnect(who) => {
                if self.net.is_up(who) {
                    self.net.say(|| format!("{who} is connected again"));
                    self.net.push(who, News::Connected);
                }
            }
            Later::MakeBucket => self.make_bucket(),
            Later::Calm => self.calm_down(),
            Later::Resume => self.resume(),
            Later::Quiet => {
                self.net.say(|| "from now on nothing may happen");
                self.checker.expects_quiet();
            }
        }
    }

    /// The manager changes the group's description.
    pub(crate) fn change_meta(&mut self, change: impl FnOnce(&mut Meta)) {
        self.meta.generation = MetaGeneration(self.meta.generation.0 + 1);
        change(&mut self.meta);
        if self.bucket.is_there {
            let meta = Doc::Meta(Arc::new(self.meta.clone()));
            self.net.say(|| format!("the manager writes {meta}"));
            self.bucket.set(&mut self.net, &Key::Meta, &meta);
        }
    }

    /// The trouble ends: everything runs, nothing is lost any more.
    fn calm_down(&mut self) {
        self.calm = true;
        self.net.say(|| "the trouble is over");
        self.net.weather = Weather::default();
        self.bucket.wake_watches(&mut self.net);
        self.change_meta(|meta| meta.pause = lockstep::group::Pause::default());
        let outdated: Vec<(Who, usize)> = self
            .workers
            .values()
            .filter(|w| w.is_outdated())
            .map(|w| (w.who, w.slot))
            .collect();
        for (who, slot) in outdated {
            self.bury_worker(who, slot);
        }
        for worker in self.workers.values_mut() {
            worker.dies_after = None;
        }
        let bad: Vec<Who> = self
            .workers
            .keys()
            .filter(|who| !self.applications.get(who).is_some_and(Application::is_good))
            .copied()
            .collect();
        for who in bad {
            if let Some(application) = self.applications.get_mut(&who) {
                application.die(&mut self.net);
                application.mourned = true;
            }
            let wait = self.net.chance.millis(10, 3000);
            self.net
                .after(wait, Event::Later(Later::StartApplication(who)));
        }
    }

    /// A person resumes what a stuck message has stopped.
    fn resume(&mut self) {
        let stuck: Vec<Partition> = Partition::all(self.meta.partitions())
            .filter(
                |partition| match self.bucket.newest(&Key::Offset(*partition)) {
                    Some(Doc::Offset(record)) => record
                        .stopped
                        .as_ref()
                        .is_some_and(|s| s.reason == StopReason::MessageStuck),
                    _ => false,
                },
            )
            .collect();
        if stuck.is_empty() {
            return;
        }
        self.change_meta(|meta| {
            for partition in stuck {
                meta.resumed.insert(partition, meta.generation);
            }
        });
    }

    /// Somebody has accepted the loss: a bucket with another identity, and in it what members reported.
    fn make_bucket(&mut self) {
        self.buckets += 1;
        let mut committed: BTreeMap<Partition, Sequence> = BTreeMap::new();
        for says in self.bucket.heartbeats() {
            for held in &says.held {
                let entry = committed.entry(held.partition).or_insert(held.committed);
                *entry = held.committed.max(*entry);
            }
        }
        let id = BucketId::new(format!("b{}", self.buckets));
        self.bucket.make_anew(id.clone(), self.net.now);
        self.checker.bucket_replaced();
        self.change_meta(|meta| meta.bucket = id);
        for (partition, next) in committed {
            self.checker.rebuilt(partition, next.0);
            let created = self.data.stream(partition).map(Stream::created);
            let record = created.and_then(|made| seed(&self.meta, partition, next, made));
            if let Some(record) = record {
                let doc = Doc::Offset(Arc::new(record));
                self.bucket
                    .set(&mut self.net, &Key::Offset(partition), &doc);
            }
        }
    }

    fn finish(&mut self) {
        let members: BTreeSet<Incarnation> =
            self.workers.values().map(|w| w.me().clone()).collect();
        let end = Final {
            members: &members,
            data: &self.data,
            partitions: self.meta.partitions(),
        };
        self.checker.finish(&end);
    }
}
