//! The same steps on older versions of the server.

use lockstep_e2e::matrix::{Cell, older_versions};

#[test]
fn matrix_of_older_versions() {
    for version in older_versions().unwrap() {
        let cell = Cell {
            version: Some(version),
            servers: 1,
        };
        cell.run(&["fencing::", "commits::", "leases::"]).unwrap();
    }
}
