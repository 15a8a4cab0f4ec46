//! The worker service's types and traits, generated from `proto/lockstep/worker/v1/worker.proto`.
//!
//! That file is the source of truth: each message, field and rule is explained there, and the
//! explanations are repeated here.

#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    clippy::allow_attributes_without_reason,
    clippy::clone_on_ref_ptr,
    clippy::wildcard_enum_match_arm,
    reason = "generated code"
)]
mod generated {
    tonic::include_proto!("lockstep.worker.v1");
}

pub use generated::*;
