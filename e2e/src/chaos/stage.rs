//! A group under load, that faults strike.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::api;
use super::disk::Disks;
use super::wall_clock::WallClock;
use crate::auditor::Progress;
use crate::checker::{Expectations, Verdict};
use crate::nats_server::Options;
use crate::network::Node;
use crate::scene::{Application, Manifest, Outcome, SceneError};
use crate::until::until_sync;
use crate::{NatsCluster, Scene, history};

/// How long the group may take to be itself again: elections, a session, the pace of moves for
/// balance, and a busy machine.
pub(super) const RECOVERED: Duration = Duration::from_secs(90);

/// How long something may take that does not wait for an election.
pub(super) const SOON: Duration = Duration::from_secs(45);

/// Keys of the load.
const KEYS: usize = 24;

/// Messages per second of the load.
const RATE: u32 = 60;

/// The members that a stage begins with.
const MEMBERS: [&str; 3] = ["w1", "w2", "w3"];

/// How many servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Servers {
    /// A single one; streams with one replica.
    One,
    /// Three; streams with three replicas.
    Three,
}

/// What a stage is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its servers.
    pub servers: Servers,
    /// `delivery.maxInFlight`.
    pub window: u32,
    /// Whether servers live on small disks of their own.
    pub small_disks: bool,
    /// Whether the stream was made by somebody else, without a limit of consumers of its own.
    pub foreign_stream: bool,
    /// How many partitions.
    pub partitions: u32,
}

/// A scene, and what may be expected of it so far.
#[derive(Debug)]
pub struct Stage {
    /// The processes.
    pub scene: Scene,
    /// What it is like.
    pub setting: Setting,
    /// What the judge will be told.
    pub expect: Expectations,
    /// Where the sequences of the stream began to mean something else: when the chapter before that
    /// ended, and what may be expected of it.
    pub first_chapter: Option<(history::At, Expectations)>,
    /// Somebody with the `nats` command line.
    pub admin: async_nats::Client,
    /// The wall clock of workers and coordinators.
    pub wall_clock: WallClock,
    /// The servers' small disks, if they have any.
    pub disks: Option<Disks>,
    /// Processes that were started so far, for names of new ones.
    started: u32,
}

// === impl Servers ===

impl Servers {
    /// Their number.
    pub fn count(self) -> usize {
        match self {
            Self::One => 1,
            Self::Three => 3,
        }
    }
}

// === impl Setting ===

impl Setting {
    /// Servers and a window; nothing else out of the ordinary.
    pub fn new(servers: Servers, window: u32) -> Self {
        Self {
            servers,
            window,
            small_disks: false,
            foreign_stream: false,
            partitions: 6,
        }
    }

    fn manifest(&self) -> Manifest {
        Manifest {
            replicas: u32::try_from(self.servers.count()).unwrap_or(1),
            max_in_flight: self.window,
            partitions: self.partitions,
            max_members: 200,
            heartbeat_interval: if self.partitions > 20 {
                "1500ms"
            } else {
                "500ms"
            }
            .to_owned(),
            create_stream: !self.foreign_stream,
            ..Manifest::default()
        }
    }

    fn expect(&self) -> Expectations {
        Expectations {
            in_flight: self.window.into(),
            uncommitted: 500,
            ..Expectations::default()
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "R{}, window {}", self.servers.count(), self.window)
    }
}

// === impl Stage ===

impl Stage {
    /// Servers, two coordinators, three members that all own something, and a load.
    pub async fn open(setting: Setting) -> Outcome<Self> {
        let folder = tempfile::Builder::new()
            .prefix("lockstep-stage-")
            .tempdir()?;
        let count = setting.servers.count();
        let disks = if setting.small_disks {
            Some(Disks::mount(folder.path(), count).await?)
        } else {
            None
        };
        let options = |index| {
            disks
                .as_ref()
                .map_or_else(Options::default, |d| d.options(index))
        };
        let options = (0..count).map(options).collect();
        let mut servers = NatsCluster::divisible(count, options).await?;
        let admin = servers.connect_as(&Node::witness("admin")).await?;
        if setting.foreign_stream {
            make_stream(&admin, &setting).await?;
        }
        let mut scene = Scene::prepare(setting.manifest(), servers).await?;
        let wall_clock = WallClock::build(&scene.path(""))?;
        scene.set_environment(wall_clock.environment());
        scene.keep_with(folder);
        let mut stage = Self {
            expect: setting.expect(),
            first_chapter: None,
            scene,
            setting,
            admin,
            wall_clock,
            disks,
            started: 0,
        };
        stage.people().await?;
        Ok(stage)
    }

    async fn people(&mut self) -> Outcome<()> {
        self.scene.add_coordinator("c1")?;
        self.scene.group_exists().await?;
        self.scene.add_coordinator("c2")?;
        for member in MEMBERS {
            self.scene.add_member(member, Application::Ok)?;
        }
        self.scene.settles_on(&MEMBERS, SOON).await?;
        self.scene.publish(KEYS, RATE).await?;
        self.scene.published(60).await;
        Ok(())
    }

    /// A member that owns partitions, so that what happens to it matters.
    pub fn an_owner(&self) -> Outcome<String> {
        let owners: BTreeSet<String> = self.scene.progress().owners().into_values().collect();
        let mut known = owners
            .into_iter()
            .filter(|name| self.scene.members.contains_key(name));
        known
            .next()
            .ok_or_else(|| self.failed("nobody owns anything"))
    }

