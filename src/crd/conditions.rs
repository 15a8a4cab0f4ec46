//! Conditions and their reasons: closed sets, so that an alert can rely on a word.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One thing that holds or does not, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What it is about, in one word.
    #[serde(rename = "type")]
    #[schemars(length(max = 63))]
    pub kind: String,
    /// True, False or Unknown.
    pub status: ConditionStatus,
    /// The `metadata.generation` that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When its status last changed.
    #[schemars(length(max = 40), extend("format" = "date-time"))]
    pub last_transition_time: String,
    /// Why, in one word.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")
    )]
    pub reason: String,
    /// Why, in a sentence.
    #[schemars(length(max = 4096))]
    pub message: String,
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not.
    False,
    /// Nobody can say at present.
    Unknown,
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $word:ident),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$of])* $word),* }

        impl $name {
            /// All of them, in the order in which they are documented.
            pub const ALL: &'static [Self] = &[$(Self::$word),*];

            /// The word.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$word => stringify!($word)),* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

words! {
    /// What a condition is about.
    ConditionType {
        /// The group is usable: provisioned and coordinated.
        Ready,
        /// `JetStream` answered with these credentials.
        ConnectionReady,
        /// What the group needs exists and matches.
        Provisioned,
        /// A fenced coordinator is active.
        CoordinatorReady,
        /// Every partition has one live owner.
        PartitionsAssigned,
        /// No partition with lag is stuck.
        PartitionsProgressing,
        /// Offsets fit their streams.
        OffsetsValid,
        /// The autoscaler can act.
        ScalingActive,
        /// The autoscaler would like something else than it may have.
        ScalingLimited,
        /// The object is on its way; abnormal when True.
        Reconciling,
        /// The object will not get there by itself; abnormal when True.
        Stalled,
        /// An offset reset is done.
        Complete,
        /// An offset reset failed.
        Failed,
    }
}

words! {
    /// Why a condition is what it is.
    Reason {
        /// Nothing is wrong.
        AsExpected,
        /// Nobody is there to consume.
        NoMembers,
        /// The group is paused.
        Paused,
        /// Streams or the bucket are being made.
        Provisioning,
        /// The connection is not ready.
        ConnectionNotReady,
        /// Partitions have had no owner for too long.
        PartitionsUnassigned,
        /// Another manager has this group.
        OwnershipConflict,
        /// The group's object is gone.
        GroupDeleted,
        /// No NATS server answers.
        Unreachable,
        /// The credentials do not allow what is needed.
        AuthorizationViolation,
        /// The referenced Secret or its key is missing.
        SecretNotFound,
        /// The connection does not admit this namespace.
        NotGranted,
        /// The account has no `JetStream`.
        JetStreamDisabled,
        /// The server is older than is supported.
        ServerTooOld,
        /// The bucket that was there is missing or another one.
        StateLost,
        /// A stream of the source does not exist.
        StreamNotFound,
        /// Another stream has these subjects.
        SubjectOverlap,
        /// The servers have no room.
        InsufficientResources,
        /// What exists differs in what cannot be changed.
        ImmutableMismatch,
        /// The stream does not have limits retention.
        UnsupportedRetention,
        /// The dead-letter subject lies within the source.
        DeadLetterInSource,
        /// Somebody changed what is ours.
        DriftDetected,
        /// No coordinator is active.
        NoCoordinator,
        /// Coordinators take over from each other too often.
        CoordinatorFlapping,
        /// Partitions are changing hands.
        Rebalancing,
        /// Members are there, and none may have partitions.
        NoEligibleMember,
        /// Two processes use one member id.
        DuplicateMember,
        /// A member cannot read what it needs to.
        VersionTooOld,
        /// A partition with lag does not move.
        PartitionStalled,
        /// A message has used up its attempts.
        MessageStuck,
        /// No application is connected.
        AppNotConnected,
        /// A stream was made anew.
        StreamRecreated,
        /// A stream lost its end.
        StreamTruncated,
        /// Retention removed messages before they were read.
        MessagesLost,
        /// A commit record is missing or unreadable.
        OffsetLost,
        /// The bucket went back in time.
        StateRolledBack,
        /// The lag is not known.
        LagUnavailable,
        /// Something else scales the target.
        ScalerConflict,
        /// The target's pods are not of this group.
        TargetNotInGroup,
        /// The target cannot be read or scaled.
        TargetUnavailable,
        /// The target is rolling out.
        RollingOut,
        /// More members than partitions are of no use.
        PartitionLimit,
        /// The largest number allowed is reached.
        MaxReplicas,
        /// A rebalance has to end first.
        RebalanceInProgress,
        /// A document in the bucket cannot be understood.
        StateDamaged,
        /// This version does not do it.
        NotSupported,
        /// The object asks for what is not possible.
        InvalidSpec,
        /// The group is another one than when the reset was accepted.
        GroupRecreated,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_is_one_that_kubernetes_takes_as_a_reason() {
        for word in Reason::ALL.iter().map(|r| r.as_str()) {
            assert!(
                word.len() <= 63 && word.chars().all(|c| c.is_ascii_alphanumeric()),
                "{word}"
            );
        }
        assert_eq!(ConditionType::OffsetsValid.to_string(), "OffsetsValid");
    }
}
