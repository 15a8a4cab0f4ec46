//! The driver of one member: connections, reader tasks, the pump, and the handle that the socket
//! and the library's `Reader` stand on. It decides nothing: what is to be done is said by
//! `group::member` and `group::ledger`.

mod command;
mod delivered;
mod events;
mod handle;
pub mod socket;
mod status;

pub use delivered::{Delivered, Headers};
pub use events::{EventStream, MemberEvent, Missed};
pub use handle::{
    AckMode, AckResult, AckStatus, AckWait, CallError, ConsumeFrame, Consuming, Credit, Drained,
    FetchOptions, Fetched, Health, MemberHandle, Position, Publish, PublishTo, Published,
    SessionId,
};
pub use status::{AppStatus, NatsStatus, PartitionState, PartitionStatus, Status, WorkerState};
