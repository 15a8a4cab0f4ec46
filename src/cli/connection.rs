//! The flags that every command with a server has, and what they mean.

use std::path::PathBuf;

use clap::Args;

use super::Failure;
use crate::nats::{Auth, ClientCertificate, Options, Tls};
use crate::telemetry::{self, LogFormat, LogLevel};

/// The longest bucket prefix: with the longest namespace and name it stays a stream name.
const MAX_PREFIX: usize = 32;

/// What a command that answers logs unless it is told: its own errors. What the client complains
/// about while it tries to connect is in the one line at the end.
const QUIET: &str = "error,async_nats=off";

/// Which server, as whom, and which buckets. As typed.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
#[command(next_help_heading = "Connection")]
pub struct ConnectionFlags {
    /// Server; several allowed
    #[arg(
        long,
        env = "LOCKSTEP_NATS_URL",
        value_name = "URL",
        value_delimiter = ',',
        default_value = "nats://127.0.0.1:4222"
    )]
    nats_url: Vec<String>,
    /// Credentials file (JWT and seed)
    #[arg(long, env = "LOCKSTEP_NATS_CREDS", value_name = "FILE",
          conflicts_with_all = ["nats_user", "nats_nkey"])]
    nats_creds: Option<PathBuf>,
    /// User
    #[arg(
        long,
        env = "LOCKSTEP_NATS_USER",
        value_name = "USER",
        requires = "nats_password_file",
        conflicts_with = "nats_nkey"
    )]
    nats_user: Option<String>,
    /// File with the user's password
    #[arg(
        long,
        env = "LOCKSTEP_NATS_PASSWORD_FILE",
        value_name = "FILE",
        requires = "nats_user"
    )]
    nats_password_file: Option<PathBuf>,
    /// File with an nkey seed
    #[arg(long, env = "LOCKSTEP_NATS_NKEY", value_name = "FILE")]
    nats_nkey: Option<PathBuf>,
    /// Root certificates to trust (PEM)
    #[arg(long, env = "LOCKSTEP_TLS_CA", value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Client certificate (PEM)
    #[arg(
        long,
        env = "LOCKSTEP_TLS_CERT",
        value_name = "FILE",
        requires = "tls_key"
    )]
    tls_cert: Option<PathBuf>,
    /// Its private key (PEM)
    #[arg(
        long,
        env = "LOCKSTEP_TLS_KEY",
        value_name = "FILE",
        requires = "tls_cert"
    )]
    tls_key: Option<PathBuf>,
    /// Encrypt before the server says anything, as its handshake-first wants it
    #[arg(long, env = "LOCKSTEP_TLS_HANDSHAKE_FIRST")]
    tls_handshake_first: bool,
    /// JetStream domain behind a leaf node
    #[arg(long, env = "LOCKSTEP_JETSTREAM_DOMAIN", value_name = "NAME")]
    jetstream_domain: Option<String>,
    /// First part of the buckets' names
    #[arg(long, env = "LOCKSTEP_BUCKET_PREFIX", value_name = "PREFIX",
          default_value = "lockstep", value_parser = parse_prefix)]
    bucket_prefix: String,
}

/// How to log. As typed.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[command(next_help_heading = "Logging")]
pub struct LogFlags {
    /// text or json
    #[arg(
        long,
        env = "LOCKSTEP_LOG_FORMAT",
        value_name = "FORMAT",
        default_value = "text"
    )]
    log_format: LogFormat,
    /// error, warn, info, debug, trace
    #[arg(long, env = "LOCKSTEP_LOG_LEVEL", value_name = "LEVEL")]
    log_level: Option<LogLevel>,
}

/// What commands have in common. As typed.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct CommonFlags {
    #[command(flatten)]
    connection: ConnectionFlags,
    #[command(flatten)]
    log: LogFlags,
}

/// How much a command logs unless it is told: one that runs for long says more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// A worker or a coordinator: `info`.
    ForLong,
    /// A command that answers: next to nothing, since failures are told once, at its end.
    Once,
}

// === impl ConnectionFlags ===

impl ConnectionFlags {
    /// What these flags mean to a connection.
    pub fn options(&self) -> Result<Options, Failure> {
        if let Some(wrong) = self.nats_url.iter().find(|url| url.trim().is_empty()) {
            return Err(Failure::usage(format!(
                "--nats-url {wrong:?} is empty; give it as nats://HOST:PORT"
            )));
        }
        Ok(Options {
            urls: self.nats_url.clone(),
            auth: self.auth(),
            tls: self.tls(),
            jetstream_domain: self.jetstream_domain.clone(),
            ..Options::default()
        })
    }

    fn auth(&self) -> Auth {
        let user = self.nats_user.clone().zip(self.nats_password_file.clone());
        match (&self.nats_creds, user, &self.nats_nkey) {
            (Some(file), _, _) => Auth::Credentials(file.clone()),
            (None, Some((user, file)), _) => Auth::Password { user, file },
            (None, None, Some(file)) => Auth::Nkey(file.clone()),
            (None, None, None) => Auth::None,
        }
    }

    fn tls(&self) -> Tls {
        let client = self.tls_cert.clone().zip(self.tls_key.clone());
        Tls {
            ca: self.tls_ca.clone(),
            client: client.map(|(cert, key)| ClientCertificate { cert, key }),
            handshake_first: self.tls_handshake_first,
        }
    }

    /// The first part of every bucket's name.
    pub fn bucket_prefix(&self) -> &str {
        &self.bucket_prefix
    }
}

pub(super) fn parse_prefix(given: &str) -> Result<String, String> {
    let chars = given
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if chars && (1..=MAX_PREFIX).contains(&given.len()) {
        return Ok(given.to_owned());
    }
    Err(format!(
        "use 1 to {MAX_PREFIX} letters, digits and '-': it is the first of three parts that '_' joins"
    ))
}

// === impl CommonFlags ===

impl CommonFlags {
    /// What the flags mean to a connection.
    pub fn options(&self) -> Result<Options, Failure> {
        self.connection.options()
    }

    /// The first part of every bucket's name.
    pub fn bucket_prefix(&self) -> &str {
        self.connection.bucket_prefix()
    }

    /// Sets logging up, once per process.
    pub fn start_logging(&self, runs: Runs) -> Result<(), Failure> {
        self.log.start(runs)
    }
}

// === impl LogFlags ===

impl LogFlags {
    /// Sets logging up, once per process.
    pub fn start(&self, runs: Runs) -> Result<(), Failure> {
        let level = match (&self.log_level, runs) {
            (Some(level), _) => level.clone(),
            (None, Runs::ForLong) => LogLevel::default(),
            (None, Runs::Once) => QUIET.parse().map_err(Failure::usage)?,
        };
        telemetry::init(self.log_format, &level).map_err(|e| Failure::of(&e))
    }
}
