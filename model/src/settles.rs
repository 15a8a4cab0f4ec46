//! Whether a group comes to rest once nothing goes wrong any more.

use lockstep::group::{GroupDocument, Partition, Sequence};

use crate::bounds::Budget;
use crate::history::Rule;
use crate::protocol::{Protocol, what_is_under_way};
use crate::state::{Action, Cut, State};
use crate::worker::Life;

/// Steps of time that a group may take: waits of the coordinator double up to 30 s.
const STEPS: u32 = 12;

/// What may happen within one step of time.
const ACTIONS: u32 = 2000;

/// Lets everything happen that is on its way, in some fair order, and time pass, with nobody cut off.
/// Answers whether the group then is as it should be: each partition owned, claimed and consumed to its
/// end by a member that runs, or, where none does, owned by nobody.
pub fn settles(protocol: &Protocol, state: &State) -> bool {
    let mut state = state.clone();
    state.budget = Budget::NONE;
    for _ in 0..STEPS {
        if !comes_to_a_stop(protocol, &mut state) {
            return false;
        }
        if is_settled(protocol, &state) {
            return true;
        }
        state.happen(Action::TimePasses(Cut::Nobody), &protocol.constants);
        if Rule::ALL.iter().any(|rule| state.is_broken(*rule)) {
            return false;
        }
    }
    false
}

fn comes_to_a_stop(protocol: &Protocol, state: &mut State) -> bool {
    let mut actions = Vec::new();
    for _ in 0..ACTIONS {
        actions.clear();
        what_is_under_way(state, &mut actions);
        let Some(action) = actions.first() else {
            return true;
        };
        protocol.take(state, *action);
    }
    false
}

fn is_settled(protocol: &Protocol, state: &State) -> bool {
    let Some((_, document)) = state.bucket.group.as_deref() else {
        return false;
    };
    let unborn = state.workers.iter().any(|w| w.life == Life::Unborn);
    let somebody = state.workers.iter().any(|w| w.life == Life::Runs);
    if !somebody {
        return unborn || !document.has_owners();
    }
    Partition::all(protocol.bounds.partitions).all(|p| is_consumed(protocol, state, (p, document)))
}

fn is_consumed(
    protocol: &Protocol,
    state: &State,
    (partition, document): (Partition, &GroupDocument),
) -> bool {
    let (Some(a), Some((_, record))) = (
        document.assignment(partition),
        state.bucket.offset(partition),
    ) else {
        return false;
    };
    let owned = state.workers.iter().any(|worker| {
        let feeds = worker.feeding().contains(&partition);
        worker.life == Life::Runs && a.owner.as_ref() == Some(worker.incarnation()) && feeds
    });
    owned
        && a.target == a.owner
        && (record.epoch, &record.owner) == (a.epoch, &a.owner)
        && record.next_seq == Sequence(protocol.bounds.messages + 1)
}
