//! The API level: etcd and kube-apiserver, and kube-controller-manager where workloads are to make
//! pods. No root, no namespaces: three processes on free ports of 127.0.0.1, up in a few seconds.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::{ClusterError, pki};
use crate::children::{self, Child};
use crate::ports;
use crate::process::Finished;
use crate::until::until;

/// How long a server may take until it is ready; generous for a loaded machine.
const READY_WITHIN: Duration = Duration::from_secs(90);

/// Names a folder with `etcd` and `kube-apiserver` to use in place of the pinned ones, as
/// controller-runtime's envtest does.
pub const ASSETS_VARIABLE: &str = "KUBEBUILDER_ASSETS";

/// Who asked for what: of `ServiceAccount`s only, which are few in tests, and not of those that
/// kube-controller-manager uses.
const AUDIT_POLICY: &str = r#"apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, userGroups: ["system:serviceaccounts:kube-system"]}
- {level: Metadata, userGroups: ["system:serviceaccounts"]}
"#;

/// A running API server with its own etcd. Dropping it kills both and removes their folder.
#[derive(Debug)]
pub struct ApiServer {
    folder: TempDir,
    url: String,
    etcd_url: String,
    etcd_peer: String,
    port: u16,
    processes: Vec<(&'static str, Child)>,
}

/// A request, as the API server's audit log has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Verb and path.
    pub request: String,
    /// The right that it needed, as verb and resource: `patch apps/deployments/scale`.
    pub right: String,
    /// The namespace that it was about; empty if about none or all.
    pub namespace: String,
    /// How it was answered.
    pub code: u64,
}

// === impl Asked ===

impl Asked {
    fn of(event: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let verb = text(&event["verb"]);
        let of = &event["objectRef"];
        let names = ["apiGroup", "resource", "subresource"].map(|name| text(&of[name]));
        let names: Vec<String> = names.into_iter().filter(|name| !name.is_empty()).collect();
        Self {
            request: format!("{verb} {}", text(&event["requestURI"])),
            right: format!("{verb} {}", names.join("/")),
            namespace: text(&of["namespace"]),
            code: event["responseStatus"]["code"].as_u64().unwrap_or_default(),
        }
    }
}

// === impl ApiServer ===

impl ApiServer {
    /// etcd and kube-apiserver, ready.
    pub async fn start() -> Result<Self, ClusterError> {
        let mut server = Self::prepare()?;
        server.start_etcd()?;
        server.start_apiserver()?;
        server.ready().await?;
        Ok(server)
    }

    /// The same with kube-controller-manager: workloads make pods, which stay Pending.
    pub async fn start_with_controllers() -> Result<Self, ClusterError> {
        let mut server = Self::start().await?;
        server.start_workloads().await?;
        Ok(server)
    }

    /// Starts kube-controller-manager beside it.
    pub async fn start_workloads(&mut self) -> Result<(), ClusterError> {
        self.start_controllers()?;
        self.default_account("default").await
    }

    fn prepare() -> Result<Self, ClusterError> {
        let mut folder = tempfile::Builder::new().prefix("lockstep-api-").tempdir()?;
        if let Some(name) = super::is_to_be_kept() {
            folder.disable_cleanup(true);
            let at = folder.path().display();
            super::tell(&format!("{name}: its API server is kept in {at}"));
        }
        let port = free()?;
        let url = format!("https://127.0.0.1:{port}");
        let pki = folder.path().join("pki");
        pki::write(
            &pki,
            &[
                "127.0.0.1",
                "localhost",
                "kubernetes",
                "kubernetes.default.svc",
            ],
        )?;
        pki::write_kubeconfigs(&pki, &url)?;
        Ok(Self {
            url,
            etcd_url: format!("http://127.0.0.1:{}", free()?),
            etcd_peer: format!("http://127.0.0.1:{}", free()?),
            port,
            folder,
            processes: Vec::new(),
        })
    }

    fn start_etcd(&mut self) -> Result<(), ClusterError> {
        let mut etcd = Command::new(program("etcd")?);
        etcd.arg("--data-dir").arg(self.folder.path().join("etcd"));
        etcd.args(["--unsafe-no-fsync", "--log-level", "warn"]);
        etcd.args(["--listen-client-urls", &self.etcd_url]);
        etcd.args(["--advertise-client-urls", &self.etcd_url]);
        etcd.args(["--listen-peer-urls", &self.etcd_peer]);
        etcd.args(["--initial-advertise-peer-urls", &self.etcd_peer]);
        etcd.args(["--initial-cluster", &format!("default={}", self.etcd_peer)]);
        self.run("etcd", etcd)
    }

