//! All of Lockstep on a node: NATS, the chart, a group, an application that knows nothing of NATS;
//! a publisher and an auditor beside them, and at the end the judge.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::workload::{Kind, Workload};
use super::{Node, tool};
use crate::auditor::{Auditor, Progress, keep_history};
use crate::checker::{Expectations, Verdict, judge};
use crate::children::Child;
use crate::clock;
use crate::history::{self, Log, Record};
use crate::publisher::{Load, Publisher};
use crate::scene::{Outcome, SceneError};
use crate::until::{until, until_sync};

/// Revisions that the bucket keeps per key, so that the auditor misses none.
const HISTORY: i64 = 64;

/// The longest that anything takes on a loaded machine.
const SOON: Duration = Duration::from_secs(120);

/// Where NATS is reached, from pods by its Service and from the node.
pub const NATS_ON_THE_NODE: &str = "nats://10.88.0.1:4222";

const PARTITIONS: u32 = 6;

/// Lockstep on a node. Dropping it ends everything.
#[derive(Debug)]
pub struct System {
    /// The cluster.
    pub node: Node,
    /// The NATS server, beside the pods.
    pub nats: Child,
    auditor: Option<Auditor>,
    publisher: Option<Publisher>,
    history: PathBuf,
}

/// A pod, as the API server shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Its name.
    pub name: String,
    /// Its IP address; empty before it has one.
    pub address: String,
    /// Whether it is on its way out.
    pub leaving: bool,
    /// Whether it has ended, well or not.
    pub ended: bool,
    /// Whether it is ready.
    pub ready: bool,
    /// When that changed last.
    pub ready_since: String,
    /// How often any of its containers was started again.
    pub restarts: u64,
}

const NATS_SERVICE: &str = include_str!("../../cluster/nats.yaml");
const GROUP: &str = include_str!("../../cluster/group.yaml");

// === impl System ===

impl System {
    /// NATS on the node, and its Service.
    pub async fn start(node: Node) -> Outcome<Self> {
        let history = node.folder().join("history");
        std::fs::create_dir(&history)?;
        // Applications in pods have users of their own.
        std::fs::set_permissions(&history, std::fs::Permissions::from_mode(0o777))?;
        std::fs::set_permissions(node.folder(), std::fs::Permissions::from_mode(0o755))?;
        let nats = start_nats(&node)?;
        let system = Self {
            node,
            nats,
            auditor: None,
            publisher: None,
            history,
        };
        system.apply(NATS_SERVICE).await?;
        let answers = until("NATS", SOON, async || {
            async_nats::connect(NATS_ON_THE_NODE)
                .await
                .map_err(|error| error.to_string())
        });
        answers.await?;
        Ok(system)
    }

    /// Starts the NATS server again with what it had stored.
    pub fn start_nats(&mut self) -> Outcome<()> {
        self.nats = start_nats(&self.node)?;
        Ok(())
    }

    /// Installs the chart, or upgrades it, with these values beside those of a test cluster.
    pub async fn install(&self, values: &[&str]) -> Outcome<()> {
        let chart = crate::repository()
            .join("charts/lockstep")
            .display()
            .to_string();
        let mut arguments = vec!["upgrade", "--install", "lockstep", &chart];
        arguments.extend(["--namespace", "lockstep-system", "--create-namespace"]);
        arguments.extend([
            "--set-string",
            "image.repository=lockstep.test/lockstep,image.tag=1",
        ]);
        arguments.extend(["--set", "image.pullPolicy=Never,controller.logFormat=text"]);
        for value in values {
            arguments.extend(["--set", value]);
        }
        arguments.extend(["--wait", "--timeout", "2m"]);
        let done = self.node.helm(&arguments).await?;
        if done.code == Some(0) {
            return Ok(());
        }
        let pods = self
            .node
            .kubectl(&["get", "pods", "-A", "-o", "wide"])
            .await?
            .stdout;
        let logs = self.controller_logs().await;
        Err(SceneError::new(format!(
            "helm: {}\n{pods}\n{logs}",
            done.stderr
        )))
    }

    /// What the controllers logged last.
    pub async fn controller_logs(&self) -> String {
        let ask = [
            "logs",
            "-n",
            "lockstep-system",
            "-l",
            "app.kubernetes.io/name=lockstep",
        ];
        let logs = self
            .node
            .kubectl(&[&ask[..], &["--tail=40", "--prefix"]].concat())
            .await;
        logs.map_or_else(|error| error.to_string(), |logs| logs.stdout)
    }

    /// Applies manifests.
    pub async fn apply(&self, yaml: &str) -> Outcome<()> {
        let file = self.node.folder().join("manifest.yaml");
        std::fs::write(&file, yaml)?;
        self.kubectl(&["apply", "-f", &file.display().to_string()])
            .await?;
        Ok(())
    }

    /// `kubectl`, which has to go well; what it prints.
    pub async fn kubectl(&self, arguments: &[&str]) -> Outcome<String> {
        let done = self.node.kubectl(arguments).await?;
        if done.code == Some(0) {
            return Ok(done.stdout);
        }
        let words = arguments.join(" ");
        Err(SceneError::new(format!(
            "kubectl {words}: {}{}",
            done.stdout, done.stderr
        )))
    }

