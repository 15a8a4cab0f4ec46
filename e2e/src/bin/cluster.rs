//! A whole cluster that stays until it is told to go: `make cluster`, `make cluster-down`.
//!
//! ```text
//! cluster check            says why no cluster can run on this machine, if none can
//! cluster up FOLDER        starts one, unless it runs, and lays commands for it into FOLDER
//! cluster down FOLDER      ends it
//! cluster keep FOLDER      what `up` leaves running: the cluster lives as long as this process
//! ```

use std::fmt::Display;
use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use lockstep_e2e::cluster::{self, Node};
use lockstep_e2e::{children, clock};
use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};

/// How long it may take until pods can be made, with all images brought in; or until all is gone.
const WITHIN: Duration = Duration::from_secs(180);

/// How often the keeper looks whether its node still lives.
const LOOK_EVERY: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["check"] => check(),
        ["up", folder] => up(Path::new(folder)),
        ["down", folder] => down(Path::new(folder)),
        ["keep", folder] => keep(Path::new(folder)),
        _ => Err("usage: cluster check | up FOLDER | down FOLDER".to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            drop(writeln!(io::stderr(), "cluster: {error}"));
            ExitCode::FAILURE
        }
    }
}

type Outcome<T = ()> = Result<T, String>;

fn text(error: impl Display) -> String {
    error.to_string()
}

fn check() -> Outcome {
    match cluster::unavailable() {
        Some(why) => Err(format!("no cluster node can run here: {why}")),
        None => Ok(()),
    }
}

fn up(folder: &Path) -> Outcome {
    check()?;
    std::fs::create_dir_all(folder).map_err(text)?;
    let folder = std::fs::canonicalize(folder).map_err(text)?;
    if running(&folder)?.is_some() && folder.join("ready").exists() {
        return tell(&format!("the cluster is up already\n{}", usage(&folder)));
    }
    let log = folder.join("keeper.log");
    let output = File::create(&log).map_err(text)?;
    // A session of its own: the end of this terminal is not to be the cluster's.
    let mut keeper = Command::new("setsid")
        .arg(std::env::current_exe().map_err(text)?)
        .arg("keep")
        .arg(&folder)
        .stdin(Stdio::null())
        .stdout(output.try_clone().map_err(text)?)
        .stderr(output)
        .spawn()
        .map_err(text)?;
    wait("ready cluster", || {
        match keeper.try_wait().map_err(text)? {
            Some(_) => Err(format!("it did not start\n{}", children::tail(&log))),
            None => Ok(folder.join("ready").exists()),
        }
    })?;
    tell(&usage(&folder))
}

fn down(folder: &Path) -> Outcome {
    let Some(keeper) = running(folder)? else {
        return tell("no cluster is up");
    };
    kill_process(keeper, Signal::TERM).map_err(text)?;
    wait("end of the cluster", || Ok(running(folder)?.is_none()))?;
    tell("the cluster is gone")
}

/// The keeper of this folder, by the lock that it holds for as long as it lives.
fn running(folder: &Path) -> Outcome<Option<Pid>> {
    let path = folder.join("keeper");
    let Ok(file) = File::open(&path) else {
        return Ok(None);
    };
    match file.try_lock() {
        Ok(()) => Ok(None),
        Err(TryLockError::Error(error)) => Err(text(error)),
        Err(TryLockError::WouldBlock) => {
            let pid = std::fs::read_to_string(&path).map_err(text)?;
            let pid = pid.trim().parse().ok().and_then(Pid::from_raw);
            pid.map(Some)
                .ok_or_else(|| format!("{} names no process", path.display()))
        }
    }
}

fn wait(what: &str, mut look: impl FnMut() -> Outcome<bool>) -> Outcome {
    let deadline = clock::now() + WITHIN;
    while !look()? {
        if clock::now() > deadline {
            return Err(format!("no {what} within {} s", WITHIN.as_secs()));
        }
        std::thread::park_timeout(Duration::from_millis(50));
    }
    Ok(())
}

fn tell(text: &str) -> Outcome {
    writeln!(io::stdout(), "{text}").map_err(|error| error.to_string())
}

