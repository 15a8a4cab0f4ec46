//! The driver of one member: connections, reader tasks, the pump, and the handle that the socket
//! and the library's `Reader` stand on. It decides nothing: what is to be done is said by
//! `group::member` and `group::ledger`.

mod command;
mod delivered;
mod engine;
mod events;
mod feed;
mod handle;
mod inbox;
mod log;
mod publishing;
mod pump;
mod readers;
mod records;
mod serve;
mod sessions;
mod settings;
pub mod socket;
mod status;
mod waiters;
mod watcher;

pub use delivered::{Delivered, Headers};
pub use engine::Engine;
pub use events::{EventStream, MemberEvent, Missed};
pub use handle::{
    AckMode, AckResult, AckStatus, AckWait, CallError, ConsumeFrame, Consuming, Credit, Drained,
    FetchOptions, Fetched, Health, MemberHandle, Position, Publish, PublishTo, Published,
    SessionId,
};
pub use settings::{Resolver, WorkerSettings};
pub use status::{AppStatus, NatsStatus, PartitionState, PartitionStatus, Status, WorkerState};
