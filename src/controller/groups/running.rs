//! The groups that this process coordinates.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use crate::controller::objects::ObjectKey;
use crate::coordinator::GroupCoordinator;
use crate::group::{BucketId, ServerTime, Timestamp};

/// All running coordinators. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(in crate::controller) struct Running(Arc<Mutex<HashMap<ObjectKey, Arc<RunningGroup>>>>);

/// A group with its coordinator.
#[derive(Debug)]
pub(super) struct RunningGroup {
    /// The object that it was provided for.
    pub(super) uid: String,
    /// The edition of the object that was provided.
    pub(super) generation: i64,
    pub(super) bucket: BucketId,
    pub(super) created: ServerTime,
    /// The streams that it reads, and whether they were made for it.
    pub(super) streams: Vec<(String, bool)>,
    /// What could not be put right, in words.
    pub(super) drift: Vec<String>,
    /// When everything was last looked at.
    pub(super) looked_at: Timestamp,
    pub(super) coordinator: Arc<GroupCoordinator>,
    pub(super) memory: Arc<Mutex<Memory>>,
}

/// What is remembered between reports.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    /// Since when partitions are without an owner although members are there.
    pub(super) unassigned_since: Option<Timestamp>,
    /// Everything is to be looked at with the next reconcile.
    pub(super) look_again: bool,
    /// When the status was last written.
    pub(super) written_at: Option<Timestamp>,
}

// === impl Running ===

impl Running {
    pub(super) fn get(&self, key: &ObjectKey) -> Option<Arc<RunningGroup>> {
        self.locked().get(key).cloned()
    }

    pub(super) fn put(&self, key: &ObjectKey, group: RunningGroup) {
        self.locked().insert(key.clone(), Arc::new(group));
    }

    /// Has everything of a group looked at with its next reconcile.
    pub(in crate::controller) fn look_again(&self, key: &ObjectKey) {
        if let Some(group) = self.get(key) {
            group.remember(|memory| memory.look_again = true);
        }
    }

    /// Stops one group's coordinator.
    pub(in crate::controller) async fn stop(&self, key: &ObjectKey) {
        let group = self.locked().remove(key);
        if let Some(group) = group {
            group.coordinator.stop().await;
        }
    }

    /// Stops all of them, side by side.
    pub(in crate::controller) async fn stop_all(&self) {
        let all: BTreeMap<_, _> = self.locked().drain().collect();
        let stops = all.values().map(|group| group.coordinator.stop());
        futures_util::future::join_all(stops).await;
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, HashMap<ObjectKey, Arc<RunningGroup>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl RunningGroup ===

impl RunningGroup {
    pub(super) fn remember<T>(&self, change: impl FnOnce(&mut Memory) -> T) -> T {
        change(&mut self.memory.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
