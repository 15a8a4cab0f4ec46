//! `lockstep worker`: runs one member of a group and serves an application; asks a running one.

mod drain;
mod probe;
mod run;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::{CommonFlags, Failure, Runs, host};
use crate::group::{GroupRef, MemberId, Pod};
use crate::metrics::{Metrics, WorkerMetrics};
use crate::nats::{Auth, SecretFolder};
use crate::settings::parse_duration;
use crate::worker::WorkerSettings;

/// Run a member of a group and serve its application on a Unix socket
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_subcommand = true,
    override_usage = "lockstep worker --group [NAMESPACE/]NAME --socket PATH [OPTIONS]\n       lockstep worker drain|probe ...",
    after_help = "Example: lockstep worker --group orders --socket /run/app/worker.sock\n         \
                  curl --unix-socket /run/app/worker.sock -d '{\"max_messages\": 10}' http://worker/v1/fetch"
)]
pub(super) struct Flags {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunFlags,
}

/// What a worker is started with. As typed; clap has seen that group and socket are there, unless a
/// running worker is meant.
#[derive(Args, Debug)]
struct RunFlags {
    /// The group
    #[arg(
        long,
        env = "LOCKSTEP_GROUP",
        value_name = "[NAMESPACE/]NAME",
        required = true
    )]
    group: Option<GroupRef>,
    /// The socket to make for the application
    #[arg(long, env = "LOCKSTEP_SOCKET", value_name = "PATH", required = true)]
    socket: Option<PathBuf>,
    /// The member's label [default: host name and a suffix]
    #[arg(long, env = "LOCKSTEP_MEMBER_ID", value_name = "ID", value_parser = parse_member_id)]
    member_id: Option<MemberId>,
    /// The zone that it runs in
    #[arg(long, env = "LOCKSTEP_ZONE", value_name = "ZONE")]
    zone: Option<String>,
    /// Address for /metrics, /healthz, /readyz
    #[arg(long, env = "LOCKSTEP_HTTP_ADDR", value_name = "ADDR")]
    http_addr: Option<SocketAddr>,
    /// On SIGTERM, how long to wait for the application's acknowledgements
    #[arg(long, env = "LOCKSTEP_DRAIN_TIMEOUT", value_name = "DURATION",
          default_value = "20s", value_parser = parse_duration)]
    drain_timeout: Duration,
    /// File that notes the first join: while it is there, the worker is ready
    #[arg(long, env = "LOCKSTEP_JOINED_FILE", value_name = "FILE")]
    joined_file: Option<PathBuf>,
    /// Folder with NATS credentials, as a mounted Secret; watched, and used instead of other flags
    #[arg(long, env = "LOCKSTEP_NATS_SECRET_DIR", value_name = "DIR")]
    nats_secret_dir: Option<PathBuf>,
    /// The uid of the pod that it runs in
    #[arg(long, env = "LOCKSTEP_POD_UID", value_name = "UID")]
    pod_uid: Option<String>,
    /// The node that it runs on
    #[arg(
        long,
        env = "LOCKSTEP_NODE_NAME",
        value_name = "NAME",
        requires = "pod_uid"
    )]
    node_name: Option<String>,
    #[command(flatten)]
    common: CommonFlags,
}

#[derive(Debug, Subcommand)]
enum Command {
    Drain(drain::Flags),
    Probe(probe::Flags),
}

/// Which running worker is meant. As typed.
#[derive(Args, Clone, Debug)]
struct SocketFlag {
    /// The worker's socket
    #[arg(long, env = "LOCKSTEP_SOCKET", value_name = "PATH")]
    socket: PathBuf,
}

/// Longer labels are of no use in tables.
const LONGEST_MEMBER_ID: usize = 253;

fn parse_member_id(given: &str) -> Result<MemberId, String> {
    let fits = (1..=LONGEST_MEMBER_ID).contains(&given.len());
    if fits && given.chars().all(|c| c.is_ascii_graphic()) {
        return Ok(MemberId::new(given));
    }
    Err(format!(
        "use 1 to {LONGEST_MEMBER_ID} visible ASCII characters"
    ))
}

/// What a worker is started with.
struct Start {
    settings: WorkerSettings,
    metrics: Metrics,
    socket: PathBuf,
    http_addr: Option<SocketAddr>,
    drain_timeout: Duration,
    joined_file: Option<PathBuf>,
}

// === impl RunFlags ===

impl RunFlags {
    fn meaning(&self) -> Result<Start, Failure> {
        let (Some(group), Some(socket)) = (self.group.clone(), self.socket.clone()) else {
            return Err(Failure::usage(
                "--group and --socket are missing; give both",
            ));
        };
        let id = self.member_id.clone().unwrap_or_else(default_id);
        let metrics = Metrics::new();
        let mut options = self.common.options()?;
        if let Some(folder) = &self.nats_secret_dir {
            options.auth = Auth::Folder(SecretFolder::new(folder));
        }
        let mut settings = WorkerSettings::new(options, group, id);
        self.common
            .bucket_prefix()
            .clone_into(&mut settings.bucket_prefix);
        // A label that the pod does not have comes as an empty text.
        settings.zone = self.zone.clone().filter(|zone| !zone.is_empty());
        settings.pod = self.pod_uid.clone().map(|uid| Pod {
            uid,
            node: self.node_name.clone().unwrap_or_default(),
        });
        settings.metrics = WorkerMetrics::register(&metrics);
        Ok(Start {
            settings,
            metrics,
            socket,
            http_addr: self.http_addr,
            drain_timeout: self.drain_timeout,
            joined_file: self.joined_file.clone(),
        })
    }
}

fn default_id() -> MemberId {
    MemberId::new(host::name_with_suffix("worker"))
}

// === impl Flags ===

impl Flags {
    pub(super) async fn run(self) -> Result<(), Failure> {
        match self.command {
            Some(Command::Drain(flags)) => flags.run().await,
            Some(Command::Probe(flags)) => flags.run().await,
            None => {
                let start = self.run.meaning()?;
                self.run.common.start_logging(Runs::ForLong)?;
                run::run(start).await
            }
        }
    }
}
