//! Every task has an owner, a name and a way to end.

use std::future::Future;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

/// A set of tasks that stop together.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    stopping: CancellationToken,
}

// === impl Tasks ===

impl Tasks {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Fires when the set is to stop; waits on it end a task.
    pub fn stopping(&self) -> CancellationToken {
        self.stopping.clone()
    }

    /// Tasks of their own that stop with these, and can be stopped alone.
    #[must_use]
    pub fn child(&self) -> Self {
        Self {
            tracker: TaskTracker::new(),
            stopping: self.stopping.child_token(),
        }
    }

    /// Runs a task without which the rest is worse than nothing: its end, panic included, stops
    /// the set.
    #[expect(clippy::disallowed_methods, reason = "this is the module that spawns")]
    pub fn spawn_vital<F>(&self, name: &'static str, task: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let task = task(self.stopping.child_token());
        let last_will = self.stopping.clone().drop_guard();
        let span = tracing::info_span!("task", name);
        let running = async move {
            let _last_will = last_will;
            task.await;
        };
        drop(tokio::spawn(
            self.tracker.track_future(running.instrument(span)),
        ));
    }

    /// Runs a task that may end on its own.
    #[expect(clippy::disallowed_methods, reason = "this is the module that spawns")]
    pub fn spawn<F>(&self, name: &'static str, task: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let span = tracing::info_span!("task", name);
        let task = task(self.stopping.child_token()).instrument(span);
        drop(tokio::spawn(self.tracker.track_future(task)));
    }

    /// Asks all tasks to stop.
    pub fn begin_to_stop(&self) {
        self.stopping.cancel();
    }

    /// Asks all tasks to stop and waits until they have ended.
    pub async fn stop(&self) {
        self.begin_to_stop();
        self.ended().await;
    }

    /// Waits until the set has been told to stop and all tasks have ended.
    pub async fn ended(&self) {
        self.stopping.cancelled().await;
        self.tracker.close();
        self.tracker.wait().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_end_of_a_vital_task_stops_the_others() {
        let tasks = Tasks::new();
        tasks.spawn(
            "bystander",
            |stopping| async move { stopping.cancelled().await },
        );
        tasks.spawn_vital("short", |_| async {});
        tasks.ended().await;
    }

    #[tokio::test]
    async fn a_panic_in_a_vital_task_stops_the_others() {
        let tasks = Tasks::new();
        tasks.spawn(
            "bystander",
            |stopping| async move { stopping.cancelled().await },
        );
        tasks.spawn_vital("fragile", |_| async { panic!("on purpose") });
        tasks.ended().await;
    }

    #[tokio::test]
    async fn children_can_be_stopped_alone() {
        let tasks = Tasks::new();
        let child = tasks.child();
        child.spawn_vital("short", |_| async {});
        child.ended().await;
        assert!(!tasks.stopping().is_cancelled());
    }
}
