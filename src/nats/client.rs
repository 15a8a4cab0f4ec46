//! The clients underneath a connection: each is made of its options as they are at that moment, and
//! tries for ever to reach a server.
//!
//! The client itself reads what it is made of only once, and takes no orders while it tries to
//! connect. So other certificates or addresses need another client.

use std::future::{Ready, ready};
use std::sync::Arc;
use std::time::Duration;

use async_nats::{Client, ConnectOptions};
use tokio::sync::{broadcast, watch};

use super::connect::{ConnectError, ConnectionEvent, Standing};
use super::credentials::{addresses, of_url, with_auth, with_tls};
use super::options::{Auth, Options};
use crate::chance;

/// With the third unanswered ping the client gives a connection up: a half-open one is noticed
/// after about five seconds.
const PING_INTERVAL: Duration = Duration::from_secs(2);
/// A server that cannot shake hands in this time is not worth waiting for.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest wait between attempts to connect, before jitter.
const RECONNECT_MAX: Duration = Duration::from_secs(4);
/// How long a client that is given up may take to be told so.
const FAREWELL: Duration = Duration::from_secs(1);

/// Where a connection's events and its standing go.
#[derive(Clone, Debug)]
pub(super) struct Reports {
    pub(super) events: broadcast::Sender<ConnectionEvent>,
    pub(super) standing: watch::Sender<Standing>,
}

/// What clients of one connection are made of.
#[derive(Clone, Debug)]
pub(super) struct Maker {
    pub(super) options: Options,
    pub(super) name: String,
    pub(super) inbox_prefix: Arc<str>,
    pub(super) reports: Reports,
}

/// One client.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) client: Client,
    place: watch::Sender<Place>,
}

/// What a client is to its connection. Changed, and reported from, under one lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Is to follow the one in use as soon as it has reached a server.
    Candidate {
        /// Whether it has.
        up: bool,
        /// What it last complained of.
        complaint: Option<String>,
    },
    /// Speaks for the connection.
    InUse,
    /// Of no more use.
    Retired,
}

// === impl Maker ===

impl Maker {
    /// A client with the options, and what is in their folder, as they are now. Returns before a
    /// server has been reached.
    pub(super) async fn make(&self, place: Place) -> Result<Made, ConnectError> {
        let options = self.options.with_what_its_folder_says();
        let (servers, made) = usable(&options)?;
        let (place, _) = watch::channel(place);
        let made = match &options.auth {
            Auth::Folder(_) => parked_once_retired(made, &place),
            Auth::None | Auth::Credentials(_) | Auth::Password { .. } | Auth::Nkey(_) => made,
        };
        let client = made
            .name(&self.name)
            .custom_inbox_prefix(&*self.inbox_prefix)
            .ping_interval(PING_INTERVAL)
            .connection_timeout(CONNECT_TIMEOUT)
            .request_timeout(Some(options.request_timeout))
            .subscription_capacity(options.subscription_capacity)
            .retry_on_initial_connect()
            .max_reconnects(None)
            .reconnect_delay_callback(reconnect_delay)
            .event_callback(reporter(place.clone(), self.reports.clone()))
            .connect(servers)
            .await
            .map_err(|error| ConnectError::Client(error.to_string()))?;
        Ok(Made { client, place })
    }

    /// A client that never tries anything, in the place of one that cannot be made yet.
    pub(super) async fn stand_in(&self) -> Result<Made, ConnectError> {
        let (place, _) = watch::channel(Place::Retired);
        let client = parked_once_retired(ConnectOptions::new(), &place)
            .custom_inbox_prefix(&*self.inbox_prefix)
            .request_timeout(Some(self.options.request_timeout))
            .retry_on_initial_connect()
            .connect("nats://127.0.0.1")
            .await
            .map_err(|error| ConnectError::Client(error.to_string()))?;
        Ok(Made { client, place })
    }
}

