//! Lockstep: Kafka-style consumer groups on NATS JetStream.

pub mod backoff;
pub mod chance;
pub mod cli;
pub mod clock;
pub mod controller;
pub mod coordinator;
pub mod crd;
pub mod group;
pub mod http;
pub mod k8s;
pub mod metrics;
pub mod nats;
mod reader;
pub mod settings;
pub mod tasks;
pub mod telemetry;
pub mod wire;
pub mod worker;

pub use coordinator::Coordinator;
pub use reader::{Reader, ReaderError, ReaderOptions};
