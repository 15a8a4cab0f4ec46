//! `make demo`: a group on a real server, watched while its members join, leave and are killed.
//!
//! The last line of standard output is the history checker's verdict as one JSON object; the exit
//! code is 0 if every promise was kept. With `KEEP=1` everything is left running afterwards.

mod keep;
mod screen;
mod script;
mod table;

use std::process::ExitCode;

use lockstep_e2e::scene::{Outcome, SceneError};
use lockstep_e2e::{NatsCluster, NatsServer, Scene};

use screen::Screen;

#[tokio::main]
async fn main() -> ExitCode {
    match run(&mut Screen::new()).await {
        Ok(code) => code,
        Err(error) => {
            screen::complain(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

async fn run(screen: &mut Screen) -> Outcome<ExitCode> {
    let started = lockstep_e2e::clock::now();
    let server = NatsCluster::of(NatsServer::start().await?);
    let mut scene = Scene::prepare(script::manifest(), server).await?;
    let played = tokio::select! {
        played = script::play(&mut scene, screen) => played,
        _ = tokio::signal::ctrl_c() => return Err(SceneError::new("interrupted")),
    };
    let mut verdict = scene.judge(&script::expect())?;
    if let Err(error) = played {
        // What was seen until then is judged all the same; a script that got stuck has failed.
        screen::complain(&error.to_string());
        verdict.passed = false;
    }
    screen::verdict(&verdict, lockstep_e2e::clock::now() - started)?;
    if !verdict.passed {
        let folder = scene.keep_folder();
        screen::complain(&format!(
            "the logs and histories are in {}",
            folder.display()
        ));
        return Ok(ExitCode::FAILURE);
    }
    if keep::is_wanted() {
        keep::running(&mut scene).await?;
    }
    Ok(ExitCode::SUCCESS)
}
