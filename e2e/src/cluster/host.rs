//! What a node needs of the machine that it runs on, and what it would leave there.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const CGROUPS: &str = "/sys/fs/cgroup";

/// What a node runs beside the pinned programs.
const PROGRAMS: [&str; 8] = [
    "containerd",
    "ctr",
    "runc",
    "nft",
    "ip",
    "unshare",
    "nsenter",
    "busybox",
];

/// Why no node can run on this machine; none if one can.
pub fn unavailable() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("it needs root".to_owned());
    }
    let missing: Vec<&str> = PROGRAMS
        .into_iter()
        .filter(|program| !on_path(program))
        .collect();
    if !missing.is_empty() {
        return Some(format!("{missing:?} are not installed: `make packages`"));
    }
    if cni_plugins().is_none() {
        return Some("the CNI plugins are not installed: `make packages`".to_owned());
    }
    if let Some(why) = no_namespaces() {
        return Some(format!("no namespaces can be made ({why})"));
    }
    no_cgroups().map(|error| format!("no cgroups can be made ({error})"))
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into(), "/bin".into()])
        .any(|folder| folder.join(program).is_file())
}

/// The folder of the CNI plugins: where Debian or where everybody else has them.
pub(super) fn cni_plugins() -> Option<&'static str> {
    let folders = ["/usr/lib/cni", "/opt/cni/bin"];
    let there = |folder: &&str| Path::new(folder).join("ptp").is_file();
    folders.into_iter().find(there)
}

/// A container's root often may not: then `unshare` says why.
fn no_namespaces() -> Option<String> {
    let mut unshare = Command::new("unshare");
    unshare.args([
        "--mount",
        "--net",
        "--pid",
        "--fork",
        "--mount-proc",
        "true",
    ]);
    match unshare.output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Some(error.to_string()),
    }
}

fn no_cgroups() -> Option<io::Error> {
    let name = format!("lockstep-probe-{}", std::process::id());
    let made = make_cgroups(&name);
    for hierarchy in hierarchies() {
        // What could not be made is not there, and the error of making it is the one that counts.
        drop(std::fs::remove_dir(hierarchy.join(&name)));
    }
    made.err()
}

/// The kubelet wants its root cgroup to be there, in each hierarchy.
pub(super) fn make_cgroups(name: &str) -> io::Result<()> {
    let found = hierarchies();
    if found.is_empty() {
        return Err(io::Error::other(format!("there are none in {CGROUPS}")));
    }
    for hierarchy in found {
        match std::fs::create_dir(hierarchy.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => {}
        }
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

/// The one of version 2, or those of version 1.
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

/// A process that removes what a node leaves. It outlives the test: the end of its input tells it
/// that the test has ended, in whatever way.
#[derive(Debug)]
pub(super) struct Sweeper(Child);

// === impl Sweeper ===

impl Sweeper {
    pub(super) fn start(cgroup: &str, folder: &Path) -> io::Result<Self> {
        let script = crate::repository().join("e2e/cluster/sweep.sh");
        let mut command = Command::new("sh");
        command.arg(script).arg(cgroup).arg(folder);
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        // A group of its own: what kills the test's group is not to kill this.
        command.process_group(0).stderr(Stdio::null());
        Ok(Self(command.spawn()?))
    }

    /// The node's folder is to stay.
    pub(super) fn keep_folder(&mut self) {
        if let Some(input) = &mut self.0.stdin {
            // Should the sweeper be gone, it removes nothing.
            drop(input.write_all(b"keep\n"));
        }
    }

    /// Tells it that the node is dead, and waits until all is swept.
    pub(super) fn end(&mut self) {
        drop(self.0.stdin.take());
        // There is nobody to tell in a `drop`; what it left can be seen in `/sys/fs/cgroup`.
        drop(self.0.wait());
    }
}
