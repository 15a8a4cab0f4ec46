//! What processes held before and after.

use std::collections::BTreeMap;
use std::fmt::Write;

use lockstep_e2e::chaos::baseline::Process;

/// Descriptors that come and go: a log that is rotated, a file block, a connection on its way.
const FILES: usize = 8;

/// A comparison for people, and what has grown.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) text: String,
    pub(crate) grown: Vec<String>,
}

/// The most memory that a process may hold at the end, in KiB. A worker or coordinator has nothing
/// that grows with time; a server keeps files of its streams in memory.
fn most(name: &str, before: u64) -> u64 {
    if name.starts_with("server") {
        2 * before + (128 << 10)
    } else {
        before + before / 4 + (8 << 10)
    }
}

/// Processes by name; those that there were at both times.
pub(crate) fn table(
    before: &BTreeMap<String, Process>,
    after: &BTreeMap<String, Process>,
) -> Table {
    let mut table = Table {
        text: format!(
            "{:<16} {:>12} {:>12} {:>8} {:>8}\n",
            "process", "KiB before", "KiB after", "files", "after"
        ),
        ..Table::default()
    };
    for (name, now) in after {
        let Some(then) = before.get(name) else {
            continue;
        };
        let written = writeln!(
            table.text,
            "{name:<16} {:>12} {:>12} {:>8} {:>8}",
            then.memory, now.memory, then.files, now.files
        );
        if written.is_err() || now.memory > most(name, then.memory) {
            table.grown.push(format!("memory of {name}"));
        }
        if now.files > then.files + FILES {
            table.grown.push(format!("files of {name}"));
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(memory: u64, files: usize) -> Process {
        Process {
            pid: 1,
            memory,
            files,
        }
    }

    #[test]
    fn what_has_grown_is_named() {
        let of = |memory, files| BTreeMap::from([("worker w1".to_owned(), process(memory, files))]);
        let before = of(20 << 10, 30);
        assert!(table(&before, &of(24 << 10, 33)).grown.is_empty());
        assert_eq!(
            table(&before, &of(60 << 10, 30)).grown,
            ["memory of worker w1"]
        );
        assert_eq!(
            table(&before, &of(20 << 10, 60)).grown,
            ["files of worker w1"]
        );
    }
}
