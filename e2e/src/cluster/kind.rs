//! kind, where a container engine answers: a cluster in containers, deleted with its handle.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::{ClusterError, provider};

/// Names the node image, and with it the version of Kubernetes; kind's own choice else.
pub const KIND_IMAGE_VARIABLE: &str = "LOCKSTEP_E2E_KIND_IMAGE";

/// Engines that kind works with, in the order in which they are asked.
const ENGINES: [&str; 3] = ["docker", "podman", "nerdctl"];

/// kind and its engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    program: PathBuf,
    engine: PathBuf,
}

/// A cluster that kind has made.
#[derive(Debug)]
pub(super) struct KindCluster {
    kind: Kind,
    name: String,
    folder: TempDir,
}

// === impl Kind ===

impl Kind {
    /// kind and an engine of this PATH.
    pub(super) fn found(path: &OsStr) -> Result<Self, ClusterError> {
        let program = provider::found("kind", path);
        let program = program.ok_or_else(|| ClusterError::new("kind is not on PATH".to_owned()))?;
        let mut engines = ENGINES
            .iter()
            .filter_map(|name| provider::found(name, path));
        let engine = engines.next().ok_or_else(|| {
            let text = format!("kind needs a container engine; none of {ENGINES:?} is on PATH");
            ClusterError::new(text)
        })?;
        Ok(Self { program, engine })
    }

    /// An engine that is installed may still not run, or not for this user.
    pub(super) fn unavailable(&self) -> Option<String> {
        let engine = self.engine.display();
        match Command::new(&self.engine).arg("info").output() {
            Ok(output) if output.status.success() => None,
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                Some(format!("{engine} does not answer: {}", said.trim()))
            }
            Err(error) => Some(format!("{engine} does not start: {error}")),
        }
    }

    /// A cluster with these images in it.
    pub(super) fn create(self, images: &[PathBuf]) -> Result<KindCluster, ClusterError> {
        if images.is_empty() {
            let text = "there are no images: run `make images`".to_owned();
            return Err(ClusterError::new(text));
        }
        let folder = tempfile::Builder::new()
            .prefix("lockstep-kind-")
            .tempdir()?;
        // From here on its end deletes whatever there is of it.
        let cluster = KindCluster {
            kind: self,
            name: format!("lockstep-{}", std::process::id()),
            folder,
        };
        let image = std::env::var(KIND_IMAGE_VARIABLE).ok();
        run(&mut cluster.creation(image.as_deref()))?;
        for image in images {
            run(&mut cluster.loading(image))?;
        }
        Ok(cluster)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments);
        let engine = self.engine.file_name().unwrap_or_default();
        if engine != "docker" {
            command.env("KIND_EXPERIMENTAL_PROVIDER", engine);
        }
        command
    }
}

fn run(command: &mut Command) -> Result<(), ClusterError> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(ClusterError::new(format!("{command:?}: {}", said.trim())))
}

// === impl KindCluster ===

impl KindCluster {
    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    fn creation(&self, image: Option<&str>) -> Command {
        let config = crate::repository().join("e2e/cluster/kind.yaml");
        let mut command = self.kind.command(&["create", "cluster", "--wait=120s"]);
        command.arg("--name").arg(&self.name);
        command.arg("--config").arg(config);
        command.arg("--kubeconfig").arg(self.kubeconfig());
        if let Some(image) = image {
            command.arg("--image").arg(image);
        }
        command
    }

    fn loading(&self, image: &Path) -> Command {
        let mut command = self.kind.command(&["load", "image-archive"]);
        command.arg(image).arg("--name").arg(&self.name);
        command
    }

    fn deletion(&self) -> Command {
        let mut command = self.kind.command(&["delete", "cluster"]);
        command.arg("--name").arg(&self.name);
        command.arg("--kubeconfig").arg(self.kubeconfig());
        command
    }
}

impl Drop for KindCluster {
    fn drop(&mut self) {
        // There is nobody to tell in a `drop`; `kind get clusters` shows what is left.
        drop(self.deletion().output());
    }
}
