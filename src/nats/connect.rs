//! Connections: they wait for their server, for ever, and say how it stands.

use std::sync::Arc;

use async_nats::Client;
use serde::Deserialize;
use tokio::sync::{broadcast, watch};

use super::api::{Api, ApiError, Remedy, code};
use super::client::{Maker, Place, Reports};
use super::follow::Follower;
use super::options::{Auth, Options, Role};
use super::version::{self, TooOld};
use crate::tasks::Tasks;

/// Events that a slow observer may be behind before it loses the oldest.
const EVENTS: usize = 64;

/// A connection to a server, or the standing attempt to get one.
///
/// It never gives up: a worker waits for its server. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Connection {
    api: Api,
    /// The client in use. Kept here, so that who waits for another one waits as long as this is.
    clients: Arc<watch::Sender<Client>>,
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
    /// Starts a connection; returns before the server has been reached. What is in a folder of
    /// credentials is no reason to refuse: it may be mended later.
    pub async fn connect(options: &Options, role: &Role, name: &str) -> Result<Self, ConnectError> {
        let inbox_prefix: Arc<str> = role.inbox_prefix().into();
        let (events, _) = broadcast::channel(EVENTS);
        let (standing, seen) = watch::channel(Standing::Down { why: None });
        let maker = Maker {
            options: options.clone(),
            name: name.to_owned(),
            inbox_prefix: Arc::clone(&inbox_prefix),
            reports: Reports {
                events: events.clone(),
                standing,
            },
        };
        let tasks = Tasks::new();
        let clients = clients(maker, &tasks).await?;
        let domain = options.jetstream_domain.as_deref();
        Ok(Self {
            api: Api::new(clients.subscribe(), domain, options.request_timeout),
            clients,
            events,
            standing: seen,
            inbox_prefix,
            // A member's permissions cover its group's streams alone.
            may_ask_account: !matches!(role, Role::Member(_)),
            tasks,
        })
    }

    /// The client underneath, which another one may follow; for other adapters of this crate,
    /// never to be handed out.
    pub(super) fn clients(&self) -> watch::Receiver<Client> {
        self.clients.subscribe()
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
        let server = self.api.client().try_server_info()?;
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
        let client = self.api.client();
        let flushed = tokio::time::timeout(self.api.timeout(), client.flush()).await;
        if !matches!(flushed, Ok(Ok(()))) {
            tracing::debug!("what was sent last may not have reached the server");
        }
    }
}

/// The client in use, and what keeps it so.
async fn clients(maker: Maker, tasks: &Tasks) -> Result<Arc<watch::Sender<Client>>, ConnectError> {
    if let Auth::Folder(folder) = maker.options.auth.clone() {
        let follower = Follower::begin(maker, folder).await?;
        let clients = follower.clients();
        tasks.spawn("credentials", |stop| follower.run(stop));
        return Ok(clients);
    }
    let made = maker.make(Place::InUse).await?;
    Ok(Arc::new(watch::channel(made.client).0))
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
