//! NATS connections, as `NatsConnection` objects declare them.
//!
//! One connection per object, shared by its groups. Its credentials lie in a folder of this process,
//! as a mounted Secret's would: when they change, the connection is made anew with them and nothing
//! else notices.

mod reconcile;
mod secrets;
mod status;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tempfile::TempDir;

pub(super) use reconcile::{Needs, reconcile};

use super::objects::ObjectKey;
use crate::crd::{NamespaceSelector, NatsConnectionSpec, Reason};
use crate::nats::Connection;

/// All connections of this process. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Connections(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    entries: HashMap<ObjectKey, Entry>,
    /// How many connections were made.
    made: u64,
}

/// What is known of one connection.
#[derive(Clone, Debug)]
struct Entry {
    /// What its object says.
    spec: NatsConnectionSpec,
    /// None before it could be made for the first time.
    made: Option<Made>,
    /// Whether it can be used.
    standing: Standing,
}

/// A connection that was made.
#[derive(Clone, Debug)]
struct Made {
    folder: Arc<TempDir>,
    connection: Connection,
    /// Another one for each connection that is made.
    serial: u64,
}

/// Whether a connection can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// The server answers.
    Ready {
        /// Its version.
        version: String,
    },
    /// It cannot be used, and why.
    NotReady {
        /// In one word.
        reason: Reason,
        /// In a sentence.
        message: String,
    },
}

/// A connection as a group sees it.
#[derive(Clone, Debug)]
pub(super) enum View {
    /// It was not looked at yet, if its object is there at all.
    Unseen,
    /// The server answers.
    Ready(Box<Usable>),
    /// It was made and cannot be used at present; a running group goes on.
    NotReady(Reason, String),
}

/// A connection that can be used.
#[derive(Clone, Debug)]
pub(super) struct Usable {
    pub(super) connection: Connection,
    /// Which of the connections made one after the other this is.
    pub(super) serial: u64,
    pub(super) prefix: String,
    pub(super) bucket_replicas: Option<u32>,
    pub(super) allowed: Option<NamespaceSelector>,
}

// === impl Connections ===

impl Connections {
    /// How a connection is at present.
    pub(super) fn view(&self, key: &ObjectKey) -> View {
        let all = self.locked();
        let Some(entry) = all.entries.get(key) else {
            return View::Unseen;
        };
        match (&entry.standing, &entry.made) {
            (Standing::Ready { .. }, Some(made)) => View::Ready(Box::new(Usable {
                connection: made.connection.clone(),
                serial: made.serial,
                prefix: entry.spec.bucket.prefix.clone(),
                bucket_replicas: entry.spec.bucket.replicas,
                allowed: entry.spec.allowed_namespaces.clone(),
            })),
            (Standing::NotReady { reason, message }, _) => View::NotReady(*reason, message.clone()),
            (Standing::Ready { .. }, None) => View::Unseen,
        }
    }

    /// Whether everything that is declared can be used.
    pub(super) fn all_are_usable(&self) -> bool {
        let all = self.locked();
        all.entries
            .values()
            .all(|entry| matches!(entry.standing, Standing::Ready { .. }))
    }

    /// All that can be used.
    pub(super) fn usable(&self) -> Vec<(ObjectKey, Usable)> {
        let keys: Vec<ObjectKey> = self.locked().entries.keys().cloned().collect();
        let views = keys.into_iter().map(|key| (self.view(&key), key));
        views
            .filter_map(|(view, key)| match view {
                View::Ready(usable) => Some((key, *usable)),
                View::Unseen | View::NotReady(..) => None,
            })
            .collect()
    }

    fn get(&self, key: &ObjectKey) -> Option<Entry> {
        self.locked().entries.get(key).cloned()
    }

    fn put(&self, key: &ObjectKey, entry: Entry) {
        self.locked().entries.insert(key.clone(), entry);
    }

    /// Ends a connection whose object is gone.
    pub(super) async fn drop_one(&self, key: &ObjectKey) {
        let entry = self.locked().entries.remove(key);
        if let Some(made) = entry.and_then(|entry| entry.made) {
            made.connection.close().await;
        }
    }

    /// Ends all of them.
    pub(super) async fn close(&self) {
        let keys: Vec<ObjectKey> = self.locked().entries.keys().cloned().collect();
        for key in keys {
            self.drop_one(&key).await;
        }
    }

    /// A number that no connection of this process had before.
    fn next_serial(&self) -> u64 {
        let mut known = self.locked();
        known.made += 1;
        known.made
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
