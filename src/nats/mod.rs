//! The NATS server, in the core's words.
//!
//! What the server and its client really do was measured before this was written; where the code
//! goes around something that the client offers, the reason stands beside it. Three rules hold
//! everywhere: a write is stored, refused or *unknown*; a read can be old, and only a
//! compare-and-set proves it is not; nothing is decided here, only told apart.

mod api;
mod bucket;
mod client;
mod connect;
mod credentials;
mod feed;
mod follow;
mod options;
pub mod permissions;
mod publish;
mod reader;
mod secret_folder;
pub mod streams;
mod time;
mod validity;
mod version;

pub use api::{ApiError, Refusal, Remedy};
pub use bucket::{
    Bucket, BucketError, BucketFacts, BucketSettings, CasOutcome, Difference, Entry, EntryValue,
    KeyFilter, PutOutcome, ReadError, Watch, WatchEvent,
};
pub use connect::{CheckError, ConnectError, Connection, ConnectionEvent, Server, Standing};
pub use feed::{Broken, Headers, StreamMessage, Subject};
pub use options::{Auth, ClientCertificate, Options, Role, Tls};
pub use publish::{Outgoing, PublishOutcome, publish};
pub use reader::{
    ConsumerName, Credit, Delivered, GateClosed, PartitionReader, ReadEvent, ReadPlan, Stopped,
};
pub use secret_folder::SecretFolder;
pub use streams::{StreamError, StreamFacts};
pub use validity::{mark_of_idle_position, validity};
pub use version::TooOld;
