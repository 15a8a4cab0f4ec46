//! What a member answers when it is asked how it is.

use std::time::Duration;

use crate::group::member::HoldView;
use crate::group::{
    Epoch, GroupEpoch, GroupRef, HoldState, Incarnation, MemberId, Partition, Sequence,
    StandbyReason, Standing, Stopped, Timestamp,
};

use super::pump::Pump;

/// A member's state in full.
#[derive(Clone, Debug)]
pub struct Status {
    /// The group.
    pub group: GroupRef,
    /// The member's label.
    pub member_id: MemberId,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// Where it is in its life.
    pub state: WorkerState,
    /// Why it owns nothing, if it stands by.
    pub standby: Option<StandbyReason>,
    /// The newest group document that it has seen.
    pub epoch: GroupEpoch,
    /// How long it may still feed and commit without hearing from NATS.
    pub lease_remaining: Duration,
    /// What it holds.
    pub partitions: Vec<PartitionStatus>,
    /// Its connection.
    pub nats: NatsStatus,
    /// Its application.
    pub app: AppStatus,
    /// What keeps it from working, in sentences; empty when nothing does.
    pub problems: Vec<String>,
}

/// Where a member is in its life, as the application sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerState {
    /// Not yet part of its group.
    Joining,
    /// Healthy, owning nothing.
    Standby,
    /// Owns partitions.
    Active,
    /// Its lease has run out.
    Suspended,
    /// Gives back what it has, or has.
    Draining,
}

/// One partition in this member's hands.
#[derive(Clone, Debug)]
pub struct PartitionStatus {
    /// The partition.
    pub partition: Partition,
    /// The epoch of the ownership.
    pub epoch: Epoch,
    /// What is being done with it.
    pub state: PartitionState,
    /// The next sequence to hand over.
    pub position: Sequence,
    /// The first sequence that is not committed.
    pub committed: Sequence,
    /// Messages in the application's hands.
    pub in_flight: u32,
    /// Messages not yet handed over; none while unknown.
    pub pending: Option<u64>,
    /// Failed attempts of the message at the head.
    pub head_attempts: u32,
    /// Why it stands still.
    pub stopped: Option<Stopped>,
}

/// What a member does with a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionState {
    /// Writing its claim.
    Claiming,
    /// Handing messages over.
    Feeding,
    /// Paused by hand.
    Paused,
    /// Letting go.
    Revoking,
    /// Standing still until somebody acts.
    Stopped,
    /// The lease has run out.
    Suspended,
}

/// The connection to NATS.
#[derive(Clone, Debug, Default)]
pub struct NatsStatus {
    /// Whether it stands.
    pub connected: bool,
    /// The server's name.
    pub server: String,
    /// The server's version.
    pub version: String,
}

/// The application behind a member.
#[derive(Clone, Debug, Default)]
pub struct AppStatus {
    /// Whether it is there now.
    pub connected: bool,
    /// For how long it has been so.
    pub since: Duration,
    /// Its sessions.
    pub sessions: u32,
}

// === impl WorkerState ===

impl WorkerState {
    /// The word of the interface.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Joining => "JOINING",
            Self::Standby => "STANDBY",
            Self::Active => "ACTIVE",
            Self::Suspended => "SUSPENDED",
            Self::Draining => "DRAINING",
        }
    }
}

// === impl PartitionState ===

impl PartitionState {
    /// The word of the interface.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Claiming => "CLAIMING",
            Self::Feeding => "FEEDING",
            Self::Paused => "PAUSED",
            Self::Revoking => "REVOKING",
            Self::Stopped => "STOPPED",
            Self::Suspended => "SUSPENDED",
        }
    }
}

// === impl Pump ===

impl Pump {
    /// The member's state in full.
    pub(super) fn status(&self, now: Timestamp) -> Status {
        let member = &self.member;
        let identity = member.identity();
        let server = self.control.server();
        let (connected, since) = member.application();
        let lease = member.lease_until().unwrap_or(now);
        let views = member.views();
        let mut problems: Vec<String> = self.trouble.iter().cloned().collect();
        problems.extend(member.damage().map(str::to_owned));
        problems.extend(views.iter().filter_map(trouble_of));
        Status {
            group: self.settings.group.clone(),
            member_id: identity.id.clone(),
            incarnation: identity.incarnation.clone(),
            state: self.state(),
            standby: match member.standing() {
                Some(Standing::Standby(reason)) => Some(reason),
                Some(Standing::Active | Standing::Draining) | None => None,
            },
            epoch: member.seen_epoch(),
            lease_remaining: lease.remaining(now),
            partitions: views.into_iter().map(PartitionStatus::from).collect(),
            nats: NatsStatus {
                connected: self.control.is_up(),
                server: server.as_ref().map_or_else(String::new, |s| s.name.clone()),
                version: server.map_or_else(String::new, |s| s.version),
            },
            app: AppStatus {
                connected,
                since: now.since(since),
                sessions: self.sessions.count(),
            },
            problems,
        }
    }

    fn state(&self) -> WorkerState {
        let member = &self.member;
        if member.is_leaving() {
            WorkerState::Draining
        } else if member.standing().is_none() {
            WorkerState::Joining
        } else if member.is_suspended() {
            WorkerState::Suspended
        } else if member.held().next().is_some() {
            WorkerState::Active
        } else {
            WorkerState::Standby
        }
    }
}

fn trouble_of(view: &HoldView) -> Option<String> {
    let trouble = view.trouble.as_ref()?;
    Some(format!("partition {}: {trouble}", view.partition))
}

impl From<HoldView> for PartitionStatus {
    fn from(view: HoldView) -> Self {
        Self {
            partition: view.partition,
            epoch: view.epoch,
            state: match view.state {
                HoldState::Claiming => PartitionState::Claiming,
                HoldState::Feeding => PartitionState::Feeding,
                HoldState::Paused => PartitionState::Paused,
                HoldState::Revoking => PartitionState::Revoking,
                HoldState::Stopped => PartitionState::Stopped,
                HoldState::Suspended => PartitionState::Suspended,
            },
            position: view.position,
            committed: view.committed,
            in_flight: view.in_flight,
            pending: view.pending,
            head_attempts: view.head_attempts,
            stopped: view.stopped,
        }
    }
}
