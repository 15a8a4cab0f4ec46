//! The node level: a whole Kubernetes on this machine, in namespaces of its own.
//!
//! `unshare` starts `cluster/node.sh` as process 1 of new mount, network and pid namespaces; every
//! component, container, link, rule and mount lives in there, on the usual paths and ports. Killing
//! that one process ends them all; only cgroup folders outlive it, and are removed. So two clusters
//! do not see each other, and a test that is killed leaves nothing behind.
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

use super::{ClusterError, files, pki};
use crate::children::{self, Child};
use crate::process::Finished;
use crate::until::until;

/// The node's address: of the API server, and of what a test starts beside it.
pub const NODE: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 1);

/// How long a cluster may take until a pod can be made; generous for a loaded machine.
const READY_WITHIN: Duration = Duration::from_secs(120);

/// How long the kernel may take to let go of a cgroup.
const CGROUPS_GONE_WITHIN: u32 = 200;

const CGROUPS: &str = "/sys/fs/cgroup";

/// A running node. Dropping it ends everything on it.
#[derive(Debug)]
pub struct Node {
    folder: TempDir,
    cgroup: String,
    process: Option<Child>,
}

/// Why no node can run on this machine; none if one can.
pub fn unavailable() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("it needs root".to_owned());
    }
    let programs = ["containerd", "runc", "nft", "ctr", "unshare", "nsenter"];
    let missing: Vec<&str> = programs
        .into_iter()
        .filter(|program| !on_path(program))
        .collect();
    if !missing.is_empty() {
        return Some(format!("{missing:?} are not installed: `make packages`"));
    }
    if !Path::new("/usr/lib/cni/ptp").is_file() {
        return Some("the CNI plugins are not installed: `make packages`".to_owned());
    }
    let probe = Path::new(CGROUPS).join("memory/lockstep-probe");
    let probe = if probe.parent().is_some_and(Path::is_dir) {
        probe
    } else {
        Path::new(CGROUPS).join("lockstep-probe")
    };
    match std::fs::create_dir(&probe) {
        Ok(()) => std::fs::remove_dir(&probe)
            .err()
            .map(|error| error.to_string()),
        Err(error) => Some(format!("no cgroups can be made ({error})")),
    }
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .any(|folder| folder.join(program).is_file())
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
    let run = std::thread::spawn(move || {
        let runtime = || {
            tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
        };
        let node =
            Node::start(&images).unwrap_or_else(|error| std::panic::panic_any(error.to_string()));
        if let Err(error) = node.enter() {
            std::panic::panic_any(error.to_string());
        }
        let runtime = runtime().unwrap_or_else(|error| std::panic::panic_any(error.to_string()));
        runtime.block_on(async move {
            if let Err(error) = node.ready().await {
                std::panic::panic_any(format!("{error}\n{}", node.tails()));
            }
            test(node).await;
        });
    });
    if let Err(panic) = run.join() {
        std::panic::resume_unwind(panic);
    }
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
        make_cgroups(&cgroup)?;
        let mut node = Self {
            cgroup,
            process: None,
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
        self.folder().to_owned()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.process.take()); // kill -9, and `--kill-child` passes it on
        for _ in 0..CGROUPS_GONE_WITHIN {
            if remove_cgroups(&self.cgroup) {
                return;
            }
            std::thread::park_timeout(Duration::from_millis(25));
        }
    }
}

/// The kubelet wants its root cgroup to be there, in each hierarchy.
fn make_cgroups(name: &str) -> io::Result<()> {
    for hierarchy in hierarchies() {
        std::fs::create_dir_all(hierarchy.join(name))?;
    }
    let cpusets = Path::new(CGROUPS).join("cpuset");
    for file in ["cpuset.cpus", "cpuset.mems"] {
        // A new cpuset of version 1 has none of either, and takes no process.
        if let Ok(all) = std::fs::read(cpusets.join(file)) {
            std::fs::write(cpusets.join(name).join(file), all)?;
        }
    }
    Ok(())
}

fn hierarchies() -> Vec<PathBuf> {
    let root = Path::new(CGROUPS);
    if root.join("cgroup.procs").is_file() {
        return vec![root.to_owned()];
    }
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    let folders = entries.map(|entry| entry.path());
    folders
        .filter(|path| path.join("cgroup.procs").is_file())
        .collect()
}

/// Removes the node's cgroups from the leaves up; whether none is left.
fn remove_cgroups(name: &str) -> bool {
    fn remove(folder: &Path) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                remove(&entry.path());
            }
        }
        drop(std::fs::remove_dir(folder)); // what is busy is tried again
    }
    let folders = hierarchies()
        .into_iter()
        .map(|hierarchy| hierarchy.join(name));
    let folders: Vec<PathBuf> = folders.filter(|folder| folder.exists()).collect();
    for folder in &folders {
        remove(folder);
    }
    folders.iter().all(|folder| !folder.exists())
}
