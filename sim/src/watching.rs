//! What every process has: a watch of the bucket that begins again when it breaks, and a timer.

use std::time::Duration;

use crate::message::{Ask, Filter};
use crate::net::{Event, Net, Who};
use crate::time::At;

/// A process's watch: of those that it began, what comes of the newest is heard.
#[derive(Debug, Default)]
pub struct Watching {
    number: u64,
    tries: u32,
    again_at: Option<At>,
}

/// When a process is to be woken.
#[derive(Debug, Default)]
pub struct Alarm(Option<At>);

// === impl Watching ===

impl Watching {
    /// Begins one.
    pub fn begin(&mut self, net: &mut Net, who: Who, filter: Filter) {
        self.number += 1;
        self.again_at = None;
        net.ask(who, Ask::Watch(self.number, filter));
    }

    /// It broke: another one begins later, and nothing of this one is heard any more.
    pub fn broke(&mut self, net: &mut Net) {
        self.number += 1;
        self.tries = (self.tries + 1).min(6);
        let most = (100 << self.tries).min(5000);
        self.again_at = Some(net.now.after(net.chance.millis(most / 2, most)));
    }

    /// It has delivered all that there was.
    pub fn loaded(&mut self) {
        self.tries = 0;
    }

    /// Its number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// When the next one begins, if it broke.
    pub fn again_at(&self) -> Option<At> {
        self.again_at
    }

    /// Whether the next one is to begin.
    pub fn is_due(&self, now: At) -> bool {
        self.again_at.is_some_and(|at| at <= now)
    }
}

// === impl Alarm ===

impl Alarm {
    /// Sets it to this moment, or as soon as may be, unless it is set to an earlier one.
    pub fn set(&mut self, net: &mut Net, who: Who, to: At) {
        let to = to.max(net.now.after(Duration::from_micros(10)));
        if self.0.is_none_or(|at| to < at || at <= net.now) {
            self.0 = Some(to);
            net.at(to, Event::Wake(who));
        }
    }

    /// It rang, this time or for an earlier setting.
    pub fn rang(&mut self, now: At) {
        if self.0.is_some_and(|at| at <= now) {
            self.0 = None;
        }
    }
}
