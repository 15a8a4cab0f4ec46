//! Events: what happened to an object, for `kubectl describe`.
//!
//! Recording never waits and never fails its caller. Of each (object, reason) one Event is written
//! in 30 seconds; what comes in between is said by the conditions and the log.

use std::collections::HashMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{K8sError, cut};
use crate::clock;
use crate::group::Timestamp;
use crate::tasks::Tasks;

/// Events that wait to be written; more are dropped and counted in the log.
const QUEUE: usize = 256;

/// One Event of a kind in this time.
const APART: Duration = Duration::from_secs(30);

/// Kinds of Events that are remembered; beyond it the oldest are forgotten.
const REMEMBERED: usize = 10_000;

/// Kubernetes' bound of a note, in bytes.
const LONGEST_NOTE: usize = 1024;

/// Whether all is well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Something changed as it should.
    Normal,
    /// Somebody should look.
    Warning,
}

macro_rules! reasons {
    ($($(#[$of:meta])* $word:ident),* $(,)?) => {
        /// Why an Event is recorded: a closed set, so that alerts can rely on the words.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum EventReason { $($(#[$of])* $word),* }

        impl EventReason {
            /// All of them, in the order in which they are documented.
            pub const ALL: &'static [Self] = &[$(Self::$word),*];

            /// The word.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$word => stringify!($word)),* }
            }
        }
    };
}

reasons! {
    /// The group's bucket, streams and description were made.
    Provisioned,
    /// The state of an earlier group of this name was taken over.
    Adopted,
    /// What is ours had been changed by somebody, and was put right.
    DriftRepaired,
    /// The group cannot be provided; its conditions say why.
    ProvisioningFailed,
    /// The bucket that was there is missing or another one.
    StateLost,
    /// Partitions that stood still were lifted, as somebody asked.
    Resumed,
    /// What somebody asked to be resumed is not understood.
    ResumeRefused,
    /// Partitions changed hands.
    Rebalanced,
    /// The NATS server cannot be used; the connection's conditions say why.
    ConnectionFailed,
    /// The NATS server answers with these credentials.
    Connected,
    /// Credentials were read anew and are in use.
    CredentialsRotated,
    /// What Lockstep made for the object was removed.
    CleanedUp,
    /// Cleaning up was given up; the note names what is left.
    CleanupIncomplete,
    /// The group's target was scaled.
    TargetScaled,
    /// Somebody else scaled the target; it was put right.
    TargetScaledByOther,
    /// Pods have the group's label and no worker.
    UninjectedPods,
    /// The webhook's certificate was made anew.
    CertificateRotated,
    /// The pod has joined its group and owns partitions.
    PartitionsAssigned,
}

/// What happened.
#[derive(Clone, Debug)]
pub struct Note {
    /// Whether all is well.
    pub kind: EventKind,
    /// Why it is recorded.
    pub reason: EventReason,
    /// What was being done, in one word.
    pub action: &'static str,
    /// A sentence.
    pub text: String,
}

/// Records Events. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Events {
    queue: mpsc::Sender<(ObjectReference, Note)>,
}

/// When an Event of a kind was last written.
#[derive(Debug, Default)]
struct Pace {
    last: HashMap<(String, EventReason), Timestamp>,
}

// === impl Events ===

impl Events {
    /// A recorder under this controller's name; `tasks` writes what it records.
    pub fn new(client: Client, instance: String, tasks: &Tasks) -> Self {
        let (queue, waiting) = mpsc::channel(QUEUE);
        let reporter = Reporter {
            controller: "lockstep.dev/controller".to_owned(),
            instance: Some(instance),
        };
        let recorder = Recorder::new(client, reporter);
        tasks.spawn("events", |stop| write(recorder, waiting, stop));
        Self { queue }
    }

    /// Records what happened to an object.
    pub fn record(&self, regarding: &ObjectReference, note: Note) {
        let reason = note.reason.as_str();
        if self.queue.try_send((regarding.clone(), note)).is_err() {
            tracing::warn!(reason, "an Event is dropped: too many wait to be written");
        }
    }
}

async fn write(
    recorder: Recorder,
    mut waiting: mpsc::Receiver<(ObjectReference, Note)>,
    stop: CancellationToken,
) {
    let mut pace = Pace::default();
    loop {
        let next = tokio::select! {
            () = stop.cancelled() => return,
            next = waiting.recv() => next,
        };
        let Some((regarding, note)) = next else {
            return;
        };
        if !pace.allows(&regarding, note.reason, clock::now()) {
            continue;
        }
        let reason = note.reason.as_str();
        if let Err(error) = recorder.publish(&event(note), &regarding).await {
            let error = K8sError::of("the Event was not written", &error);
            tracing::warn!(%error, reason);
        }
    }
}

fn event(note: Note) -> Event {
    Event {
        type_: match note.kind {
            EventKind::Normal => EventType::Normal,
            EventKind::Warning => EventType::Warning,
        },
        reason: note.reason.as_str().to_owned(),
        note: Some(cut(note.text, LONGEST_NOTE)),
        action: note.action.to_owned(),
        secondary: None,
    }
}

// === impl Pace ===

impl Pace {
    fn allows(&mut self, regarding: &ObjectReference, reason: EventReason, now: Timestamp) -> bool {
        if self.last.len() >= REMEMBERED {
            self.last.retain(|_, last| now < last.after(APART));
        }
        let uid = regarding.uid.clone().unwrap_or_default();
        let key = (uid, reason);
        if self
            .last
            .get(&key)
            .is_some_and(|last| now < last.after(APART))
        {
            return false;
        }
        self.last.insert(key, now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_event_of_a_reason_and_object_is_written_in_thirty_seconds() {
        let mut pace = Pace::default();
        let object = |uid: &str| ObjectReference {
            uid: Some(uid.to_owned()),
            ..ObjectReference::default()
        };
        let start = Timestamp::default();
        assert!(pace.allows(&object("a"), EventReason::Adopted, start));
        let soon = start.after(Duration::from_secs(29));
        assert!(!pace.allows(&object("a"), EventReason::Adopted, soon));
        assert!(pace.allows(&object("a"), EventReason::StateLost, soon));
        assert!(pace.allows(&object("b"), EventReason::Adopted, soon));
        let later = start.after(Duration::from_secs(30));
        assert!(pace.allows(&object("a"), EventReason::Adopted, later));
    }

    #[test]
    fn a_note_is_cut_between_characters() {
        let note = Note {
            kind: EventKind::Warning,
            reason: EventReason::StateLost,
            action: "Observe",
            text: "ü".repeat(1000),
        };
        let text = event(note).note.unwrap();
        assert!(
            text.len() <= LONGEST_NOTE && text.ends_with(" …"),
            "{}",
            text.len()
        );
    }
}
