//! A whole group as processes: a server, coordinators, members (worker and application), a
//! publisher, an auditor; and at the end the judge.
//!
//! Everything lies in one folder: sockets, logs, manifest, histories. A scene that fails says
//! where, with the ends of the logs.

mod manifest;
mod member;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use crate::auditor::{Auditor, Progress, keep_history};
use crate::checker::{Expectations, Verdict, judge};
use crate::children::{self, Child};
use crate::history::{self, Log, Record};
use crate::nats_cluster::NatsCluster;
use crate::nats_server::NatsServer;
use crate::network::Node;
use crate::process::{self, Finished};
use crate::publisher::{Load, Publisher};
use crate::until::until_sync;
use crate::{clock, until};

pub use manifest::Manifest;
pub use member::{Application, Member};

/// Revisions that the bucket keeps per key, so that the auditor misses none.
const HISTORY: i64 = 64;

/// How long a standalone coordinator's silence is tolerated in scenes.
const COORDINATOR_SESSION: &str = "4s";

/// A group of processes. Dropping it kills them all.
#[derive(Debug)]
pub struct Scene {
    /// What the group is.
    pub manifest: Manifest,
    /// The server, or the servers.
    pub servers: NatsCluster,
    /// The coordinators, by name.
    pub coordinators: BTreeMap<String, Child>,
    /// The members, by name.
    pub members: BTreeMap<String, Member>,
    auditor: Auditor,
    publisher: Option<Publisher>,
    events: Log,
    folder: TempDir,
    /// Folders of others that the scene's processes use.
    kept: Vec<TempDir>,
    /// Counts the histories of the stream: another one begins when its sequences mean something
    /// else.
    chapter: u32,
    /// Variables in the environment of workers and coordinators.
    environment: Vec<(String, PathBuf)>,
    /// Whether the bucket may hold what cannot be read.
    garbage: bool,
}

/// A scene could not go on.
pub struct SceneError(String);

/// What a scene's steps give.
pub type Outcome<T> = Result<T, SceneError>;

// === impl SceneError ===

impl SceneError {
    /// A failure in one's own words.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for SceneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The same words, so that a failed test can be read.
impl fmt::Debug for SceneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for SceneError {
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(deeper) = source {
            text = format!("{text}: {deeper}");
            source = deeper.source();
        }
        Self(text)
    }
}

// === impl Scene ===

impl Scene {
    /// A server, an auditor, and a coordinator that has made the group.
    pub async fn start(manifest: Manifest) -> Outcome<Self> {
        Self::start_on(manifest, NatsCluster::of(NatsServer::start().await?)).await
    }

    /// As [`Self::start`], on these servers.
    pub async fn start_on(manifest: Manifest, servers: NatsCluster) -> Outcome<Self> {
        let mut scene = Self::prepare(manifest, servers).await?;
        scene.add_coordinator("c1")?;
        scene.group_exists().await?;
        Ok(scene)
    }

    /// Servers and an auditor; nobody has made the group yet.
    pub async fn prepare(manifest: Manifest, mut servers: NatsCluster) -> Outcome<Self> {
        let folder = tempfile::Builder::new()
            .prefix("lockstep-scene-")
            .tempdir()?;
        std::fs::create_dir(folder.path().join("history"))?;
        std::fs::write(folder.path().join("group.yaml"), manifest.yaml())?;
        let histories = folder.path().join("history");
        let client = servers.connect_as(&Node::witness("auditor")).await?;
        let auditor = Auditor::start(client, &manifest.bucket(), &histories.join("bucket.jsonl"))?;
        let events = Log::open(&histories.join("events.jsonl"))?;
        Ok(Self {
            manifest,
            servers,
            coordinators: BTreeMap::new(),
            members: BTreeMap::new(),
            auditor,
            publisher: None,
            events,
            folder,
            kept: Vec::new(),
            chapter: 1,
            environment: Vec::new(),
            garbage: false,
        })
    }

    /// What the process of this name is to connect to.
    fn url_of(&mut self, name: &str) -> Outcome<String> {
        Ok(self.servers.urls_for(&Node::client(name))?.join(","))
    }