fn usage(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "The cluster is up, in a network of its own. Its commands, by path or on PATH:\n\n  \
         export PATH={folder}/bin:$PATH\n  \
         kubectl get pods --all-namespaces\n  \
         helm list --all-namespaces\n  \
         enter COMMAND...     # any command within the cluster's network\n\n\
         {TRY}\n\
         Logs: {folder}/logs. `make cluster-down` ends it."
    )
}

/// What to do with a new cluster, in the project's folder.
const TRY: &str = "Nothing is on it yet. Lockstep, a NATS server, a group with its application, and a message:

  helm install lockstep charts/lockstep --namespace lockstep-system --create-namespace --wait \\
    --set image.repository=lockstep.test/lockstep --set-string image.tag=1
  kubectl apply -f e2e/cluster/nats-server.yaml
  sed 's|python:3-slim|lockstep.test/app-python:1|' examples/kubernetes/quickstart.yaml | kubectl apply -f -
  kubectl rollout status deployment orders
  kubectl exec deploy/orders -c lockstep-worker -- /lockstep publish orders --key customer-42 --data hello
  kubectl logs -l app=orders -c app --prefix --follow

Its images are those of `make images`, lockstep.test/NAME:1; nothing can be pulled.
";

fn keep(folder: &Path) -> Outcome {
    let lock = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(folder.join("keeper"))
        .map_err(text)?;
    lock.try_lock()
        .map_err(|error| format!("another one keeps it: {error}"))?;
    lock.set_len(0).map_err(text)?;
    writeln!(&lock, "{}", std::process::id()).map_err(text)?;
    clear(folder)?;
    let (told, outcome) = std::sync::mpsc::channel();
    let place = folder.to_owned();
    cluster::inside(&cluster::images(), async move |node| {
        // Received below, once the node is gone.
        drop(told.send(stay(&place, &node).await));
    });
    clear(folder)?;
    drop(lock);
    outcome.recv().map_err(text)?
}

/// What a node before this one may have left.
fn clear(folder: &Path) -> Outcome {
    for file in ["ready", "logs", "bin/kubectl", "bin/helm", "bin/enter"] {
        match std::fs::remove_file(folder.join(file)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(text(error)),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// Lays out the commands and waits for the order to end.
async fn stay(folder: &Path, node: &Node) -> Outcome {
    let mut terminate = signal(SignalKind::terminate()).map_err(text)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(text)?;
    lay_out(folder, node).map_err(text)?;
    loop {
        tokio::select! {
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            () = tokio::time::sleep(LOOK_EVERY) => {
                node.init().map_err(|error| format!("the node has died: {error}"))?;
            }
        }
    }
}

fn lay_out(folder: &Path, node: &Node) -> io::Result<()> {
    let bin = folder.join("bin");
    std::fs::create_dir_all(&bin)?;
    std::os::unix::fs::symlink(node.folder().join("logs"), folder.join("logs"))?;
    let enter = format!("exec nsenter --target {} --net --", node.init()?);
    script(&bin.join("enter"), &format!("{enter} \"${{@:-bash}}\""))?;
    let with = format!("--kubeconfig {}", node.kubeconfig().display());
    for (name, more) in [("kubectl", String::new()), ("helm", helm_files(node))] {
        let program = cluster::tool(name);
        // Without Helm the cluster is a cluster all the same.
        let Ok(program) = program else { continue };
        let command = format!("{enter} {} {with}{more} \"$@\"", program.display());
        script(&bin.join(name), &command)?;
    }
    // Last, and at once: who sees it finds everything.
    std::fs::write(folder.join("ready.new"), format!("{}\n", node.init()?))?;
    std::fs::rename(folder.join("ready.new"), folder.join("ready"))
}

/// Helm's own files live and die with the node.
fn helm_files(node: &Node) -> String {
    let at = |name: &str| -> PathBuf { node.folder().join("helm").join(name) };
    format!(
        " --repository-cache {} --registry-config {}",
        at("cache").display(),
        at("config").display()
    )
}

fn script(path: &Path, command: &str) -> io::Result<()> {
    std::fs::write(path, format!("#!/bin/bash\n{command}\n"))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
}