/// Addresses and identity, if they can be used at all.
pub(super) fn usable(
    options: &Options,
) -> Result<(Vec<async_nats::ServerAddr>, ConnectOptions), ConnectError> {
    let servers = addresses(&options.urls)?;
    let made = with_auth(of_url(ConnectOptions::new(), &servers), &options.auth)
        .and_then(|made| with_tls(made, options))?;
    Ok((servers, made))
}

/// The client has no way to end its attempts: a retired one is kept from making another.
fn parked_once_retired(made: ConnectOptions, place: &watch::Sender<Place>) -> ConnectOptions {
    let place = place.clone();
    made.reconnect_to_server_callback(move |_, _| {
        let retired = *place.borrow() == Place::Retired;
        async move {
            if retired {
                std::future::pending::<()>().await;
            }
            None // any of its servers
        }
    })
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

// === impl Made ===

impl Made {
    /// Waits until it has reached a server.
    pub(super) async fn up(&self) {
        let mut place = self.place.subscribe();
        let is_up = |place: &Place| matches!(place, Place::Candidate { up: true, .. });
        if place.wait_for(is_up).await.is_err() {
            std::future::pending::<()>().await; // the client is gone
        }
    }

    /// From now on it speaks for its connection; `instead` is done just before.
    pub(super) fn put_into_use(&self, reports: &Reports, instead: impl FnOnce()) {
        self.place.send_modify(|place| {
            instead();
            let up = matches!(place, Place::Candidate { up: true, .. });
            *place = Place::InUse;
            reports.take(if up {
                ConnectionEvent::Connected
            } else {
                ConnectionEvent::Disconnected
            });
        });
    }

    /// It says nothing any more and connects no more; what it has is closed.
    pub(super) async fn retire(self) {
        self.place.send_replace(Place::Retired);
        let told = tokio::time::timeout(FAREWELL, self.client.drain()).await;
        if !matches!(told, Ok(Ok(()))) {
            tracing::debug!("a former client could not be told that it is one");
        }
    }
}

// === impl Reports ===

impl Reports {
    /// Passes an event on, and keeps the standing.
    pub(super) fn take(&self, event: ConnectionEvent) {
        match &event {
            ConnectionEvent::Connected => {
                self.standing.send_replace(Standing::Up);
            }
            ConnectionEvent::Disconnected => {
                self.standing.send_replace(Standing::Down { why: None });
            }
            ConnectionEvent::Complaint(text) => self.is_down_because(text),
            ConnectionEvent::SlowConsumer => {}
        }
        // Nobody listens at the moment: that is fine, events are not kept.
        self.events.send(event).ok();
    }

    /// Notes a reason, if the connection is down.
    pub(super) fn is_down_because(&self, text: &str) {
        self.standing.send_if_modified(|now| match now {
            Standing::Up => false,
            Standing::Down { why } => {
                *why = Some(text.to_owned());
                true
            }
        });
    }
}

/// The client's event callback.
fn reporter(
    place: watch::Sender<Place>,
    reports: Reports,
) -> impl Fn(async_nats::Event) -> Ready<()> + Send + Sync + 'static {
    move |event| {
        let event = translate(&event);
        place.send_modify(|place| match place {
            Place::InUse => reports.take(event),
            Place::Candidate { up, complaint } => match event {
                ConnectionEvent::Connected => *up = true,
                ConnectionEvent::Disconnected => *up = false,
                ConnectionEvent::Complaint(text) => complained(text, complaint, &reports),
                ConnectionEvent::SlowConsumer => {}
            },
            Place::Retired => {}
        });
        ready(())
    }
}

/// A candidate complains: worth a word, as long as it says something new.
fn complained(text: String, before: &mut Option<String>, reports: &Reports) {
    reports.is_down_because(&text);
    if before.as_deref() != Some(text.as_str()) {
        tracing::warn!(text, "no connection with the changed credentials yet");
        *before = Some(text);
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
