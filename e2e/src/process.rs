//! The `lockstep` program and the test application as processes.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::children::{self, Child};
use crate::until::{TimedOut, until_sync};

/// Names the `lockstep` program to use instead of the one beside the tests.
pub const BINARY_VARIABLE: &str = "LOCKSTEP_BIN";

/// How long a one-shot command may take.
const COMMAND_WITHIN: Duration = Duration::from_secs(60);

/// What a command that has ended left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Its exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// What it printed for programs.
    pub stdout: String,
    /// What it printed for people.
    pub stderr: String,
}

/// The `lockstep` program: from the environment, or where Cargo puts it beside this one.
pub fn lockstep() -> io::Result<PathBuf> {
    if let Some(named) = std::env::var_os(BINARY_VARIABLE) {
        return Ok(named.into());
    }
    let own = std::env::current_exe()?;
    let folders = own.ancestors().skip(1).take(2);
    let found = folders
        .map(|folder| folder.join("lockstep"))
        .find(|path| path.is_file());
    found.ok_or_else(|| {
        let text = format!(
            "no lockstep program beside {}: run `cargo build --workspace --bins`, or name one in \
             {BINARY_VARIABLE}",
            own.display()
        );
        io::Error::new(io::ErrorKind::NotFound, text)
    })
}

/// Settings of the person who runs the tests, which are flags to the program.
fn inherited() -> impl Iterator<Item = std::ffi::OsString> {
    let names = std::env::vars_os().map(|(name, _)| name);
    names.filter(|name| name.to_string_lossy().starts_with("LOCKSTEP_"))
}

/// Starts `lockstep` with these arguments; its output goes to a file.
pub fn start_lockstep<S: AsRef<str>>(arguments: &[S], output: &Path) -> io::Result<Child> {
    start_lockstep_with(arguments, &[], output)
}

/// The same, with variables in its environment.
pub fn start_lockstep_with<S: AsRef<str>>(
    arguments: &[S],
    environment: &[(&str, &Path)],
    output: &Path,
) -> io::Result<Child> {
    start_program(&lockstep()?, arguments, environment, output)
}

/// The same with the `lockstep` program at this path.
pub fn start_program<S: AsRef<str>>(
    program: &Path,
    arguments: &[S],
    environment: &[(&str, &Path)],
    output: &Path,
) -> io::Result<Child> {
    let mut command = Command::new(program);
    for name in inherited() {
        command.env_remove(name);
    }
    command.args(arguments.iter().map(AsRef::as_ref));
    command.envs(environment.iter().copied());
    children::start(command, output)
}

/// Runs `lockstep` to its end.
pub async fn run_lockstep<S: AsRef<str>>(arguments: &[S]) -> io::Result<Finished> {
    let mut command = tokio::process::Command::new(lockstep()?);
    for name in inherited() {
        command.env_remove(name);
    }
    command.args(arguments.iter().map(AsRef::as_ref));
    run(command, COMMAND_WITHIN).await
}

/// Runs a command to its end, which has to come in this time.
pub(crate) async fn run(
    mut command: tokio::process::Command,
    within: Duration,
) -> io::Result<Finished> {
    command.stdin(Stdio::null()).kill_on_drop(true);
    let ended = tokio::time::timeout(within, command.output()).await;
    let output = ended.map_err(|_| {
        let text = format!("{:?} did not end in {within:?}", command.as_std());
        io::Error::new(io::ErrorKind::TimedOut, text)
    })??;
    Ok(Finished {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// Starts the test application; its output goes to a file.
pub fn start_application<S: AsRef<str>>(arguments: &[S], output: &Path) -> io::Result<Child> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("app/app.py");
    let mut command = Command::new("python3");
    command
        .arg("-u")
        .arg(script)
        .args(arguments.iter().map(AsRef::as_ref));
    children::start(command, output)
}

/// Waits until a process has printed a line that contains this text; the line.
pub async fn wait_for_line(
    child: &Child,
    text: &str,
    within: Duration,
) -> Result<String, TimedOut> {
    let path = child.output();
    until_sync(format!("line with {text:?}"), within, || {
        let printed = std::fs::read(path).unwrap_or_default();
        let printed = String::from_utf8_lossy(&printed);
        let line = printed.lines().find(|line| line.contains(text));
        line.map(str::to_owned).ok_or_else(|| children::tail(path))
    })
    .await
}
