//! Every order of events within bounds that take seconds.

use lockstep_model::{Bounds, Budget, Protocol};
use stateright::{Checker, Model};

const BOUNDS: Bounds = Bounds {
    coordinators: 2,
    members: 2,
    begun: 1,
    partitions: 2,
    messages: 1,
    budget: Budget::NONE,
    settle_one_of: 200,
};

/// Tries everything; at least so many states, or the model has lost what it should try.
fn holds(bounds: Bounds, least: usize) {
    let checker = Protocol::new(bounds).checker().threads(2).spawn_dfs();
    let checker = checker.join();
    checker.assert_properties();
    let states = checker.unique_state_count();
    assert!(states >= least, "only {states} states");
}

#[test]
fn a_group_begins_in_an_empty_bucket() {
    let bounds = Bounds {
        members: 1,
        begun: 0,
        partitions: 1,
        ..BOUNDS
    };
    holds(bounds, 300);
}

#[test]
fn a_member_joins_and_another_leaves() {
    let budget = Budget {
        drains: 1,
        ..Budget::NONE
    };
    let bounds = Bounds {
        budget,
        messages: 0,
        ..BOUNDS
    };
    holds(bounds, 4000);
}

#[test]
fn a_member_crashes_while_another_joins() {
    let budget = Budget {
        member_crashes: 1,
        passes: 1,
        ..Budget::NONE
    };
    let bounds = Bounds {
        budget,
        partitions: 1,
        ..BOUNDS
    };
    holds(bounds, 5000);
}

#[test]
fn a_coordinator_crashes_while_a_member_joins() {
    let budget = Budget {
        coordinator_crashes: 1,
        passes: 1,
        ..Budget::NONE
    };
    let bounds = Bounds {
        budget,
        messages: 0,
        partitions: 1,
        ..BOUNDS
    };
    holds(bounds, 1000);
}

#[test]
fn somebody_is_cut_off_and_comes_back() {
    let budget = Budget {
        cuts: 1,
        ..Budget::NONE
    };
    let bounds = Bounds {
        budget,
        messages: 0,
        partitions: 1,
        ..BOUNDS
    };
    holds(bounds, 5000);
}

#[test]
fn a_write_ends_nobody_knows_how() {
    let budget = Budget {
        unknowns: 1,
        ..Budget::NONE
    };
    let bounds = Bounds {
        budget,
        partitions: 1,
        ..BOUNDS
    };
    holds(bounds, 1000);
}
