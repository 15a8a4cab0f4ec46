//! The chart as text: what it renders, what it refuses, and what an API server says to it. That it
//! works is shown in `cluster` and, with exactly its rights, in `controller`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at what should not be"
)]

mod renders;
mod values;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use lockstep_e2e::cluster;

/// The chart's folder.
fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/lockstep")
}

/// The pinned Helm, which talks to no cluster here.
fn helm(arguments: &[&str]) -> Output {
    let program = cluster::tool("helm").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(program);
    // Settings of the person who runs the tests are none of the chart's business.
    command.env_clear().env("HOME", folder.path());
    command.args(arguments).output().unwrap()
}

/// The chart as `helm template` prints it with these values, or what Helm says against them.
fn template(values: &str) -> Result<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("values.yaml");
    std::fs::write(&file, values).unwrap();
    let (chart, file) = (chart().display().to_string(), file.display().to_string());
    let arguments = [
        "template",
        "lockstep",
        &chart,
        "--namespace=lockstep-system",
        "--kube-version=1.37.2",
        "--values",
        &file,
    ];
    let output = helm(&arguments);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    if output.status.success() {
        Ok(text(output.stdout))
    } else {
        Err(text(output.stderr))
    }
}
