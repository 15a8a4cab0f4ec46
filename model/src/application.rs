//! A message, and the application that it is handed to.

use lockstep::group::ledger::Message;
use lockstep::group::{Epoch, Partition, Sequence, ServerTime};

/// A message is its sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Msg(pub(crate) Sequence);

/// What an application has in its hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InHand {
    pub(crate) partition: Partition,
    pub(crate) epoch: Epoch,
    pub(crate) sequence: Sequence,
}

// === impl Msg ===

impl Message for Msg {
    fn sequence(&self) -> Sequence {
        self.0
    }
    fn stored(&self) -> ServerTime {
        ServerTime(i64::try_from(self.0.0).unwrap_or(i64::MAX))
    }
    fn size(&self) -> u64 {
        1
    }
}
