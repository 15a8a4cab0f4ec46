//! Connections: they wait for their server, for ever, and say how it stands.

use std::sync::Arc;
use std::time::Duration;

use async_nats::ConnectOptions;
use serde::Deserialize;
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;

use super::api::{Api, ApiError, Remedy, code};
use super::credentials::{addresses, of_url, with_auth, with_tls};
use super::options::{Auth, Options, Role};
use super::secret_folder::SecretFolder;
use super::version::{self, TooOld};
use crate::chance;
use crate::tasks::Tasks;

/// With the third unanswered ping the client gives a connection up: a half-open one is noticed
/// after about five seconds.
const PING_INTERVAL: Duration = Duration::from_secs(2);
/// A server that cannot shake hands in this time is not worth waiting for.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Events that a slow observer may be behind before it loses the oldest.
const EVENTS: usize = 64;
/// How often credentials in a folder are looked at: Kubernetes itself takes up to a minute.
const LOOK_AT_CREDENTIALS: Duration = Duration::from_secs(2);
/// The longest wait between attempts to connect, before jitter.
const RECONNECT_MAX: Duration = Duration::from_secs(4);

/// A connection to a server, or the standing attempt to get one.
///
/// It never gives up: a worker waits for its server. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Connection {
    api: Api,
    events: broadcast::Sender<ConnectionEvent>,
    standing: watch::Receiver<Standing>,
    inbox_prefix: Arc<str>,
    may_ask_account: bool,
    tasks: Tasks,
}

/// What happened to a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionEvent {
    /// It is up, for the first time or again; every subscription is made again.
    Connected,
    /// It is down; what was sent may or may not have arrived, or arrive later.
    Disconnected,
    /// The client dropped messages of a subscription that was not read fast enough.
    SlowConsumer,
    /// The server or the client complains: a permission, a failed attempt to connect.
    Complaint(String),
}

/// How a connection stands now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Up.
    Up,
    /// Not up yet, or no longer; with the last thing that was heard of it.
    Down {
        /// The newest complaint, if there was one.
        why: Option<String>,
    },
}

/// The server at the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The largest message that it takes, headers included.
    pub max_payload: usize,
}

/// Why no connection can be made with these options: nothing that waiting would mend.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No server was named.
    #[error("no NATS server is named; give --nats-url at least once")]
    NoUrl,
    /// A URL is not one.
    #[error("{url:?} is not a server's URL; write nats://HOST:PORT or tls://HOST:PORT")]
    BadUrl {
        /// What was given, without its password.
        url: String,
    },
    /// A file cannot be used.
    #[error("{what} {path}: {detail}")]
    File {
        /// What the file is for.
        what: &'static str,
        /// Its path.
        path: String,
        /// What is wrong with it.
        detail: String,
    },
    /// The client refused the options.
    #[error("the NATS client does not accept these options: {0}")]
    Client(String),
}

/// Why the server at the other end cannot be used (yet).
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// It is too old.
    #[error("{0}")]
    TooOld(TooOld),
    /// `JetStream` is off.
    #[error("JetStream is not enabled {for_what}; {hint}")]
    NoJetStream {
        /// For the server or for the account.
        for_what: &'static str,
        /// What to do.
        hint: &'static str,
    },
    /// It did not answer; the account may lack the permission to ask.
    #[error(
        "the server did not answer $JS.API.INFO; if it is up, these credentials may lack the \
         permission to publish to $JS.API.> or to subscribe to {inbox_prefix}.> ({source})"
    )]
    Unanswered {
        /// Where answers are awaited.
        inbox_prefix: String,
        /// What happened.
        source: ApiError,
    },
    /// It refused.
    #[error(transparent)]
    Api(ApiError),
}

// === impl Connection ===

