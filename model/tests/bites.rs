//! The checker notices when the surroundings break what the protocol rests on.

use lockstep_model::{Bounds, Budget, Protocol, Sabotage};
use stateright::{Checker, HasDiscoveries, Model};

const BOUNDS: Bounds = Bounds {
    coordinators: 2,
    members: 2,
    begun: 1,
    partitions: 2,
    messages: 1,
    budget: Budget::NONE,
    settle_one_of: 0,
};

/// With this broken, some order of events breaks this property; without it, none of as many does.
fn is_caught(sabotage: Sabotage, bounds: Bounds, property: &'static str) {
    let broken = Protocol::sabotaged(bounds, sabotage);
    let checker = broken
        .checker()
        .threads(2)
        .finish_when(HasDiscoveries::AnyOf([property].into()))
        .spawn_bfs()
        .join();
    let path = checker.discovery(property);
    assert!(
        path.is_some(),
        "{sabotage:?}: {} states and nothing found",
        checker.unique_state_count()
    );
    let found = checker.state_count();
    let sound = Protocol::new(bounds)
        .checker()
        .threads(2)
        .target_state_count(found)
        .spawn_bfs()
        .join();
    sound.assert_no_discovery(property);
}

#[test]
fn commit_records_without_compare_and_set() {
    let budget = Budget {
        cuts: 1,
        ..Budget::NONE
    };
    let bounds = Bounds {
        budget,
        partitions: 1,
        ..BOUNDS
    };
    is_caught(
        Sabotage::OffsetsWithoutCas,
        bounds,
        "nobody writes at an epoch below the newest claim",
    );
}

#[test]
fn a_group_document_without_compare_and_set() {
    let budget = Budget {
        cuts: 1,
        ..Budget::NONE
    };
    let bounds = Bounds {
        budget,
        partitions: 1,
        ..BOUNDS
    };
    is_caught(
        Sabotage::GroupWithoutCas,
        bounds,
        "a lower term never writes after a higher one",
    );
}

#[test]
fn grants_that_do_not_wait_for_the_release() {
    is_caught(
        Sabotage::GrantsWithoutRelease,
        BOUNDS,
        "one member at most feeds a partition",
    );
}

#[test]
fn epochs_that_are_not_raised_by_grants() {
    is_caught(
        Sabotage::EpochsStay,
        BOUNDS,
        "a partition's epoch has one owner for ever",
    );
}

#[test]
fn a_clock_that_stands_still_in_suspension() {
    let budget = Budget {
        cuts: 1,
        ..Budget::NONE
    };
    let bounds = Bounds {
        budget,
        partitions: 1,
        begun: 2,
        ..BOUNDS
    };
    is_caught(
        Sabotage::ClocksStandStill,
        bounds,
        "one member at most feeds a partition",
    );
}

#[test]
fn commits_that_run_ahead() {
    is_caught(
        Sabotage::CommitsAhead,
        BOUNDS,
        "no commit passes what is not acknowledged",
    );
}

#[test]
fn commits_that_go_back() {
    let bounds = Bounds {
        messages: 2,
        partitions: 1,
        members: 1,
        ..BOUNDS
    };
    is_caught(
        Sabotage::CommitsBack,
        bounds,
        "a committed position never falls",
    );
}

#[test]
fn watches_that_deliver_nothing() {
    let bounds = Bounds {
        settle_one_of: 1,
        ..BOUNDS
    };
    is_caught(Sabotage::WatchesAreDead, bounds, "the group comes to rest");
}
