//! A task that ends with whoever holds it.

use std::future::Future;

use lockstep_e2e::scene::{Outcome, SceneError};
use tokio::task::JoinSet;

/// A running task; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Task<T>(JoinSet<Outcome<T>>);

// === impl Task ===

impl<T: Send + 'static> Task<T> {
    pub(crate) fn start(work: impl Future<Output = Outcome<T>> + Send + 'static) -> Self {
        let mut tasks = JoinSet::new();
        tasks.spawn(work);
        Self(tasks)
    }

    /// Waits for its end.
    pub(crate) async fn end(mut self) -> Outcome<T> {
        match self.0.join_next().await {
            Some(ended) => ended?,
            None => Err(SceneError::new("a task is waited for twice")),
        }
    }
}
