//! Real Kubernetes clusters for tests.
//!
//! * [`ApiServer`]: etcd and kube-apiserver on free ports. For what only the API server decides:
//!   schemas, rules, admission, and the controller's reconciling.

mod api;
mod pki;

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use crate::process::Finished;

pub use api::{ASSETS_VARIABLE, ApiServer};

/// How long a command may take.
const COMMAND_WITHIN: Duration = Duration::from_secs(120);

/// What went wrong with a cluster, in words, with the ends of its logs.
#[derive(thiserror::Error)]
#[error("{0}")]
pub struct ClusterError(String);

// === impl ClusterError ===

impl ClusterError {
    pub(crate) fn new(text: String) -> Self {
        Self(text)
    }
}

/// The same words, so that an `unwrap` in a test can be read.
impl std::fmt::Debug for ClusterError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<io::Error> for ClusterError {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

/// A pinned program of `tools/bin`.
pub fn tool(name: &str) -> Result<PathBuf, ClusterError> {
    let path = crate::repository().join("tools/bin").join(name);
    if path.is_file() {
        return Ok(path);
    }
    let text = format!("no {name} at {}: run `make tools`", path.display());
    Err(ClusterError(text))
}

/// A client for a kubeconfig.
pub async fn client(kubeconfig: &Path) -> Result<kube::Client, ClusterError> {
    let trouble = |error: &dyn std::error::Error| ClusterError(error.to_string());
    let text = kube::config::Kubeconfig::read_from(kubeconfig).map_err(|e| trouble(&e))?;
    let options = kube::config::KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(text, &options).await;
    kube::Client::try_from(config.map_err(|e| trouble(&e))?).map_err(|e| trouble(&e))
}

/// Runs `kubectl` with a kubeconfig to its end.
pub async fn kubectl(kubeconfig: &Path, arguments: &[&str]) -> io::Result<Finished> {
    let program = tool("kubectl").map_err(io::Error::other)?;
    let mut command = tokio::process::Command::new(program);
    command
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(arguments)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let ended = tokio::time::timeout(COMMAND_WITHIN, command.output()).await;
    let output = ended.map_err(|_| {
        let text = format!("`kubectl {}` did not end", arguments.join(" "));
        io::Error::new(io::ErrorKind::TimedOut, text)
    })??;
    Ok(Finished {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}
