//! Members of a group against a real server. The test is the coordinator: it writes the group's
//! documents by hand, so that every situation comes when it is wanted.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops where it is surprised"
)]

mod member {
    mod commits;
    mod feeding;
    mod fencing;
    mod group;
    mod leases;
    mod library;
    mod matrix;
    mod streams;
}
