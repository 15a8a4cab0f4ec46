//! A real nats-server with JetStream: its own port, its own store, gone when dropped.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::children::{self, Child};
use crate::until::{TimedOut, until};
use crate::{http, ports};

/// How long a server may take until JetStream answers; generous for a loaded machine.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// A port can be taken between looking and starting; then another is drawn.
const START_TRIES: u32 = 5;

/// Names the nats-server to use instead of the pinned one.
pub const BINARY_VARIABLE: &str = "LOCKSTEP_NATS_SERVER";

/// What a server is started with, beyond its ports and its store.
#[derive(Clone, Debug, Default)]
pub struct Options {
    max_payload: Option<u32>,
    tls: Option<Tls>,
    jetstream: String,
    extra: String,
    binary: Option<PathBuf>,
    store: Option<PathBuf>,
    within: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tls {
    /// Whether clients have to show a certificate as well.
    mutual: bool,
    /// Whether the server says nothing before the handshake.
    handshake_first: bool,
}

/// A running nats-server. Dropping it kills it and removes its store.
#[derive(Debug)]
pub struct NatsServer {
    options: Options,
    port: u16,
    monitor: u16,
    folder: TempDir,
    process: Option<Child>,
}

/// Why a server did not start.
#[derive(thiserror::Error)]
pub enum StartError {
    /// There is no binary to start.
    #[error("no nats-server at {path}: run `make tools`, or name one in {BINARY_VARIABLE}")]
    NoBinary {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The operating system refused something.
    #[error("cannot start nats-server ({doing})")]
    System {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// It runs, or ran, and JetStream did not answer.
    #[error("nats-server did not become ready: {late}\n{output}")]
    NotReady {
        /// The wait that ended.
        late: TimedOut,
        /// The end of its log.
        output: String,
    },
}

// === impl StartError ===

/// The same words, so that an `unwrap` in a test can be read.
impl std::fmt::Debug for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")?;
        std::error::Error::source(self).map_or(Ok(()), |source| write!(f, ": {source}"))
    }
}

pub(crate) fn system(doing: &'static str) -> impl FnOnce(io::Error) -> StartError {
    move |source| StartError::System { doing, source }
}

// === impl Options ===

impl Options {
    /// Largest message in bytes (`max_payload`).
    #[must_use]
    pub fn max_payload(mut self, bytes: u32) -> Self {
        self.max_payload = Some(bytes);
        self
    }

    /// Lines added to the configuration as they are: users, permissions, accounts.
    #[must_use]
    pub fn config(mut self, lines: &str) -> Self {
        self.extra.push_str(lines);
        self.extra.push('\n');
        self
    }

    /// Lines added inside the `jetstream` block: `domain`, limits, `sync_interval`.
    #[must_use]
    pub fn jetstream(mut self, lines: &str) -> Self {
        self.jetstream.push_str(lines);
        self.jetstream.push('\n');
        self
    }

    /// TLS with the certificate of [`certificate`]`("server.crt")`.
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.tls.get_or_insert_default();
        self
    }

    /// TLS that asks for a client certificate as well.
    #[must_use]
    pub fn mutual_tls(mut self) -> Self {
        self.tls.get_or_insert_default().mutual = true;
        self
    }

    /// TLS from the first byte on: the server says nothing before.
    #[must_use]
    pub fn handshake_first(mut self) -> Self {
        self.tls.get_or_insert_default().handshake_first = true;
        self
    }

    /// Another nats-server than the pinned one.
    #[must_use]
    pub fn binary(mut self, path: impl Into<PathBuf>) -> Self {
        self.binary = Some(path.into());
        self
    }

    /// A store directory of the caller's, for instance on a small file system.
    #[must_use]
    pub fn store(mut self, path: impl Into<PathBuf>) -> Self {
        self.store = Some(path.into());
        self
    }