    /// A name that no process of the stage had before.
    pub fn new_name(&mut self, prefix: &str) -> String {
        self.started += 1;
        format!("{prefix}{}", self.started)
    }

    /// The name of the group's bucket as a stream.
    pub fn bucket(&self) -> String {
        format!("KV_{}", self.scene.manifest.bucket())
    }

    /// The name of the data stream.
    pub fn stream(&self) -> String {
        self.scene.manifest.stream.clone()
    }

    /// Lets the fault last: its length is part of what it is.
    pub async fn lasts(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Waits until nothing belongs to these members.
    pub async fn owned_by_others(&self, gone: &[&str]) -> Outcome<()> {
        let others = |now: &Progress| {
            let owners: BTreeSet<String> = now.owners().into_values().collect();
            now.is_settled() && gone.iter().all(|name| !owners.contains(*name))
        };
        let what = format!("owners other than {gone:?}");
        self.scene.bucket_shows(&what, RECOVERED, others).await?;
        Ok(())
    }

    /// Waits until the group is itself again: every partition has its owner, and what is published
    /// from now on is committed soon after.
    pub async fn goes_on(&self) -> Outcome<()> {
        self.scene.published_more(u64::from(RATE) / 2).await;
        let settled = self
            .scene
            .bucket_shows("owners for all", RECOVERED, Progress::is_settled);
        settled.await?;
        self.scene.all_committed(RECOVERED).await
    }

    /// Waits until coordinators have said this more often than so many times.
    pub async fn coordinators_say(&self, text: &str, times: usize) -> Outcome<()> {
        self.more_often(text, times, || self.said(text)).await
    }

    /// Waits until workers have said this more often than so many times.
    pub async fn members_say(&self, text: &str, times: usize) -> Outcome<()> {
        self.more_often(text, times, || self.members_said(text))
            .await
    }

    async fn more_often(&self, text: &str, times: usize, count: impl Fn() -> usize) -> Outcome<()> {
        let said = until_sync(format!("word of {text}"), SOON, || match count() {
            now if now > times => Ok(()),
            now => Err(format!("said {now} times")),
        });
        said.await.map_err(|late| self.failed(late))
    }

    /// How often coordinators have said this so far.
    pub fn said(&self, text: &str) -> usize {
        self.coordinator_logs().matches(text).count()
    }

    fn coordinator_logs(&self) -> String {
        self.logs_of(self.scene.coordinators.keys())
    }

    fn logs_of<'a>(&self, names: impl Iterator<Item = &'a String>) -> String {
        let paths = names.map(|name| self.scene.path(&format!("{name}.log")));
        paths
            .filter_map(|path| std::fs::read_to_string(path).ok())
            .collect()
    }

    /// Hand-overs to applications later than this.
    pub fn seen_after(&self, at: history::At) -> Outcome<Vec<history::Record>> {
        let mut records = history::read_folder(&self.scene.path("history"))?;
        records.retain(
            |record| matches!(record, history::Record::Seen { at: then, .. } if *then > at),
        );
        Ok(records)
    }

    /// The load stops, everything is committed, and the verdict is good.
    pub async fn ends_well(&mut self) -> Outcome<Verdict> {
        self.scene.stop_publishing().await?;
        self.scene.all_committed(RECOVERED).await?;
        let Some((ended, first)) = &self.first_chapter else {
            return self.scene.verdict_is_good(&self.expect);
        };
        let (before, after) = self.scene.judge_chapters(*ended, (first, &self.expect))?;
        if before.passed && after.passed {
            return Ok(after);
        }
        Err(self.failed(format!(
            "first chapter:\n{before}\nsecond chapter:\n{after}"
        )))
    }

    /// How many grants followed a death so far.
    pub fn unclean_grants(&self) -> Outcome<usize> {
        let records = history::read(&self.scene.path("history/bucket.jsonl"))?;
        let unclean = records
            .iter()
            .filter(|record| matches!(record, history::Record::Granted { unclean: true, .. }));
        Ok(unclean.count())
    }

    /// An error if anything was granted after a death since then.
    pub fn no_death_since(&self, unclean: usize, what: &str) -> Outcome<()> {
        if self.unclean_grants()? == unclean {
            return Ok(());
        }
        Err(self.failed(format!("{what} was taken for somebody's death")))
    }

    /// How often workers have said this so far.
    pub fn members_said(&self, text: &str) -> usize {
        self.logs_of(self.scene.members.keys())
            .matches(text)
            .count()
    }

    /// Leaves everything where it is, for people to look at; where.
    pub fn keep_folder(&mut self) -> PathBuf {
        self.scene.keep_folder()
    }

    /// An error with the ends of all logs.
    pub fn failed(&self, text: impl fmt::Display) -> SceneError {
        SceneError::new(format!("{text}\n{}", self.scene.tails()))
    }
}

/// The stream that Lockstep would make, but for the limit of consumers.
async fn make_stream(admin: &async_nats::Client, setting: &Setting) -> Outcome<()> {
    let Manifest {
        stream, subject, ..
    } = Manifest::default();
    let partitions = setting.partitions;
    let config = serde_json::json!({
        "name": stream,
        "subjects": [format!("{subject}.*")],
        "retention": "limits", "storage": "file", "num_replicas": setting.servers.count(),
        "subject_transform": {
            "src": format!("{subject}.*"),
            "dest": format!("{subject}.{{{{partition({partitions},1)}}}}.{{{{wildcard(1)}}}}"),
        },
    });
    api::demand(admin, &format!("STREAM.CREATE.{stream}"), &config).await?;
    Ok(())
}
