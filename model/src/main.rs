//! `make model`: tries every order of events, within bounds that take minutes or within those asked for.
//!
//! ```text
//! lockstep-model                                       all scenarios
//! lockstep-model members=3 begun=2 partitions=2 drains=1   one of your own
//! ```

use std::io::{self, Write};
use std::process::ExitCode;
use std::thread::available_parallelism;

use lockstep_model::{Bounds, Budget, Protocol};
use stateright::{Checker, Model};

/// What a run begins with, and what a scenario of your own says nothing of.
const BOUNDS: Bounds = Bounds {
    coordinators: 2,
    members: 3,
    begun: 2,
    partitions: 2,
    messages: 1,
    budget: Budget::NONE,
    settle_one_of: 1000,
};

/// What is tried unless something else is asked for.
const SCENARIOS: [&str; 10] = [
    "members=3 begun=2 partitions=3 messages=0 drains=1",
    "members=3 begun=2 partitions=3 messages=0 member_crashes=1 passes=1",
    "members=3 begun=2 partitions=3 messages=0 coordinator_crashes=1 passes=1",
    "members=3 begun=2 partitions=3 messages=1",
    "members=3 begun=2 partitions=3 messages=0 unknowns=1",
    "members=2 begun=0 partitions=1",
    "members=2 begun=1 partitions=1 cuts=1",
    "members=2 begun=1 partitions=1 cuts=1 passes=1 messages=0",
    "members=2 begun=1 partitions=1 cuts=1 unknowns=1 messages=0",
    "members=2 begun=1 partitions=2 drains=1",
];

fn main() -> ExitCode {
    let own: Vec<String> = std::env::args().skip(1).collect();
    let scenarios = if own.is_empty() {
        SCENARIOS.map(str::to_owned).to_vec()
    } else {
        vec![own.join(" ")]
    };
    let mut well = true;
    for scenario in scenarios {
        match bounds(&scenario).and_then(|bounds| holds(&scenario, bounds)) {
            Ok(holds) => well &= holds,
            Err(problem) => {
                eprintln!("{problem}");
                return ExitCode::from(2);
            }
        }
    }
    if well {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The bounds that a scenario states.
fn bounds(scenario: &str) -> Result<Bounds, String> {
    let mut bounds = BOUNDS;
    for word in scenario.split_whitespace() {
        let (key, value) = word
            .split_once('=')
            .ok_or_else(|| format!("{word:?} is not of the form key=value"))?;
        let number: u8 = value
            .parse()
            .map_err(|_| format!("{value:?} is not a number up to 255"))?;
        let budget = &mut bounds.budget;
        match key {
            "coordinators" => bounds.coordinators = number.into(),
            "members" => bounds.members = number.into(),
            "begun" => bounds.begun = number.into(),
            "partitions" => bounds.partitions = number.into(),
            "messages" => bounds.messages = number.into(),
            "settle_one_of" => bounds.settle_one_of = number.into(),
            "member_crashes" => budget.member_crashes = number,
            "coordinator_crashes" => budget.coordinator_crashes = number,
            "drains" => budget.drains = number,
            "passes" => budget.passes = number,
            "cuts" => budget.cuts = number,
            "unknowns" => budget.unknowns = number,
            _ => return Err(format!("{key:?} is no bound; see `Bounds` and `Budget`")),
        }
    }
    Ok(bounds)
}

/// Tries everything within the bounds; says how much that was, and what was broken.
fn holds(scenario: &str, bounds: Bounds) -> Result<bool, String> {
    let threads = available_parallelism().map_or(1, usize::from);
    let checker = Protocol::new(bounds).checker().threads(threads);
    let checker = checker.spawn_dfs().join();
    let discoveries = checker.discoveries();
    let (states, depth) = (checker.unique_state_count(), checker.max_depth());
    let mut text = vec![format!(
        "{scenario}: {states} states, {depth} steps at most"
    )];
    for (property, path) in &discoveries {
        text.push(format!(
            "  broken: {property}\n{:#?}",
            path.clone().into_actions()
        ));
    }
    writeln!(io::stdout(), "{}", text.join("\n"))
        .map_err(|error| format!("standard output: {error}"))?;
    Ok(discoveries.is_empty())
}
