//! The application's socket: one Unix socket that serves `worker.proto` as gRPC and as JSON over
//! HTTP/1.1, whatever NATS does.
//!
//! Both encodings end in `calls`, which checks what was asked and asks the member. The socket
//! itself holds no state of the group: sessions, order and commitments are the member's.

mod bound;
mod calls;
pub mod client;
mod consume;
mod convert;
mod grpc;
mod health;
mod http;
pub mod limits;
mod problem;
mod server;
#[cfg(test)]
mod tests;
mod watch;

pub use bound::{Bound, SocketError};
pub use server::{Server, Settings};
