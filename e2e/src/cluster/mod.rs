//! Real Kubernetes clusters for tests.
//!
//! * [`ApiServer`]: etcd and kube-apiserver on free ports. For what only the API server decides:
//!   schemas, rules, admission, and the controller's reconciling.
//! * [`Node`]: all of it, with kubelet and containerd, in namespaces of its own. For whole systems.
//! * [`Cluster`]: a node, one made with kind, or one that runs already, as the environment chooses.
//!   For what holds on every Kubernetes.

mod api;
mod faults;
mod files;
mod host;
mod kind;
mod node;
mod pki;
mod provider;
mod system;
mod workload;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::process::{self, Finished};

pub use api::{ASSETS_VARIABLE, ApiServer, Asked};
pub use faults::GhostNode;
pub use host::unavailable;
pub use kind::KIND_IMAGE_VARIABLE;
pub use node::{NODE, Node, inside};
pub use provider::{Cluster, IMAGES_VARIABLE, KUBECONFIG_VARIABLE, PROVIDER_VARIABLE, Provider};
pub use system::{NATS_ON_THE_NODE, Pod, System};
pub use workload::{Kind, Language, Workload};

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

/// The images that `make images` wrote, in the order of their names; none where no node can run, for
/// there nobody makes any.
///
/// # Panics
///
/// When there are none, and a node could run.
pub fn images() -> Vec<PathBuf> {
    let folder = crate::repository().join("target/images");
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let mut images: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "tar"))
        .collect();
    assert!(
        !images.is_empty() || unavailable().is_some(),
        "no images in {}: run `make images`",
        folder.display()
    );
    images.sort();
    images
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
    // What `kubectl` has learnt of another server that had the same port is of no use here.
    let cache = kubeconfig.with_extension("cache").display().to_string();
    let kubeconfig = kubeconfig.display().to_string();
    let mut all = vec!["--kubeconfig", kubeconfig.as_str(), "--cache-dir", &cache];
    all.extend(arguments);
    run(&program, &all).await
}

/// Runs `helm` with a kubeconfig to its end; its own files go into `folder`.
pub async fn helm(kubeconfig: &Path, folder: &Path, arguments: &[&str]) -> io::Result<Finished> {
    let program = tool("helm").map_err(io::Error::other)?;
    let kubeconfig = kubeconfig.display().to_string();
    let (cache, config) = (folder.join("helm/cache"), folder.join("helm/config"));
    let (cache, config) = (cache.display().to_string(), config.display().to_string());
    let mut all = vec!["--kubeconfig", kubeconfig.as_str()];
    all.extend(["--repository-cache", &cache, "--registry-config", &config]);
    all.extend(arguments);
    run(&program, &all).await
}

/// Has an API server ask our webhook about pods, on each of these ports of its own machine one after
/// another, as the chart has it ask a Service. The controller adds its authority.
pub fn webhook_configuration(ports: &[u16]) -> String {
    let rule = json!({
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
        "resources": ["pods"], "scope": "Namespaced",
    });
    let webhook = |(number, port): (usize, &u16)| {
        json!({
            "name": webhook_name(number),
            "clientConfig": {"url": format!("https://127.0.0.1:{port}/inject")},
            "rules": [rule],
            "objectSelector": {"matchExpressions": [
                {"key": "lockstep.dev/consumer-group", "operator": "Exists"}]},
            "failurePolicy": "Fail", "matchPolicy": "Equivalent", "sideEffects": "None",
            "reinvocationPolicy": "IfNeeded", "timeoutSeconds": 5,
            "admissionReviewVersions": ["v1"],
        })
    };
    let webhooks: Vec<Value> = ports.iter().enumerate().map(webhook).collect();
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "lockstep-injector"},
        "webhooks": webhooks,
    });
    configuration.to_string()
}

/// What the API server calls the webhook on the so-manieth port, from 0, in its metrics.
pub fn webhook_name(number: usize) -> String {
    format!("inject{number}.lockstep.dev")
}

/// Runs a program to its end.
pub(crate) async fn run(program: &Path, arguments: &[&str]) -> io::Result<Finished> {
    let mut command = tokio::process::Command::new(program);
    command.args(arguments);
    process::run(command, COMMAND_WITHIN).await
}

/// Says loudly that a test is skipped; the runner counts such lines.
pub fn skip(why: &str) {
    let name = test();
    tell(&format!(
        "SKIPPED (counted): {name}: no cluster node can run here: {why}"
    ));
}

/// Set to anything, it keeps the folders of test clusters, with their logs, for people to look at.
pub const KEEP_VARIABLE: &str = "LOCKSTEP_E2E_KEEP";

/// Whether the folder of a cluster is to stay, and whose it is.
fn is_to_be_kept() -> Option<String> {
    std::env::var_os(KEEP_VARIABLE).map(|_| test())
}

/// The name of the test that runs, which is its thread's.
fn test() -> String {
    std::thread::current().name().unwrap_or("a test").to_owned()
}

/// A line past the capture of test output: who runs the tests is to see it.
fn tell(line: &str) {
    use std::io::Write;
    drop(std::io::stdout().write_all(format!("\n{line}\n").as_bytes()));
}
