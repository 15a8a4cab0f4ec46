//! Lockstep: Kafka-style consumer groups on NATS JetStream.

pub mod group;
