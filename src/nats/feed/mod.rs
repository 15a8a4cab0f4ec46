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

use std::time::Duration;

use async_nats::{Message, Subscriber};
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use serde_json::json;
use tokio::sync::broadcast;
use tokio::time::Instant;

pub(crate) use consumer::{Consumer, ConsumerInfo, CreateError, Start};
pub use message::{Headers, StreamMessage, Subject};
pub use order::Broken;
pub(crate) use window::Window;

use super::connect::{Connection, ConnectionEvent};
use crate::chance;
use crate::group::Sequence;
use order::Order;
use pulls::{Pulls, Request};
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
/// Most messages handed out together.
const TOGETHER: usize = 256;

/// A consumer's deliveries.
#[derive(Debug)]
pub(crate) struct Feed {
    connection: Connection,
    events: broadcast::Receiver<ConnectionEvent>,
    subscriber: Subscriber,
    next_call: String,
    inbox: String,
    order: Order,
    pulls: Pulls,
    heard: Instant,
    asked_again: bool,
    /// A delivery or a heartbeat has shown that the consumer is there.
    proved: bool,
    early: u32,
    /// Not before this moment, after a reconnect or an early pull.
    pull_at: Option<Instant>,
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
        let inbox = connection.client().new_inbox();
        let subscribed = connection.client().subscribe(format!("{inbox}.*"));
        let subscriber = tokio::time::timeout(EXPIRES, subscribed)
            .await
            .map_err(|_| "the client is too busy to subscribe".to_owned())?
            .map_err(|error| error.to_string())?;
        let call = format!("CONSUMER.MSG.NEXT.{}.{}", consumer.stream, consumer.name);
        Ok(Self {
            connection: connection.clone(),
            events,
            subscriber,
            next_call: connection.jetstream().subject(&call),
            inbox,
            order: Order::after(delivered),
            pulls: Pulls::new(),
            heard: Instant::now(),
            asked_again: false,
            proved: false,
            early: 0,
            pull_at: None,
            ending: None,
            came_together: 1,
        })
    }

    /// Whether a delivery or a heartbeat has shown that the consumer is there.
    pub(crate) fn is_proved(&self) -> bool {
        self.proved
    }

    /// Time in which its owner did not listen is not silence.
    pub(crate) fn listened_elsewhere(&mut self) {
        self.heard = Instant::now();
    }

    /// What comes next. Asks for more as the window allows; without room nothing is asked for and
    /// nothing comes. May be dropped at any moment.
    pub(crate) async fn next(&mut self, window: &Window) -> Fed {
        if let Some(ending) = self.ending.take() {
            return ending;
        }
        loop {
            self.ask(window).await;
            let wake_at = self.wake_at();
            tokio::select! {
                biased;
                message = self.subscriber.next() => {
                    let Some(message) = message else {
                        let gone = "the connection is closed".to_owned();
                        return Fed::Broken(Broken::Gone(gone));
                    };
                    if let Some(fed) = self.take(message, window) {
                        return fed;
                    }
                }
                event = self.events.recv() => self.react(&event),
                () = window.more() => {}
                () = sleep_until(wake_at) => {
                    if let Some(fed) = self.on_time() {
                        return fed;
                    }
                }
            }
        }
    }

    /// Sends the pulls that are due.
    async fn ask(&mut self, window: &Window) {
        let now = Instant::now();
        if self.pull_at.is_some_and(|at| at > now) {
            return;
        }
        self.pull_at = None;
        while let Some(request) = self.pulls.due(window.room()) {
            if !self.pulls.is_waiting() && !self.asked_again {
                self.heard = now; // without a pull at the server, silence means nothing
            }
            let number = self.pulls.sent(request, now + FORGOTTEN);
            let reply = format!("{}.{number}", self.inbox);
            let call = self.next_call.clone();
            let sent = self.connection.client();
            if let Err(error) = sent.publish_with_reply(call, reply, body(request)).await {
                // Silence will follow, and say so.
                tracing::debug!(error = &error as &dyn std::error::Error, "pull not sent");
                return;
            }
        }
    }

    /// Takes a message and what has come behind it.
    fn take(&mut self, first: Message, window: &Window) -> Option<Fed> {
        self.heard = Instant::now();
        self.asked_again = false;
        let mut messages = Vec::new();
        let mut bytes = 0;
        let mut next = Some(first);
        while let Some(message) = next {
            match self.accept(message, window) {
                Accepted::Message(message) => {
                    if messages.is_empty() {
                        messages.reserve(self.came_together);
                    }
                    bytes += i64::try_from(message.size).unwrap_or(i64::MAX);
                    messages.push(message);
                }
                Accepted::Nothing => {}
                Accepted::End(fed) => {
                    self.ending = Some(fed);
                    break;
                }
            }
            if messages.len() >= TOGETHER {
                break;
            }
            next = self.subscriber.next().now_or_never().flatten();
        }
        if messages.is_empty() {
            return self.ending.take();
        }
        self.came_together = messages.len();
        window.take(i64::try_from(messages.len()).unwrap_or(i64::MAX), bytes);
        Some(Fed::Messages(messages))
    }

    fn accept(&mut self, message: Message, window: &Window) -> Accepted {
        let Some(reply) = &message.reply else {
            // A status has no reply subject; a message has, whatever its publisher wrote into it.
            return self.on_status(&message, window);
        };
        let Some(delivery) = Delivery::parse(reply) else {
            let strange = format!("its reply subject is {reply:?}");
            return Accepted::End(Fed::Broken(Broken::Strange(strange)));
        };
        if let Err(broken) = self.order.accept(&delivery) {
            return Accepted::End(Fed::Broken(broken));
        }
        self.proved = true;
        let message = StreamMessage::new(message, &delivery);
        self.pulls
            .delivered(i64::try_from(message.size).unwrap_or(i64::MAX));
        Accepted::Message(message)
    }

    fn on_status(&mut self, message: &Message, window: &Window) -> Accepted {
        if message.status.is_none() {
            return Accepted::Nothing; // nobody's: not a delivery, and no word of the server
        }
        let pull = message.subject.rsplit_once('.').map(|(_, pull)| pull);
        let pull = pull.and_then(|pull| pull.parse().ok()).unwrap_or(0);
        match Status::of(message) {
            Status::Heartbeat {
                last_consumer,
                last_stream,
            } => match self.order.compare(last_consumer) {
                Ok(()) => {
                    self.proved = true;
                    Accepted::End(Fed::Idle(last_stream))
                }
                Err(broken) => Accepted::End(Fed::Broken(broken)),
            },
            Status::Ended(unused) => {
                self.pulls.ended(pull, unused);
                Accepted::Nothing
            }
            Status::TooLarge(unused) => {
                self.pulls.ended_too_large(pull, unused, window.room());
                Accepted::Nothing
            }
            Status::Gone(_) if !self.proved && self.early < EARLY_TRIES => {
                self.early += 1;
                self.pulls.forget();
                self.pull_at = Some(Instant::now() + EARLY_WAIT);
                Accepted::Nothing
            }
            Status::Gone(text) => Accepted::End(Fed::Broken(Broken::Gone(text))),
            Status::Limited(text) => Accepted::End(Fed::Broken(Broken::Limited(text))),
            Status::Wrong(text) => Accepted::End(Fed::Wrong(text)),
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
        let waiting = self.pulls.is_waiting() || self.asked_again;
        let silent_at = waiting.then(|| self.heard + silence);
        [self.pull_at, self.pulls.next_expiry(), silent_at]
            .into_iter()
            .flatten()
            .min()
    }

    fn on_time(&mut self) -> Option<Fed> {
        let now = Instant::now();
        self.pulls.expire(now);
        let waiting = self.pulls.is_waiting() || self.asked_again;
        if !waiting {
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

/// What became of one message of the subscription.
enum Accepted {
    Message(StreamMessage),
    Nothing,
    End(Fed),
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
