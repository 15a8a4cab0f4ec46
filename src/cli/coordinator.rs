//! `lockstep coordinator`: coordinates the groups of some manifests.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tokio_util::sync::CancellationToken;

use super::{CommonFlags, Failure, Runs, host, output, signals};
use crate::coordinator::provision::{Call, Missing, Terms};
use crate::coordinator::{Coordinator, CoordinatorError, Phase, Settings};
use crate::crd::{self, ValidGroup};
use crate::http::{HttpServer, Verdict, Vitals};
use crate::metrics::{CoordinatorMetrics, Metrics};
use crate::nats::{Connection, Role};
use crate::settings::parse_duration;
use crate::tasks::Tasks;

/// The shortest silence after which another candidate may take over.
const SHORTEST_SESSION: Duration = Duration::from_secs(1);

/// Coordinate the groups of these manifests
#[derive(Args, Debug)]
#[command(
    after_help = "Several candidates elect one. A bucket that is missing is never made anew by itself: --create is\n\
                  for groups that are new, --accept-state-loss for those whose state was lost.\n\
                  Example: lockstep coordinator --create orders.yaml"
)]
pub(super) struct Flags {
    /// Manifests of consumer groups
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Make what is missing the first time: stream, bucket, description
    #[arg(long, env = "LOCKSTEP_CREATE")]
    create: bool,
    /// Make a lost bucket anew; offsets are rebuilt from what live members report
    #[arg(long, env = "LOCKSTEP_ACCEPT_STATE_LOSS")]
    accept_state_loss: bool,
    /// This candidate's label [default: host name and a suffix]
    #[arg(long, env = "LOCKSTEP_ID", value_name = "ID", value_parser = parse_id)]
    id: Option<String>,
    /// The live candidate with the highest priority takes over first
    #[arg(
        long,
        env = "LOCKSTEP_PRIORITY",
        value_name = "N",
        default_value_t = 0,
        allow_negative_numbers = true
    )]
    priority: i32,
    /// Silence of a coordinator after which another takes over
    #[arg(long, env = "LOCKSTEP_SESSION_TIMEOUT", value_name = "DURATION", default_value = "15s",
          value_parser = parse_session)]
    session_timeout: Duration,
    /// Address for /metrics, /healthz, /readyz
    #[arg(long, env = "LOCKSTEP_HTTP_ADDR", value_name = "ADDR")]
    http_addr: Option<SocketAddr>,
    #[command(flatten)]
    common: CommonFlags,
}

/// Longer labels are of no use in tables.
const LONGEST_ID: usize = 253;

fn parse_id(given: &str) -> Result<String, String> {
    let fits = (1..=LONGEST_ID).contains(&given.len());
    if fits && given.chars().all(|c| c.is_ascii_graphic()) {
        return Ok(given.to_owned());
    }
    Err(format!("use 1 to {LONGEST_ID} visible ASCII characters"))
}

fn parse_session(given: &str) -> Result<Duration, String> {
    let parsed = parse_duration(given).map_err(|e| e.to_string())?;
    if parsed < SHORTEST_SESSION {
        return Err(format!(
            "{given} is too short; use at least {SHORTEST_SESSION:?}"
        ));
    }
    Ok(parsed)
}

// === impl Flags ===

