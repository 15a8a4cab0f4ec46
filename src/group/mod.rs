//! The core of Lockstep: what the protocol's documents mean and what follows from them.
//!
//! Pure: std and serde only. Time, chance and names come in as arguments; what is to become true
//! goes out as values. Nothing here waits, logs or talks to a server.

pub mod assignor;
mod candidate_document;
pub mod decide;
pub mod describe;
mod document;
mod ids;
mod json;
pub mod lag;
pub mod ledger;
pub mod member;
mod member_document;
mod meta;
mod offset_record;
pub mod oldest;
pub mod partitioning;
mod session;
pub mod start;
#[cfg(test)]
mod tests;
mod time;
pub mod validity;

pub use candidate_document::CandidateDocument;
pub use document::{Assignment, GroupDocument, MemberEntry, StandbyReason, Standing};
pub use ids::{
    Beat, BucketId, Epoch, GroupEpoch, GroupName, GroupRef, Incarnation, InvalidName,
    MAX_GROUP_NAME, MAX_NAMESPACE, MemberId, MetaGeneration, Namespace, Partition, Revision,
    Sequence, Term,
};
pub use json::{Json, Unknown};
pub use member_document::{
    App, Formats, Held, HoldState, MemberDocument, MemberState, Pod, Released,
};
pub use meta::{
    AssignorSetting, Delivery, GroupState, Membership, Meta, OnFailure, OnGap, OnTruncation,
    PartitionSource, Pause, Retry, Source, StartFrom, StreamIdentity, Transform, millis,
};
pub use offset_record::{Head, Mark, OffsetRecord, StopReason, Stopped};
pub use session::SessionId;
pub use time::{ServerTime, Timestamp};
