//! Contenders that are programs of their own: what they print, and whether they can run here.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use lockstep_e2e::scene::{Outcome, SceneError};
use serde::Deserialize;
use tokio::process::Command;

use crate::ground::{Ground, Layout};
use crate::tally::{Enough, Pace};

/// Beyond what is measured, for starting and ending.
const MARGIN: Duration = Duration::from_secs(60);

/// The line that a contender prints.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Counted {
    messages: u64,
    at_first: u64,
    seconds: f64,
}

/// What `make bench` builds.
pub(crate) fn built(name: &str) -> PathBuf {
    PathBuf::from("target/bench").join(name)
}

/// Whether it was built: without pip, Go or Maven it was not.
pub(crate) fn is_built(name: &str) -> bool {
    built(name).exists()
}

/// The application in Python over `Consume`.
pub(crate) async fn python(socket: &std::path::Path, credit: u64, enough: Enough) -> Outcome<Pace> {
    let mut command = Command::new(built("python/bin/python"));
    command
        .arg("bench/python/consume.py")
        .arg(socket)
        .arg(credit.to_string())
        .arg(enough.messages.to_string())
        .arg(enough.within.as_secs_f64().to_string())
        .env("PYTHONPATH", built("python"));
    counted(command, enough.within).await
}

/// pcgroups in its strict form, with a member per partition.
pub(crate) async fn pcgroups(ground: &Ground, kind: &str, enough: Enough) -> Outcome<Pace> {
    if ground.cell.layout != Layout::Filters {
        return Err(SceneError::new("pcgroups reads one stream"));
    }
    let part = ground.cell.part(0);
    let filter = match kind {
        "elastic" => "*.one.*",
        _ => "one.>",
    };
    let group = crate::group::new_name();
    let mut command = Command::new(built("pcgroups"));
    command
        .args(["-url", &ground.servers.url(), "-kind", kind])
        .args(["-stream", &part.stream, "-filter", filter])
        .args(["-group", &group])
        .args(["-partitions", &ground.cell.partitions.to_string()])
        .args(["-messages", &enough.messages.to_string()])
        .args(["-within", &format!("{}ms", enough.within.as_millis())]);
    counted(command, enough.within).await
}

/// Runs it and reads its last line.
pub(crate) async fn last_line(mut command: Command, within: Duration) -> Outcome<String> {
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(within + MARGIN, command.output()).await;
    let name = command.as_std().get_program().display().to_string();
    let output = output.map_err(|_| SceneError::new(format!("{name} did not end")))??;
    let printed = String::from_utf8_lossy(&output.stdout);
    let last = printed.lines().last().filter(|_| output.status.success());
    last.map(str::to_owned).ok_or_else(|| {
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        SceneError::new(format!("{name}: {}: {complaint}", output.status))
    })
}

/// Runs it and reads what it counted.
pub(crate) async fn counted(command: Command, within: Duration) -> Outcome<Pace> {
    let line = last_line(command, within).await?;
    let counted: Counted = serde_json::from_str(&line)?;
    let took = Duration::try_from_secs_f64(counted.seconds)?;
    Pace::of(counted.messages, counted.at_first, took)
        .ok_or_else(|| SceneError::new(format!("nothing to divide: {line}")))
}