    /// A command that the server is started by, such as `nsenter` with its arguments.
    #[must_use]
    pub fn within<'a>(mut self, command: impl IntoIterator<Item = &'a str>) -> Self {
        self.within = command.into_iter().map(str::to_owned).collect();
        self
    }

    /// Starts it and waits until JetStream answers.
    pub async fn start(self) -> Result<NatsServer, StartError> {
        let mut tries = 1;
        loop {
            let mut server = NatsServer::prepare(self.clone())?;
            match server.launch().await {
                Ok(()) => return Ok(server),
                Err(StartError::NotReady { output, .. })
                    if output.contains("address already in use") && tries < START_TRIES =>
                {
                    tries += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

// === impl Tls ===

impl Tls {
    fn config(self) -> String {
        let file = |field, name| format!("  {field}: \"{}\"", certificate(name).display());
        let mut lines = vec![
            "tls {".to_owned(),
            file("cert_file", "server.crt"),
            file("key_file", "server.key"),
        ];
        if self.mutual {
            lines.extend([file("ca_file", "ca.crt"), "  verify: true".to_owned()]);
        }
        if self.handshake_first {
            lines.push("  handshake_first: true".to_owned());
        }
        lines.push("}".to_owned());
        lines.join("\n")
    }
}

// === impl NatsServer ===

impl NatsServer {
    /// A single server with JetStream and no authentication.
    pub async fn start() -> Result<Self, StartError> {
        Self::options().start().await
    }

    /// To start one with settings of its own.
    pub fn options() -> Options {
        Options::default()
    }

    /// Draws ports and makes a folder; nothing runs yet.
    pub(crate) fn prepare(options: Options) -> Result<Self, StartError> {
        let none = || system("finding a free port")(io::ErrorKind::AddrNotAvailable.into());
        let port = ports::free().ok_or_else(none)?;
        let monitor = ports::free().ok_or_else(none)?;
        let folder = tempfile::Builder::new()
            .prefix("lockstep-nats-")
            .tempdir()
            .map_err(system("making a folder"))?;
        Ok(Self {
            options,
            port,
            monitor,
            folder,
            process: None,
        })
    }

    /// Has a running server take other lines in the place of those of [`Options::config`].
    pub fn reload(&mut self, lines: &str) -> io::Result<()> {
        lines.clone_into(&mut self.options.extra);
        std::fs::write(self.folder.path().join("nats.conf"), self.config())?;
        let process = self.process.as_mut();
        process.map_or(Ok(()), |process| process.signal(Signal::HUP))
    }

    /// Writes the configuration, starts the process, and waits until JetStream answers.
    pub(crate) async fn launch(&mut self) -> Result<(), StartError> {
        self.spawn()?;
        self.wait_until_ready().await
    }

    pub(crate) fn spawn(&mut self) -> Result<(), StartError> {
        let config = self.folder.path().join("nats.conf");
        std::fs::write(&config, self.config()).map_err(system("writing its configuration"))?;
        let binary = self.binary()?;
        let mut command = match self.options.within.split_first() {
            None => Command::new(binary),
            Some((program, arguments)) => {
                let mut command = Command::new(program);
                command.args(arguments).arg(binary);
                command
            }
        };
        command.arg("-c").arg(&config);
        let log = self.log();
        let process = children::start(command, &log).map_err(system("starting the process"))?;
        self.process = Some(process);
        Ok(())
    }

    pub(crate) async fn wait_until_ready(&mut self) -> Result<(), StartError> {
        let monitor = format!("127.0.0.1:{}", self.monitor);
        let address = format!("127.0.0.1:{}", self.port);
        let process = &mut self.process;
        let ready = until("healthy nats-server", READY_WITHIN, async || {
            if !process.as_mut().is_some_and(Child::is_running) {
                return Ok(Err("the process has ended"));
            }
            tokio::net::TcpStream::connect(&address)
                .await
                .map_err(|error| error.to_string())?;
            match http::get(&monitor, "/healthz").await {
                Ok((200, _)) => Ok(Ok(())),
                Ok((status, body)) => Err(format!("/healthz answers {status}: {body}")),
                Err(error) => Err(format!("/healthz: {error}")),
            }
        });
        let what = "healthy nats-server".to_owned();
        let late = match ready.await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(ended)) => TimedOut {
                what,
                within: READY_WITHIN,
                last_seen: ended.to_owned(),
            },
            Err(late) => late,
        };
        Err(StartError::NotReady {
            late,
            output: children::tail(&self.log()),
        })
    }

    fn binary(&self) -> Result<PathBuf, StartError> {
        let named = self.options.binary.clone();
        let named = named.or_else(|| std::env::var_os(BINARY_VARIABLE).map(PathBuf::from));
        let path = named.unwrap_or_else(|| crate::repository().join("tools/bin/nats-server"));
        if path.is_file() {
            Ok(path)
        } else {
            Err(StartError::NoBinary { path })
        }
    }

    fn config(&self) -> String {
        let Self {
            options,
            port,
            monitor,
            ..
        } = self;
        let mut lines = vec![
            format!("server_name: {}", self.name()),
            "host: 127.0.0.1".to_owned(),
            format!("port: {port}"),
            format!("http: \"127.0.0.1:{monitor}\""),
            "jetstream {".to_owned(),
            format!("  store_dir: \"{}\"", self.store_dir().display()),
            "  max_memory_store: 256MB".to_owned(),
            "  max_file_store: 4GB".to_owned(),
            options.jetstream.clone(),
            "}".to_owned(),
        ];
        lines.extend(
            options
                .max_payload
                .map(|bytes| format!("max_payload: {bytes}")),
        );
        lines.extend(options.tls.map(Tls::config));
        lines.push(options.extra.clone());
        lines.join("\n")
    }

    /// Where clients connect: `nats://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// The name it gives itself, as `leader` fields show it.
    pub fn name(&self) -> String {
        format!("n{}", self.port)
    }

    /// The port clients connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `host:port` of its HTTP monitoring.
    pub fn monitor(&self) -> String {
        format!("127.0.0.1:{}", self.monitor)
    }

    /// A monitoring page as JSON, such as `/jsz?consumers=true` or `/connz`.
    pub async fn inspect(&self, path: &str) -> io::Result<serde_json::Value> {
        let (_, body) = http::get(&self.monitor(), path).await?;
        Ok(serde_json::from_str(&body)?)
    }

    /// The process id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Child::pid)
    }

    /// Where JetStream keeps its files. They outlive [`Self::kill`].
    pub fn store_dir(&self) -> PathBuf {
        let own = || self.folder.path().join("store");
        self.options.store.clone().unwrap_or_else(own)
    }

    /// The server's log.
    pub fn log(&self) -> PathBuf {
        self.folder.path().join("nats.log")
    }

    /// SIGKILL. Port and store are kept for [`Self::restart`].
    pub fn kill(&mut self) -> io::Result<()> {
        self.process
            .take()
            .map_or(Ok(()), |mut process| process.kill())
    }

    /// SIGTERM, and waits for the end.
    pub async fn stop(&mut self) -> Result<(), TimedOut> {
        let Some(mut process) = self.process.take() else {
            return Ok(());
        };
        process.terminate(READY_WITHIN).await.map(|_| ())
    }

    /// Starts it again on the same port with the same store, after killing it if it runs.
    pub async fn restart(&mut self) -> Result<(), StartError> {
        self.kill().map_err(system("killing the old process"))?;
        self.launch().await
    }

    /// As [`Self::restart`], with an empty store: everything in it is lost.
    pub async fn restart_empty(&mut self) -> Result<(), StartError> {
        self.kill().map_err(system("killing the old process"))?;
        let store = self.store_dir();
        if store.exists() {
            std::fs::remove_dir_all(store).map_err(system("emptying the store"))?;
        }
        self.launch().await
    }

    /// SIGSTOP: connections stay open, nothing answers.
    pub fn pause(&mut self) -> io::Result<()> {
        self.process.as_mut().map_or(Ok(()), Child::pause)
    }

    /// SIGCONT.
    pub fn resume(&mut self) -> io::Result<()> {
        self.process.as_mut().map_or(Ok(()), Child::resume)
    }

    /// A plain client of this server, with the settings that a test wants: fast and patient.
    pub async fn connect(&self) -> Result<async_nats::Client, async_nats::ConnectError> {
        patient().connect(self.url()).await
    }
}

/// A client that a test wants: it reconnects fast, and never gives up.
pub(crate) fn patient() -> async_nats::ConnectOptions {
    async_nats::ConnectOptions::new()
        .max_reconnects(None)
        .reconnect_delay_callback(|_| Duration::from_millis(50))
}

/// A file of the test certificates: `ca.crt`, `server.crt`, `server.key` (for localhost and
/// 127.0.0.1), `client.crt`, `client.key`. Their authority's key was thrown away.
pub fn certificate(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("certs")
        .join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_missing_binary_is_named_with_what_to_do() {
        let error = NatsServer::options()
            .binary("/nowhere/nats-server")
            .start()
            .await
            .unwrap_err();
        let message = error.to_string();
        assert!(message.contains("/nowhere/nats-server") && message.contains("make tools"));
    }

    #[tokio::test]
    async fn a_configuration_error_is_shown() {
        let broken = NatsServer::options().config("max_payload: nonsense");
        let message = broken.start().await.unwrap_err().to_string();
        assert!(message.contains("nats.conf:11:1"), "{message}");
    }
}
