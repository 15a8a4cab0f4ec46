//! An application beside a worker: it works on what it is given, and has every bad habit.
//!
//! Its effects go to a store that refuses what carries a lower epoch than it has seen for that
//! partition: the fencing token as the protocol means it.

use std::collections::VecDeque;

use lockstep::group::member::AckKind;
use lockstep::group::{Epoch, Partition, Sequence, SessionId};

use crate::message::{Call, News, Step};
use crate::net::{Event, Net, Who};
use crate::worker::{Around, Given, ToApplication};

/// How an application behaves.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    /// Milliseconds of work per message, at least and at most.
    pub work: (u64, u64),
    /// It acknowledges each message; else all of a partition at the end of a batch.
    pub each: bool,
    /// Messages that it asks for at once.
    pub batch: u64,
    /// Of a thousand messages it refuses so many.
    pub nacks: u64,
    /// Of a thousand messages so many make it hang for good.
    pub hangs: u64,
    /// Of a thousand messages so many kill it.
    pub crashes: u64,
    /// Of a thousand batches it fetches so many times again before it is through.
    pub eager: u64,
    /// Of a thousand acknowledgements so many are late by seconds.
    pub tardy: u64,
}

/// One life of an application.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts that are independent of each other"
)]
pub struct Application {
    who: Who,
    /// Which life.
    pub life: u32,
    session: SessionId,
    habits: Habits,
    queue: VecDeque<Given>,
    done: Vec<Given>,
    working: bool,
    hangs: bool,
    leaving: bool,
    /// It died, and is to be started again.
    pub dead: bool,
    /// It will be.
    pub mourned: bool,
}

// === impl Habits ===

impl Habits {
    /// Nothing wrong with it.
    pub fn good(net: &mut Net) -> Self {
        Self {
            work: (1, 20),
            each: net.chance.either(true, false),
            batch: net.chance.between(1, 20),
            nacks: 0,
            hangs: 0,
            crashes: 0,
            eager: 0,
            tardy: 0,
        }
    }

    /// It takes much at once, works on it for long whatever happens meanwhile, and says so in the end.
    pub fn stubborn(net: &mut Net) -> Self {
        Self {
            work: (1000, 9000),
            eager: 1000,
            batch: 20,
            ..Self::good(net)
        }
    }

    /// One of many characters.
    pub fn drawn(net: &mut Net) -> Self {
        let good = Self::good(net);
        match net.chance.below(10) {
            0 => Self {
                work: (200, 3000),
                ..good
            },
            1 => Self { nacks: 60, ..good },
            2 => Self {
                hangs: 15,
                work: (5, 100),
                ..good
            },
            3 => Self {
                crashes: 20,
                work: (5, 100),
                ..good
            },
            4..=6 => Self::stubborn(net),
            7 => Self {
                tardy: 200,
                work: (5, 300),
                ..good
            },
            _ => good,
        }
    }
}

// === impl Application ===

impl Application {
    /// It starts and asks for messages.
    pub fn start(net: &mut Net, who: Who, life: u32, habits: Habits) -> Self {
        let session = SessionId::new(format!("{who} app {life}").replace(' ', "-"));
        net.say(|| format!("{session} starts: {habits:?}"));
        let application = Self {
            who,
            life,
            session,
            habits,
            queue: VecDeque::new(),
            done: Vec::new(),
            working: false,
            hangs: false,
            leaving: false,
            dead: false,
            mourned: false,
        };
        let wait = net.chance.millis(1, 200);
        net.after(wait, Event::Application(who, life, Step::Begin));
        application
    }

    fn call(&self, net: &mut Net, call: Call, tardy: bool) {
        let wait = if tardy {
            net.chance.millis(100, 15_000)
        } else {
            net.chance.micros(50, 400)
        };
        net.after(wait, Event::News(self.who, News::Call(call)));
    }

    fn fetch(&self, net: &mut Net) {
        let call = Call::Fetch(self.session.clone(), self.habits.batch);
        self.call(net, call, false);
    }