    /// A file or folder of the scene.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts a coordinator of this name, which makes the group if it is missing.
    pub fn add_coordinator(&mut self, name: &str) -> Outcome<()> {
        self.start_coordinator(name, "--create")
    }

    /// Starts a coordinator that begins anew where state was lost.
    pub fn accept_state_loss(&mut self, name: &str) -> Outcome<()> {
        self.start_coordinator(name, "--accept-state-loss")
    }

    fn start_coordinator(&mut self, name: &str, missing: &str) -> Outcome<()> {
        let manifest = self.path("group.yaml").display().to_string();
        let url = self.url_of(name)?;
        let arguments = [
            "coordinator",
            missing,
            "--id",
            name,
            "--session-timeout",
            COORDINATOR_SESSION,
            "--nats-url",
            &url,
            &manifest,
        ];
        let log = self.path(&format!("{name}.log"));
        let child = process::start_lockstep_with(&arguments, &borrowed(&self.environment), &log)?;
        self.coordinators.insert(name.to_owned(), child);
        Ok(())
    }

    /// Waits until the bucket is there, and makes it keep history.
    pub async fn group_exists(&mut self) -> Outcome<()> {
        let client = self.servers.connect_as(&Node::witness("auditor")).await?;
        let bucket = self.manifest.bucket();
        let logs = self.logs();
        let made = until("bucket", Duration::from_secs(20), async || {
            keep_history(&client, &bucket, HISTORY).await
        });
        made.await
            .map_err(|late| SceneError(format!("{late}\n{}", tails(&logs))))
    }

    /// Starts a worker of this name with an application behind it.
    pub fn add_member(&mut self, name: &str, application: Application) -> Outcome<()> {
        self.add_twin(name, name, application)
    }

    /// Starts another process that claims to be the member `id`; `name` is ours for it.
    pub fn add_twin(&mut self, name: &str, id: &str, application: Application) -> Outcome<()> {
        let group = self.manifest.name.clone();
        let place = member::Place {
            group,
            url: self.url_of(name)?,
            folder: self.path(""),
            environment: self.environment.clone(),
        };
        let member = Member::start(name, id, place, application)?;
        self.members.insert(name.to_owned(), member);
        Ok(())
    }

    /// The member of this name.
    pub fn member(&mut self, name: &str) -> Outcome<&mut Member> {
        let unknown = || SceneError(format!("the scene has no member {name}"));
        self.members.get_mut(name).ok_or_else(unknown)
    }

    /// SIGTERM to the worker, waits for its clean end, and then ends the application.
    pub async fn remove_member(&mut self, name: &str) -> Outcome<()> {
        let mut member = self
            .members
            .remove(name)
            .ok_or_else(|| SceneError::new(name))?;
        member.leave().await
    }

    /// Publishes keyed orders at this rate until [`Self::stop_publishing`].
    pub async fn publish(&mut self, keys: usize, rate: u32) -> Outcome<()> {
        self.publish_as("customer", keys, rate).await
    }

    /// Publishes orders of other customers, `<prefix>-0`, `<prefix>-1`, …
    pub async fn publish_as(&mut self, prefix: &str, keys: usize, rate: u32) -> Outcome<()> {
        let load = Load {
            stream: self.manifest.stream.clone(),
            subject: self.manifest.subject.clone(),
            partitions: self.manifest.partitions,
            keys: (0..keys).map(|key| format!("{prefix}-{key}")).collect(),
            rate,
        };
        let client = self.servers.connect_as(&Node::witness("publisher")).await?;
        let log = self.published_log();
        self.publisher = Some(Publisher::start(client, load, &log)?);
        Ok(())
    }

    /// Waits until so many messages in all are published.
    pub async fn published(&self, count: u64) {
        if let Some(publisher) = &self.publisher {
            publisher.reached(count).await;
        }
    }

    /// Lets the load run for some more messages: time measured in work, not in sleep.
    pub async fn published_more(&self, count: u64) {
        let now = self.publisher.as_ref().map_or(0, Publisher::count);
        self.published(now + count).await;
    }

