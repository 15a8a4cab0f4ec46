//! What the coordinator asks the streams about a group's lag, from time to time: how much is left of
//! partitions that have no owner to say it, how old the oldest message is, and what an origin still
//! has. What an owner reports is not asked for, and a group with nothing left is not looked at.

mod look;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use look::Looks;

use crate::clock;
use crate::group::lag::Reported;
use crate::group::{Meta, Timestamp};
use crate::nats::{Bucket, Connection};

/// How often it is looked while nobody comes or goes.
const EVERY: Duration = Duration::from_secs(10);

/// The same when partitions lose or find their owners.
const SOONEST: Duration = Duration::from_secs(1);

/// What the coordinator wants to know.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Question {
    /// The group; none while somebody else coordinates it.
    pub(super) group: Option<Arc<Meta>>,
    /// What is known of each partition already.
    pub(super) partitions: Vec<Reported>,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Findings {
    /// What is left of each partition that had no owner, by its number; none where it is not known.
    pub(super) left: Vec<Option<u64>>,
    /// The age of the oldest message that is not committed, in whole seconds; none while it is not
    /// known.
    pub(super) oldest: Option<Duration>,
    /// What the stream that the group's own is derived from still has to hand over.
    pub(super) source: SourceLag,
}

/// What is still to be taken over from an origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SourceLag {
    /// It is not known (yet).
    #[default]
    Unknown,
    /// This many messages.
    Known(u64),
}

/// Asks on behalf of one group's coordinator.
#[derive(Debug)]
pub(super) struct Probe {
    pub(super) connection: Connection,
    pub(super) bucket: Bucket,
    pub(super) question: watch::Receiver<Question>,
    pub(super) findings: watch::Sender<Findings>,
}

// === impl Probe ===

impl Probe {
    /// Looks until told to stop.
    pub(super) async fn run(mut self, stopping: CancellationToken) {
        let mut looks = Looks::new(self.connection.clone(), self.bucket.clone());
        let mut asked = Shape::default();
        let mut last: Option<Timestamp> = None;
        loop {
            let question = self.question.borrow_and_update().clone();
            let wait = if asked == Shape::of(&question) {
                EVERY
            } else {
                SOONEST
            };
            let due = last.map(|last| last.after(wait));
            if due.is_none_or(|due| due <= clock::now()) {
                asked = Shape::of(&question);
                let found = tokio::select! {
                    () = stopping.cancelled() => return,
                    found = looks.at(&question) => found,
                };
                self.findings.send_if_modified(|findings| {
                    let news = *findings != found;
                    *findings = found;
                    news
                });
                last = Some(clock::now());
                continue;
            }
            tokio::select! {
                () = stopping.cancelled() => return,
                () = clock::until(due) => {}
                changed = self.question.changed() => if changed.is_err() { return },
            }
        }
    }
}

/// The part of a question whose change makes the next look urgent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Shape {
    coordinates: bool,
    owned: Vec<bool>,
}

impl Shape {
    fn of(question: &Question) -> Self {
        let partitions = &question.partitions;
        Self {
            coordinates: question.group.is_some(),
            owned: partitions.iter().map(|p| p.owned).collect(),
        }
    }
}
