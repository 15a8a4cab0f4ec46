//! All groups of one process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::group_task::GroupTask;
use super::provision::{self, Call, Change, ProvisionError, Provisioned, Terms};
use super::report::{GroupStatus, Phase, Report};
use super::single::Knowledge;
use crate::clock;
use crate::crd::ValidGroup;
use crate::group::assignor::Assignor;
use crate::group::{BucketId, GroupRef, ServerTime};
use crate::metrics::CoordinatorMetrics;
use crate::nats::{Bucket, CheckError, Connection, ConnectionEvent, Remedy, Standing};
use crate::tasks::Tasks;

/// The wait between attempts to provide the groups.
const BETWEEN_ATTEMPTS: Duration = Duration::from_secs(1);

/// How long a server may take before it is said that none answers.
const PATIENCE: Duration = Duration::from_secs(3);

/// An election in JetStream alone blocks writes for 4 to 8 s, and a heartbeat must fit after it.
pub const LEAST_SESSION_IN_PRODUCTION: Duration = Duration::from_secs(12);

/// A candidate beats at least this often within its session timeout.
const BEATS_PER_SESSION: u32 = 8;

/// One that was elected elsewhere beats this often in a group that has no members.
const IDLE_BEATS_PER_SESSION: u32 = 2;

/// A candidate beats at least this often.
const LONGEST_INTERVAL: Duration = Duration::from_secs(2);

/// How this process coordinates.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its label.
    pub id: String,
    /// The live candidate with the highest (priority, id) tries first.
    pub priority: i32,
    /// Silence of a holder after which another candidate takes over.
    pub session_timeout: Duration,
    /// Whose groups these are, and what may be made for them.
    pub terms: Terms,
    /// An election outside NATS says that this process tries: it does not wait for the holder's
    /// silence.
    pub elected: bool,
}

/// The coordinators of some groups, in one process.
#[derive(Clone, Debug)]
pub struct Coordinator {
    settings: Settings,
    connection: Connection,
    report: Report,
    assignor: Option<Arc<dyn Assignor>>,
}