    /// Stops the publisher; how many messages it published.
    pub async fn stop_publishing(&mut self) -> Outcome<u64> {
        match self.publisher.take() {
            Some(publisher) => Ok(publisher.stop().await?),
            None => Ok(0),
        }
    }

    /// Notes an event in the history.
    pub fn note(&mut self, name: &str) -> Outcome<()> {
        let record = Record::Event {
            name: name.to_owned(),
            at: clock::boottime_ns(),
        };
        Ok(self.events.write(&record)?)
    }

    /// What the bucket says, as the auditor has read it.
    pub fn progress(&self) -> Progress {
        self.auditor.progress()
    }

    /// Waits until the auditor's view of the group satisfies a condition.
    pub async fn bucket_shows(
        &self,
        what: &str,
        within: Duration,
        condition: impl Fn(&Progress) -> bool,
    ) -> Outcome<Progress> {
        let logs = self.logs();
        let shown = until_sync(what, within, || {
            let progress = self.progress();
            if condition(&progress) {
                Ok(progress)
            } else {
                Err(summary(&progress))
            }
        });
        shown
            .await
            .map_err(|late| SceneError(format!("{late}\n{}", tails(&logs))))
    }

    /// Waits until each of these members owns at least one partition, nobody else owns any, and
    /// no partition is without its target.
    pub async fn settles_on(&self, members: &[&str], within: Duration) -> Outcome<()> {
        let what = format!("assignment to {members:?}");
        self.bucket_shows(&what, within, |progress| is_settled_on(progress, members))
            .await?;
        Ok(())
    }

    /// Waits until this many members own partitions.
    pub async fn settles(&self, members: usize, within: Duration) -> Outcome<()> {
        let names: Vec<&str> = self
            .members
            .keys()
            .map(String::as_str)
            .take(members)
            .collect();
        self.settles_on(&names, within).await
    }

    /// Waits until everything published is committed, but for these partitions.
    pub async fn all_committed_but(&self, stopped: &[u32], within: Duration) -> Outcome<()> {
        let records = history::read(&self.published_log())?;
        let mut last = history::last_published(&records);
        last.retain(|partition, _| !stopped.contains(partition));
        let done = |progress: &Progress| progress.has_committed(&last);
        self.bucket_shows("commit of everything", within, done)
            .await?;
        Ok(())
    }

    /// Waits until everything published is committed.
    pub async fn all_committed(&self, within: Duration) -> Outcome<()> {
        self.all_committed_but(&[], within).await
    }

    /// From now on the stream's sequences mean something else: what is published from here on is
    /// another chapter. Stop publishing first.
    pub fn turn_the_page(&mut self) {
        self.chapter += 1;
    }

    fn published_log(&self) -> PathBuf {
        match self.chapter {
            1 => self.path("history/published.jsonl"),
            chapter => self.path(&format!("history/published-{chapter}.jsonl")),
        }
    }

    /// Follows another bucket, in place of the one that was there. Its revisions count on.
    pub async fn audit_anew(&mut self) -> Outcome<u64> {
        let client = self.servers.connect_as(&Node::witness("auditor")).await?;
        let log = self.path("history/bucket.jsonl");
        let before = self.progress().revision;
        self.auditor = Auditor::start_after(before, client, &self.manifest.bucket(), &log)?;
        Ok(before)
    }

    /// Workers and coordinators that start from now on have these variables.
    pub fn set_environment(&mut self, environment: Vec<(String, PathBuf)>) {
        self.environment = environment;
    }

    /// From now on the bucket may hold what cannot be read.
    pub fn allow_garbage(&mut self) {
        self.garbage = true;
    }

    /// Writes the manifest anew, for coordinators that start from now on.
    pub fn rewrite_manifest(&self) -> Outcome<()> {
        Ok(std::fs::write(
            self.path("group.yaml"),
            self.manifest.yaml(),
        )?)
    }

    /// Judges the chapter that ended at this time, and the one that goes on.
    pub fn judge_chapters(
        &self,
        ended: u64,
        expect: (&Expectations, &Expectations),
    ) -> Outcome<(Verdict, Verdict)> {
        let second = history::read(&self.published_log())?;
        let all = history::read_folder(&self.path("history"))?;
        let (before, after) = history::split(all, &second, ended);
        Ok((judge(&before, expect.0), judge(&after, expect.1)))
    }

