//! Where a test's cluster comes from: the local node, kind, or one that runs already.
//!
//! | `LOCKSTEP_E2E_PROVIDER` | cluster | needs |
//! |---|---|---|
//! | `node`, or nothing | [`Node`], in namespaces of its own | root and a few packages |
//! | `kind` | made with kind, deleted afterwards | `kind`, and a container engine that answers |
//! | `kubeconfig` | the one that `LOCKSTEP_E2E_KUBECONFIG` names | that cluster, with the images in it |

use std::ffi::{OsStr, OsString};
use std::future::Future;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::kind::{Kind, KindCluster};
use super::{ClusterError, Node, host};

/// Names the provider.
pub const PROVIDER_VARIABLE: &str = "LOCKSTEP_E2E_PROVIDER";

/// Names the kubeconfig of a cluster that runs already.
pub const KUBECONFIG_VARIABLE: &str = "LOCKSTEP_E2E_KUBECONFIG";

/// What stands before the names of images in a cluster that runs already; `lockstep.test` else.
pub const IMAGES_VARIABLE: &str = "LOCKSTEP_E2E_IMAGES";

/// Whoever can give a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provider {
    /// This machine, without a container engine.
    Node,
    /// kind, in a container engine.
    Kind(Kind),
    /// A cluster that runs already.
    Given {
        /// The kubeconfig; its current context counts.
        kubeconfig: PathBuf,
        /// What stands before the names of images there.
        images: String,
    },
}

/// A cluster, wherever it is. What was made for it ends with it.
#[derive(Debug)]
pub struct Cluster {
    place: Place,
    images: String,
    folder: TempDir,
}

#[derive(Debug)]
enum Place {
    Node(Node),
    Kind(KindCluster),
    Given(PathBuf),
}

/// The registry of images that no one can pull by mistake: the domain is reserved.
const OURS: &str = "lockstep.test";

// === impl Provider ===

impl Provider {
    /// What the environment asks for.
    pub fn chosen() -> Result<Self, ClusterError> {
        Self::choose(|name| std::env::var_os(name))
    }

    /// What variables like those of the environment ask for.
    pub fn choose(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, ClusterError> {
        let given = |name: &str| variable(name).filter(|value| !value.is_empty());
        let kubeconfig = given(KUBECONFIG_VARIABLE).map(PathBuf::from);
        let provider = given(PROVIDER_VARIABLE).unwrap_or_else(|| {
            let named = if kubeconfig.is_some() {
                "kubeconfig"
            } else {
                "node"
            };
            named.into()
        });
        let provider = provider.to_string_lossy().into_owned();
        match (provider.as_str(), kubeconfig) {
            ("node", None) => Ok(Self::Node),
            ("kind", None) => {
                let path = given("PATH").unwrap_or_default();
                Kind::found(&path).map(Self::Kind)
            }
            ("kubeconfig", Some(kubeconfig)) if kubeconfig.is_file() => {
                let images = given(IMAGES_VARIABLE).map(|i| i.to_string_lossy().into_owned());
                let images = images.unwrap_or_else(|| OURS.to_owned());
                Ok(Self::Given { kubeconfig, images })
            }
            ("kubeconfig", Some(kubeconfig)) => Err(ClusterError::new(format!(
                "{KUBECONFIG_VARIABLE} names {}, which is no file",
                kubeconfig.display()
            ))),
            ("kubeconfig", None) => Err(ClusterError::new(format!(
                "{PROVIDER_VARIABLE} is kubeconfig; name one in {KUBECONFIG_VARIABLE}"
            ))),
            ("node" | "kind", Some(_)) => Err(ClusterError::new(format!(
                "{PROVIDER_VARIABLE} is {provider}, and {KUBECONFIG_VARIABLE} names a cluster: \
                 unset one of them"
            ))),
            (other, _) => Err(ClusterError::new(format!(
                "{PROVIDER_VARIABLE} is {other}; it may be node, kind or kubeconfig"
            ))),
        }
    }

    /// Why it can give no cluster here; none if it can.
    pub fn unavailable(&self) -> Option<String> {
        match self {
            Self::Node => host::unavailable(),
            Self::Kind(kind) => kind.unavailable(),
            Self::Given { .. } => None,
        }
    }

    /// Runs a test on a cluster with these images, which ends with the test; where there can be
    /// none, one loud line says why, and the test counts as skipped.
    ///
    /// # Panics
    ///
    /// When the cluster does not start, and as the test does.
    pub fn with_cluster<F, Fut>(self, images: &[PathBuf], test: F)
    where
        F: FnOnce(Cluster) -> Fut + Send + 'static,
        Fut: Future<Output = ()>,
    {
        if let Some(why) = self.unavailable() {
            super::skip(&why);
            return;
        }
        if self == Self::Node {
            super::inside(images, async move |node| match Cluster::on(node) {
                Ok(cluster) => test(cluster).await,
                Err(error) => fail(&error),
            });
            return;
        }
        let run = || -> Result<(), ClusterError> {
            let cluster = self.cluster(images)?;
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()?;
            runtime.block_on(test(cluster));
            Ok(())
        };
        if let Err(error) = run() {
            fail(&error);
        }
    }

    /// A cluster with these images; code that talks to a [`Node`] has to be within its network.
    pub fn cluster(self, images: &[PathBuf]) -> Result<Cluster, ClusterError> {
        match self {
            Self::Node => Cluster::on(Node::start(images)?),
            Self::Given { kubeconfig, images } => Cluster::at(Place::Given(kubeconfig), &images),
            Self::Kind(kind) => Cluster::at(Place::Kind(kind.create(images)?), OURS),
        }
    }
}

#[expect(clippy::panic, reason = "a test ends here")]
fn fail(error: &ClusterError) {
    panic!("{error}");
}

// === impl Cluster ===

impl Cluster {
    /// A node that runs.
    pub fn on(node: Node) -> Result<Self, ClusterError> {
        Self::at(Place::Node(node), OURS)
    }

