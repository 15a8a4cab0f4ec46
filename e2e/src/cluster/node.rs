//! The node level: a whole Kubernetes on this machine, in namespaces of its own.
//!
//! `unshare` starts `cluster/node.sh` as process 1 of new mount, network and pid namespaces; every
//! component, container, link, rule and mount lives in there, on the usual paths and ports. Killing
//! that one process ends them all; only cgroup folders and the node's own folder outlive it, and a
//! sweeper removes them. So two clusters do not see each other, and a test that is killed leaves
//! nothing behind.
//!
//! Code that talks to the cluster has to be in its network: [`inside`] runs a test there.

use std::future::Future;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tempfile::TempDir;

use super::host::{self, Sweeper, unavailable};
use super::{ClusterError, files, pki};
use crate::children::{self, Child};
use crate::process::Finished;
use crate::until::until;

/// The node's address: of the API server, and of what a test starts beside it.
pub const NODE: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 1);

/// How long a cluster may take until a pod can be made; generous for a loaded machine.
const READY_WITHIN: Duration = Duration::from_secs(120);

/// A running node. Dropping it ends everything on it.
#[derive(Debug)]
pub struct Node {
    folder: TempDir,
    process: Option<Child>,
    sweeper: Sweeper,
}

/// Starts a node with these images and runs a test within its network; where no node can run, one
/// loud line says why, and the test counts as skipped.
///
/// # Panics
///
/// When the node does not start, and as the test does.
pub fn inside<F, Fut>(images: &[PathBuf], test: F)
where
    F: FnOnce(Node) -> Fut + Send + 'static,
    Fut: Future<Output = ()>,
{
    if let Some(why) = unavailable() {
        super::skip(&why);
        return;
    }
    let images = images.to_vec();
    // A thread of its own: it never leaves the node's network again.
    let thread = std::thread::Builder::new().name(super::test());
    let run = thread.spawn(move || start_and_run(&images, test));
    #[expect(clippy::panic, reason = "a test ends here")]
    let run = run.unwrap_or_else(|error| panic!("no thread for the test: {error}"));
    match run.join() {
        Ok(Ok(())) => {}
        #[expect(clippy::panic, reason = "a test ends here")]
        Ok(Err(error)) => panic!("{error}"),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn start_and_run<F, Fut>(images: &[PathBuf], test: F) -> Result<(), ClusterError>
where
    F: FnOnce(Node) -> Fut,
    Fut: Future<Output = ()>,
{
    let mut node = Node::start(images)?;
    node.enter()?;
    if let Some(name) = super::is_to_be_kept() {
        let folder = node.keep_folder();
        let (folder, init) = (folder.display(), node.init()?);
        super::tell(&format!(
            "{name}: its node is kept in {folder}, logs in {folder}/logs; while it runs: nsenter -t {init} -n \
             tools/bin/kubectl --kubeconfig {folder}/pki/admin.conf get pods -A"
        ));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async move {
        let ready = node.ready().await;
        ready.map_err(|error| ClusterError::new(format!("{error}\n{}", node.tails())))?;
        test(node).await;
        Ok(())
    })
}

// === impl Node ===

impl Node {
    /// Starts every component; nothing is waited for.
    pub fn start(images: &[PathBuf]) -> Result<Self, ClusterError> {
        let folder = tempfile::Builder::new()
            .prefix("lockstep-node-")
            .tempdir()?;
        let name = folder
            .path()
            .file_name()
            .unwrap_or_default()
            .to_string_lossy();
        let cgroup = name.into_owned();
        let root = folder.path();
        for name in ["logs", "pids", "cmd"] {
            std::fs::create_dir_all(root.join(name))?;
        }
        let names = [
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
            "127.0.0.1",
            "10.88.0.1",
            "10.96.0.1",
        ];
        pki::write(&root.join("pki"), &names)?;
        pki::write_kubeconfigs(&root.join("pki"), &format!("https://{NODE}:6443"))?;
        files::write(root, &cgroup)?;
        let sweeper = Sweeper::start(&cgroup, root)?;
        host::make_cgroups(&cgroup)?;
        let mut node = Self {
            process: None,
            sweeper,
            folder,
        };
        let bin = super::tool("kubelet")?;
        let script = crate::repository().join("e2e/cluster/node.sh");
        let mut command = Command::new("unshare");
        command.args([
            "--mount",
            "--propagation",
            "private",
            "--net",
            "--pid",
            "--fork",
        ]);
        command
            .args(["--kill-child", "--mount-proc", "bash"])
            .arg(script);
        command
            .arg(node.folder.path())
            .arg(bin.parent().unwrap_or(&bin))
            .args(images);
        node.process = Some(children::start(
            command,
            &node.folder.path().join("logs/node.log"),
        )?);
        Ok(node)
    }

    /// The process 1 of the node, as this machine numbers it.
    pub fn init(&self) -> io::Result<u32> {
        let unshare = self
            .process
            .as_ref()
            .map(Child::pid)
            .ok_or(io::ErrorKind::NotFound)?;
        let children = std::fs::read_to_string(format!("/proc/{unshare}/task/{unshare}/children"))?;
        let first = children.split_whitespace().next();
        let pid = first.and_then(|pid| pid.parse().ok());
        pid.ok_or_else(|| io::Error::other("the node's first process has not started"))
    }

    /// Moves this thread into the node's network, and with it those that it starts from now on.
    fn enter(&self) -> Result<(), ClusterError> {
        let deadline = 500; // times 10 ms: until unshare has forked and has its namespaces
        for _ in 0..deadline {
            let own = std::fs::read_link("/proc/self/ns/net")?;
            let there = self.init().and_then(|pid| {
                let path = format!("/proc/{pid}/ns/net");
                Ok((std::fs::read_link(&path)?, std::fs::File::open(path)?))
            });
            if let Ok((link, file)) = there
                && link != own
            {
                let network = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(file.as_fd(), network).map_err(io::Error::from)?;
                return Ok(());
            }
            std::thread::park_timeout(Duration::from_millis(10));
        }
        Err(ClusterError::new(format!(
            "the node did not start\n{}",
            self.tails()
        )))
    }

    /// Waits until pods can be made.
    async fn ready(&self) -> Result<(), ClusterError> {
        let ended = until("ready node", READY_WITHIN, async || {
            let node = [
                "get",
                "node",
                "e2e",
                "-o",
                "jsonpath={.status.conditions[?(@.type==\"Ready\")].status}",
            ];
            let node = self
                .kubectl(&node)
                .await
                .map_err(|error| error.to_string())?;
            if node.stdout.trim() != "True" {
                return Err(format!("{}{}", node.stdout, node.stderr));
            }
            let account = ["get", "serviceaccount", "default"];
            let account = self
                .kubectl(&account)
                .await
                .map_err(|error| error.to_string())?;
            if account.code == Some(0) {
                Ok(())
            } else {
                Err(account.stderr)
            }
        });
        ended
            .await
            .map_err(|late| ClusterError::new(late.to_string()))
    }

    /// The node's folder: logs, pki, what a test lays beside it. Pods may mount it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The kubeconfig of a member of `system:masters`.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder().join("pki/admin.conf")
    }

    /// A client with all rights.
    pub async fn client(&self) -> Result<kube::Client, ClusterError> {
        super::client(&self.kubeconfig()).await
    }

    /// Runs `kubectl` to its end.
    pub async fn kubectl(&self, arguments: &[&str]) -> io::Result<Finished> {
        super::kubectl(&self.kubeconfig(), arguments).await
    }

    /// Runs `helm` to its end.
    pub async fn helm(&self, arguments: &[&str]) -> io::Result<Finished> {
        super::helm(&self.kubeconfig(), self.folder(), arguments).await
    }

    /// A command in all of the node's namespaces, to its end.
    pub async fn run(&self, command: &[&str]) -> io::Result<Finished> {
        let init = self.init()?.to_string();
        let mut all = vec!["-t", &init, "-a", "--"];
        all.extend(command);
        super::run("nsenter".as_ref(), &all).await
    }

    /// Starts a process in the node's network that ends with this handle.
    pub fn start_beside(&self, program: &Path, arguments: &[&str], log: &str) -> io::Result<Child> {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.init()?.to_string(), "-n", "--"]);
        command.arg(program).args(arguments);
        children::start(command, &self.folder().join("logs").join(log))
    }

    /// Sends a signal, such as `KILL`, `STOP` or `CONT`, to a component, such as `kubelet`.
    pub async fn signal(&self, component: &str, signal: &str) -> io::Result<()> {
        let pid = std::fs::read_to_string(self.folder().join("pids").join(component))?;
        let sent = self
            .run(&["kill", &format!("-{signal}"), pid.trim()])
            .await?;
        if sent.code == Some(0) {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "{component} got no {signal}: {}",
            sent.stderr
        )))
    }

    /// Starts a component again that was killed.
    pub async fn restart(&self, component: &str) -> io::Result<()> {
        let folder = self.folder().display();
        let script = format!(
            "eval \"setsid $(cat {folder}/cmd/{component}) >> {folder}/logs/{component}.log 2>&1 \
             < /dev/null &\"; echo $! > {folder}/pids/{component}"
        );
        let started = self.run(&["bash", "-c", &script]).await?;
        if started.code == Some(0) {
            return Ok(());
        }
        Err(io::Error::other(started.stderr))
    }

    /// The ends of all components' logs.
    pub fn tails(&self) -> String {
        let entries = std::fs::read_dir(self.folder().join("logs"))
            .into_iter()
            .flatten();
        let logs = entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.is_file());
        logs.map(|path| children::tail(&path))
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// Leaves the folder where it is when this ends, for people to look at; its path.
    pub fn keep_folder(&mut self) -> PathBuf {
        self.folder.disable_cleanup(true);
        self.sweeper.keep_folder();
        self.folder().to_owned()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.process.take()); // kill -9, and `--kill-child` passes it on
        self.sweeper.end();
    }
}
