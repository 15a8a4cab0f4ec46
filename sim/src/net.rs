//! What lies between the processes and the servers: the queue of events, links that delay, lose and
//! hold back, and processes that are stopped for a while.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::chance::Chance;
use crate::guard::Guard;
use crate::log::Log;
use crate::message::{Ask, News, Step};
use crate::time::At;

/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// A process. Each start of one is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// A worker.
    Member(u32),
    /// A coordinator.
    Coordinator(u32),
}

/// Something that happens.
#[derive(Clone, Debug)]
pub enum Event {
    /// A process's timer.
    Wake(Who),
    /// Something reaches a process.
    News(Who, News),
    /// Something happens in the application beside a worker, if it is that life of it still.
    Application(Who, u32, Step),
    /// A request reaches the servers.
    Arrive(Request),
    /// What the servers agreed upon becomes true.
    Apply(Request),
    /// A watch that stood still goes on.
    CatchUp(Who),
    /// A consumer's idle heartbeat.
    Idle(u64),
    /// A publisher publishes.
    Publish,
    /// The next fault of the plan.
    Fault(usize),
    /// A fault is over, or a process starts: the rest is in the world.
    Later(Later),
}

/// What a fault brings about later.
#[derive(Clone, Copy, Debug)]
pub enum Later {
    /// A member of this slot starts.
    StartMember(usize),
    /// A coordinator of this slot starts.
    StartCoordinator(usize),
    /// The application beside a worker starts again.
    StartApplication(Who),
    /// A connection stands again.
    Reconnect(Who),
    /// The bucket is made anew.
    MakeBucket,
    /// The trouble is over.
    Calm,
    /// Whatever stopped is looked at and resumed.
    Resume,
    /// From now on nothing may happen.
    Quiet,
}

/// A request on its way.
#[derive(Clone, Debug)]
pub struct Request {
    /// Who asks.
    pub from: Who,
    /// What.
    pub ask: Ask,
    /// When the client gives up.
    pub until: At,
    /// Whether it has given up: nobody hears the answer.
    pub unheard: bool,
}

/// How bad the network is, in thousandths.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weather {
    /// Requests that never arrive.
    pub lost: u64,
    /// Answers that never arrive.
    pub unanswered: u64,
    /// Requests that arrive long after their client has given up.
    pub late: u64,
    /// Reads that are answered with what was.
    pub stale: u64,
    /// Deliveries of consumers that never arrive.
    pub gaps: u64,
}

/// A process's connection, and the process itself as far as it can be reached.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    up: At,
    down: At,
    cut_until: Option<At>,
    stopped: Option<Stop>,
}

/// A process that does not run.
#[derive(Clone, Copy, Debug)]
struct Stop {
    until: At,
    /// When it goes on, its timers are served this much before what has come meanwhile.
    timers_first: Duration,
}

/// The world between processes.
#[derive(Debug)]
pub struct Net {
    /// The time, which no process knows.
    pub now: At,
    /// The only source of chance.
    pub chance: Chance,
    /// What happened.
    pub log: Log,
    /// What is switched off.
    pub off: Option<Guard>,
    /// How bad it is.
    pub weather: Weather,
    queue: BTreeMap<(At, u64), Event>,
    scheduled: u64,
    links: BTreeMap<Who, Link>,
}

// === impl Who ===

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Member(n) => write!(f, "worker {n}"),
            Self::Coordinator(n) => write!(f, "coordinator {n}"),
        }
    }
}

// === impl Net ===

impl Net {
    /// A quiet net at the beginning of time.
    pub fn new(chance: Chance, log: Log, off: Option<Guard>) -> Self {
        Self {
            now: At::default(),
            chance,
            log,
            off,
            weather: Weather::default(),
            queue: BTreeMap::new(),
            scheduled: 0,
            links: BTreeMap::new(),
        }
    }

    /// Whether this guard is switched off.
    pub fn is_off(&self, guard: Guard) -> bool {
        self.off == Some(guard)
    }

    /// Something will happen.
    pub fn at(&mut self, at: At, event: Event) {
        self.scheduled += 1;
        self.queue.insert((at.max(self.now), self.scheduled), event);
    }

    /// The same, so much later than now.
    pub fn after(&mut self, wait: Duration, event: Event) {
        self.at(self.now.after(wait), event);
    }

    /// What happens next, up to `end`; time goes on to it. What reaches a process that does not run
    /// waits.
    pub fn next(&mut self, end: At) -> Option<Event> {
        loop {
            let ((at, _), event) = self.queue.pop_first()?;
            if at > end {
                return None;
            }
            self.now = at;
            let stop = match &event {
                Event::Wake(who) => self.stop_of(*who).map(|stop| stop.until),
                Event::News(who, _) => {
                    let stop = self.stop_of(*who);
                    stop.map(|stop| stop.until.after(stop.timers_first))
                }
                Event::Application(..)
                | Event::Arrive(_)
                | Event::Apply(_)
                | Event::CatchUp(_)
                | Event::Idle(_)
                | Event::Publish
                | Event::Fault(_)
                | Event::Later(_) => None,
            };
            match stop.filter(|until| *until > at) {
                Some(until) => self.at(until, event),
                None => return Some(event),
            }
        }
    }

