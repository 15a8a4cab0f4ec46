//! How long the assignors take for 10,000 partitions and 1,000 members.

use std::time::Duration;

use lockstep::group::assignor::{
    Assignor, Candidate, PartitionInput, Previous, Range, Rendezvous, RoundRobin, Sticky, Target,
    ZoneAware,
};
use lockstep::group::{MemberId, Partition};
use lockstep_e2e::clock;
use lockstep_e2e::console::say;
use lockstep_e2e::figures::{Figures, Reach, median, milliseconds};
use lockstep_e2e::scene::Outcome;

const PARTITIONS: u32 = 10_000;
const MEMBERS: usize = 1_000;
const ZONES: [&str; 3] = ["a", "b", "c"];
const TIMES: usize = 5;
const MOST_MS: f64 = 50.0;

/// Measures each, from nothing and when one member joins and one leaves.
pub(crate) fn measure(figures: &mut Figures) -> Outcome<()> {
    say("assignors, 10,000 partitions, 1,000 members");
    let members = members(MEMBERS)?;
    let partitions = partitions();
    let all: [&dyn Assignor; 5] = [&Sticky, &Range, &RoundRobin, &Rendezvous, &ZoneAware];
    let mut longest: f64 = 0.0;
    for assignor in all {
        let from_nothing = Previous::default();
        let (first, target) = timed(assignor, &members[1..], &partitions, &from_nothing);
        let before = Previous {
            owners: target,
            ..Previous::default()
        };
        let (next, _) = timed(assignor, &members[..MEMBERS - 1], &partitions, &before);
        figures.note("assignors", &format!("{}_first_ms", assignor.name()), first);
        figures.note("assignors", &format!("{}_next_ms", assignor.name()), next);
        longest = longest.max(first).max(next);
    }
    figures.ratio("assignors: slowest, ms", longest, Reach::AtMost(MOST_MS));
    Ok(())
}

fn timed(
    assignor: &dyn Assignor,
    members: &[Candidate],
    partitions: &[PartitionInput],
    previous: &Previous,
) -> (f64, Target) {
    let mut times = Vec::new();
    let mut target = Target::new();
    for _ in 0..TIMES {
        let start = clock::now();
        target = assignor.assign(members, partitions, previous);
        times.push(milliseconds(start.elapsed(), 3));
    }
    let middle = median(&times).unwrap_or(milliseconds(Duration::MAX, 3));
    (middle, target)
}

fn members(count: usize) -> Outcome<Vec<Candidate>> {
    let made = (0..count).zip(ZONES.iter().cycle()).map(|(n, zone)| {
        Ok(Candidate {
            incarnation: format!("m{n:04}").parse()?,
            id: MemberId::new(format!("pod-{n}")),
            zone: Some((*zone).to_owned()),
            by_need: false,
        })
    });
    made.collect()
}

fn partitions() -> Vec<PartitionInput> {
    Partition::all(PARTITIONS)
        .zip(ZONES.iter().cycle())
        .map(|(partition, zone)| PartitionInput {
            partition,
            zone: Some((*zone).to_owned()),
        })
        .collect()
}
