//! The model as stateright sees it.

use std::hash::{DefaultHasher, Hash, Hasher};

use stateright::{Model, Property};

use crate::bounds::{Bounds, Budget, Sabotage};
use crate::history::Rule;
use crate::settles::settles;
use crate::state::{Action, Constants, Cut, State};
use crate::worker::Life;

/// The protocol within bounds.
#[derive(Clone, Debug)]
pub struct Protocol {
    pub(crate) bounds: Bounds,
    pub(crate) constants: Constants,
}

// === impl Protocol ===

impl Protocol {
    /// The protocol as it is.
    pub fn new(bounds: Bounds) -> Self {
        Self::sabotaged(bounds, Sabotage::None)
    }

    /// The protocol in surroundings that are broken on purpose.
    pub fn sabotaged(bounds: Bounds, sabotage: Sabotage) -> Self {
        let constants = Constants::new(bounds, sabotage);
        Self { bounds, constants }
    }

    /// What happens, and what follows from it at once.
    pub(crate) fn take(&self, state: &mut State, action: Action) {
        state.happen(action, &self.constants);
        state.bystanders_see(&self.constants);
        state
            .bucket
            .forget_what_cannot_land(self.constants.sabotage);
    }

    /// Whether this state is one of those that are let come to rest: those in which nothing can happen
    /// any more, and some of the others.
    fn is_looked_at(&self, state: &State) -> bool {
        let one_of = self.bounds.settle_one_of;
        if one_of == 0 {
            return false;
        }
        let mut hasher = DefaultHasher::new();
        state.hash(&mut hasher);
        if hasher.finish().is_multiple_of(one_of) {
            return true;
        }
        let mut actions = Vec::new();
        what_is_under_way(state, &mut actions);
        actions.is_empty() && state.budget == Budget::NONE
    }

    /// The state in which the members that have begun have what they should have.
    fn beginning(&self) -> State {
        let mut state = State::empty(self.bounds, &self.constants);
        for m in 0..self.bounds.begun {
            self.take(&mut state, Action::Starts(m));
        }
        let mut actions = Vec::new();
        if self.bounds.begun == 0 {
            return state;
        }
        loop {
            actions.clear();
            what_is_under_way(&state, &mut actions);
            // Messages come later.
            actions.retain(|a| !matches!(a, Action::Takes(..) | Action::Acknowledges(..)));
            let Some(action) = actions.first() else {
                return state;
            };
            self.take(&mut state, *action);
        }
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![self.beginning()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if Rule::ALL.iter().any(|rule| state.is_broken(*rule)) {
            return; // nothing that follows is of interest
        }
        what_is_under_way(state, actions);
        what_somebody_wants(state, actions);
        what_may_go_wrong(state, actions);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        self.take(&mut next, action);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("a partition's epoch has one owner for ever", |_, s| {
                holds(s, Rule::OneOwnerPerEpoch)
            }),
            Property::always("epochs never fall", |_, s| holds(s, Rule::EpochsNeverFall)),
            Property::always("a lower term never writes after a higher one", |_, s| {
                holds(s, Rule::LowerTermsNeverWrite)
            }),
            Property::always(
                "nobody writes at an epoch below the newest claim",
                |_, s| holds(s, Rule::FencedForEver),
            ),
            Property::always("a committed position never falls", |_, s| {
                holds(s, Rule::CommitsNeverFall)
            }),
            Property::always("no commit passes what is not acknowledged", |_, s| {
                holds(s, Rule::NothingIsPassed)
            }),
            Property::always("one member at most feeds a partition", |_, s| {
                holds(s, Rule::OneFeeds)
            }),
            Property::always("nobody is confused", |_, s| {
                holds(s, Rule::NobodyIsConfused)
            }),
            Property::always("the group comes to rest", |protocol: &Self, state| {
                !protocol.is_looked_at(state) || settles(protocol, state)
            }),
        ]
    }
}

fn holds(state: &State, rule: Rule) -> bool {
    !state.is_broken(rule)
}

/// What is under way anyway: deliveries, answers, applications at work.
pub(crate) fn what_is_under_way(state: &State, actions: &mut Vec<Action>) {
    for (c, it) in state
        .coordinators
        .iter()
        .enumerate()
        .filter(|(_, c)| c.runs)
    {
        if !it.watch.is_empty() {
            actions.push(Action::CoordinatorSees(c));
        }
        if it.writing.is_some() {
            actions.push(Action::CoordinatorWrites(c));
        }
    }
    for (m, worker) in state.workers.iter().enumerate().filter(|(_, w)| w.runs()) {
        if !worker.watch.is_empty() {
            actions.push(Action::MemberSees(m));
        }
        let requests = 0..worker.requests.len();
        actions.extend(requests.map(|which| Action::MemberIsAnswered(m, which)));
        let feeds = worker.feeds().into_iter();
        actions.extend(feeds.map(|partition| Action::Takes(m, partition)));
        let in_hand = 0..worker.in_hand.len();
        actions.extend(in_hand.map(|which| Action::Acknowledges(m, which)));
    }
}

fn what_somebody_wants(state: &State, actions: &mut Vec<Action>) {
    for (m, worker) in state.workers.iter().enumerate() {
        match worker.life {
            Life::Unborn => actions.push(Action::Starts(m)),
            Life::Runs if state.budget.drains > 0 => actions.push(Action::Drains(m)),
            Life::Runs | Life::Leaves | Life::Over => {}
        }
    }
}

fn what_may_go_wrong(state: &State, actions: &mut Vec<Action>) {
    let Budget {
        member_crashes,
        coordinator_crashes,
        drains: _,
        passes,
        cuts,
        unknowns,
    } = state.budget;
    let members = (0..state.workers.len()).filter(|m| state.workers[*m].runs());
    let members: Vec<usize> = members.collect();
    let coordinators = (0..state.coordinators.len()).filter(|c| state.coordinators[*c].runs);
    let coordinators: Vec<usize> = coordinators.collect();
    if member_crashes > 0 {
        actions.extend(members.iter().map(|m| Action::MemberCrashes(*m)));
    }
    if coordinator_crashes > 0 && coordinators.len() > 1 {
        actions.extend(coordinators.iter().map(|c| Action::CoordinatorCrashes(*c)));
    }
    if unknowns > 0 {
        what_may_get_lost(state, actions);
    }
    actions.extend((0..state.bucket.stray.len()).map(Action::StrayLands));
    if passes > 0 {
        actions.push(Action::TimePasses(Cut::Nobody));
    }
    if cuts > 0 {
        let members = members.into_iter().map(Cut::Member);
        let coordinators = coordinators.into_iter().map(Cut::Coordinator);
        actions.extend(members.chain(coordinators).map(Action::TimePasses));
    }
}

fn what_may_get_lost(state: &State, actions: &mut Vec<Action>) {
    for (m, worker) in state.workers.iter().enumerate() {
        let requests = worker.requests.iter().enumerate();
        let writes = requests.filter(|(_, request)| request.write.is_some());
        actions.extend(writes.map(|(which, _)| Action::WriteIsLost(m, which)));
    }
    for (c, coordinator) in state.coordinators.iter().enumerate() {
        if coordinator.writing.is_some() {
            actions.push(Action::DocumentIsLost(c));
        }
    }
}
