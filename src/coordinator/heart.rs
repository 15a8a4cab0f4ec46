//! The candidate's heartbeat: a task that puts the next beat at its time, whatever else is awaited.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::group::{Beat, CandidateDocument, Formats, Incarnation, Revision, Unknown};
use crate::nats::{Bucket, PutOutcome};
use crate::wire::{self, keys::Key};

/// A candidate's key goes by itself an hour after its last beat. // P12
const TTL: Duration = Duration::from_secs(3600);

/// Beats on their way; more means that the server does not answer, and older ones prove enough.
const ON_THEIR_WAY: usize = 8;

/// How long the last word of a process may take.
const FAREWELL: Duration = Duration::from_secs(2);

/// The highest revision of the bucket that this process has seen, shared by who reads and writes.
#[derive(Clone, Debug, Default)]
pub(super) struct Highest(Arc<AtomicU64>);

/// Set once an acknowledgement has shown that the bucket was replaced. // P33
#[derive(Clone, Debug, Default)]
pub(super) struct Replaced(Arc<AtomicBool>);

/// Who beats, and how often.
#[derive(Clone, Debug)]
pub(super) struct Heart {
    pub(super) bucket: Bucket,
    pub(super) me: Incarnation,
    pub(super) id: String,
    pub(super) priority: i32,
    /// Time between beats, as it changes.
    pub(super) interval: watch::Receiver<Duration>,
    pub(super) highest: Highest,
    pub(super) replaced: Replaced,
}

// === impl Highest ===

impl Highest {
    pub(super) fn saw(&self, revision: Revision) {
        self.0.fetch_max(revision.0, Ordering::AcqRel);
    }

    pub(super) fn get(&self) -> Revision {
        Revision(self.0.load(Ordering::Acquire))
    }
}

// === impl Replaced ===

impl Replaced {
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    fn set(&self) {
        self.0.store(true, Ordering::Release);
    }
}

// === impl Heart ===

impl Heart {
    /// Beats until told to stop; then says that it has left, so that a successor need not wait.
    pub(super) async fn beat_until(self, stopping: CancellationToken) {
        let mut changes = self.interval.clone();
        let mut interval = *changes.borrow_and_update();
        let (mut beat, mut next) = (Beat(0), clock::now());
        let mut on_their_way = FuturesUnordered::new();
        loop {
            tokio::select! {
                () = stopping.cancelled() => break,
                Some(()) = on_their_way.next() => {}
                () = clock::until(Some(next)), if on_their_way.len() < ON_THEIR_WAY => {
                    beat = beat.next();
                    on_their_way.push(self.put(beat, Life::Goes));
                    next = clock::now().after(interval);
                }
                Ok(()) = changes.changed() => {
                    let before = std::mem::replace(&mut interval, *changes.borrow_and_update());
                    if interval < before {
                        next = clock::now(); // somebody has come: time counts from here
                    }
                }
            }
        }
        drop(on_their_way);
        let farewell = self.put(beat.next(), Life::HasLeft); // P43
        if tokio::time::timeout(FAREWELL, farewell).await.is_err() {
            tracing::debug!("the last beat was not acknowledged");
        }
    }

    async fn put(&self, beat: Beat, life: Life) {
        let document = CandidateDocument {
            id: self.id.clone(),
            priority: self.priority,
            beat,
            formats: Formats::CURRENT,
            left: matches!(life, Life::HasLeft),
            unknown: Unknown::default(),
        };
        let bytes = match wire::candidate::encode(&document) {
            Ok(bytes) => bytes,
            Err(error) => {
                let error = &error as &(dyn std::error::Error + 'static);
                tracing::error!(error, "the heartbeat cannot be written");
                return;
            }
        };
        let before = self.highest.get();
        let key = Key::Candidate(self.me.clone());
        match self.bucket.put(&key, bytes.into(), Some(TTL)).await {
            PutOutcome::Stored(revision) if revision <= before => self.replaced.set(), // P33
            PutOutcome::Stored(revision) => self.highest.saw(revision),
            PutOutcome::Unknown { why } => tracing::debug!(why, "heartbeat not acknowledged"),
            PutOutcome::Refused { code, text } => {
                tracing::warn!(code, text, "the server refuses the coordinator's heartbeat");
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Life {
    Goes,
    HasLeft,
}