impl Connection {
    /// Starts a connection; returns before the server has been reached.
    pub async fn connect(options: &Options, role: &Role, name: &str) -> Result<Self, ConnectError> {
        let inbox_prefix: Arc<str> = role.inbox_prefix().into();
        let (events, _) = broadcast::channel(EVENTS);
        let (standing_tx, standing) = watch::channel(Standing::Down { why: None });
        let options = &options.with_what_its_folder_says();
        let servers = addresses(&options.urls)?;
        let client = with_auth(of_url(ConnectOptions::new(), &servers), &options.auth)
            .and_then(|made| with_tls(made, options))?
            .name(name)
            .custom_inbox_prefix(&*inbox_prefix)
            .ping_interval(PING_INTERVAL)
            .connection_timeout(CONNECT_TIMEOUT)
            .request_timeout(Some(options.request_timeout))
            .subscription_capacity(options.subscription_capacity)
            .retry_on_initial_connect()
            .max_reconnects(None)
            .reconnect_delay_callback(reconnect_delay)
            .event_callback(reporter(events.clone(), standing_tx))
            .connect(servers)
            .await
            .map_err(|error| ConnectError::Client(error.to_string()))?;
        let domain = options.jetstream_domain.as_deref();
        let tasks = Tasks::new();
        if let Auth::Folder(folder) = &options.auth {
            let (client, folder) = (client.clone(), folder.clone());
            tasks.spawn("credentials", |stop| {
                watch_credentials(client, folder, stop)
            });
        }
        Ok(Self {
            api: Api::new(client, domain, options.request_timeout),
            events,
            standing,
            inbox_prefix,
            // A member's permissions cover its group's streams alone.
            may_ask_account: !matches!(role, Role::Member(_)),
            tasks,
        })
    }

    /// The client underneath; for other adapters of this crate, never to be handed out.
    pub(crate) fn client(&self) -> &async_nats::Client {
        self.api.client()
    }

    /// The `JetStream` API through this connection.
    pub(crate) fn jetstream(&self) -> &Api {
        &self.api
    }

    /// What reads through this connection.
    pub(super) fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Ends everything that reads through this connection: readers delete their consumers.
    pub async fn close(&self) {
        self.tasks.stop().await;
        self.flush().await;
    }

    /// What happens to this connection from now on.
    pub fn events(&self) -> broadcast::Receiver<ConnectionEvent> {
        self.events.subscribe()
    }

    /// How this connection stands.
    pub fn standing(&self) -> Standing {
        self.standing.borrow().clone()
    }

    /// Whether this connection is up.
    pub fn is_up(&self) -> bool {
        *self.standing.borrow() == Standing::Up
    }

    /// Waits until this connection is up; for ever, if need be.
    pub async fn up(&self) {
        let mut standing = self.standing.clone();
        let gone = standing.wait_for(|s| *s == Standing::Up).await.is_err();
        if gone {
            // The client is gone: nothing will come up again, and the caller is being dropped.
            std::future::pending::<()>().await;
        }
    }

    /// The server at the other end, once it has been reached.
    pub fn server(&self) -> Option<Server> {
        let server = self.client().try_server_info()?;
        Some(Server {
            name: server.server_name,
            version: server.version,
            max_payload: server.max_payload,
        })
    }

    /// Whether the server is one that this version works with: 2.11 or newer, with `JetStream`.
    /// Waits until there is one.
    pub async fn check_version(&self) -> Result<(), CheckError> {
        self.up().await;
        let version = self.server().map_or_else(String::new, |s| s.version);
        version::check(&version, None).map_err(CheckError::TooOld)?;
        if !self.may_ask_account {
            return Ok(());
        }
        let account: AccountInfo = match self.api.call("INFO", &serde_json::Value::Null).await {
            Ok(account) => account,
            Err(error) => return Err(self.why_not(error)),
        };
        version::check(&version, Some(account.api.level)).map_err(CheckError::TooOld)
    }

    fn why_not(&self, error: ApiError) -> CheckError {
        match error.code() {
            Some(code::NOT_ENABLED) => CheckError::NoJetStream {
                for_what: "on the server",
                hint: "start nats-server with -js, or with a jetstream block in its configuration",
            },
            Some(code::NOT_ENABLED_FOR_ACCOUNT) => CheckError::NoJetStream {
                for_what: "for the account of these credentials",
                hint: "enable it for that account, or use credentials of another one",
            },
            Some(_) => CheckError::Api(error),
            None => match error {
                ApiError::NoResponders { .. } => CheckError::NoJetStream {
                    for_what: "on this server (nobody serves its API)",
                    hint: "start nats-server with -js, or name the right --jetstream-domain",
                },
                ApiError::Unanswered { .. } => CheckError::Unanswered {
                    inbox_prefix: self.inbox_prefix.to_string(),
                    source: error,
                },
                ApiError::Lost { .. }
                | ApiError::Refused(_)
                | ApiError::TooLarge { .. }
                | ApiError::Garbled { .. } => CheckError::Api(error),
            },
        }
    }

    /// Waits until what was sent has reached the server; at most as long as a request would.
    pub async fn flush(&self) {
        let flushed = tokio::time::timeout(self.api.timeout(), self.client().flush()).await;
        if !matches!(flushed, Ok(Ok(()))) {
            tracing::debug!("what was sent last may not have reached the server");
        }
    }
}

// === impl CheckError ===

