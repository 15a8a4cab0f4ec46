//! What a member says of itself: in its heartbeat, and when it is asked.

use std::time::Duration;

use super::super::ledger::Message;
use super::super::{
    App, Epoch, Formats, GroupEpoch, Held, MemberDocument, MemberState, Meta, Partition, Standing,
    Timestamp, Unknown,
};
use super::{HoldView, Identity, Life, Member};

// === impl Member ===

impl<M: Message> Member<M> {
    /// Who it is.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The group's settings as it has seen them.
    pub fn meta(&self) -> Option<&Meta> {
        self.meta.as_ref().map(|(_, meta)| meta)
    }

    /// What the group document makes of it; none before it is listed.
    pub fn standing(&self) -> Option<Standing> {
        self.standing
    }

    /// The newest group document that it follows.
    pub fn seen_epoch(&self) -> GroupEpoch {
        self.seen_epoch
    }

    /// Whether its lease has run out.
    pub fn is_suspended(&self) -> bool {
        self.suspended
    }

    /// Whether the application is connected, and since when it is so.
    pub fn application(&self) -> (bool, Timestamp) {
        (self.app.connected, self.app.since)
    }

    /// Documents that cannot be followed, in sentences.
    pub fn damage(&self) -> impl Iterator<Item = &str> {
        self.damage.values().map(String::as_str)
    }

    /// What it holds.
    pub fn views(&self) -> Vec<HoldView> {
        let suspended = self.suspended;
        self.holds
            .iter()
            .map(|(partition, hold)| hold.view(*partition, suspended))
            .collect()
    }

    /// One partition that it holds.
    pub fn view(&self, partition: Partition) -> Option<HoldView> {
        self.holds
            .get(&partition)
            .map(|hold| hold.view(partition, self.suspended))
    }

    /// Messages and bytes in a partition's buffer; none if it is not held at this epoch.
    pub fn buffered(&self, (partition, epoch): (Partition, Epoch)) -> Option<(u64, u64)> {
        let hold = self.holds.get(&partition).filter(|h| h.epoch == epoch)?;
        let ledger = hold.ledger()?;
        Some((ledger.buffered() as u64, ledger.buffered_bytes()))
    }

    pub(super) fn document_of_mine(&self, now: Timestamp) -> Option<MemberDocument> {
        let (_, meta) = self.meta.as_ref()?;
        Some(MemberDocument {
            bucket: meta.bucket.clone(),
            id: self.identity.id.clone(),
            beat: self.beat,
            session_timeout: meta.membership.session_timeout,
            formats: Formats::CURRENT,
            state: match self.life {
                Life::Here if self.echoed.is_none() => MemberState::Joining,
                Life::Here => MemberState::Active,
                Life::Leaving(_) => MemberState::Draining,
                Life::Left | Life::Over => MemberState::Left,
            },
            pod: self.identity.pod.clone(),
            zone: self.identity.zone.clone(),
            version: self.identity.version.clone(),
            app: App {
                connected: self.app.connected,
                seen: self.app.seen,
                since_ms: millis(now.since(self.app.since)),
            },
            seen_epoch: self.seen_epoch,
            held: self.views().iter().map(held).collect(),
            released: self.released.values().copied().collect(),
            unknown: Unknown::new(),
        })
    }
}

fn held(view: &HoldView) -> Held {
    Held {
        partition: view.partition,
        epoch: view.epoch,
        state: view.state,
        position: view.position,
        committed: view.committed,
        in_flight: view.in_flight,
        pending: view.pending,
        head_attempts: view.head_attempts,
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
