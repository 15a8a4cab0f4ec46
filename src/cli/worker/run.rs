//! A worker's life: socket first, then the group, until a signal says to leave.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::Start;
use crate::cli::{Failure, output};
use crate::http::HttpServer;
use crate::tasks::Tasks;
use crate::worker::socket::{Bound, Server, Settings};
use crate::worker::{Engine, MemberHandle, WorkerSettings};

/// How soon a worker that has not joined says what it waits for,
const PATIENT: Duration = Duration::from_secs(3);

/// and how often it says so again.
const REMINDER: Duration = Duration::from_secs(30);

/// How often it looks whether it has joined.
const LOOK: Duration = Duration::from_millis(50);

/// Signals that make a worker leave.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

/// Runs a worker to its end.
pub(super) async fn run(start: Start) -> Result<(), Failure> {
    let mut signals = Signals::catch()?;
    let bound = Bound::bind(&start.socket).map_err(|error| Failure::of(&error))?;
    let http = match start.http_addr {
        Some(address) => Some(HttpServer::bind(address).await),
        None => None,
    };
    let http = http.transpose().map_err(|error| Failure::of(&error))?;
    let ready_line = ready_line(&start, http.as_ref());
    let tasks = Tasks::new();
    let member = Engine::start(start.settings, &tasks)
        .await
        .map_err(|error| Failure::of(&error))?;
    let joined_file = start.joined_file;
    let socket = Server::new(member.clone(), &tasks, Settings { joined_file });
    if let Some(http) = http {
        let (metrics, vitals) = (start.metrics, socket.vitals());
        tasks.spawn_vital("http", |stop| {
            http.serve(metrics, vitals, stop.cancelled_owned())
        });
    }
    tasks.spawn_vital("socket", |stop| socket.serve(bound, stop));
    let joining = member.clone();
    tasks.spawn("announce", |stop| announce(joining, ready_line, stop));
    let ended = until_left(&member, &mut signals, &tasks, start.drain_timeout).await;
    tasks.stop().await;
    ended
}

fn ready_line(start: &Start, http: Option<&HttpServer>) -> String {
    let WorkerSettings {
        member_id, group, ..
    } = &start.settings;
    let socket = start.socket.display();
    let http = http.map_or_else(String::new, |http| format!(", http on {}", http.address()));
    format!("ready: member {member_id} of {group} serves {socket}{http}")
}

/// Says on standard output that the member has joined; until then, in the log, what it waits for.
async fn announce(member: MemberHandle, ready_line: String, stop: CancellationToken) {
    let joined = async {
        while !member.health().joined {
            tokio::time::sleep(LOOK).await;
        }
    };
    let reminding = async {
        let mut wait = PATIENT;
        loop {
            tokio::time::sleep(wait).await;
            wait = REMINDER;
            let problems = match member.status().await {
                Ok(status) if !status.problems.is_empty() => status.problems.join("; "),
                Ok(_) => "the coordinator has not taken this member in".to_owned(),
                Err(error) => error.to_string(),
            };
            tracing::warn!(waiting_for = problems, "not joined yet; trying on");
        }
    };
    tokio::select! {
        () = joined => {
            if let Err(failure) = output::line(ready_line) {
                tracing::warn!(error = %failure, "nobody reads that this worker is ready");
            }
        }
        () = reminding => {}
        () = stop.cancelled() => {}
    }
}

/// Waits for a signal and leaves the group; or for the end of something that must not end.
async fn until_left(
    member: &MemberHandle,
    signals: &mut Signals,
    tasks: &Tasks,
    drain_timeout: Duration,
) -> Result<(), Failure> {
    let stopping = tasks.stopping();
    tokio::select! {
        () = signals.next() => {}
        () = stopping.cancelled() => return Err(ended_early()),
    }
    tracing::info!("leaving the group; a second signal ends this worker at once");
    tokio::select! {
        drained = member.drain(drain_timeout) => match drained {
            Ok(drained) => {
                tracing::info!(clean = drained.clean, unclean = drained.unclean, "left the group");
                Ok(())
            }
            Err(error) => Err(Failure::of(&error)),
        },
        () = signals.next() => Err(Failure::failed(
            "stopped by a second signal before everything was released; the group notices it \
             after its session timeout",
        )),
        () = stopping.cancelled() => Err(ended_early()),
    }
}

fn ended_early() -> Failure {
    Failure::failed("a part of this worker has ended, so all of it does; the log above says why")
}

// === impl Signals ===

impl Signals {
    fn catch() -> Result<Self, Failure> {
        let catch = |kind| {
            signal(kind).map_err(|error| Failure::failed(format!("cannot catch signals: {error}")))
        };
        Ok(Self {
            terminate: catch(SignalKind::terminate())?,
            interrupt: catch(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