/// Why the groups are not coordinated.
#[derive(Debug, thiserror::Error)]
pub enum CoordinatorError {
    /// The server cannot be used.
    #[error(transparent)]
    Server(#[from] CheckError),
    /// A group cannot be provided.
    #[error(transparent)]
    Provision(#[from] ProvisionError),
}

// === impl Settings ===

impl Settings {
    /// Time between the candidate's beats.
    pub fn heartbeat_interval(&self) -> Duration {
        (self.session_timeout / BEATS_PER_SESSION).min(LONGEST_INTERVAL)
    }

    /// The same while nobody is in the group: then the beats time nothing, and only have to come back
    /// before this candidate takes itself for cut off. // P40
    ///
    /// Who was not elected elsewhere is known to be alive by them alone, and keeps them up. // P35
    pub(super) fn idle_interval(&self) -> Duration {
        if self.elected {
            self.session_timeout / IDLE_BEATS_PER_SESSION
        } else {
            self.heartbeat_interval()
        }
    }
}

// === impl CoordinatorError ===

impl CoordinatorError {
    /// What this calls for.
    pub fn calls_for(&self) -> Call {
        match self {
            Self::Server(error) => match error.remedy() {
                Remedy::Retry | Remedy::Observe => Call::Retry,
                Remedy::AskOperator => Call::Person,
            },
            Self::Provision(error) => error.calls_for(),
        }
    }
}

// === impl Coordinator ===

impl Coordinator {
    /// A coordinator that has done nothing yet.
    pub fn new(
        settings: Settings,
        connection: Connection,
        groups: &[ValidGroup],
        metrics: CoordinatorMetrics,
    ) -> Self {
        let names = groups.iter().map(|group| group.group.clone());
        Self {
            report: Report::new(names, metrics),
            settings,
            connection,
            assignor: None,
        }
    }

    /// Assigns partitions with this in place of what the groups' settings name: for a program that
    /// runs the coordinator itself. Every candidate of a group has to use the same.
    #[must_use]
    pub fn with_assignor(mut self, assignor: impl Assignor + 'static) -> Self {
        self.assignor = Some(Arc::new(assignor));
        self
    }

    /// How each group is.
    pub fn statuses(&self) -> BTreeMap<GroupRef, GroupStatus> {
        self.report.statuses()
    }

    /// Whether the server is there.
    pub fn is_connected(&self) -> bool {
        self.connection.is_up()
    }

    /// Waits until every group is watched, or stopped with a trouble.
    pub async fn ready(&self) {
        self.report.all_beyond(Phase::Starting).await;
    }

    /// Coordinates the groups until told to stop. What speaks against any of them is said before
    /// anything is changed; as long as the server is away it is waited for.
    pub async fn run(
        &self,
        groups: &[ValidGroup],
        stopping: CancellationToken,
    ) -> Result<(), CoordinatorError> {
        let watcher = Tasks::new();
        let it = self.clone();
        watcher.spawn("connection", |stop| it.watch_the_connection(stop));
        let provided = tokio::select! {
            () = stopping.cancelled() => None,
            provided = self.provide_all(groups) => Some(provided),
        };
        let ended = match provided {
            None => Ok(()),
            Some(Err(error)) => Err(error),
            Some(Ok(provided)) => {
                self.coordinate(provided, &stopping).await;
                Ok(())
            }
        };
        watcher.stop().await;
        self.connection.close().await;
        ended
    }

    async fn coordinate(&self, provided: Vec<Provided>, stopping: &CancellationToken) {
        let tasks = Tasks::new();
        let nothing_known = tokio::sync::watch::Sender::new(Knowledge::default());
        for it in provided {
            let span = tracing::info_span!(
                "group",
                namespace = %it.group.namespace,
                group = %it.group.name
            );
            let task = GroupTask {
                settings: self.settings.clone(),
                group: it.group,
                connection: self.connection.clone(),
                bucket: it.bucket,
                id: it.id,
                created: it.created,
                report: self.report.clone(),
                assignor: self.assignor.clone(),
                knowledge: nothing_known.subscribe(),
            };
            tasks.spawn_vital("coordinator", |stop| task.run(stop).instrument(span));
        }
        tokio::select! {
            () = stopping.cancelled() => {}
            () = tasks.stopping().cancelled_owned() => {}
        }
        tasks.stop().await;
    }

    /// Looks at all groups, then provides them.
    async fn provide_all(&self, groups: &[ValidGroup]) -> Result<Vec<Provided>, CoordinatorError> {
        let mut told = String::new();
        loop {
            match self.try_to_provide(groups).await {
                Ok(provided) => return Ok(provided),
                Err(error) if error.calls_for() == Call::Retry => {
                    let why = error.to_string();
                    if why != told {
                        tracing::warn!(why, "the groups cannot be provided yet; trying again");
                        told = why;
                    }
                    tokio::time::sleep(BETWEEN_ATTEMPTS).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn try_to_provide(
        &self,
        groups: &[ValidGroup],
    ) -> Result<Vec<Provided>, CoordinatorError> {
        self.connection.check_version().await?;
        for group in groups {
            match provision::inspect(&self.connection, &self.settings.terms, group).await {
                Ok(()) | Err(ProvisionError::MetaDamaged { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut provided = Vec::new();
        for group in groups {
            provided.push(self.provide(group).await?);
        }
        Ok(provided)
    }

    /// Provides one group. A description that cannot be read stops this group alone, as its task
    /// will say; the others run. // P14
    async fn provide(&self, group: &ValidGroup) -> Result<Provided, CoordinatorError> {
        let terms = &self.settings.terms;
        let (bucket, facts) = match provision::provide(&self.connection, terms, group).await {
            Ok(made) => {
                tell(group, &made);
                (made.bucket, made.facts)
            }
            Err(ProvisionError::MetaDamaged { .. }) => {
                let name = group.group.bucket_name(&terms.prefix);
                let opened = Bucket::open(&self.connection, &name).await;
                opened.map_err(ProvisionError::Bucket)?
            }
            Err(error) => return Err(error.into()),
        };
        let id = facts.id.ok_or_else(|| ProvisionError::ForeignBucket {
            bucket: bucket.name().to_owned(),
        })?;
        Ok(Provided {
            group: group.group.clone(),
            bucket,
            id,
            created: facts.created,
        })
    }

    /// Says once that the server is away, and once that it is back.
    async fn watch_the_connection(self, stopping: CancellationToken) {
        let mut events = self.connection.events();
        let connected = &self.report.metrics().nats_connected;
        connected.set(i64::from(self.connection.is_up()));
        let mut patience = Some(clock::now().after(PATIENCE));
        loop {
            let event = tokio::select! {
                () = stopping.cancelled() => return,
                () = clock::until(patience) => {
                    patience = None;
                    if let Standing::Down { why } = self.connection.standing() {
                        let why = why.unwrap_or_default();
                        tracing::warn!(why, "NATS cannot be reached; trying on");
                    }
                    continue;
                }
                event = events.recv() => event,
            };
            match event {
                Ok(ConnectionEvent::Connected) => {
                    connected.set(1);
                    tracing::info!("connected to NATS");
                }
                Ok(ConnectionEvent::Disconnected) => {
                    connected.set(0);
                    tracing::warn!("NATS is away; members go on, membership changes wait");
                }
                Ok(ConnectionEvent::SlowConsumer) => tracing::warn!("messages were dropped"),
                Ok(ConnectionEvent::Complaint(text)) => tracing::debug!(text, "NATS complains"),
                Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => {}
                Err(tokio::sync::broadcast::error::RecvError::Closed) => return,
            }
        }
    }
}

/// A group whose bucket is there.
struct Provided {
    group: GroupRef,
    bucket: Bucket,
    id: BucketId,
    created: ServerTime,
}

fn tell(group: &ValidGroup, made: &Provisioned) {
    let ignored = group.ignored_without_kubernetes();
    if !ignored.is_empty() {
        tracing::info!(group = %group.group, ?ignored, "fields without effect outside Kubernetes");
    }
    let session_timeout = group.membership.session_timeout;
    if session_timeout < LEAST_SESSION_IN_PRODUCTION {
        tracing::warn!(group = %group.group, ?session_timeout, "a session timeout below 12s");
    }
    for what in &made.repaired {
        tracing::warn!(group = %group.group, what, "changed by somebody, put right");
    }
    for what in &made.drift {
        tracing::warn!(group = %group.group, what, "changed by somebody, and cannot be put right");
    }
    for stream in &made.gone {
        tracing::warn!(group = %group.group, stream, "StreamNotFound: the stream is gone");
    }
    for what in &made.renewed {
        tracing::warn!(group = %group.group, what, "StreamRecreated: an origin is another one");
    }
    for what in &made.warnings {
        tracing::debug!(group = %group.group, what, "a property of a stream");
    }
    match made.change {
        Change::Nothing => {}
        Change::Made => tracing::info!(group = %group.group, "group made"),
        Change::Adopted(generation) => {
            tracing::info!(group = %group.group, %generation, "an earlier group's state taken over");
        }
        Change::Updated(generation) => {
            tracing::info!(group = %group.group, %generation, "settings updated");
        }
    }
}
