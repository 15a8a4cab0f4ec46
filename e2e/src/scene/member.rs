//! A member: a worker process, and an application process at its socket.

use std::path::PathBuf;
use std::time::Duration;

use super::{Outcome, SceneError};
use crate::children::{self, Child};
use crate::process;

/// How long a clean leave may take in a scene.
const LEAVE_WITHIN: Duration = Duration::from_secs(30);

/// What the application does with messages.
#[derive(Clone, Debug, PartialEq)]
pub enum Application {
    /// Acknowledges everything.
    Ok,
    /// Takes this long for each message.
    Slow(Duration),
    /// Hangs after so many messages.
    HangAfter(u32),
    /// Exits with what it holds after so many messages.
    CrashAfter(u32),
    /// Fails every message of this key.
    Poison(String),
    /// Nobody is at the socket.
    None,
}

/// Where a member lives.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) group: String,
    pub(super) url: String,
    pub(super) folder: PathBuf,
    pub(super) environment: Vec<(String, PathBuf)>,
}

/// A running member.
#[derive(Debug)]
pub struct Member {
    name: String,
    id: String,
    place: Place,
    application_does: Application,
    asked_to_leave: bool,
    /// The worker process.
    pub worker: Child,
    /// The application process; none with [`Application::None`].
    pub application: Option<Child>,
}

impl Application {
    fn arguments(&self) -> Vec<String> {
        let words: Vec<String> = match self {
            Self::Ok | Self::None => vec!["--mode".into(), "ok".into()],
            Self::Slow(delay) => {
                let delay = delay.as_secs_f64().to_string();
                vec!["--mode".into(), "slow".into(), "--delay".into(), delay]
            }
            Self::HangAfter(count) => {
                vec![
                    "--mode".into(),
                    "hang".into(),
                    "--after".into(),
                    count.to_string(),
                ]
            }
            Self::CrashAfter(count) => {
                vec![
                    "--mode".into(),
                    "crash".into(),
                    "--after".into(),
                    count.to_string(),
                ]
            }
            Self::Poison(key) => {
                vec![
                    "--mode".into(),
                    "poison".into(),
                    "--key".into(),
                    key.clone(),
                ]
            }
        };
        words
    }
}

impl Member {
    pub(super) fn start(
        name: &str,
        id: &str,
        place: Place,
        application_does: Application,
    ) -> Outcome<Self> {
        let worker = place.start_worker(name, id)?;
        let (name, id) = (name.to_owned(), id.to_owned());
        let mut member = Self {
            name,
            id,
            place,
            application_does,
            asked_to_leave: false,
            worker,
            application: None,
        };
        member.restart_application()?;
        Ok(member)
    }

    /// The worker's socket.
    pub fn socket(&self) -> PathBuf {
        self.place.file(&self.name, "sock")
    }

    /// Kills the worker, if it still runs, and starts it again: a new incarnation of its name.
    pub fn restart_worker(&mut self) -> Outcome<()> {
        self.worker.kill()?;
        self.worker = self.place.start_worker(&self.name, &self.id)?;
        Ok(())
    }

    /// Kills the application, if it still runs, and starts it again.
    pub fn restart_application(&mut self) -> Outcome<()> {
        self.application = None;
        if self.application_does == Application::None {
            return Ok(());
        }
        let socket = self.socket().display().to_string();
        let log = self.place.file(&format!("history/{}", self.name), "jsonl");
        let log = log.display().to_string();
        let fixed = ["--socket", &socket, "--member", &self.id, "--log", &log];
        let mut arguments: Vec<String> = fixed.map(str::to_owned).into();
        arguments.extend(self.application_does.arguments());
        let output = self.place.file(&format!("{}-app", self.name), "log");
        self.application = Some(process::start_application(&arguments, &output)?);
        Ok(())
    }

    /// From the next start on, the application does this.
    pub fn application_will(&mut self, application_does: Application) {
        self.application_does = application_does;
    }

    /// SIGKILL to the worker and the application, at once.
    pub fn kill(&mut self) -> Outcome<()> {
        self.worker.kill()?;
        if let Some(application) = &mut self.application {
            application.kill()?;
        }
        Ok(())
    }

    /// SIGTERM to the worker; [`Self::leave`] then waits for its end.
    pub fn ask_to_leave(&mut self) -> Outcome<()> {
        self.asked_to_leave = true;
        Ok(self.worker.signal(rustix::process::Signal::TERM)?)
    }

    /// SIGTERM to the worker; it has to end well, and then the application is ended.
    pub async fn leave(&mut self) -> Outcome<()> {
        if !self.asked_to_leave {
            self.ask_to_leave()?;
        }
        let ended = self.worker.wait(LEAVE_WITHIN).await;
        let status =
            ended.map_err(|late| SceneError::new(format!("{late}\n{}", self.worker.tail())))?;
        if !status.success() {
            let end = children::describe(status);
            return Err(SceneError::new(format!(
                "worker {} ended with {end}\n{}",
                self.name,
                self.worker.tail()
            )));
        }
        self.application = None;
        Ok(())
    }
}

// === impl Place ===

impl Place {
    fn file(&self, name: &str, extension: &str) -> PathBuf {
        self.folder.join(format!("{name}.{extension}"))
    }

    fn start_worker(&self, name: &str, id: &str) -> Outcome<Child> {
        let socket = self.file(name, "sock").display().to_string();
        let arguments = [
            "worker",
            "--group",
            &self.group,
            "--socket",
            &socket,
            "--member-id",
            id,
            "--nats-url",
            &self.url,
        ];
        Ok(process::start_lockstep_with(
            &arguments,
            &super::borrowed(&self.environment),
            &self.file(name, "log"),
        )?)
    }
}
