//! The steps over versions of the server, and over one server and three.
//!
//! The pinned version with one server is what every other test of this program runs on.

use lockstep_e2e::matrix::{Cell, older_versions};

/// Steps in which several servers may answer otherwise than one.
const REPLICATED: [&str; 10] = [
    "bucket::a_write_is_stored_only_over_the_revision_that_it_names",
    "bucket::a_write_with_a_time_to_live",
    "bucket::a_deleted_key_is_a_marker",
    "watch::a_watch_loads_the_newest_values",
    "watch::a_watch_survives_a_restart",
    "reader::a_partition_is_read_from_where_it_was_left",
    "reader::a_consumer_deleted_after_some_messages",
    "reader::a_lost_tail",
    "validity::a_start_beyond_the_end",
    "replicated::",
];

/// Every step on a single server.
const ALL: [&str; 5] = ["bucket::", "watch::", "reader::", "validity::", "streams::"];

#[test]
fn matrix_of_older_versions_on_one_server() {
    for version in older_versions().unwrap() {
        let cell = Cell {
            version: Some(version),
            servers: 1,
        };
        cell.run(&ALL).unwrap();
    }
}

#[test]
fn matrix_of_all_versions_on_three_servers() {
    let versions = older_versions().unwrap().into_iter().map(Some);
    for version in versions.chain([None]) {
        let cell = Cell {
            version,
            servers: 3,
        };
        cell.run(&REPLICATED).unwrap();
    }
}
