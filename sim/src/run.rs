//! Running seeds: one, or many on all cores.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::checker::{Tally, Violation};
use crate::guard::Guard;
use crate::world::{Outcome, World};

/// Lines of the event log that are shown of a seed that failed.
const END_OF_LOG: usize = 60;

/// What came of many seeds.
#[derive(Debug, Default)]
pub struct Sum {
    /// How many were run.
    pub seeds: u64,
    /// Events of all of them.
    pub events: u64,
    /// What happened in all of them.
    pub tally: Tally,
    /// The first that failed, by number, with what it broke.
    pub failed: Vec<(u64, Violation)>,
}

/// Runs one seed; with `log`, its event log is kept.
pub fn run(seed: u64, off: Option<Guard>, log: bool) -> Outcome {
    World::new(seed, off, log).run()
}

/// Runs seeds on so many threads, until `enough` says that a failure is what was looked for.
pub fn run_many(
    (first, count): (u64, u64),
    off: Option<Guard>,
    threads: usize,
    enough: impl Fn(&Violation) -> bool + Sync,
) -> Sum {
    let next = AtomicU64::new(first);
    let found = AtomicBool::new(false);
    let sum = Mutex::new(Sum::default());
    thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while !found.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count {
                        break;
                    }
                    let outcome = run(seed, off, false);
                    let violations = outcome.checker.violations().to_vec();
                    if violations.iter().any(&enough) {
                        found.store(true, Ordering::Relaxed);
                    }
                    if let Ok(mut sum) = sum.lock() {
                        sum.add(seed, &outcome, violations);
                    }
                }
            });
        }
    });
    let mut sum = sum.into_inner().unwrap_or_default();
    sum.failed.sort_by_key(|(seed, _)| *seed);
    sum
}

/// How many threads there are cores for.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// What to print of a seed that failed: what it broke, the end of its event log, how to see it all.
pub fn report(seed: u64, off: Option<Guard>) -> String {
    let outcome = run(seed, off, true);
    let mut lines: Vec<String> = outcome
        .checker
        .violations()
        .iter()
        .map(|violation| format!("seed {seed} breaks {violation}"))
        .collect();
    let from = outcome.log.len().saturating_sub(END_OF_LOG);
    lines.push(format!(
        "the last {} of {} lines:",
        outcome.log.len() - from,
        outcome.log.len()
    ));
    lines.extend(outcome.log.get(from..).unwrap_or_default().iter().cloned());
    let without = off.map_or_else(String::new, |guard| format!(" WITHOUT={guard}"));
    lines.push(format!(
        "replay it with all its lines: make sim SEED={seed}{without}"
    ));
    lines.join("\n")
}

// === impl Sum ===

impl Sum {
    fn add(&mut self, seed: u64, outcome: &Outcome, violations: Vec<Violation>) {
        self.seeds += 1;
        self.events += outcome.events;
        let (tally, one) = (&mut self.tally, outcome.checker.tally);
        tally.published += one.published;
        tally.handed += one.handed;
        tally.claims += one.claims;
        tally.commits += one.commits;
        tally.documents += one.documents;
        tally.lost_unseen += one.lost_unseen;
        self.failed
            .extend(violations.into_iter().map(|violation| (seed, violation)));
    }
}