    fn stop_of(&self, who: Who) -> Option<Stop> {
        let stop = self.links.get(&who)?.stopped?;
        (stop.until.after(stop.timers_first) > self.now).then_some(stop)
    }

    /// Writes a line into the log, which is made only if somebody reads it.
    pub fn say<T: fmt::Display>(&mut self, line: impl FnOnce() -> T) {
        self.log.say(self.now, line);
    }

    // --- processes

    /// A process starts: its link is fresh.
    pub fn join(&mut self, who: Who) {
        self.links.insert(who, Link::default());
    }

    /// A process has ended.
    pub fn leave(&mut self, who: Who) {
        self.links.remove(&who);
    }

    /// A process does not run for this long. Its clock does, unless somebody stops that, too.
    pub fn stop(&mut self, who: Who, time: Duration) {
        let until = self.now.after(time);
        let timers_first = self.chance.either(Duration::ZERO, Duration::from_millis(1));
        if let Some(link) = self.links.get_mut(&who) {
            link.stopped = Some(Stop {
                until,
                timers_first,
            });
        }
    }

    /// Whether a process runs.
    pub fn runs(&self, who: Who) -> bool {
        self.links.contains_key(&who) && self.stop_of(who).is_none()
    }

    /// A process cannot be reached, and reaches nobody, for this long.
    pub fn cut(&mut self, who: Who, time: Duration) {
        let until = self.now.after(time);
        if let Some(link) = self.links.get_mut(&who) {
            link.cut_until = Some(link.cut_until.map_or(until, |before| before.max(until)));
        }
        self.at(until, Event::Later(Later::Reconnect(who)));
    }

    /// Whether a process is connected.
    pub fn is_up(&self, who: Who) -> bool {
        let cut = self.links.get(&who).and_then(|link| link.cut_until);
        cut.is_none_or(|until| until <= self.now)
    }

    // --- requests and answers

    /// Sends a request; an answer comes, or after three seconds the news that none came.
    pub fn ask(&mut self, from: Who, ask: Ask) {
        let until = self.now.after(PATIENCE);
        let lost = self.chance.per_mille(self.weather.lost);
        let late = self.chance.per_mille(self.weather.late);
        let delay = self.chance.micros(100, 3000);
        let up = self.is_up(from);
        let mut request = Request {
            from,
            ask,
            until,
            unheard: false,
        };
        let arrives = if !up {
            // The client buffers what it cannot send: all of it may arrive later.
            let end = self.links.get(&from).and_then(|link| link.cut_until);
            let kept = self.chance.either(true, false);
            end.filter(|_| kept).map(|end| end.after(delay))
        } else if lost {
            None
        } else if late {
            Some(self.now.after(self.chance.millis(2500, 25_000)))
        } else {
            let link = self.links.entry(from).or_default();
            link.up = link.up.max(self.now.after(delay));
            Some(link.up)
        };
        if arrives.is_none_or(|at| at >= until) {
            self.at(until, Event::News(from, request.ask.silence()));
            request.unheard = true;
        }
        if let Some(at) = arrives {
            self.at(at, Event::Arrive(request));
        }
    }

    /// Answers a request, unless the answer is lost on its way.
    pub fn answer(&mut self, request: &Request, news: News) {
        if request.unheard {
            return;
        }
        let lost = self.chance.per_mille(self.weather.unanswered) || !self.is_up(request.from);
        let at = self.reaches(request.from);
        if lost || at >= request.until {
            self.at(
                request.until,
                Event::News(request.from, request.ask.silence()),
            );
        } else {
            self.at(at, Event::News(request.from, news));
        }
    }

    /// A request cannot be served now: the same arrives again then. The client does not wait longer
    /// than it would have.
    pub fn park(&mut self, mut request: Request, until: At) {
        if !request.unheard && until >= request.until {
            self.at(
                request.until,
                Event::News(request.from, request.ask.silence()),
            );
            request.unheard = true;
        }
        self.at(until, Event::Arrive(request));
    }

    /// A request is never served.
    pub fn drop_request(&mut self, request: &Request) {
        if !request.unheard {
            self.at(
                request.until,
                Event::News(request.from, request.ask.silence()),
            );
        }
    }

    /// Sends something to a process, in order with what was sent before.
    pub fn push(&mut self, to: Who, news: News) {
        if self.is_up(to) {
            let at = self.reaches(to);
            self.at(at, Event::News(to, news));
        }
    }

    fn reaches(&mut self, to: Who) -> At {
        let delay = self.chance.micros(100, 3000);
        let link = self.links.entry(to).or_default();
        link.down = link.down.max(self.now.after(delay));
        link.down
    }
}