    /// The connection and the group `orders`, ready; from then on everything in its bucket is noted.
    pub async fn make_group(&mut self) -> Outcome<()> {
        self.make_group_of(GROUP).await
    }

    /// As [`Self::make_group`], with this YAML at the end of the group's spec.
    pub async fn make_group_with(&mut self, more: &str) -> Outcome<()> {
        self.make_group_of(&format!("{GROUP}{more}")).await
    }

    /// The same, as this manifest has them.
    pub async fn make_group_of(&mut self, manifest: &str) -> Outcome<()> {
        self.apply(manifest).await?;
        self.group_is("True", "NoMembers").await?;
        let client = async_nats::connect(NATS_ON_THE_NODE).await?;
        let bucket = "lockstep_default_orders";
        let kept = until("bucket", SOON, async || {
            keep_history(&client, bucket, HISTORY).await
        });
        kept.await?;
        let log = self.history.join("bucket.jsonl");
        self.auditor = Some(Auditor::start(client, bucket, &log)?);
        Ok(())
    }

    /// Waits until Ready of the group has this status and reason.
    pub async fn group_is(&self, status: &str, reason: &str) -> Outcome<()> {
        self.group_has("Ready", status, reason).await
    }

    /// Waits until this condition of the group has this status and reason.
    pub async fn group_has(&self, condition: &str, status: &str, reason: &str) -> Outcome<()> {
        let path = format!("jsonpath={{.status.conditions[?(@.type==\"{condition}\")]}}");
        let found = until(format!("{condition}={status} {reason}"), SOON, async || {
            let ask = ["get", "cg", "orders", "-o", &path];
            let shown = self
                .kubectl(&ask)
                .await
                .map_err(|error| error.to_string())?;
            let now: serde_json::Value = serde_json::from_str(&shown).unwrap_or_default();
            let is = now["status"] == status && now["reason"] == reason;
            if is { Ok(()) } else { Err(shown) }
        });
        match found.await {
            Ok(()) => Ok(()),
            Err(late) => Err(SceneError::new(format!(
                "{late}\n{}",
                self.controller_logs().await
            ))),
        }
    }

    /// The application `orders`, of this kind.
    pub async fn run_application(&self, kind: Kind, replicas: u32) -> Outcome<()> {
        self.run(&Workload::new(kind, replicas)).await
    }

    /// An application.
    pub async fn run(&self, workload: &Workload) -> Outcome<()> {
        self.apply(&workload.manifest(&self.history).to_string())
            .await
    }

    /// The pods of a namespace with this label.
    pub async fn all_pods(&self, namespace: &str, label: &str) -> Outcome<Vec<Pod>> {
        let ask = ["get", "pods", "-n", namespace, "-l", label, "-o", "json"];
        let all: Value = serde_json::from_str(&self.kubectl(&ask).await?)?;
        let pods = all["items"].as_array().into_iter().flatten();
        Ok(pods.map(Pod::of).collect())
    }

    /// `kubectl scale` of what is called `orders` and of this kind; waits until all its members own
    /// something.
    pub async fn scale(&self, kind: &str, replicas: usize) -> Outcome<()> {
        let flag = format!("--replicas={replicas}");
        self.kubectl(&["scale", kind, "orders", &flag]).await?;
        self.settles(replicas).await
    }

    /// The controller that coordinates the group, by its pod.
    pub async fn leader(&self) -> Outcome<String> {
        let coordinator = "jsonpath={.status.coordinator}";
        self.kubectl(&["get", "cg", "orders", "-o", coordinator])
            .await
    }

    /// The names of the application's pods that are not on their way out.
    pub async fn pods(&self) -> Outcome<Vec<String>> {
        let all = self.all_pods("default", "app=orders").await?;
        let staying = all.into_iter().filter(|pod| !pod.leaving && !pod.ended);
        Ok(staying.map(|pod| pod.name).collect())
    }

    /// Notes in the history that something happened: pauses after it are counted as its own.
    pub fn mark(&self, event: &str) -> Outcome<()> {
        let name = event.to_owned();
        let at = clock::boottime_ns();
        let mut log = Log::open(&self.history.join("events.jsonl"))?;
        Ok(log.write(&Record::Event { name, at })?)
    }

    /// Waits until there are so many pods, each owns something, and nothing is on its way.
    pub async fn settles(&self, members: usize) -> Outcome<()> {
        self.settles_where(members, |pods| pods == members).await
    }

    /// Waits until so many of the pods own everything, and nothing is on its way.
    pub async fn owned_by(&self, members: usize) -> Outcome<()> {
        self.settles_where(members, |_| true).await
    }

