//! Child processes that never outlive the program that started them.
//!
//! `Drop` kills a child by its own process id. Should the parent die without running it
//! (kill -9, abort), the kernel does: each child asks for SIGKILL at its parent's death. The
//! kernel means the *thread* that forked; therefore one thread forks all children, and lives as
//! long as the process.

use std::fs::File;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, getpid, getppid, kill_process};

use crate::until::{TimedOut, until_sync};

/// How many lines of a child's output a failure shows.
const TAIL_LINES: usize = 40;

/// A running process, killed when this value is dropped.
#[derive(Debug)]
pub struct Child {
    inner: std::process::Child,
    status: Option<ExitStatus>,
    output: PathBuf,
}

/// Orders for the thread that forks.
struct Order {
    command: Command,
    answer: SyncSender<io::Result<std::process::Child>>,
}

/// The thread that forks; one order at a time, so a bound of one suffices.
static NURSERY: LazyLock<SyncSender<Order>> = LazyLock::new(|| {
    let (orders, taken) = sync_channel::<Order>(1);
    std::thread::spawn(move || {
        while let Ok(Order {
            mut command,
            answer,
        }) = taken.recv()
        {
            // The one who asked may be gone; then the child goes, too, with its handle.
            drop(answer.send(command.spawn()));
        }
    });
    orders
});

/// Starts a process; both its output streams are appended to the file `output`.
pub fn start(mut command: Command, output: &Path) -> io::Result<Child> {
    let file = File::options().create(true).append(true).open(output)?;
    command
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file);
    Ok(Child {
        inner: fork(command)?,
        status: None,
        output: output.to_owned(),
    })
}

fn fork(mut command: Command) -> io::Result<std::process::Child> {
    let parent = getpid();
    let arm = move || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the signal was armed.
        if getppid() == Some(parent) {
            Ok(())
        } else {
            Err(io::ErrorKind::NotFound.into())
        }
    };
    #[expect(
        unsafe_code,
        reason = "the closure makes two system calls and allocates nothing"
    )]
    unsafe {
        command.pre_exec(arm);
    }
    let (answer, answered) = sync_channel(1);
    let gone = |()| io::Error::other("the thread that starts children has ended");
    NURSERY
        .send(Order { command, answer })
        .map_err(|_| gone(()))?;
    answered.recv().map_err(|_| gone(()))?
}

// === impl Child ===

impl Child {
    /// The process id.
    pub fn pid(&self) -> u32 {
        self.inner.id()
    }

    /// Where its output goes.
    pub fn output(&self) -> &Path {
        &self.output
    }

    /// Sends a signal. A process that has ended already is not an error: it was reaped or is a
    /// zombie of ours, never a stranger who got the same number.
    pub fn signal(&mut self, signal: Signal) -> io::Result<()> {
        if self.try_wait()?.is_some() {
            return Ok(());
        }
        let pid = Pid::from_child(&self.inner);
        Ok(kill_process(pid, signal)?)
    }

    /// Its exit status, if it has ended.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none() {
            self.status = self.inner.try_wait()?;
        }
        Ok(self.status)
    }

    /// Whether it still runs (or stands still).
    pub fn is_running(&mut self) -> bool {
        matches!(self.try_wait(), Ok(None))
    }

    /// SIGKILL, and waits until it is gone.
    pub fn kill(&mut self) -> io::Result<()> {
        if self.try_wait()?.is_none() {
            self.inner.kill()?;
            self.status = Some(self.inner.wait()?);
        }
        Ok(())
    }

    /// SIGSTOP: it stands still, its connections stay open.
    pub fn pause(&mut self) -> io::Result<()> {
        self.signal(Signal::STOP)
    }

    /// SIGCONT: it goes on as if nothing had been.
    pub fn resume(&mut self) -> io::Result<()> {
        self.signal(Signal::CONT)
    }

    /// SIGTERM; the exit status, or what it printed last when it does not end in time.
    pub async fn terminate(&mut self, within: Duration) -> Result<ExitStatus, TimedOut> {
        let output = self.output.clone();
        let unable = |error: io::Error| TimedOut {
            what: "signal to the process".to_owned(),
            within,
            last_seen: error.to_string(),
        };
        self.signal(Signal::TERM).map_err(unable)?;
        self.wait(within).await.map_err(|late| TimedOut {
            last_seen: format!("{}; its output ends\n{}", late.last_seen, tail(&output)),
            ..late
        })
    }

    /// Waits until it has ended by itself.
    pub async fn wait(&mut self, within: Duration) -> Result<ExitStatus, TimedOut> {
        let pid = self.pid();
        until_sync(format!("end of process {pid}"), within, || {
            match self.try_wait() {
                Ok(Some(status)) => Ok(status),
                Ok(None) => Err("still running".to_owned()),
                Err(error) => Err(error.to_string()),
            }
        })
        .await
    }

    /// The last lines that it printed.
    pub fn tail(&self) -> String {
        tail(&self.output)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Nothing can be done about a failure here, and the kernel's death signal remains.
        drop(self.kill());
    }
}

/// The last lines of a file, for people.
pub fn tail(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(TAIL_LINES);
    format!(
        "--- end of {} ---\n{}\n---",
        path.display(),
        lines[from..].join("\n")
    )
}

/// How a process ended, in words.
pub fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown end".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper() -> Command {
        let mut command = Command::new("sleep");
        command.arg("600");
        command
    }

    fn is_alive(pid: u32) -> bool {
        Path::new(&format!("/proc/{pid}")).exists()
    }

    #[test]
    fn a_dropped_child_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let child = start(sleeper(), &folder.path().join("out")).unwrap();
        let pid = child.pid();
        assert!(is_alive(pid));
        drop(child);
        assert!(!is_alive(pid));
    }

    #[test]
    fn a_child_outlives_the_thread_that_asked_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("out");
        let asked = std::thread::spawn(move || start(sleeper(), &output).unwrap());
        let mut child = asked.join().unwrap();
        assert!(
            child.is_running(),
            "the death signal of the asking thread hit it"
        );
    }

    #[tokio::test]
    async fn a_stopped_child_can_go_on_and_be_terminated() {
        let folder = tempfile::tempdir().unwrap();
        let mut child = start(sleeper(), &folder.path().join("out")).unwrap();
        child.pause().unwrap();
        child.resume().unwrap();
        let status = child.terminate(Duration::from_secs(5)).await.unwrap();
        assert_eq!(describe(status), "signal 15");
    }
}
