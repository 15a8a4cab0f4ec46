//! The steps of the protocol over versions of the server, and over one server and three.
//!
//! A step is tested once, by a test that takes its servers as they come
//! ([`NatsCluster::usual`](crate::NatsCluster::usual)). The matrix runs the test program again,
//! once for each cell, with the cell in its environment.

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use crate::{nats_cluster, nats_server, repository};

/// A version of the server, and how many of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// None is the pinned one, the newest.
    pub version: Option<String>,
    /// 1, or 3 that replicate.
    pub servers: usize,
}

/// The older versions, as `tools/nats-versions.txt` pins them.
pub fn older_versions() -> std::io::Result<Vec<String>> {
    let pins = std::fs::read_to_string(repository().join("tools/nats-versions.txt"))?;
    let named = pins.lines().filter(|line| !line.starts_with('#'));
    let versions = named.filter_map(|line| line.split_whitespace().next()?.split_once("=="));
    Ok(versions.map(|(_, version)| version.to_owned()).collect())
}

impl Cell {
    /// Where its server is.
    fn program(&self) -> PathBuf {
        let name = match &self.version {
            Some(version) => format!("nats-server-{version}"),
            None => "nats-server".to_owned(),
        };
        repository().join("tools/bin").join(name)
    }

    /// Runs tests of this very program, those whose names contain one of these, on this cell's
    /// servers; what they printed, if one failed. Without the server it says so, and is counted as
    /// skipped.
    ///
    /// # Errors
    /// Tests failed, none ran, or the program cannot be started.
    pub fn run(&self, tests: &[&str]) -> Result<(), String> {
        let program = self.program();
        if !program.is_file() {
            let line = format!(
                "SKIPPED (counted): {self}: no {}: make tools-nats-versions",
                program.display()
            );
            // Past the test harness, which keeps what a passed test prints to itself.
            drop(writeln!(std::io::stdout(), "{line}"));
            return Ok(());
        }
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(own);
        command.args(tests).args(["--skip", "matrix"]);
        command.env(nats_server::BINARY_VARIABLE, program);
        command.env(nats_cluster::COUNT_VARIABLE, self.servers.to_string());
        let ran = command.output().map_err(|error| error.to_string())?;
        let printed = String::from_utf8_lossy(&ran.stdout).into_owned();
        if ran.status.success() && !printed.contains(" 0 passed;") {
            return Ok(());
        }
        let complained = String::from_utf8_lossy(&ran.stderr);
        Err(format!("{self}:\n{printed}\n{complained}"))
    }
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let version = self.version.as_deref().unwrap_or("the pinned version");
        write!(f, "R{} on {version} of nats-server", self.servers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pins_name_the_oldest_supported_version_and_the_recommended_one() {
        let versions = older_versions().unwrap();
        let minors: Vec<&str> = versions
            .iter()
            .filter_map(|version| version.rsplit_once('.'))
            .map(|(minor, _)| minor)
            .collect();
        assert_eq!(minors, ["2.11", "2.12"]);
    }

    #[test]
    fn a_cell_in_which_no_test_runs_has_failed() {
        let newest = Cell {
            version: None,
            servers: 1,
        };
        let ran = newest.run(&["no test is called like this"]);
        assert!(ran.unwrap_err().contains("0 passed"));
    }
}