    async fn settles_where(&self, members: usize, pods_are: impl Fn(usize) -> bool) -> Outcome<()> {
        let what = format!("{members} members that own everything");
        let settled = until(what, SOON, async || {
            let pods = self.pods().await.map_err(|error| error.to_string())?;
            let progress = self.progress();
            let mut owners: Vec<String> = progress.owners().into_values().collect();
            owners.sort();
            owners.dedup();
            let quiet = progress.is_settled();
            let of_pods = owners.iter().all(|owner| pods.contains(owner));
            if quiet && of_pods && owners.len() == members && pods_are(pods.len()) {
                Ok(())
            } else {
                Err(format!("pods {pods:?}, owners {owners:?}, quiet {quiet}"))
            }
        });
        match settled.await {
            Ok(()) => Ok(()),
            Err(late) => {
                let pods = self
                    .kubectl(&["describe", "pods", "-l", "app=orders"])
                    .await?;
                let logs = self.controller_logs().await;
                Err(SceneError::new(format!("{late}\n{pods}\n{logs}")))
            }
        }
    }

    /// The folder of histories, which pods have as `/history`.
    pub fn history(&self) -> &Path {
        &self.history
    }

    /// What happened so far, as everybody has written it down.
    pub fn records(&self) -> Outcome<Vec<Record>> {
        Ok(history::read_folder(&self.history)?)
    }

    /// What the auditor has seen.
    pub fn progress(&self) -> Progress {
        self.auditor
            .as_ref()
            .map(Auditor::progress)
            .unwrap_or_default()
    }

    /// Publishes orders until [`Self::ends_well`].
    pub async fn publish(&mut self, rate: u32) -> Outcome<()> {
        let load = Load {
            stream: "ORDERS".to_owned(),
            subject: "orders".to_owned(),
            partitions: PARTITIONS,
            keys: (0..40).map(|n| format!("customer-{n}")).collect(),
            rate,
        };
        let client = async_nats::connect(NATS_ON_THE_NODE).await?;
        let log = self.history.join("published.jsonl");
        self.publisher = Some(Publisher::start(client, load, &log)?);
        Ok(())
    }

    /// Waits until so many more messages are published.
    pub async fn flows(&self, messages: u64) {
        if let Some(publisher) = &self.publisher {
            publisher.reached(publisher.count() + messages).await;
        }
    }

    /// Waits until so many more messages are committed.
    pub async fn handles(&self, messages: u64) -> Outcome<()> {
        let committed = || self.progress().committed.values().sum::<u64>();
        let goal = committed() + messages;
        let handled = until_sync("more commits", SOON, || {
            let now = committed();
            if now >= goal {
                Ok(())
            } else {
                Err(format!("{now} of {goal}"))
            }
        });
        match handled.await {
            Ok(()) => Ok(()),
            Err(late) => Err(SceneError::new(format!(
                "{late}\n{}",
                self.controller_logs().await
            ))),
        }
    }

    /// Waits until these messages, by partition, are committed, for as long as there is progress.
    async fn has_committed(&self, last: &BTreeMap<u32, u64>) -> Outcome<()> {
        let mut before = BTreeMap::new();
        while !self.progress().has_committed(last) {
            until_sync("progress towards the end", SOON, || {
                let committed = self.progress().committed;
                if committed == before {
                    Err(format!("{committed:?} of {last:?}"))
                } else {
                    before = committed;
                    Ok(())
                }
            })
            .await?;
        }
        Ok(())
    }

    /// The load stops, everything is committed, and the verdict has to be good.
    pub async fn ends_well(&mut self, expect: &Expectations) -> Outcome<Verdict> {
        if let Some(publisher) = self.publisher.take() {
            publisher.stop().await?;
        }
        let records = history::read(&self.history.join("published.jsonl"))?;
        let last = history::last_published(&records);
        self.has_committed(&last).await?;
        let verdict = judge(&self.records()?, expect);
        if verdict.passed {
            return Ok(verdict);
        }
        Err(SceneError::new(format!(
            "{verdict}\n{}",
            self.controller_logs().await
        )))
    }
}

// === impl Pod ===

impl Pod {
    fn of(pod: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let status = &pod["status"];
        let conditions = status["conditions"].as_array().into_iter().flatten();
        let mut conditions = conditions.filter(|one| one["type"] == "Ready");
        let ready = conditions.next().cloned().unwrap_or_default();
        let lists = ["initContainerStatuses", "containerStatuses"].map(|list| &status[list]);
        let containers = lists.into_iter().filter_map(Value::as_array).flatten();
        let restarts = containers.filter_map(|container| container["restartCount"].as_u64());
        Self {
            name: text(&pod["metadata"]["name"]),
            address: text(&status["podIP"]),
            leaving: !pod["metadata"]["deletionTimestamp"].is_null(),
            ended: status["phase"] == "Succeeded" || status["phase"] == "Failed",
            ready: ready["status"] == "True",
            ready_since: text(&ready["lastTransitionTime"]),
            restarts: restarts.sum(),
        }
    }
}

fn start_nats(node: &Node) -> Outcome<Child> {
    let config = node.folder().join("nats.conf");
    let store = node.folder().join("nats");
    let text = format!(
        "host: 10.88.0.1\nport: 4222\nhttp: \"10.88.0.1:8222\"\njetstream {{ store_dir: \"{}\" }}\n",
        store.display()
    );
    std::fs::write(&config, text)?;
    let program = tool("nats-server")?;
    Ok(node.start_beside(&program, &["-c", &config.display().to_string()], "nats.log")?)
}
