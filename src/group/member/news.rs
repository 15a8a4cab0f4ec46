//! What a member tells about itself while it runs.

use std::time::Duration;

use super::super::{Epoch, GroupEpoch, Partition, Sequence, StopReason};

/// Something that happened to this member.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemberEvent {
    /// The member takes part in its group.
    Joined {
        /// The group epoch in force.
        epoch: GroupEpoch,
    },
    /// A partition was claimed: its messages come now.
    Assigned {
        /// The partition.
        partition: Partition,
        /// The epoch of the ownership.
        epoch: Epoch,
        /// Where it starts.
        position: Sequence,
    },
    /// A partition has to be given back: finish what you have, nothing more comes.
    Revoking {
        /// The partition.
        partition: Partition,
        /// The epoch of the ownership.
        epoch: Epoch,
        /// How long there is for it.
        deadline: Duration,
    },
    /// A revocation was withdrawn: the partition goes on at the same epoch.
    Kept {
        /// The partition.
        partition: Partition,
        /// The epoch of the ownership.
        epoch: Epoch,
    },
    /// A partition was given back.
    Revoked {
        /// The partition.
        partition: Partition,
        /// The epoch that ended.
        epoch: Epoch,
        /// Whether everything handed over was acknowledged and committed.
        clean: bool,
    },
    /// A later owner was found on the commit record: this ownership was over already.
    Fenced {
        /// The partition.
        partition: Partition,
        /// The epoch that ended.
        epoch: Epoch,
    },
    /// The lease ran out: nothing is handed over or committed until NATS answers again.
    Suspended,
    /// The lease is back, and what is still ours goes on.
    Resumed,
    /// The commit record moved.
    Committed {
        /// The partition.
        partition: Partition,
        /// The epoch of the ownership.
        epoch: Epoch,
        /// The first sequence that is not committed.
        next: Sequence,
    },
    /// Feeding was paused.
    Paused {
        /// The partition.
        partition: Partition,
    },
    /// Feeding goes on.
    Unpaused {
        /// The partition.
        partition: Partition,
    },
    /// An attempt of a message failed; it is tried again.
    AttemptFailed {
        /// The partition.
        partition: Partition,
        /// The message.
        sequence: Sequence,
        /// Attempts that have failed so far.
        attempts: u32,
        /// Why.
        error: String,
    },
    /// A message failed for the last time and was passed over by policy.
    Skipped {
        /// The partition.
        partition: Partition,
        /// The message.
        sequence: Sequence,
        /// Its attempts.
        attempts: u32,
        /// The last error.
        error: String,
    },
    /// The partition stands still until it is resumed.
    Stopped {
        /// The partition.
        partition: Partition,
        /// The message or position that it stands at.
        sequence: Sequence,
        /// Which rule stopped it.
        reason: StopReason,
        /// A sentence for people.
        detail: String,
    },
    /// Retention removed messages before they were read; the partition goes on after them.
    MessagesLost {
        /// The partition.
        partition: Partition,
        /// The first that is missing.
        from: Sequence,
        /// The first that is there again.
        to: Sequence,
    },
    /// The stream was cut, restored or made anew, and the policy moved the position.
    PositionMoved {
        /// The partition.
        partition: Partition,
        /// Where it was.
        from: Sequence,
        /// Where it goes on.
        to: Sequence,
        /// What was found.
        reason: StopReason,
    },
    /// The application did not acknowledge a message in time.
    ProcessingTimedOut {
        /// The partition.
        partition: Partition,
        /// The oldest message in its hands.
        sequence: Sequence,
    },
    /// The commit record is missing or cannot be read: the partition waits for a person.
    OffsetLost {
        /// The partition.
        partition: Partition,
        /// What was found.
        detail: String,
    },
    /// The bucket is another one: everything was dropped, and the member starts anew.
    BucketReplaced,
    /// The application appeared or went away.
    Application {
        /// Whether it is there now.
        connected: bool,
    },
}
