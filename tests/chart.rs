//! The chart holds the very definitions that `lockstep crd` prints.

#![allow(clippy::expect_used, reason = "a test stops at what it cannot read")]

use std::fs;
use std::path::Path;

#[test]
fn the_charts_definitions_are_those_of_the_repository() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let names = |folder: &str| {
        let entries = fs::read_dir(root.join(folder)).expect("a folder");
        let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
        names.sort();
        names
    };
    let (ours, charts) = ("config/crd", "charts/lockstep/files/crds");
    assert_eq!(names(ours), names(charts));
    for name in names(ours) {
        let read = |folder: &str| fs::read(root.join(folder).join(&name)).expect("a definition");
        assert!(
            read(ours) == read(charts),
            "{} differs: cp {ours}/* {charts}/",
            name.display()
        );
    }
}
