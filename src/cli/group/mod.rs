//! `lockstep group …`: look at groups, and change what a person may change.

mod read;

pub(super) use read::meta_of;
