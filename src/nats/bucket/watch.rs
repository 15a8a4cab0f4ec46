//! Watching keys: their newest values, then every change.
//!
//! Documents are levels, not events: whenever anything is in doubt the watch begins anew from the
//! last value of each key, never from a remembered revision, which a re-created bucket may not
//! have reached yet. Even a healthy watch may be behind; only one's own write coming back proves
//! that it is not.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Bucket, Entry, EntryValue, KeyFilter, read};
use crate::backoff::Backoff;
use crate::chance;
use crate::group::{Revision, Sequence};
use crate::nats::feed::{Consumer, CreateError, Fed, Feed, Start, StreamMessage, Window, delete};

/// Events that a slow owner may be behind before the watch stops pulling.
const EVENTS: usize = 256;
/// Messages that may be on their way.
const WINDOW_MESSAGES: u32 = 1000;
/// Bytes that may be on their way.
const WINDOW_BYTES: u64 = 16 * 1024 * 1024;
/// During an election a stream can be "not found" for some seconds; longer, and it is gone.
const GONE_AFTER: Duration = Duration::from_secs(10);

/// A standing watch. Dropping it ends it.
#[derive(Debug)]
pub struct Watch {
    events: mpsc::Receiver<WatchEvent>,
    _stop: DropGuard,
}

/// What a watch sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEvent {
    /// A key's value: one that was there, or a change.
    Entry(Entry),
    /// Everything that was there has been delivered. What comes now is new.
    Loaded,
    /// The watch begins anew: every key that is there comes again, then [`Self::Loaded`].
    Restarted {
        /// What happened to it.
        why: String,
    },
    /// The bucket is not there. The watch goes on: should it come back, it begins anew.
    Gone {
        /// What the server says.
        why: String,
    },
}

// === impl Bucket ===

impl Bucket {
    /// Watches the keys that match any of these filters.
    pub fn watch(&self, filters: &[KeyFilter]) -> Watch {
        let (sender, events) = mpsc::channel(EVENTS);
        let stop = CancellationToken::new();
        let task = Watching {
            bucket: self.clone(),
            filters: filters
                .iter()
                .map(|filter| format!("{}{}", self.prefix, filter.pattern()))
                .collect(),
            events: sender,
            missing_since: None,
            consumer: None,
        };
        let ended = stop.clone();
        let tasks = self.connection.tasks();
        tasks.spawn("watch", |stopping| async move {
            let stop = async {
                tokio::select! {
                    () = ended.cancelled() => {}
                    () = stopping.cancelled() => {}
                }
            };
            task.until(stop).await;
        });
        Watch {
            events,
            _stop: stop.drop_guard(),
        }
    }
}

// === impl Watch ===

impl Watch {
    /// What the watch sees next; none once its connection was closed. May be dropped at any moment.
    pub async fn next(&mut self) -> Option<WatchEvent> {
        self.events.recv().await
    }

    /// What the watch has seen already; none if there is nothing at the moment.
    pub fn next_now(&mut self) -> Option<WatchEvent> {
        self.events.try_recv().ok()
    }
}

/// The task behind a watch.
struct Watching {
    bucket: Bucket,
    filters: Vec<String>,
    events: mpsc::Sender<WatchEvent>,
    missing_since: Option<Instant>,
    /// What may be on the server, to be deleted.
    consumer: Option<Consumer>,
}

/// The owner of the watch has gone.
struct NobodyListens;

// === impl Watching ===

impl Watching {
    /// Watches until told to stop, and leaves nothing behind.
    async fn until(mut self, stop: impl Future<Output = ()>) {
        tokio::select! {
            _ = self.run() => {}
            () = stop => {}
        }
        if let Some(consumer) = self.consumer.take() {
            delete(&self.bucket.connection, &consumer).await;
        }
    }

    async fn run(&mut self) -> Result<(), NobodyListens> {
        let mut backoff = Backoff::doubling(Duration::from_millis(100), Duration::from_secs(5));
        loop {
            self.bucket.connection.up().await;
            let why = match self.follow(&mut backoff).await? {
                Followed::Broken(why) => {
                    self.tell(WatchEvent::Restarted { why: why.clone() })
                        .await?;
                    why
                }
                Followed::NotBegun(why) => why,
            };
            self.forget();
            tracing::debug!(bucket = self.bucket.name(), why, "watch begins anew");
            tokio::time::sleep(backoff.next(chance::fraction())).await;
        }
    }