    /// The worker says something.
    pub fn hear(&mut self, around: &mut Around<'_>, said: ToApplication) {
        if self.dead {
            return;
        }
        match said {
            ToApplication::Batch(session, batch) if session == self.session => {
                self.take(around.net, &batch);
            }
            ToApplication::Draining(session) if session == self.session => {
                self.leaving = true;
                if !self.working && !self.hangs {
                    self.call(around.net, Call::Closed(self.session.clone()), false);
                }
            }
            ToApplication::Batch(..) | ToApplication::Draining(_) => {}
        }
    }

    fn take(&mut self, net: &mut Net, batch: &[Given]) {
        for given in batch {
            let same = |g: &Given| {
                (g.partition, g.epoch, g.message) == (given.partition, given.epoch, given.message)
            };
            if !given.again || !self.queue.iter().any(same) {
                self.queue.push_back(*given);
            }
        }
        if !self.working {
            self.work_on(net);
        }
        if net.chance.per_mille(self.habits.eager) {
            let (who, life) = (self.who, self.life);
            let wait = net.chance.millis(200, 3000);
            net.after(wait, Event::Application(who, life, Step::Begin));
        }
    }

    fn work_on(&mut self, net: &mut Net) {
        if self.queue.is_empty() {
            self.finish_batch(net);
            return;
        }
        self.working = true;
        let (least, most) = self.habits.work;
        let wait = net.chance.millis(least, most);
        net.after(wait, Event::Application(self.who, self.life, Step::Done));
    }

    /// A step of its own.
    pub fn step(&mut self, around: &mut Around<'_>, step: Step) {
        if self.dead || self.hangs {
            return;
        }
        match step {
            Step::Begin => self.fetch(around.net),
            Step::Done => self.finish_one(around),
        }
    }

    fn finish_one(&mut self, around: &mut Around<'_>) {
        self.working = false;
        let Some(given) = self.queue.pop_front() else {
            return;
        };
        if around.net.chance.per_mille(self.habits.hangs) {
            self.hangs = true;
            around.net.say(|| format!("{} hangs", self.session));
            return;
        }
        if around.net.chance.per_mille(self.habits.crashes) {
            return self.die(around.net);
        }
        let at = (given.partition, given.epoch, Sequence(given.message.seq));
        if around.net.chance.per_mille(self.habits.nacks) {
            self.call(around.net, Call::Nack(self.session.clone(), at), false);
        } else {
            around
                .checker
                .effect(given.partition, given.epoch, given.message.id);
            if self.habits.each {
                self.ack(around.net, at, AckKind::Each);
            } else {
                self.done.push(given);
            }
        }
        self.work_on(around.net);
    }

    fn ack(&self, net: &mut Net, at: (Partition, Epoch, Sequence), kind: AckKind) {
        let tardy = net.chance.per_mille(self.habits.tardy);
        self.call(net, Call::Ack(self.session.clone(), at, kind), tardy);
    }

    fn finish_batch(&mut self, net: &mut Net) {
        let done = std::mem::take(&mut self.done);
        let mut last: Vec<Given> = Vec::new();
        for given in done {
            let same = |g: &Given| g.partition == given.partition && g.epoch == given.epoch;
            last.retain(|g| !same(g));
            last.push(given);
        }
        for given in last {
            let at = (given.partition, given.epoch, Sequence(given.message.seq));
            self.ack(net, at, AckKind::UpTo);
        }
        if self.leaving {
            self.call(net, Call::Closed(self.session.clone()), false);
        } else {
            let wait = net.chance.millis(1, 5);
            net.after(wait, Event::Application(self.who, self.life, Step::Begin));
        }
    }

    /// It dies; its worker hears of it at once, or when the session has expired.
    pub fn die(&mut self, net: &mut Net) {
        self.dead = true;
        net.say(|| format!("{} dies", self.session));
        let wait = net.chance.millis(1, 3000);
        let lost = Call::Lost(self.session.clone());
        net.after(wait, Event::News(self.who, News::Call(lost)));
    }

    /// It takes up other habits.
    pub fn change(&mut self, habits: Habits) {
        self.habits = habits;
    }

    /// Whether it does nothing any more, or worse.
    pub fn is_of_no_use(&self) -> bool {
        self.dead || self.hangs
    }

    /// Whether it works as it should.
    pub fn is_good(&self) -> bool {
        let h = self.habits;
        !self.is_of_no_use()
            && h.nacks + h.hangs + h.crashes + h.tardy + h.eager == 0
            && h.work.1 <= 100
    }
}
