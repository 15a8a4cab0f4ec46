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
pub(super) struct Connections(Arc<Mutex<HashMap<ObjectKey, Entry>>>);

/// One connection.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// What it was made from.
    spec: NatsConnectionSpec,
    folder: Arc<TempDir>,
    connection: Option<Connection>,
    /// Whether it can be used.
    pub(super) standing: Standing,
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
    /// There is no such object, or nothing is known of it yet.
    Missing,
    /// The server answers.
    Ready(Usable),
    /// It was made and cannot be used at present; a running group goes on.
    NotReady(Reason, String),
}

/// A connection that can be used.
#[derive(Clone, Debug)]
pub(super) struct Usable {
    pub(super) connection: Connection,
    pub(super) prefix: String,
    pub(super) bucket_replicas: Option<u32>,
    pub(super) allowed: Option<NamespaceSelector>,
}

// === impl Connections ===

impl Connections {
    /// How a connection is at present.
    pub(super) fn view(&self, key: &ObjectKey) -> View {
        let all = self.locked();
        let Some(entry) = all.get(key) else {
            return View::Missing;
        };
        match (&entry.standing, &entry.connection) {
            (Standing::Ready { .. }, Some(connection)) => View::Ready(Usable {
                connection: connection.clone(),
                prefix: entry.spec.bucket.prefix.clone(),
                bucket_replicas: entry.spec.bucket.replicas,
                allowed: entry.spec.allowed_namespaces.clone(),
            }),
            (Standing::NotReady { reason, message }, _) => View::NotReady(*reason, message.clone()),
            (Standing::Ready { .. }, None) => View::Missing,
        }
    }

    /// All that can be used.
    pub(super) fn usable(&self) -> Vec<(ObjectKey, Usable)> {
        let keys: Vec<ObjectKey> = self.locked().keys().cloned().collect();
        let views = keys.into_iter().map(|key| (self.view(&key), key));
        views
            .filter_map(|(view, key)| match view {
                View::Ready(usable) => Some((key, usable)),
                View::Missing | View::NotReady(..) => None,
            })
            .collect()
    }

    fn get(&self, key: &ObjectKey) -> Option<Entry> {
        self.locked().get(key).cloned()
    }

    fn put(&self, key: &ObjectKey, entry: Entry) {
        self.locked().insert(key.clone(), entry);
    }

    /// Ends a connection whose object is gone.
    pub(super) async fn drop_one(&self, key: &ObjectKey) {
        let entry = self.locked().remove(key);
        if let Some(connection) = entry.and_then(|entry| entry.connection) {
            connection.close().await;
        }
    }

    /// Ends all of them.
    pub(super) async fn close(&self) {
        let keys: Vec<ObjectKey> = self.locked().keys().cloned().collect();
        for key in keys {
            self.drop_one(&key).await;
        }
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, HashMap<ObjectKey, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
