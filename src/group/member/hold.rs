//! One partition in a member's hands, from the grant to the release.

use super::super::ledger::{Commit, Ledger, Message};
use super::super::{
    Epoch, HoldState, OffsetRecord, Partition, Revision, Sequence, ServerTime, Stopped, Timestamp,
};

/// One partition in a member's hands.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts that are independent of each other; what follows is decided in `tend`"
)]
pub(super) struct Hold<M> {
    pub(super) epoch: Epoch,
    /// The grant followed an unclean end: one attempt is added to the head.
    pub(super) unclean: bool,
    pub(super) stage: Stage<M>,
    /// The newest revision of the commit record that is known, and what it says.
    pub(super) known: Option<(Revision, OffsetRecord)>,
    /// A read below this revision is old.
    pub(super) least: Revision,
    pub(super) io: Io,
    /// A write to be sent again as it is.
    pub(super) resend: Option<Writing>,
    /// The next read or write is not sent before.
    pub(super) next_try: Option<Timestamp>,
    /// Reads and writes that failed since the last that did well.
    pub(super) tries: u32,
    pub(super) failing_since: Option<Timestamp>,
    /// What last went wrong with its commit record.
    pub(super) trouble: Option<String>,
    /// The record has to be read before it is written again.
    pub(super) resolve: bool,
    /// A compare-and-set has to succeed before anything is handed over. P93
    pub(super) verify: bool,
    /// To be given back, at the latest at this moment.
    pub(super) revoking: Option<Timestamp>,
    /// To be given back at once: the application hangs, or the stream's history broke.
    pub(super) giving_up: bool,
    pub(super) paused: bool,
    pub(super) reading: bool,
    /// The reader is not opened before.
    pub(super) read_after: Option<Timestamp>,
    /// Somebody waits for a commit.
    pub(super) urgent: bool,
    pub(super) committed_at: Option<Timestamp>,
    pub(super) moved_at: Timestamp,
    /// The stream's incarnation, once a policy has accepted another one.
    pub(super) stream_created: Option<ServerTime>,
    pub(super) pending: Option<u64>,
    pub(super) wake: Option<Timestamp>,
}

/// How far a hold has come.
#[derive(Clone, Debug)]
pub(super) enum Stage<M> {
    /// The claim is not stored yet.
    Claiming,
    /// The commit record is missing or damaged: a person has to act.
    Lost(String),
    /// The commit record is ours.
    Owned(Box<Ledger<M>>),
}

/// What is on its way to or from the commit record.
#[derive(Clone, Debug)]
pub(super) enum Io {
    /// Nothing.
    Idle,
    /// A read.
    Reading,
    /// A write.
    Writing(Box<Writing>),
}

/// A write on its way.
#[derive(Clone, Debug)]
pub(super) struct Writing {
    pub(super) record: OffsetRecord,
    pub(super) expected: Revision,
    /// What of the ledger it settles; none for a claim.
    pub(super) commit: Option<Commit>,
}

/// A hold as others see it.
#[derive(Clone, Debug)]
pub struct HoldView {
    /// The partition.
    pub partition: Partition,
    /// The epoch of the ownership.
    pub epoch: Epoch,
    /// What is being done with it.
    pub state: HoldState,
    /// The next sequence to hand over.
    pub position: Sequence,
    /// The first sequence that is not committed.
    pub committed: Sequence,
    /// Messages in the application's hands.
    pub in_flight: u32,
    /// Messages not handed over yet.
    pub pending: Option<u64>,
    /// Failed attempts of the head.
    pub head_attempts: u32,
    /// Why it stands still.
    pub stopped: Option<Stopped>,
    /// What is wrong with its commit record.
    pub trouble: Option<String>,
    /// When it has to be given back.
    pub revoking: Option<Timestamp>,
}

// === impl Hold ===

impl<M: Message> Hold<M> {
    pub(super) fn claimed_next(epoch: Epoch, unclean: bool, now: Timestamp) -> Self {
        Self {
            epoch,
            unclean,
            stage: Stage::Claiming,
            known: None,
            least: Revision(0),
            io: Io::Idle,
            resend: None,
            next_try: None,
            tries: 0,
            failing_since: None,
            trouble: None,
            resolve: false,
            verify: false,
            revoking: None,
            giving_up: false,
            paused: false,
            reading: false,
            read_after: None,
            urgent: false,
            committed_at: None,
            moved_at: now,
            stream_created: None,
            pending: None,
            wake: None,
        }
    }

    pub(super) fn ledger(&self) -> Option<&Ledger<M>> {
        match &self.stage {
            Stage::Owned(ledger) => Some(ledger),
            Stage::Claiming | Stage::Lost(_) => None,
        }
    }

    pub(super) fn ledger_mut(&mut self) -> Option<&mut Ledger<M>> {
        match &mut self.stage {
            Stage::Owned(ledger) => Some(ledger),
            Stage::Claiming | Stage::Lost(_) => None,
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        matches!(self.io, Io::Idle)
    }

    pub(super) fn is_claiming(&self) -> bool {
        matches!(self.stage, Stage::Claiming)
    }

    pub(super) fn suspend(&mut self, now: Timestamp) {
        if let Stage::Owned(ledger) = &mut self.stage {
            self.verify = true;
            ledger.stand_still(now);
        }
    }

    /// Whether a newer revision of the commit record than this one was seen to be stored.
    pub(super) fn is_known_above(&self, there: Revision) -> bool {
        self.known.as_ref().is_some_and(|(known, _)| *known > there)
    }

    /// The last attempt did well.
    pub(super) fn went_well(&mut self) {
        self.tries = 0;
        self.failing_since = None;
        self.next_try = None;
        self.trouble = None;
    }

    pub(super) fn view(&self, partition: Partition, suspended: bool) -> HoldView {
        let (position, committed, in_flight, head_attempts) = match (self.ledger(), &self.known) {
            (Some(l), _) => (
                l.position(),
                l.committed(),
                l.in_flight(),
                l.head_attempts(),
            ),
            (None, Some((_, r))) => {
                let attempts = r.head.as_ref().map_or(0, |h| h.attempts);
                (r.next_seq, r.next_seq, 0, attempts)
            }
            (None, None) => (Sequence(0), Sequence(0), 0, 0),
        };
        let buffered = self.ledger().map_or(0, |l| l.buffered() as u64);
        HoldView {
            partition,
            epoch: self.epoch,
            state: self.state(suspended),
            position,
            committed,
            in_flight,
            pending: self.pending.map(|p| p + buffered),
            head_attempts,
            stopped: self.ledger().and_then(|l| l.stopped().cloned()),
            trouble: match &self.stage {
                Stage::Lost(problem) => Some(problem.clone()),
                Stage::Claiming | Stage::Owned(_) => self.trouble.clone(),
            },
            revoking: self.revoking,
        }
    }

    fn state(&self, suspended: bool) -> HoldState {
        let stopped = self.ledger().is_some_and(|l| l.stopped().is_some());
        match &self.stage {
            Stage::Claiming => HoldState::Claiming,
            Stage::Lost(_) => HoldState::Stopped,
            Stage::Owned(_) if suspended || self.verify => HoldState::Suspended,
            Stage::Owned(_) if self.revoking.is_some() || self.giving_up => HoldState::Revoking,
            Stage::Owned(_) if stopped => HoldState::Stopped,
            Stage::Owned(_) if self.paused => HoldState::Paused,
            Stage::Owned(_) => HoldState::Feeding,
        }
    }
}
