//! A group on the ground: a coordinator and workers, each a process.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lockstep_e2e::children::Child;
use lockstep_e2e::process;
use lockstep_e2e::scene::Outcome;
use lockstep_e2e::socket_client::SocketClient;

use crate::ground::Ground;

/// What every group of every run is called by, so that none meets another's bucket.
static GROUPS: AtomicU32 = AtomicU32::new(0);

/// How long a worker may take until it has joined its group.
const JOINED_WITHIN: Duration = Duration::from_secs(60);

/// What a group is set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// `delivery.maxInFlight`.
    pub(crate) window: u32,
    /// `membership`, as YAML; the defaults if empty.
    pub(crate) membership: &'static str,
}

/// A group with its coordinator. Dropping it kills the coordinator.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) name: String,
    url: String,
    folder: PathBuf,
    /// Held for its end.
    pub(crate) coordinator: Child,
}

/// A worker's process and where its socket is. Dropping it kills the worker.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) process: Child,
    pub(crate) socket: PathBuf,
}

/// For throughput: nobody joins later, so nobody is waited for.
pub(crate) const AT_ONCE: &str =
    "  membership:\n    initialRebalanceDelay: 0s\n    rebalanceDelay: 0s\n";

// === impl Group ===

impl Group {
    /// Writes the manifest and starts the coordinator.
    pub(crate) fn start(ground: &Ground, terms: Terms) -> Outcome<Self> {
        let name = new_name();
        let folder = ground.folder.path().to_owned();
        let manifest = write_manifest(ground, &name, terms)?;
        Ok(Self {
            coordinator: start_coordinator(ground, &name, &[manifest])?,
            name,
            url: ground.servers.url(),
            folder,
        })
    }

    /// Starts a worker of this name and waits until it has joined.
    pub(crate) async fn worker(&self, member: &str) -> Outcome<Worker> {
        let place = |extension: &str| {
            self.folder
                .join(format!("{}-{member}.{extension}", self.name))
        };
        let socket = place("sock");
        let path = socket.display().to_string();
        let arguments = [
            "worker",
            "--group",
            &self.name,
            "--socket",
            &path,
            "--member-id",
            member,
            "--nats-url",
            &self.url,
        ];
        let process = process::start_lockstep(&arguments, &place("log"))?;
        has_joined(&socket).await?;
        Ok(Worker { process, socket })
    }
}

/// Writes the manifest of a group of this name that reads the whole ground.
pub(crate) fn write_manifest(ground: &Ground, name: &str, terms: Terms) -> Outcome<String> {
    let source = ground.cell.source_yaml();
    let Terms { window, membership } = terms;
    let text = format!(
        "apiVersion: lockstep.dev/v1alpha1\nkind: ConsumerGroup\nmetadata:\n  name: {name}\n\
         spec:\n{source}\n  startFrom:\n    policy: Earliest\n  delivery:\n    \
         maxInFlight: {window}\n{membership}"
    );
    let manifest = ground.folder.path().join(format!("{name}.yaml"));
    std::fs::write(&manifest, text)?;
    Ok(manifest.display().to_string())
}

/// Starts a coordinator of these manifests.
pub(crate) fn start_coordinator(
    ground: &Ground,
    name: &str,
    manifests: &[String],
) -> Outcome<Child> {
    let url = ground.servers.url();
    let fixed = ["coordinator", "--create", "--nats-url", &url].map(str::to_owned);
    let arguments = [&fixed, manifests].concat();
    let log = ground.folder.path().join(format!("{name}-coordinator.log"));
    Ok(process::start_lockstep(&arguments, &log)?)
}

/// A name that no group of this run has had.
pub(crate) fn new_name() -> String {
    format!("bench-{}", GROUPS.fetch_add(1, Ordering::Relaxed))
}

/// Before it has joined, a worker refuses whoever wants messages.
async fn has_joined(socket: &Path) -> Outcome<()> {
    let client = SocketClient::new(socket);
    let what = format!("member behind {}", socket.display());
    let joined = lockstep_e2e::until(what, JOINED_WITHIN, async || {
        match client.get("/readyz").await {
            Ok(reply) if reply.status == 200 => Ok(()),
            Ok(reply) => Err(reply.body.to_string()),
            Err(error) => Err(error.to_string()),
        }
    });
    Ok(joined.await?)
}
