//! A catalogue of what can happen to a group, each of it done to real servers and real processes.
//!
//! [`Fault`] names them all. A [`Stage`] is a group under load on one server or three; a fault
//! strikes it, is mended, and waits until the group is itself again. What the applications saw is
//! judged at the end of the scene, by rules that know what each fault takes.
//!
//! Tests play a fixed selection, `make chaos` a seeded one, and `make soak` lets one scene run
//! for long and compares what its processes hold with what they held at the beginning.

pub mod api;
pub mod baseline;
mod cap;
mod clients;
mod coordinators;
mod dice;
pub mod disk;
mod fault;
mod garbage;
mod loss;
mod readers;
mod servers;
mod stage;
mod storm;
mod streams;
pub mod wall_clock;

pub use dice::Dice;
pub use fault::{Fault, Needs};
pub use stage::{Servers, Setting, Stage};
