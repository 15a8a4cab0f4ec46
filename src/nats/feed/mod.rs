//! One consumer and the messages that come from it: raw pulls, each delivery accounted for.
//!
//! The client's own ordered consumers are not used: they rewind when re-created before their first
//! message, do not see a lost tail, and re-create themselves without asking whether the lease
//! still stands. A feed never re-creates anything; it says that it is [`Broken`], and its owner
//! decides.

mod consumer;
mod message;
mod order;
mod pulls;
mod reply;
mod status;
mod window;

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use async_nats::{Client, Message, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt;
use serde_json::json;
use tokio::sync::{broadcast, watch};
use tokio::task::unconstrained;
use tokio::time::Instant;

pub(crate) use consumer::{Consumer, ConsumerInfo, CreateError, Start, delete};
pub use message::{Headers, StreamMessage, Subject};
pub use order::Broken;
pub(crate) use window::Window;

use super::connect::{Connection, ConnectionEvent};
use crate::chance;
use crate::group::Sequence;
use order::Order;
use pulls::{Due, Pulls, Request};
use reply::Delivery;
use status::Status;

/// How often the server says that it has nothing. Above half of [`EXPIRES`] it refuses.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// How long a pull waits at the server.
const EXPIRES: Duration = Duration::from_secs(30);
/// When a pull is forgotten whose end was never heard of.
const FORGOTTEN: Duration = Duration::from_secs(35);
/// Silence after which the pulls themselves may have been lost: ask again.
const ASK_AGAIN: Duration = Duration::from_secs(3);
/// Silence after which the consumer or the path to it is gone.
const SILENCE: Duration = Duration::from_millis(4500);
/// After a reconnect all feeds ask again, spread over this long.
const AFTER_RECONNECT: f64 = 0.25;
/// In a cluster the first pull can be earlier at the server than the consumer.
const EARLY_TRIES: u32 = 8;
/// How long to wait then.
const EARLY_WAIT: Duration = Duration::from_millis(50);
/// How long a little room may grow before it is asked for: an application that takes messages one
/// by one would cause as many pulls.
const PATIENCE: Duration = Duration::from_millis(3);
/// Most messages handed out together.
const TOGETHER: usize = 512;

/// A consumer's deliveries.
#[derive(Debug)]
pub(crate) struct Feed {
    events: broadcast::Receiver<ConnectionEvent>,
    /// The client that listens; another one that follows it does not.
    client: Client,
    clients: watch::Receiver<Client>,
    next_call: String,
    inbox: String,
    line: Line,
}

/// What has come and what has been asked for.
#[derive(Debug)]
struct Line {
    subscriber: Subscriber,
    order: Order,
    pulls: Pulls,
    heard: Instant,
    asked_again: bool,
    /// A delivery or a heartbeat has shown that the consumer is there.
    proved: bool,
    early: u32,
    /// Not before this moment, after a reconnect or an early pull.
    pull_at: Option<Instant>,
    /// Until then more room may come; after it, whatever there is is asked for.
    patient_until: Option<Instant>,
    /// What came behind messages that were handed out first.
    ending: Option<Fed>,
    came_together: usize,
}

/// What comes from a feed.
#[derive(Debug)]
pub(crate) enum Fed {
    /// The next messages, without a gap.
    Messages(Vec<StreamMessage>),
    /// Everything has been delivered; it was looked through up to here.
    ///
    /// On its own this proves nothing: begun above the stream's end, a consumer says that it has
    /// looked up to where it began.
    Idle(Sequence),
    /// It is of no more use.
    Broken(Broken),
    /// It is of no more use, and another one would not be either.
    Wrong(String),
}

// === impl Feed ===

impl Feed {
    /// Begins to listen for the deliveries of a consumer that was just made. Nothing is asked for
    /// before [`Self::next`].
    pub(crate) async fn listen(
        connection: &Connection,
        consumer: &Consumer,
        delivered: Sequence,
    ) -> Result<Self, String> {
        let events = connection.events();
        let mut clients = connection.clients();
        let client = clients.borrow_and_update().clone();
        let inbox = client.new_inbox();
        let listening = client.subscribe(format!("{inbox}.*"));
        let subscriber = tokio::time::timeout(EXPIRES, listening)
            .await
            .map_err(|_| "the client is too busy to subscribe".to_owned())?
            .map_err(|error| error.to_string())?;
        let call = format!("CONSUMER.MSG.NEXT.{}.{}", consumer.stream, consumer.name);
        Ok(Self {
            events,
            client,
            clients,
            next_call: connection.jetstream().subject(&call),
            inbox,
            line: Line::new(subscriber, delivered),
        })
    }

    /// Whether a delivery or a heartbeat has shown that the consumer is there.
    pub(crate) fn is_proved(&self) -> bool {
        self.line.proved
    }

    /// Time in which its owner did not listen is not silence.
    pub(crate) fn listened_elsewhere(&mut self) {
        self.line.heard = Instant::now();
    }

    /// What comes next. Asks for more as the window allows; without room nothing is asked for and
    /// nothing comes. May be dropped at any moment.
    pub(crate) async fn next(&mut self, window: &Window) -> Fed {
        if let Some(ending) = self.line.ending.take() {
            return ending;
        }
        loop {
            self.ask(window).await;
            let wake_at = self.line.wake_at();
            let line = &mut self.line;
            // One look takes all that is there: the runtime's budget per look would cut it short.
            let arrivals = unconstrained(poll_fn(|context| line.arrivals(context, window)));
            let fed = tokio::select! {
                biased;
                fed = arrivals => fed,
                event = self.events.recv() => {
                    self.line.react(&event);
                    None
                }
                Ok(()) = self.clients.changed() => Some(Fed::Broken(Broken::Gone(
                    "another client has taken over".into(),
                ))),
                () = window.more() => None,
                () = sleep_until(wake_at) => self.line.on_time(),
            };
            if let Some(fed) = fed {
                return fed;
            }
        }
    }

    /// Sends the pulls that are due.
    async fn ask(&mut self, window: &Window) {
        while let Some((number, request)) = self.line.due(window, Instant::now()) {
            let reply = format!("{}.{number}", self.inbox);
            let call = self.next_call.clone();
            let sent = self
                .client
                .publish_with_reply(call, reply, body(request))
                .await;
            if let Err(error) = sent {
                // Silence will follow, and say so.
                tracing::debug!(error = &error as &dyn std::error::Error, "pull not sent");
                return;
            }
        }
    }
}

// === impl Line ===

impl Line {
    fn new(subscriber: Subscriber, delivered: Sequence) -> Self {
        Self {
            subscriber,
            order: Order::after(delivered),
            pulls: Pulls::new(),
            heard: Instant::now(),
            asked_again: false,
            proved: false,
            early: 0,
            pull_at: None,
            patient_until: None,
            ending: None,
            came_together: 1,
        }
    }

    /// The next pull, if it is time for one; noted as sent.
    fn due(&mut self, window: &Window, now: Instant) -> Option<(u64, Request)> {
        if self.pull_at.is_some_and(|at| at > now) {
            return None;
        }
        self.pull_at = None;
        let request = match self.pulls.due(window.room()) {
            Due::Now(request) => request,
            Due::Little(request) => {
                let until = *self.patient_until.get_or_insert(now + PATIENCE);
                if now < until {
                    return None;
                }
                request
            }
            Due::Nothing => {
                self.patient_until = None;
                return None;
            }
        };
        self.patient_until = None;
        if !self.pulls.is_waiting() && !self.asked_again {
            self.heard = now; // without a pull at the server, silence means nothing
        }
        Some((self.pulls.sent(request, now + FORGOTTEN), request))
    }

    /// Takes all that has come; ready with none if only words about pulls have.
    fn arrivals(&mut self, context: &mut Context<'_>, window: &Window) -> Poll<Option<Fed>> {
        let mut messages = Vec::new();
        let mut heard = false;
        while messages.len() < TOGETHER {
            let Poll::Ready(message) = self.subscriber.poll_next_unpin(context) else {
                break;
            };
            heard = true;
            let end = match message {
                Some(message) => self.accept(message, &mut messages, window),
                None => Some(Fed::Broken(Broken::Gone("the connection is closed".into()))),
            };
            if end.is_some() {
                self.ending = end;
                break;
            }
        }
        if !heard {
            return Poll::Pending;
        }
        self.heard = Instant::now();
        self.asked_again = false;
        if messages.is_empty() {
            return Poll::Ready(self.ending.take());
        }
        self.proved = true;
        self.came_together = messages.len();
        let bytes: u64 = messages.iter().map(|message| message.size).sum();
        window.take(messages.len(), bytes);
        Poll::Ready(Some(Fed::Messages(messages)))
    }

    /// Takes one message of the subscription; says if it ends the feed, or this batch.
    fn accept(
        &mut self,
        message: Message,
        messages: &mut Vec<StreamMessage>,
        window: &Window,
    ) -> Option<Fed> {
        let Some(reply) = &message.reply else {
            // A status has no reply subject; a message has, whatever its publisher wrote into it.
            return self.on_status(&message, window);
        };
        let Some(delivery) = Delivery::parse(reply) else {
            let strange = format!("its reply subject is {reply:?}");
            return Some(Fed::Broken(Broken::Strange(strange)));
        };
        if let Err(broken) = self.order.accept(&delivery) {
            return Some(Fed::Broken(broken));
        }
        if messages.is_empty() {
            messages.reserve(self.came_together);
        }
        self.pulls.delivered(message.length);
        messages.push(StreamMessage::new(message, &delivery));
        None
    }

    fn on_status(&mut self, message: &Message, window: &Window) -> Option<Fed> {
        // Without a status it is nobody's: not a delivery, and no word of the server.
        message.status?;
        let pull = message.subject.rsplit_once('.').map(|(_, pull)| pull);
        let pull = pull.and_then(|pull| pull.parse().ok()).unwrap_or(0);
        match Status::of(message) {
            Status::Heartbeat {
                last_consumer,
                last_stream,
            } => Some(match self.order.compare(last_consumer) {
                Ok(()) => {
                    self.proved = true;
                    Fed::Idle(last_stream)
                }
                Err(broken) => Fed::Broken(broken),
            }),
            Status::Ended(unused) => {
                self.pulls.ended(pull, unused);
                None
            }
            Status::TooLarge(unused) => {
                self.pulls.ended_too_large(pull, unused, window.room());
                None
            }
            Status::Gone(_) if !self.proved && self.early < EARLY_TRIES => {
                self.early += 1;
                self.pulls.forget();
                self.pull_at = Some(Instant::now() + EARLY_WAIT);
                None
            }
            Status::Gone(text) => Some(Fed::Broken(Broken::Gone(text))),
            Status::Limited(text) => Some(Fed::Broken(Broken::Limited(text))),
            Status::Wrong(text) => Some(Fed::Wrong(text)),
        }
    }

    fn react(&mut self, event: &Result<ConnectionEvent, broadcast::error::RecvError>) {
        match event {
            // A new connection has our subscription, and may not have our pulls. Having missed
            // events is treated the same. Dropped messages show themselves as a gap.
            Ok(ConnectionEvent::Connected) | Err(_) => {
                self.pulls.forget();
                let now = Instant::now();
                let spread = Duration::from_secs_f64(AFTER_RECONNECT * chance::fraction());
                self.pull_at = Some(now + spread);
                self.heard = now;
                self.asked_again = false;
            }
            Ok(
                ConnectionEvent::Disconnected
                | ConnectionEvent::SlowConsumer
                | ConnectionEvent::Complaint(_),
            ) => {}
        }
    }

    /// When to look at the clock again.
    fn wake_at(&self) -> Option<Instant> {
        let silence = if self.asked_again { SILENCE } else { ASK_AGAIN };
        let silent_at = self.is_waiting().then(|| self.heard + silence);
        let expiry = self.pulls.next_expiry();
        let ask_at = self.pull_at.or(self.patient_until);
        [ask_at, expiry, silent_at].into_iter().flatten().min()
    }

    fn is_waiting(&self) -> bool {
        self.pulls.is_waiting() || self.asked_again
    }

    fn on_time(&mut self) -> Option<Fed> {
        let now = Instant::now();
        self.pulls.expire(now);
        if !self.is_waiting() {
            return None;
        }
        if now >= self.heard + SILENCE {
            return Some(Fed::Broken(Broken::Silent(SILENCE)));
        }
        if now >= self.heard + ASK_AGAIN && !self.asked_again {
            self.asked_again = true;
            self.pulls.forget();
        }
        None
    }
}

fn body(request: Request) -> Bytes {
    let mut body = json!({
        "batch": request.messages,
        "expires": consumer::nanos(EXPIRES),
        "idle_heartbeat": consumer::nanos(HEARTBEAT),
    });
    if let Some(bytes) = request.bytes {
        body["max_bytes"] = json!(bytes);
    }
    Bytes::from(body.to_string())
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