impl CheckError {
    /// What this calls for.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::TooOld(_) => Remedy::AskOperator,
            Self::NoJetStream { .. } | Self::Unanswered { .. } => Remedy::Retry,
            Self::Api(error) => error.remedy(),
        }
    }
}

#[derive(Deserialize)]
struct AccountInfo {
    #[serde(default)]
    api: ApiStats,
}

#[derive(Default, Deserialize)]
struct ApiStats {
    #[serde(default)]
    level: u32,
}

/// At once, then 50 ms doubling to [`RECONNECT_MAX`]; each between half and all of that, so that
/// clients do not come back in step after a server's restart.
fn reconnect_delay(attempt: usize) -> Duration {
    if attempt <= 1 {
        return Duration::ZERO;
    }
    let doublings = u32::try_from(attempt - 2).unwrap_or(u32::MAX).min(16);
    let full = Duration::from_millis(50).saturating_mul(1 << doublings);
    full.min(RECONNECT_MAX)
        .mul_f64(0.5 + chance::fraction() / 2.0)
}

/// Connects anew when the credentials in a folder have changed.
async fn watch_credentials(
    client: async_nats::Client,
    folder: SecretFolder,
    stop: CancellationToken,
) {
    let mut known = folder.fingerprint();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(LOOK_AT_CREDENTIALS) => {}
        }
        let now = folder.fingerprint();
        if now == known {
            continue;
        }
        known = now;
        tracing::info!(folder = %folder.path().display(), "credentials have changed: connecting anew");
        if let Some(Ok(servers)) = folder.servers().map(|servers| addresses(&servers))
            && let Err(error) = client.set_server_pool(servers.as_slice()).await
        {
            tracing::warn!(%error, "the servers that the folder names cannot be used");
        }
        if let Err(error) = client.force_reconnect().await {
            tracing::warn!(%error, "cannot connect anew; the next attempt uses the new credentials");
        }
    }
}

/// The client's event callback: passes events on and keeps the standing.
fn reporter(
    events: broadcast::Sender<ConnectionEvent>,
    standing: watch::Sender<Standing>,
) -> impl Fn(async_nats::Event) -> std::future::Ready<()> + Send + Sync + 'static {
    move |event| {
        let event = translate(&event);
        match &event {
            ConnectionEvent::Connected => {
                standing.send_replace(Standing::Up);
            }
            ConnectionEvent::Disconnected => {
                standing.send_replace(Standing::Down { why: None });
            }
            ConnectionEvent::Complaint(text) => {
                standing.send_if_modified(|now| match now {
                    Standing::Up => false,
                    Standing::Down { why } => {
                        *why = Some(text.clone());
                        true
                    }
                });
            }
            ConnectionEvent::SlowConsumer => {}
        }
        // Nobody listens at the moment: that is fine, events are not kept.
        events.send(event).ok();
        std::future::ready(())
    }
}

fn translate(event: &async_nats::Event) -> ConnectionEvent {
    use async_nats::Event;
    match event {
        Event::Connected => ConnectionEvent::Connected,
        Event::Disconnected | Event::Closed => ConnectionEvent::Disconnected,
        Event::SlowConsumer(_) => ConnectionEvent::SlowConsumer,
        Event::LameDuckMode => {
            ConnectionEvent::Complaint("the server is about to shut down".to_owned())
        }
        Event::Draining => ConnectionEvent::Complaint("the connection is draining".to_owned()),
        Event::ServerError(async_nats::ServerError::AuthorizationViolation) => {
            ConnectionEvent::Complaint(
                "the server refuses these credentials (authorization violation)".to_owned(),
            )
        }
        Event::ServerError(error) => {
            ConnectionEvent::Complaint(format!("the server complains: {error}"))
        }
        Event::ClientError(error) => ConnectionEvent::Complaint(complaint(&error.to_string())),
    }
}

/// The client's words for the case that people meet most often, put as a sentence.
fn complaint(text: &str) -> String {
    if text.contains("authorization violation") {
        "the server refuses these credentials (authorization violation)".to_owned()
    } else {
        format!("no connection: {}", text.trim_start_matches("nats: "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_between_attempts_grow_and_stay_bounded() {
        assert_eq!(reconnect_delay(1), Duration::ZERO);
        for attempt in 2..200 {
            let wait = reconnect_delay(attempt);
            assert!(wait >= Duration::from_millis(25), "{attempt}: {wait:?}");
            assert!(wait <= RECONNECT_MAX, "{attempt}: {wait:?}");
        }
        assert!(reconnect_delay(100) >= RECONNECT_MAX / 2);
    }
}
