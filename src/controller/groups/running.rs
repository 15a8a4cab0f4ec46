//! The groups that this process coordinates.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::controller::objects::ObjectKey;
use crate::coordinator::{GroupCoordinator, GroupStatus, Phase, Rebalance};
use crate::group::{BucketId, ServerTime, Timestamp};

/// How long the coordinator of a group without an object goes on, so that members let go.
const FAREWELL: Duration = Duration::from_secs(120);

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
    /// The connection that it was provided over.
    pub(super) serial: u64,
    pub(super) bucket: BucketId,
    pub(super) created: ServerTime,
    pub(super) found: Found,
    /// When everything was last looked at.
    pub(super) looked_at: Timestamp,
    pub(super) coordinator: Arc<GroupCoordinator>,
    pub(super) memory: Arc<Mutex<Memory>>,
}

/// What was found when everything was last looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// The streams that it reads, and whether they were made for it.
    pub(super) streams: Vec<(String, bool)>,
    /// What of ours could not be put right, in words.
    pub(super) drift: Vec<String>,
    /// Streams that are gone.
    pub(super) gone: Vec<String>,
    /// Streams that are others than they were, in words.
    pub(super) renewed: Vec<String>,
    /// What works and has a price, in words.
    pub(super) warnings: Vec<String>,
}

/// What is remembered between reports.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    /// Since when partitions are without an owner although members are there.
    unassigned_since: Option<Timestamp>,
    /// Since when the coordinator is there and does not coordinate.
    idle_since: Option<Timestamp>,
    /// Everything is to be looked at with the next reconcile.
    pub(super) look_again: bool,
    /// When the status was last written.
    pub(super) written_at: Option<Timestamp>,
    told: Option<Rebalance>,
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

    /// Everything of a group is being looked at: what asks for it from now on asks for another look.
    pub(super) fn looks(&self, key: &ObjectKey) {
        if let Some(group) = self.get(key) {
            group.remember(|memory| memory.look_again = false);
        }
    }

    /// Stops one group's coordinator.
    pub(in crate::controller) async fn stop(&self, key: &ObjectKey) {
        let group = self.locked().remove(key);
        if let Some(group) = group {
            group.coordinator.stop().await;
        }
    }

    /// The object with this uid is gone: its coordinator goes on until members have let go, unless
    /// an object of the same name takes it over.
    pub(in crate::controller) async fn retire(
        &self,
        key: &ObjectKey,
        uid: &str,
        over: CancellationToken,
    ) {
        let Some(group) = self.get(key).filter(|group| group.uid == uid) else {
            return;
        };
        let mut changes = group.coordinator.changes();
        let let_go = async {
            while has_owners(&group.coordinator) {
                if changes.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = over.cancelled() => return,
            _ = tokio::time::timeout(FAREWELL, let_go) => {}
        }
        let retired = {
            let mut all = self.locked();
            let same = all.get(key).is_some_and(|group| group.uid == uid);
            same.then(|| all.remove(key)).flatten()
        };
        if let Some(group) = retired {
            group.coordinator.stop().await;
            tracing::info!(group = %key, "its object is gone: it is no longer coordinated");
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

fn has_owners(coordinator: &GroupCoordinator) -> bool {
    let details = coordinator.status().details;
    details.is_some_and(|details| details.assigned > 0)
}

// === impl RunningGroup ===

impl RunningGroup {
    pub(super) fn remember<T>(&self, change: impl FnOnce(&mut Memory) -> T) -> T {
        change(&mut self.memory.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// It has ended by itself, or stopped with a trouble that only a person can mend.
    pub(super) fn has_ended(&self) -> bool {
        self.coordinator.has_ended() || self.coordinator.status().phase == Phase::Stopped
    }
}

// === impl Found ===

impl Found {
    /// Whether nothing is missing.
    pub(super) fn is_well(&self) -> bool {
        self.drift.is_empty() && self.gone.is_empty() && self.renewed.is_empty()
    }
}

// === impl Memory ===

impl Memory {
    /// For how long partitions have had no owner although members are there.
    pub(super) fn unassigned_for(&mut self, status: &GroupStatus) -> Duration {
        let details = status.details.as_ref();
        let unassigned =
            details.is_some_and(|d| !d.members.is_empty() && d.assigned < d.partitions);
        lasting(&mut self.unassigned_since, unassigned)
    }

    /// For how long the coordinator has been there without coordinating.
    pub(super) fn idle_for(&mut self, status: &GroupStatus) -> Duration {
        let idle = !status.coordinates || status.phase == Phase::Starting;
        lasting(&mut self.idle_since, idle)
    }

    /// A rebalance that has ended and was not told yet.
    pub(super) fn rebalance_to_tell(&mut self, status: &GroupStatus) -> Option<Rebalance> {
        let ended = status.details.as_ref().is_some_and(|d| !d.rebalancing);
        let last = status.last_rebalance.clone().filter(|_| ended)?;
        let new = self.told.as_ref() != Some(&last);
        self.told = Some(last.clone());
        new.then_some(last)
    }
}

fn lasting(since: &mut Option<Timestamp>, is_so: bool) -> Duration {
    if !is_so {
        *since = None;
        return Duration::ZERO;
    }
    let now = clock::now();
    now.since(*since.get_or_insert(now))
}