    /// Judges what was written so far.
    pub fn judge(&self, expect: &Expectations) -> Outcome<Verdict> {
        let odd = self.progress().odd;
        if !odd.is_empty() && !self.garbage {
            return Err(SceneError(format!(
                "the bucket holds what cannot be read: {odd:?}"
            )));
        }
        Ok(judge(&history::read_folder(&self.path("history"))?, expect))
    }

    /// The usual end: the load stops, everything is committed, and the verdict has to be good.
    pub async fn ends_well(&mut self, expect: &Expectations) -> Outcome<Verdict> {
        self.stop_publishing().await?;
        self.all_committed(Duration::from_secs(60)).await?;
        self.verdict_is_good(expect)
    }

    /// The verdict, or an error with the verdict and the ends of all logs.
    pub fn verdict_is_good(&self, expect: &Expectations) -> Outcome<Verdict> {
        let verdict = self.judge(expect)?;
        if verdict.passed {
            return Ok(verdict);
        }
        Err(SceneError(format!("{verdict}\n{}", tails(&self.logs()))))
    }

    /// Runs a `lockstep` command against the scene's server.
    pub async fn lockstep(&self, arguments: &[&str]) -> Outcome<Finished> {
        let url = self.servers.url();
        let mut all = arguments.to_vec();
        all.extend(["--nats-url", &url]);
        Ok(process::run_lockstep(&all).await?)
    }

    /// `lockstep group describe -o json`.
    pub async fn describe(&self) -> Outcome<serde_json::Value> {
        let arguments = ["group", "describe", &self.manifest.name, "-o", "json"];
        let finished = self.lockstep(&arguments).await?;
        if finished.code != Some(0) {
            return Err(SceneError(format!(
                "group describe failed: {}",
                finished.stderr
            )));
        }
        Ok(serde_json::from_str(&finished.stdout)?)
    }

    /// All log files of processes.
    pub fn logs(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.folder.path())
            .into_iter()
            .flatten()
            .flatten();
        let paths = entries.map(|entry| entry.path());
        let mut logs: Vec<PathBuf> = paths
            .filter(|path| path.extension().is_some_and(|ext| ext == "log"))
            .collect();
        logs.extend(self.servers.servers.iter().map(NatsServer::log));
        logs.sort();
        logs
    }

    /// Keeps a folder for as long as the scene lasts.
    pub fn keep_with(&mut self, folder: TempDir) {
        self.kept.push(folder);
    }

    /// The ends of all logs.
    pub fn tails(&self) -> String {
        tails(&self.logs())
    }

    /// Leaves the folder where it is, for people to look at; its path.
    pub fn keep_folder(&mut self) -> PathBuf {
        self.folder.disable_cleanup(true);
        self.folder.path().to_owned()
    }
}

fn borrowed(environment: &[(String, PathBuf)]) -> Vec<(&str, &Path)> {
    let borrowed = environment.iter();
    borrowed
        .map(|(name, value)| (name.as_str(), value.as_path()))
        .collect()
}

fn tails(logs: &[PathBuf]) -> String {
    let tails: Vec<String> = logs.iter().map(|path| children::tail(path)).collect();
    tails.join("\n")
}

fn summary(progress: &Progress) -> String {
    let document = progress.document.as_ref();
    let reason = document.map_or("no document", |document| document.reason.as_str());
    let members: Vec<String> = document
        .iter()
        .flat_map(|document| document.members.values())
        .map(|entry| format!("{} {:?}", entry.id, entry.standing))
        .collect();
    format!(
        "committed {:?}, owners {:?}, epochs {:?}, members {members:?}, stopped {:?} ({reason})",
        progress.committed,
        progress.owners(),
        progress.epochs(),
        progress.stopped
    )
}

fn is_settled_on(progress: &Progress, members: &[&str]) -> bool {
    let owners: BTreeSet<String> = progress.owners().into_values().collect();
    let wanted: BTreeSet<String> = members.iter().map(|name| (*name).to_owned()).collect();
    progress.is_settled() && owners == wanted
}