    /// Follows one consumer as long as it can be trusted.
    async fn follow(&mut self, backoff: &mut Backoff) -> Result<Followed, NobodyListens> {
        let consumer = self.plan();
        self.consumer = Some(consumer.clone());
        let api = self.bucket.api();
        let pending = match consumer.create(api).await {
            Ok(info) => info.num_pending,
            Err(error) => return self.not_created(&error).await,
        };
        self.missing_since = None;
        let connection = &self.bucket.connection;
        let mut feed = match Feed::listen(connection, &consumer, Sequence(0)).await {
            Ok(feed) => feed,
            Err(why) => return Ok(Followed::NotBegun(why)),
        };
        let window = Window::new(WINDOW_MESSAGES, WINDOW_BYTES);
        let mut loaded = pending == 0;
        if loaded {
            self.tell(WatchEvent::Loaded).await?;
        }
        let why = loop {
            let came = feed.next(&window).await;
            if feed.is_proved() {
                backoff.reset();
            }
            match came {
                Fed::Messages(messages) => {
                    for message in messages {
                        let last = message.pending == 0;
                        window.give_back(1, message.size);
                        self.tell(WatchEvent::Entry(self.entry(message))).await?;
                        if last && !loaded {
                            loaded = true;
                            self.tell(WatchEvent::Loaded).await?;
                        }
                    }
                    feed.listened_elsewhere();
                }
                // A key can expire before it is delivered: then the last one has others behind it.
                Fed::Idle(_) if !loaded => {
                    loaded = true;
                    self.tell(WatchEvent::Loaded).await?;
                }
                Fed::Idle(_) => {}
                Fed::Broken(broken) => break broken.to_string(),
                Fed::Wrong(text) => break text,
            }
        };
        Ok(Followed::Broken(why))
    }

    async fn not_created(&mut self, error: &CreateError) -> Result<Followed, NobodyListens> {
        let why = error.to_string();
        if matches!(error, CreateError::NoStream(_)) {
            let now = Instant::now();
            let since = *self.missing_since.get_or_insert(now);
            if now >= since + GONE_AFTER {
                self.missing_since = None;
                self.tell(WatchEvent::Gone { why: why.clone() }).await?;
            }
        } else {
            self.missing_since = None;
        }
        Ok(Followed::NotBegun(why))
    }

    fn plan(&self) -> Consumer {
        Consumer {
            stream: self.bucket.stream.to_string(),
            name: format!("lw-{}", chance::name()),
            filters: self.filters.clone(),
            start: Start::LastPerSubject,
            metadata: BTreeMap::new(),
        }
    }

    /// Deletes what the last attempt may have left, without waiting for it.
    fn forget(&mut self) {
        let Some(consumer) = self.consumer.take() else {
            return;
        };
        let connection = self.bucket.connection.clone();
        let tasks = self.bucket.connection.tasks();
        tasks.spawn("watch's leftover", |_| async move {
            delete(&connection, &consumer).await;
        });
    }

    fn entry(&self, message: StreamMessage) -> Entry {
        let headers = &message.headers;
        let marker = headers
            .get("KV-Operation")
            .is_some_and(|value| read::is_marker_header("KV-Operation", value))
            || headers.get("Nats-Marker-Reason").is_some();
        Entry {
            key: self.bucket.key(&message.subject),
            revision: Revision(message.sequence.0),
            value: if marker {
                EntryValue::Marker
            } else {
                EntryValue::Put(message.payload)
            },
            created: message.timestamp,
        }
    }

    async fn tell(&self, event: WatchEvent) -> Result<(), NobodyListens> {
        self.events.send(event).await.map_err(|_| NobodyListens)
    }
}

/// How following a consumer ended.
enum Followed {
    /// It was followed, up to a point.
    Broken(String),
    /// There was none to follow.
    NotBegun(String),
}