    fn at(place: Place, images: &str) -> Result<Self, ClusterError> {
        Ok(Self {
            place,
            images: images.trim_end_matches('/').to_owned(),
            folder: tempfile::Builder::new()
                .prefix("lockstep-cluster-")
                .tempdir()?,
        })
    }

    /// The kubeconfig of somebody with all rights.
    pub fn kubeconfig(&self) -> PathBuf {
        match &self.place {
            Place::Node(node) => node.kubeconfig(),
            Place::Kind(kind) => kind.kubeconfig(),
            Place::Given(kubeconfig) => kubeconfig.clone(),
        }
    }

    /// The repository of one of our images there, such as `lockstep`; its tag is `1`.
    pub fn image(&self, name: &str) -> String {
        format!("{}/{name}", self.images)
    }

    /// How pods are to get them: of a given cluster only its owner knows where they are.
    pub fn pull_policy(&self) -> &'static str {
        match self.place {
            Place::Node(_) | Place::Kind(_) => "Never",
            Place::Given(_) => "IfNotPresent",
        }
    }

    /// `kubectl`, which has to go well; what it prints.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String, ClusterError> {
        // What it learns of the server is kept beside the kubeconfig, which may be somebody's.
        let own = self.folder.path().join("kubeconfig");
        std::fs::copy(self.kubeconfig(), &own)?;
        let done = super::kubectl(&own, arguments).await?;
        if done.code == Some(0) {
            return Ok(done.stdout);
        }
        let words = arguments.join(" ");
        let said = format!("kubectl {words}: {}{}", done.stdout, done.stderr);
        Err(ClusterError::new(said))
    }

    /// Helm, which has to go well; what it prints.
    pub async fn helm(&self, arguments: &[&str]) -> Result<String, ClusterError> {
        let done = super::helm(&self.kubeconfig(), self.folder.path(), arguments).await?;
        if done.code == Some(0) {
            return Ok(done.stdout);
        }
        let words = arguments.join(" ");
        Err(ClusterError::new(format!("helm {words}: {}", done.stderr)))
    }

    /// Applies manifests; the API server has to know every field.
    pub async fn apply(&self, yaml: &str) -> Result<(), ClusterError> {
        let file = self.folder.path().join("manifest.yaml");
        std::fs::write(&file, yaml)?;
        let file = file.display().to_string();
        self.kubectl(&["apply", "--validate=strict", "-f", &file])
            .await?;
        Ok(())
    }

    /// Waits until an object is as `kubectl wait --for` has it.
    pub async fn wait(
        &self,
        namespace: &str,
        object: &str,
        condition: &str,
    ) -> Result<(), ClusterError> {
        let condition = format!("--for={condition}");
        let ask = [
            "wait",
            "-n",
            namespace,
            object,
            &condition,
            "--timeout=100s",
        ];
        let Err(late) = self.kubectl(&ask).await else {
            return Ok(());
        };
        let described = self.kubectl(&["describe", "-n", namespace, object]).await;
        let described = described.unwrap_or_else(|error| error.to_string());
        Err(ClusterError::new(format!("{late}\n{described}")))
    }
}

/// A program of this PATH.
pub(super) fn found(program: &str, path: &OsStr) -> Option<PathBuf> {
    let folders = std::env::split_paths(path);
    let mut paths = folders.map(|folder| folder.join(program));
    paths.find(|path: &PathBuf| Path::is_file(path))
}
