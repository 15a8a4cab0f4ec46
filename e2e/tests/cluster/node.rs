//! The node itself: it runs pods, its components die and come back, and nothing of it stays.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::Duration;

use lockstep_e2e::children;
use lockstep_e2e::cluster::{self, Node, images, inside};
use lockstep_e2e::until::{until, until_sync};

const WITHIN: Duration = Duration::from_secs(60);

/// A cluster may take that long to come up on a machine that tests something else as well.
const UP_WITHIN: Duration = Duration::from_secs(180);

const POD: &str = r#"{
  "apiVersion": "v1",
  "kind": "Pod",
  "metadata": {"name": "plain"},
  "spec": {
    "terminationGracePeriodSeconds": 1,
    "containers": [{
      "name": "main",
      "image": "lockstep.test/pause:1",
      "imagePullPolicy": "Never"
    }]
  }
}"#;

/// What a node would leave, if it left anything.
#[derive(Clone, Debug)]
struct Traces {
    folder: PathBuf,
    cgroup: String,
    init: u32,
}

// === impl Traces ===

impl Traces {
    fn of(folder: &Path, init: u32) -> Self {
        let name = folder.file_name().unwrap();
        let traces = Self {
            folder: folder.to_owned(),
            cgroup: name.to_str().unwrap().to_owned(),
            init,
        };
        // Else the absence of all of it would show nothing.
        assert_eq!(traces.found().len(), 3, "{:?}", traces.found());
        traces
    }

    /// What there is of it on this machine.
    fn found(&self) -> Vec<String> {
        let mut found = Vec::new();
        if self.folder.exists() {
            found.push(format!("the folder {}", self.folder.display()));
        }
        let cgroups = Command::new("find")
            .args(["/sys/fs/cgroup", "-maxdepth", "2", "-name", &self.cgroup])
            .output()
            .unwrap();
        if !cgroups.stdout.is_empty() {
            found.push(format!(
                "cgroups {}",
                String::from_utf8_lossy(&cgroups.stdout)
            ));
        }
        // Every component and every container's shim has the folder or the node's name about it.
        let processes = Command::new("pgrep")
            .args(["-a", "-f", self.folder.to_str().unwrap()])
            .output()
            .unwrap();
        let alive = Path::new("/proc").join(self.init.to_string()).exists();
        if alive || !processes.stdout.is_empty() {
            let listed = String::from_utf8_lossy(&processes.stdout).into_owned();
            found.push(format!("processes: {} {listed}", self.init));
        }
        found
    }

    async fn gone(&self) {
        until_sync("trace of the node that is gone", WITHIN, || {
            let found = self.found();
            if found.is_empty() {
                Ok(())
            } else {
                Err(found.join("; "))
            }
        })
        .await
        .unwrap();
    }
}

async fn run_pod(node: &Node) {
    let file = node.folder().join("pod.json");
    std::fs::write(&file, POD).unwrap();
    let applied = node.kubectl(&["apply", "-f", file.to_str().unwrap()]).await;
    let applied = applied.unwrap();
    assert_eq!(applied.code, Some(0), "{}", applied.stderr);
    pod_is_ready(node).await;
}

async fn pod_is_ready(node: &Node) {
    until("ready pod", WITHIN, async || {
        let ready = r#"jsonpath={.status.conditions[?(@.type=="Ready")].status}"#;
        let asked = node.kubectl(&["get", "pod", "plain", "-o", ready]).await;
        let asked = asked.map_err(|error| error.to_string())?;
        if asked.stdout == "True" {
            return Ok(());
        }
        let said = node.kubectl(&["describe", "pod", "plain"]).await;
        Err(format!(
            "{}{}",
            asked.stderr,
            said.map_err(|e| e.to_string())?.stdout
        ))
    })
    .await
    .unwrap();
}

