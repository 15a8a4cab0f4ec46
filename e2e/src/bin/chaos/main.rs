//! `make chaos MINUTES=n SEED=n`: faults of the whole catalogue, in an order that a seed
//! determines, over one server and three, windows of 1 and 16. Each scene ends with a verdict.
//!
//! `target/debug/chaos --servers 3 --window 16 --faults churn,member-deaf` plays one scene.

mod flags;
mod plan;

use std::process::ExitCode;
use std::time::Duration;

use lockstep_e2e::chaos::{Dice, Stage};
use lockstep_e2e::checker::Verdict;
use lockstep_e2e::clock;
use lockstep_e2e::console::say;
use lockstep_e2e::scene::{Outcome, SceneError};

use flags::Flags;
use plan::{Deck, Scene};

#[tokio::main]
async fn main() -> ExitCode {
    let flags = match Flags::parse(std::env::args().skip(1)) {
        Ok(flags) => flags,
        Err(error) => {
            say(&format!("{error}\n{}", flags::USAGE));
            return ExitCode::from(2);
        }
    };
    let passed = match flags.scene() {
        Some(scene) => perform(&scene, flags.keep).await,
        None => perform_many(&flags).await,
    };
    if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Scenes until the time is over; whether all of them passed.
async fn perform_many(flags: &Flags) -> bool {
    let minutes = Duration::from_secs(60 * flags.minutes);
    say(&format!(
        "seed {}: again by make chaos SEED={0}",
        flags.seed
    ));
    let mut deck = Deck::new(Dice::new(flags.seed));
    for (fault, why) in Deck::left_out() {
        say(&format!("SKIPPED (counted): {fault}: {why}"));
    }
    let end = clock::now() + minutes;
    let (mut played, mut failed) = (0, 0);
    while clock::now() < end {
        let scene = deck.deal();
        played += 1;
        if !perform(&scene, flags.keep).await {
            failed += 1;
        }
    }
    say(&format!(
        "{played} scenes, {failed} failed; faults: {}; seed {}",
        deck.played(),
        flags.seed
    ));
    failed == 0
}

/// One scene; whether it passed.
async fn perform(scene: &Scene, keep: bool) -> bool {
    let started = clock::now();
    say(&format!("{scene}"));
    match play(scene, keep).await {
        Ok(verdict) => {
            let took = (clock::now() - started).as_secs();
            say(&format!("  passed in {took} s: {}", summary(&verdict)));
            true
        }
        Err(error) => {
            say(&format!(
                "  FAILED: {error}\n  again by: {}",
                scene.command()
            ));
            false
        }
    }
}

async fn play(scene: &Scene, keep: bool) -> Outcome<Verdict> {
    let mut stage = Stage::open(scene.setting.clone()).await?;
    if keep {
        say(&format!(
            "  everything lies in {}",
            stage.keep_folder().display()
        ));
    }
    for fault in &scene.faults {
        let started = clock::now();
        let struck = fault.strike(&mut stage).await;
        struck.map_err(|error| SceneError::new(format!("{fault}: {error}")))?;
        say(&format!(
            "  {fault}: {} s",
            (clock::now() - started).as_secs()
        ));
    }
    stage.ends_well().await
}

fn summary(verdict: &Verdict) -> String {
    format!(
        "{} messages, {} duplicates across owners, {} grants ({} unclean)",
        verdict.messages, verdict.duplicates, verdict.grants, verdict.unclean_grants
    )
}
