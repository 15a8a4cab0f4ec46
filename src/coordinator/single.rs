//! One group's coordinator that can be started and stopped while others run: what a controller
//! drives.

use std::collections::BTreeSet;

use tokio::sync::watch;
use tracing::Instrument;

use super::group_task::GroupTask;
use super::provision::Provisioned;
use super::report::{GroupStatus, Report};
use super::run::Settings;
use crate::group::{GroupEpoch, GroupRef};
use crate::metrics::CoordinatorMetrics;
use crate::nats::Connection;
use crate::tasks::Tasks;

/// What is known of a group from outside its bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Knowledge {
    /// Uids of pods that were seen to run and then seen to end gracefully. // P48
    pub gone_pods: BTreeSet<String>,
    /// How many members are meant to be there: ends the initial delay early.
    pub declared_replicas: Option<u32>,
    /// Members that are to give their partitions up, by their ids.
    pub asked_to_leave: BTreeSet<String>,
    /// An edition of the document that was seen before. // P71a
    pub known_epoch: GroupEpoch,
}

/// The running coordinator of one group.
#[derive(Debug)]
pub struct GroupCoordinator {
    group: GroupRef,
    report: Report,
    knowledge: watch::Sender<Knowledge>,
    tasks: Tasks,
}

// === impl GroupCoordinator ===

impl GroupCoordinator {
    /// Starts to coordinate a group that is provided.
    pub fn start(
        settings: Settings,
        connection: Connection,
        provided: &Provisioned,
        metrics: CoordinatorMetrics,
    ) -> Self {
        let group = provided.group.clone();
        let report = Report::new(std::iter::once(group.clone()), metrics);
        let knowledge = watch::Sender::new(Knowledge::default());
        let tasks = Tasks::new();
        let span = tracing::info_span!(parent: None, "group", namespace = %group.namespace, group = %group.name);
        let task = GroupTask {
            settings,
            group: group.clone(),
            connection,
            bucket: provided.bucket.clone(),
            id: provided.meta.bucket.clone(),
            created: provided.facts.created,
            report: report.clone(),
            assignor: None,
            knowledge: knowledge.subscribe(),
        };
        tasks.spawn_vital("coordinator", |stop| task.run(stop).instrument(span));
        Self {
            group,
            report,
            knowledge,
            tasks,
        }
    }

    /// How the group is.
    pub fn status(&self) -> GroupStatus {
        let mut statuses = self.report.statuses();
        statuses.remove(&self.group).unwrap_or_default()
    }

    /// Fires whenever the status changes.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.report.changes()
    }

    /// Tells the coordinator what is known from outside.
    pub fn tell(&self, learn: impl FnOnce(&mut Knowledge)) {
        self.knowledge.send_if_modified(|knowledge| {
            let before = knowledge.clone();
            learn(knowledge);
            *knowledge != before
        });
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&self) -> bool {
        self.tasks.stopping().is_cancelled()
    }

    /// Stops, and lets the next candidate take over at once.
    pub async fn stop(&self) {
        self.tasks.stop().await;
        self.report.forget(&self.group);
    }
}
