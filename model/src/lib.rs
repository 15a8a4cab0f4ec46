//! Lockstep's protocol under a model checker.
//!
//! The coordinators and members of the model *are* the product's: [`lockstep::group::decide::decide`]
//! and [`lockstep::group::member::Member::step`]. What the model adds is what surrounds them, as far as
//! the protocol lets anything depend on it: a bucket, watches that lag, writes under way, time that
//! passes, processes that end. stateright then tries every order of it within [`Bounds`].
//!
//! * **The bucket** has one value per key and a revision that rises with each write of that key. A watch
//!   is a queue of keys: a key that is written again moves to the end, as in a stream that keeps one
//!   message per subject, and what is delivered is the value that stands there. The member's watch holds
//!   `group` and its own heartbeats, the coordinator's everything but commit records.
//! * **Writes** by compare-and-set are under way until they land. One may also get lost to its sender: it
//!   is told that the outcome is unknown, and the write lands whenever it likes, or never.
//! * **Time** stands still while messages travel. It passes in steps longer than the session timeout,
//!   in which everybody beats who is not cut off: see `State::pass`. Short waits between attempts are
//!   over at once, on the clock of who waits.
//! * **Applications** take one message at a time and acknowledge it.
//!
//! What must never be is looked for at each write and in each state ([`Rule`]); that a group always comes
//! to rest is shown by letting it ([`settles`](fn@settles)).

mod application;
mod bounds;
mod bucket;
mod coordinator;
mod fingerprint;
mod history;
mod protocol;
mod settings;
mod settles;
mod state;
mod time;
mod worker;

pub use bounds::{Bounds, Budget, Sabotage};
pub use history::Rule;
pub use protocol::Protocol;
pub use settles::settles;
pub use state::{Action, Cut, State};