    fn start_apiserver(&mut self) -> Result<(), ClusterError> {
        let mut server = Command::new(program("kube-apiserver")?);
        let file = |name: &str| self.pki().join(name).display().to_string();
        server.args([
            format!("--etcd-servers={}", self.etcd_url),
            "--bind-address=127.0.0.1".to_owned(),
            "--advertise-address=127.0.0.1".to_owned(),
            "--endpoint-reconciler-type=none".to_owned(),
            format!("--secure-port={}", self.port),
            "--service-cluster-ip-range=10.96.0.0/24".to_owned(),
            format!("--tls-cert-file={}", file("apiserver.crt")),
            format!("--tls-private-key-file={}", file("apiserver.key")),
            format!("--token-auth-file={}", file("tokens.csv")),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={}", file("sa.pub")),
            format!("--service-account-signing-key-file={}", file("sa.key")),
            "--authorization-mode=Node,RBAC".to_owned(),
            "--allow-privileged=true".to_owned(),
            "--profiling=false".to_owned(),
            format!("--audit-policy-file={}", file("audit.yaml")),
            format!("--audit-log-path={}", self.audit_log().display()),
        ]);
        std::fs::write(self.pki().join("audit.yaml"), AUDIT_POLICY)?;
        self.run("kube-apiserver", server)
    }

    fn start_controllers(&mut self) -> Result<(), ClusterError> {
        let mut controllers = Command::new(program("kube-controller-manager")?);
        let file = |name: &str| self.pki().join(name).display().to_string();
        let plugins = self.folder.path().join("volumeplugins");
        controllers.args([
            format!("--kubeconfig={}", file("kcm.conf")),
            "--leader-elect=false".to_owned(),
            format!("--service-account-private-key-file={}", file("sa.key")),
            format!("--root-ca-file={}", file("ca.crt")),
            "--use-service-account-credentials=true".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", free()?),
            format!("--cert-dir={}", self.folder.path().join("kcm").display()),
            format!("--flex-volume-plugin-dir={}", plugins.display()),
            // With the usual 20 and 30 a namespace's ServiceAccount takes seconds.
            "--kube-api-qps=500".to_owned(),
            "--kube-api-burst=1000".to_owned(),
            "--authentication-skip-lookup=true".to_owned(),
        ]);
        self.run("kube-controller-manager", controllers)
    }

    fn run(&mut self, name: &'static str, command: Command) -> Result<(), ClusterError> {
        let child = children::start(command, &self.log(name))?;
        self.processes.retain(|(known, _)| *known != name);
        self.processes.push((name, child));
        Ok(())
    }

    async fn ready(&mut self) -> Result<(), ClusterError> {
        self.until_kubectl("ready API server", &["get", "--raw", "/readyz"])
            .await
    }

    /// Waits until a namespace's default `ServiceAccount` is there: pods need it.
    pub async fn default_account(&mut self, namespace: &str) -> Result<(), ClusterError> {
        let ask = ["get", "serviceaccount", "default", "-n", namespace];
        self.until_kubectl("default ServiceAccount", &ask).await
    }

    async fn until_kubectl(&mut self, what: &str, ask: &[&str]) -> Result<(), ClusterError> {
        let ended = until(what, READY_WITHIN, async || match self.kubectl(ask).await {
            Ok(Finished { code: Some(0), .. }) => Ok(()),
            Ok(finished) => Err(finished.stderr),
            Err(error) => Err(error.to_string()),
        });
        let ended = ended.await;
        ended.map_err(|late| ClusterError::new(format!("{late}\n{}", self.tails())))
    }

    fn tails(&self) -> String {
        let tails = self.processes.iter().map(|(_, child)| child.tail());
        tails.collect::<Vec<_>>().join("\n")
    }

    fn pki(&self) -> PathBuf {
        self.folder.path().join("pki")
    }

    fn audit_log(&self) -> PathBuf {
        self.folder.path().join("audit.log")
    }

    fn log(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.log"))
    }