impl Flags {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let groups = self.groups()?;
        let options = self.common.options()?;
        self.common.start_logging(Runs::ForLong)?;
        let stopping = signals::stop()?;
        let http = match self.http_addr {
            Some(address) => Some(
                HttpServer::bind(address)
                    .await
                    .map_err(|e| Failure::of(&e))?,
            ),
            None => None,
        };
        let settings = self.settings();
        let ready_line = ready_line(&settings, &groups, http.as_ref());
        let name = format!("lockstep coordinator {}", settings.id);
        let connected = Connection::connect(&options, &Role::Coordinator, &name).await;
        let connection = connected.map_err(|e| Failure::of(&e))?;
        let metrics = Metrics::new();
        let counted = CoordinatorMetrics::register(&metrics);
        let coordinator = Coordinator::new(settings, connection, &groups, counted);
        let tasks = Tasks::new();
        if let Some(http) = http {
            let vitals = Probed(coordinator.clone());
            tasks.spawn("http", |stop| {
                http.serve(metrics, vitals, stop.cancelled_owned())
            });
        }
        let announced = coordinator.clone();
        tasks.spawn("announce", |stop| announce(announced, ready_line, stop));
        let ended = coordinator.run(&groups, stopping.clone()).await;
        tasks.stop().await;
        match ended {
            Ok(()) if stopping.is_cancelled() => Ok(()),
            Ok(()) => Err(Failure::failed(
                "a part of this coordinator has ended, so all of it does; the log above says why",
            )),
            Err(error) => Err(failure(&error)),
        }
    }

    /// All groups of all manifests, checked.
    fn groups(&self) -> Result<Vec<ValidGroup>, Failure> {
        let mut groups: Vec<ValidGroup> = Vec::new();
        for file in &self.files {
            let name = file.display().to_string();
            let text = std::fs::read_to_string(file)
                .map_err(|e| Failure::usage(format!("{name} cannot be read: {e}")))?;
            for group in crd::read_groups(&name, &text).map_err(Failure::usage)? {
                if groups.iter().any(|known| known.group == group.group) {
                    let group = &group.group;
                    return Err(Failure::usage(format!(
                        "{name}: group {group} is given twice"
                    )));
                }
                groups.push(group);
            }
        }
        if groups.is_empty() {
            return Err(Failure::usage("the manifests hold no ConsumerGroup"));
        }
        Ok(groups)
    }

    fn settings(&self) -> Settings {
        Settings {
            id: self
                .id
                .clone()
                .unwrap_or_else(|| host::name_with_suffix("coordinator")),
            priority: self.priority,
            session_timeout: self.session_timeout,
            terms: Terms::standalone(
                self.common.bucket_prefix(),
                match (self.accept_state_loss, self.create) {
                    (true, _) => Missing::MakeAfterLoss,
                    (false, true) => Missing::Make,
                    (false, false) => Missing::Refuse,
                },
            ),
            elected: false,
        }
    }
}

fn ready_line(settings: &Settings, groups: &[ValidGroup], http: Option<&HttpServer>) -> String {
    const SHOWN: usize = 5;
    let names = groups
        .iter()
        .take(SHOWN)
        .map(|group| group.group.to_string());
    let mut names = names.collect::<Vec<_>>().join(", ");
    if groups.len() > SHOWN {
        names = format!("{names} and {} more", groups.len() - SHOWN);
    }
    let http = http.map_or_else(String::new, |http| format!(", http on {}", http.address()));
    format!("ready: coordinator {} of {names}{http}", settings.id)
}

/// Says on standard output that every group is watched.
async fn announce(coordinator: Coordinator, ready_line: String, stop: CancellationToken) {
    tokio::select! {
        () = coordinator.ready() => {
            if let Err(failure) = output::line(ready_line) {
                tracing::warn!(error = %failure, "nobody reads that this coordinator is ready");
            }
        }
        () = stop.cancelled() => {}
    }
}

fn failure(error: &CoordinatorError) -> Failure {
    match error.calls_for() {
        Call::Manifest => Failure::usage(error),
        Call::Person | Call::Retry => Failure::of(error),
    }
}

/// The probes' view of a coordinator.
struct Probed(Coordinator);

// === impl Probed ===

impl Vitals for Probed {
    fn healthy(&self) -> Verdict {
        Verdict::Yes("alive")
    }

    fn ready(&self) -> Verdict {
        let statuses = self.0.statuses();
        if statuses
            .values()
            .any(|status| status.phase == Phase::Starting)
        {
            Verdict::No("loading")
        } else if !self.0.is_connected() {
            Verdict::No("NATS is away")
        } else if statuses
            .values()
            .any(|status| status.phase == Phase::Stopped)
        {
            Verdict::No("a group is stopped")
        } else {
            Verdict::Yes("ready")
        }
    }
}
