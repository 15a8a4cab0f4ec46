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
    let mut screen = Screen::new();
    let ended = tokio::select! {
        ended = run(&mut screen) => ended,
        // The processes end with the scene that the interrupted run drops.
        _ = tokio::signal::ctrl_c() => Err(SceneError::new("interrupted")),
    };
    match ended {
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
    script::play(&mut scene, screen).await?;
    let verdict = scene.judge(&script::expect())?;
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
