//! A simulated world for Lockstep's cores.
//!
//! The very code that decides in the product (`decide`, `Member`, `Ledger`) runs here under drivers
//! as thin as the real ones, over a model of NATS with everything that was ever seen to go wrong with
//! it, in virtual time. One number, the seed, draws the group, its members, their applications and
//! every fault; the same seed is the same world, event for event.
//!
//! ```text
//!   plan ──► world ──► net (time, queue, links) ◄──► model (bucket, streams)
//!              │ coordinators, workers + readers, applications
//!              └─► checker (what the protocol promises, judged as it happens)
//! ```

pub mod application;
pub mod chance;
pub mod checker;
pub mod coordinator;
mod faults;
pub mod guard;
pub mod log;
pub mod message;
pub mod model;
pub mod net;
pub mod plan;
pub mod reader;
pub mod run;
pub mod time;
pub mod watching;
pub mod worker;
pub mod world;
