//! Who listens to what a member tells about itself.

use tokio::sync::broadcast;

pub use crate::group::member::MemberEvent;

/// How many events a subscriber missed because it was too slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missed(pub u64);

/// The events of one member from the moment of subscription on.
#[derive(Debug)]
pub struct EventStream(pub(super) broadcast::Receiver<MemberEvent>);

// === impl EventStream ===

impl EventStream {
    /// The next event, or how many were missed; none once the member is gone.
    pub async fn next(&mut self) -> Option<Result<MemberEvent, Missed>> {
        match self.0.recv().await {
            Ok(event) => Some(Ok(event)),
            Err(broadcast::error::RecvError::Lagged(n)) => Some(Err(Missed(n))),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}
