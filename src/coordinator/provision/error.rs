//! Why a group is not provided, and what that calls for.

use super::super::meta::ImmutableMismatch;
use crate::group::GroupRef;
use crate::nats::streams::{StreamError, StreamRefusal};
use crate::nats::{BucketError, ReadError, Remedy};
use crate::wire::keys::Key;

/// Why a group is not provided.
#[derive(Debug, thiserror::Error)]
pub enum ProvisionError {
    /// There is no bucket, and none may be made.
    #[error(
        "group {group} has no bucket {bucket}; give --create if the group is new, or \
         --accept-state-loss if its state was lost"
    )]
    NoBucket {
        /// The group.
        group: GroupRef,
        /// Its bucket.
        bucket: String,
    },
    /// There is a bucket that somebody else made.
    #[error(
        "the stream of bucket {bucket} was not made by Lockstep; remove it, or choose another \
         --bucket-prefix"
    )]
    ForeignBucket {
        /// The bucket.
        bucket: String,
    },
    /// There is no description, and none may be made.
    #[error("bucket {bucket} holds no description of group {group}; give --create")]
    NoMeta {
        /// The group.
        group: GroupRef,
        /// Its bucket.
        bucket: String,
    },
    /// The description cannot be understood.
    #[error("StateDamaged: meta of group {group} cannot be read ({why}); nothing is overwritten")]
    MetaDamaged {
        /// The group.
        group: GroupRef,
        /// What is wrong with it.
        why: String,
    },
    /// Another manager coordinates the group.
    #[error("OwnershipConflict: group {group} is managed by {manager}, this is {me}; {remedy}")]
    OwnershipConflict {
        /// The group.
        group: GroupRef,
        /// Its manager.
        manager: String,
        /// Who is asked to provide it.
        me: String,
        /// What would move it.
        remedy: String,
    },
    /// The bucket that was there is missing, or another one.
    #[error(
        "StateLost: bucket {bucket} of group {group} {what}; nothing is made anew until the loss is \
         accepted"
    )]
    StateLost {
        /// The group.
        group: GroupRef,
        /// Its bucket.
        bucket: String,
        /// What was found in its place.
        what: &'static str,
    },
    /// The manifest would change what cannot change.
    #[error("group {group}: {mismatch}")]
    Immutable {
        /// The group.
        group: GroupRef,
        /// What, and both values.
        mismatch: ImmutableMismatch,
    },
    /// A stream that the group reads is not there.
    #[error(
        "StreamNotFound: group {group} reads stream {stream}, which does not exist; make it, or let \
         Lockstep make it (spec.source.stream.create) with --create"
    )]
    StreamNotFound {
        /// The group.
        group: GroupRef,
        /// The stream.
        stream: String,
    },
    /// A stream that Lockstep would make is there and is another one.
    #[error(
        "ImmutableMismatch: group {group}: stream {stream} exists with {found}, wanted {wanted}"
    )]
    StreamDiffers {
        /// The group.
        group: GroupRef,
        /// The stream.
        stream: String,
        /// How it is.
        found: String,
        /// How the manifest wants it.
        wanted: String,
    },
    /// A stream that Lockstep would make was made for another group.
    #[error(
        "OwnershipConflict: group {group}: stream {stream} was made for group {owner}; a derived \
         stream is named after its origin and its group, whatever the namespace: give this group \
         another name"
    )]
    StreamOfAnother {
        /// The group.
        group: GroupRef,
        /// The stream.
        stream: String,
        /// The group that it was made for.
        owner: String,
    },
    /// A stream that no group can read.
    #[error("UnsupportedRetention: group {group}: {refusal}")]
    Unreadable {
        /// The group.
        group: GroupRef,
        /// Why.
        refusal: StreamRefusal,
    },
    /// The server could not be asked about the bucket, or would not make it.
    #[error(transparent)]
    Bucket(#[from] BucketError),
    /// The server could not be asked about a stream, or would not make it.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// A document could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A document was not stored.
    #[error("{key} of group {group} was not stored: {why}")]
    NotStored {
        /// The group.
        group: GroupRef,
        /// Which document.
        key: Key,
        /// What the server says.
        why: String,
    },
}

/// What a failure to provide a group calls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Trying again: time may heal it.
    Retry,
    /// A person: nothing that waiting would mend.
    Person,
    /// The manifest: it asks for something impossible.
    Manifest,
}

// === impl ProvisionError ===

impl ProvisionError {
    /// What this calls for.
    pub fn calls_for(&self) -> Call {
        let remedy = match self {
            Self::Immutable { .. } | Self::StreamDiffers { .. } => return Call::Manifest,
            Self::NoBucket { .. }
            | Self::ForeignBucket { .. }
            | Self::NoMeta { .. }
            | Self::MetaDamaged { .. }
            | Self::OwnershipConflict { .. }
            | Self::StateLost { .. }
            | Self::StreamNotFound { .. }
            | Self::StreamOfAnother { .. }
            | Self::Unreadable { .. } => return Call::Person,
            Self::NotStored { .. } => return Call::Retry,
            Self::Bucket(error) => error.remedy(),
            Self::Stream(error) => error.remedy(),
            Self::Read(error) => error.remedy(),
        };
        match remedy {
            Remedy::Retry | Remedy::Observe => Call::Retry,
            Remedy::AskOperator => Call::Person,
        }
    }
}
