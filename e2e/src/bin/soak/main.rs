//! `make soak MINUTES=n SEED=n`: a group on three servers under load, struck by one fault after
//! the other; at the end its processes hold no more than at the beginning, and the verdict is
//! good.

mod compare;

use std::process::ExitCode;
use std::time::Duration;

use lockstep_e2e::chaos::{Dice, Fault, Servers, Setting, Stage, baseline};
use lockstep_e2e::checker::Verdict;
use lockstep_e2e::console::say;
use lockstep_e2e::scene::{Outcome, SceneError};
use lockstep_e2e::{clock, until};

/// The time before the first sample: caches are warm, everybody has done everything once.
const WARM: Duration = Duration::from_secs(60);

/// The group is left alone for so long after each fault.
const PAUSE: Duration = Duration::from_secs(10);

/// What a dead process left behind at the servers is forgotten within this time.
const FORGOTTEN: Duration = Duration::from_secs(180);

#[tokio::main]
async fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).map(|given| given.parse());
    let minutes = numbers.next().and_then(Result::ok).unwrap_or(60);
    let seed = numbers.next().and_then(Result::ok).unwrap_or(1);
    match soak(Duration::from_secs(60 * minutes), seed).await {
        Ok(verdict) => {
            say(&format!("{verdict}"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            say(&format!("FAILED: {error}"));
            ExitCode::FAILURE
        }
    }
}

async fn soak(time: Duration, seed: u64) -> Outcome<Verdict> {
    let mut stage = Stage::open(Setting::new(Servers::Three, 16)).await?;
    say(&format!(
        "seed {seed}, {} minutes, {}",
        time.as_secs() / 60,
        stage.setting
    ));
    stage.lasts(WARM).await;
    stage.goes_on().await?;
    let held = baseline::held(&stage.scene.servers, &stage.admin).await?;
    let before = baseline::processes(&stage.scene)?;
    let struck = strike_until(&mut stage, clock::now() + time, Dice::new(seed)).await?;
    say(&format!("{struck} faults; waiting for the baseline"));
    let back = until("the baseline", FORGOTTEN, async || {
        let now = baseline::held(&stage.scene.servers, &stage.admin).await?;
        if now == held {
            Ok(())
        } else {
            Err(SceneError::new(format!("{now:?} after {held:?}")))
        }
    });
    back.await?;
    let after = baseline::processes(&stage.scene)?;
    say(&format!("at the servers, before and after: {held:?}"));
    let table = compare::table(&before, &after);
    say(&table.text);
    let verdict = stage.ends_well().await?;
    if table.grown.is_empty() {
        return Ok(verdict);
    }
    Err(SceneError::new(format!(
        "more than at the beginning: {}",
        table.grown.join(", ")
    )))
}

/// One fault after the other; how many.
async fn strike_until(
    stage: &mut Stage,
    end: std::time::Instant,
    mut dice: Dice,
) -> Outcome<usize> {
    let mut faults = Fault::ALL.to_vec();
    faults.retain(|fault| !fault.is_last() && fault.fits(&stage.setting).is_ok());
    let (mut struck, started) = (0, clock::now());
    while clock::now() < end {
        let Some(fault) = dice.pick(&faults) else {
            return Ok(struck);
        };
        let minute = (clock::now() - started).as_secs() / 60;
        say(&format!("minute {minute}: {fault}"));
        let done = fault.strike(stage).await;
        done.map_err(|error| SceneError::new(format!("{fault}: {error}")))?;
        struck += 1;
        stage.lasts(PAUSE).await;
    }
    Ok(struck)
}
