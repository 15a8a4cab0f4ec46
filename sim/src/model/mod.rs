//! The servers: what JetStream does to a group, with all that NATS users have seen it do.

pub mod bucket;
pub mod data;
mod doc;
pub mod stream;

pub use doc::{Doc, Entry};
