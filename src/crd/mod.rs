//! What users declare: the objects of `lockstep.dev/v1alpha1`, with and without Kubernetes.
//!
//! The types are the source of everything: `lockstep crd` prints the schema that the derive macros
//! make of them, manifests are read against that same schema, and their doc comments are what
//! `kubectl explain` says. [`ConsumerGroup`] is what somebody wrote; [`ValidGroup`] is what holds.

mod checks;
mod conditions;
mod consumer_group;
mod convert;
mod convert_source;
mod definitions;
mod delivery;
mod membership;
mod nats_connection;
mod nearest;
mod offset_reset;
pub mod rules;
mod scaling;
mod schema;
mod schema_words;
mod source;
mod start_from;
mod status;
mod subjects;
#[cfg(test)]
mod tests;
mod text;
mod update;
mod valid_group;
mod violation;
mod yaml;

pub use conditions::{Condition, ConditionStatus, ConditionType, Reason};
pub use consumer_group::{
    ConnectionRef, ConsumerGroup, ConsumerGroupSpec, DeletionPolicy, OnGap, OnTruncation,
};
pub use definitions::{Definition, all as definitions, print_all};
pub use delivery::{Backoff, Buffer, Delivery, OnFailure, Order, Push, Retry};
pub use membership::{Assignor, AssignorType, Membership};
pub use nats_connection::{
    Auth, Bucket, LabelOperator, LabelRequirement, NamespaceSelector, NatsConnection,
    NatsConnectionSpec, NatsConnectionStatus, SecretRef, Tls,
};
pub use offset_reset::{
    GroupRef, OffsetReset, OffsetResetSpec, OffsetResetStatus, PartitionReset, PartitionSequence,
    ResetPolicy, ResetTo,
};
pub use scaling::{
    Amount, Autoscaling, AutoscalingMode, LagTarget, LogLevel, Resources, ScaleTargetRef,
    ScalingBehavior, Worker,
};
pub use source::{
    CreateStream, CreateStreams, DeadLetter, DeadLetterStream, DerivedSource, PartitionEntry,
    Partitioning, Source, Storage, StreamSource, StreamsSource,
};
pub use start_from::{StartFrom, StartPolicy};
pub use status::{
    BucketStatus, ConsumerGroupStatus, LagStatus, MemberStatus, MembersStatus, NatsResource,
    PartitionsStatus, RebalanceStatus,
};
pub use subjects::SubjectTransform;
pub use text::{
    DurationText, ObjectName, PlainSubject, QuantityText, StreamName, Subject, TimeText,
};
pub use update::check_update;
pub use valid_group::{NewStream, Origin, Settings, ValidGroup};
pub use violation::Violation;
pub use yaml::{Manifest, ManifestError, Problem, read, read_groups};