    /// Where the API server answers.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The folder of this server, for what a test wants to lay beside it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The kubeconfig of a member of `system:masters`.
    pub fn kubeconfig(&self) -> PathBuf {
        self.pki().join("admin.conf")
    }

    /// A kubeconfig of a `ServiceAccount`, which has the rights that it was given and no others.
    pub async fn kubeconfig_of(
        &self,
        namespace: &str,
        account: &str,
    ) -> Result<PathBuf, ClusterError> {
        let ask = ["create", "token", account, "-n", namespace];
        let token = self.kubectl(&ask).await?;
        if token.code != Some(0) {
            return Err(ClusterError::new(token.stderr));
        }
        let all_rights = std::fs::read_to_string(self.kubeconfig())?;
        let own = all_rights.replace("admin-token", token.stdout.trim());
        let file = self.pki().join(format!("{namespace}.{account}.conf"));
        std::fs::write(&file, own)?;
        Ok(file)
    }

    /// What a `ServiceAccount` asked for so far, in the order of the answers.
    pub fn asked_by(&self, namespace: &str, account: &str) -> Result<Vec<Asked>, ClusterError> {
        let user = format!("system:serviceaccount:{namespace}:{account}");
        let log = std::fs::read_to_string(self.audit_log())?;
        let events = log
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let of_user = events.filter(|event| event["user"]["username"] == *user);
        Ok(of_user.map(|event| Asked::of(&event)).collect())
    }

    /// A client with all rights.
    pub async fn client(&self) -> Result<kube::Client, ClusterError> {
        super::client(&self.kubeconfig()).await
    }

    /// Runs `kubectl` with all rights to its end.
    pub async fn kubectl(&self, arguments: &[&str]) -> io::Result<Finished> {
        super::kubectl(&self.kubeconfig(), arguments).await
    }

    /// Applies a manifest of one or more objects.
    pub async fn apply(&self, manifest: &str) -> Result<(), ClusterError> {
        let file = tempfile::NamedTempFile::new_in(self.folder())?;
        std::fs::write(file.path(), manifest)?;
        let path = file.path().display().to_string();
        self.must(&["apply", "--server-side", "-f", &path]).await
    }

    /// Brings in our kinds of objects, and waits until they can be made.
    pub async fn install_crds(&self) -> Result<(), ClusterError> {
        let folder = crate::repository().join("config/crd");
        let folder = folder.display().to_string();
        self.must(&["apply", "--server-side", "-f", &folder])
            .await?;
        let wait = ["wait", "--for=condition=Established", "--timeout=60s"];
        self.must(&[&wait[..], &["-f", &folder]].concat()).await
    }

    /// `kubectl`, which has to go well.
    async fn must(&self, arguments: &[&str]) -> Result<(), ClusterError> {
        let done = self.kubectl(arguments).await?;
        if done.code == Some(0) {
            return Ok(());
        }
        let words = arguments.join(" ");
        Err(ClusterError::new(format!(
            "kubectl {words}: {}",
            done.stderr
        )))
    }

    /// The process id of a component; none if it was not started.
    pub fn pid(&self, name: &str) -> Option<u32> {
        let found = self.processes.iter().find(|(known, _)| *known == name);
        found.map(|(_, child)| child.pid())
    }

    /// Kills a component: `etcd`, `kube-apiserver` or `kube-controller-manager`.
    pub fn kill(&mut self, name: &str) -> io::Result<()> {
        let found = self.processes.iter_mut().find(|(known, _)| *known == name);
        let (_, child) = found.ok_or(io::ErrorKind::NotFound)?;
        child.kill()
    }

    /// Starts the API server again after [`Self::kill`].
    pub async fn restart_apiserver(&mut self) -> Result<(), ClusterError> {
        self.start_apiserver()?;
        self.ready().await
    }
}

fn free() -> Result<u16, ClusterError> {
    ports::free().ok_or_else(|| ClusterError::new("no free port on 127.0.0.1".to_owned()))
}

/// A component's program: of the assets that the environment names, or the pinned one.
fn program(name: &str) -> Result<PathBuf, ClusterError> {
    if let Some(assets) = std::env::var_os(ASSETS_VARIABLE) {
        let named = Path::new(&assets).join(name);
        if named.is_file() {
            return Ok(named);
        }
    }
    super::tool(name)
}
