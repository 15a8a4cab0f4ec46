//! Thousands of worlds, in each of which every promise is kept; and worlds without a guard, in which one
//! is broken.

#![allow(
    clippy::panic,
    clippy::print_stdout,
    reason = "a test stops where it is surprised, and prints what it met"
)]

use lockstep_sim::checker::Violation;
use lockstep_sim::guard::Guard;
use lockstep_sim::run::{cores, report, run, run_many};

/// How many seeds each `cargo test` runs.
const SEEDS: u64 = 2000;

#[test]
fn every_promise_is_kept_in_every_seed() {
    let sum = run_many((0, SEEDS), None, cores(), |_| true);
    if let Some((seed, _)) = sum.failed.first() {
        panic!("{}", report(*seed, None));
    }
    println!(
        "{} seeds, {} events: {:?}",
        sum.seeds, sum.events, sum.tally
    );
    assert_eq!(sum.seeds, SEEDS);
    // A world in which nothing happens keeps every promise, too.
    assert!(sum.tally.handed > SEEDS * 50, "{:?}", sum.tally);
    assert!(sum.tally.claims > SEEDS * 3, "{:?}", sum.tally);
}

#[test]
fn the_same_seed_is_the_same_world_event_for_event() {
    for seed in [0, 1, 7, 31, 99] {
        let (one, two) = (run(seed, None, true), run(seed, None, true));
        assert!(
            one.log.len() > 100,
            "seed {seed} has {} lines",
            one.log.len()
        );
        assert_eq!(one.events, two.events, "seed {seed}");
        for (a, b) in one.log.iter().zip(&two.log) {
            assert_eq!(a, b, "seed {seed}");
        }
        assert_eq!(one.log.len(), two.log.len(), "seed {seed}");
    }
}

#[test]
fn another_seed_is_another_world() {
    assert_ne!(run(1, None, true).log, run(2, None, true).log);
}

/// With a guard switched off a seed breaks what the guard protects: one that is known to, or, should the
/// worlds have changed since, any other.
fn bites(guard: Guard, known: u64) {
    let expected = |violation: &Violation| guard.protects().contains(&violation.rule);
    let mut sum = run_many((known, 1), Some(guard), 1, expected);
    if !sum.failed.iter().any(|(_, violation)| expected(violation)) {
        println!("seed {known} does not show the guard {guard} any more; looking for another");
        sum = run_many((0, SEEDS), Some(guard), cores(), expected);
    }
    let Some((seed, violation)) = sum.failed.iter().find(|(_, v)| expected(v)) else {
        let (seeds, others) = (sum.seeds, sum.failed);
        let protects = guard.protects();
        panic!(
            "without the guard {guard} none of {seeds} seeds breaks any of {protects:?}; broken: {others:#?}"
        );
    };
    println!("without the guard {guard}, seed {seed} breaks {violation}");
    // The guard is what keeps it: with it, the same seed keeps every promise.
    let with = run(*seed, None, false);
    assert_eq!(
        with.checker.violations(),
        [],
        "seed {seed} with the guard {guard}"
    );
}

#[test]
fn compare_and_set_bites() {
    bites(Guard::Cas, 1);
}

#[test]
fn the_lease_bites() {
    bites(Guard::Lease, 6);
}

#[test]
fn the_echo_bites() {
    bites(Guard::Echo, 1193);
}

#[test]
fn evidence_of_release_bites() {
    bites(Guard::Release, 1);
}

#[test]
fn the_check_of_validity_bites() {
    bites(Guard::Validity, 6);
}

#[test]
fn the_epoch_of_an_acknowledgement_bites() {
    bites(Guard::AckEpoch, 425);
}

#[test]
fn healthy_time_bites() {
    bites(Guard::HealthyTime, 5);
}

#[test]
fn seeding_bites() {
    bites(Guard::Seeding, 2);
}