#[test]
fn a_pod_runs_and_nothing_stays_of_the_node() {
    let (tell, told) = channel();
    inside(&images(), async move |node| {
        run_pod(&node).await;
        tell.send(Traces::of(node.folder(), node.init().unwrap()))
            .unwrap();
    });
    let Ok(traces) = told.recv() else { return }; // skipped
    // Its first process stays a zombie until the machine's own first process has seen its end.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(traces.gone());
}

#[test]
fn two_nodes_run_at_once_and_do_not_see_each_other() {
    // Once for both.
    if let Some(why) = cluster::unavailable() {
        cluster::skip(&why);
        return;
    }
    let (first_up, seen_by_second) = channel();
    let (second_up, seen_by_first) = channel();
    let first = std::thread::spawn(move || {
        inside(&images(), async move |node| {
            run_pod(&node).await;
            first_up.send(()).unwrap();
            seen_by_first
                .recv_timeout(UP_WITHIN)
                .expect("the second node with its pod");
            pod_is_ready(&node).await;
        });
    });
    inside(&images(), async move |node| {
        // The first one's pod has the same name, on a node of the same name and address.
        seen_by_second
            .recv_timeout(UP_WITHIN)
            .expect("the first node with its pod");
        let pods = node.kubectl(&["get", "pods", "-o", "name"]).await.unwrap();
        assert_eq!((pods.code, pods.stdout.as_str()), (Some(0), ""));
        run_pod(&node).await;
        second_up.send(()).unwrap();
    });
    first.join().unwrap();
}

#[tokio::test]
async fn a_node_that_is_to_be_kept_leaves_its_logs_and_nothing_else() {
    if let Some(why) = cluster::unavailable() {
        cluster::skip(&why);
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let mut keeper = keep(place.path(), Some(cluster::KEEP_VARIABLE)).await;
    let traces = traces_of(place.path());
    let told = std::fs::read_to_string(place.path().join("log")).unwrap();
    let folder = traces.folder.display().to_string();
    assert!(told.contains(&format!("kept in {folder}")), "{told}");
    keeper.kill().unwrap();
    let only = format!("the folder {folder}");
    let left = until_sync("nothing but the folder", WITHIN, || {
        let found = traces.found();
        let is_all = found == [only.clone()];
        if is_all {
            Ok(())
        } else {
            Err(found.join("; "))
        }
    });
    left.await.unwrap();
    assert!(traces.folder.join("logs/kubelet.log").is_file());
    std::fs::remove_dir_all(&traces.folder).unwrap();
}

/// A cluster that lives as long as this process, ready.
async fn keep(place: &Path, variable: Option<&str>) -> children::Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cluster"));
    command.arg("keep").arg(place);
    command.env_remove(cluster::KEEP_VARIABLE);
    command.envs(variable.map(|name| (name, "1")));
    let mut keeper = children::start(command, &place.join("log")).unwrap();
    until_sync("ready cluster", UP_WITHIN, || {
        let running = keeper.is_running();
        if place.join("ready").exists() {
            Ok(())
        } else {
            Err(format!("running: {running}"))
        }
    })
    .await
    .unwrap_or_else(|late| panic!("{late}\n{}", keeper.tail()));
    keeper
}

fn traces_of(place: &Path) -> Traces {
    let logs = std::fs::read_link(place.join("logs")).unwrap();
    let init = std::fs::read_to_string(place.join("ready")).unwrap();
    Traces::of(logs.parent().unwrap(), init.trim().parse().unwrap())
}

#[tokio::test]
async fn a_cluster_whose_keeper_is_killed_leaves_nothing() {
    if let Some(why) = cluster::unavailable() {
        cluster::skip(&why);
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let mut keeper = keep(place.path(), None).await;
    let asked = Command::new(place.path().join("bin/kubectl"))
        .args(["get", "nodes", "-o", "name"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&asked.stdout), "node/e2e\n");
    let traces = traces_of(place.path());
    keeper.kill().unwrap();
    traces.gone().await;
}
