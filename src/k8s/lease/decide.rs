//! What a candidate does about the Lease: a pure function of what it saw and when.

use std::time::Duration;

use super::LeaseSettings;
use crate::group::Timestamp;

/// The Lease as a read showed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// The holder's identity; empty after a clean stop.
    pub(super) holder: String,
    /// What changes with every write: the resource version.
    pub(super) version: String,
    /// How long the holder asks to be waited for.
    pub(super) duration: Duration,
}

/// What this candidate knows. Times are readings of its own clock; nobody's wall clock is compared.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    record: Option<Record>,
    changed_at: Timestamp,
    renewed_at: Option<Timestamp>,
}

/// What to do about the Lease that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Write the own name into it: it is held by this candidate, free, or its holder is silent.
    Write,
    /// Wait: somebody else holds it.
    Wait,
}

// === impl Memory ===

impl Memory {
    /// A read has shown this.
    pub(super) fn saw(&mut self, record: Record, now: Timestamp) {
        if self.record.as_ref() != Some(&record) {
            self.record = Some(record);
            self.changed_at = now;
        }
    }

    /// What to do about what was read last.
    pub(super) fn step(&self, me: &str, now: Timestamp) -> Step {
        let Some(record) = &self.record else {
            return Step::Wait;
        };
        let silent = now.since(self.changed_at) >= record.duration;
        if record.holder == me || record.holder.is_empty() || silent {
            Step::Write
        } else {
            Step::Wait
        }
    }

    /// The own write was stored; it was sent at `sent`.
    pub(super) fn wrote(&mut self, record: Record, sent: Timestamp) {
        self.record = Some(record);
        self.changed_at = sent;
        self.renewed_at = Some(sent);
    }

    /// The Lease is somebody else's.
    pub(super) fn lost(&mut self) {
        self.renewed_at = None;
    }

    /// Until when this candidate leads; none if it does not. It ends before another candidate can
    /// think that the Lease is free: the deadline counts from when the write was *sent*, and is
    /// shorter than the duration, which others count from when they *saw* it.
    pub(super) fn leads_until(&self, settings: &LeaseSettings) -> Option<Timestamp> {
        Some(self.renewed_at?.after(settings.renew_deadline))
    }

    /// Who holds it, as far as is known.
    pub(super) fn holder(&self) -> Option<&str> {
        let record = self.record.as_ref()?;
        Some(record.holder.as_str()).filter(|holder| !holder.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp(Duration::from_secs(seconds))
    }

    fn record(holder: &str, version: &str) -> Record {
        Record {
            holder: holder.to_owned(),
            version: version.to_owned(),
            duration: Duration::from_secs(15),
        }
    }

    #[test]
    fn a_lease_is_waited_for_from_when_it_was_last_seen_to_change() {
        let mut memory = Memory::default();
        memory.saw(record("other", "1"), at(100));
        assert_eq!(memory.step("me", at(114)), Step::Wait);
        memory.saw(record("other", "2"), at(114));
        assert_eq!(memory.step("me", at(128)), Step::Wait, "it was renewed");
        memory.saw(record("other", "2"), at(128));
        assert_eq!(
            memory.step("me", at(129)),
            Step::Write,
            "nothing changed for 15 s"
        );
    }

    #[test]
    fn a_released_lease_is_taken_at_once() {
        let mut memory = Memory::default();
        memory.saw(record("", "7"), at(5));
        assert_eq!(memory.step("me", at(5)), Step::Write);
        assert_eq!(memory.holder(), None);
    }

    #[test]
    fn a_leader_stops_leading_before_anybody_else_can_begin() {
        let settings = LeaseSettings::default();
        let mut leader = Memory::default();
        leader.wrote(record("me", "3"), at(10));
        let until = leader.leads_until(&settings).unwrap();
        let mut other = Memory::default();
        other.saw(record("me", "3"), at(10)); // as early as can be: when it was sent
        assert_eq!(other.step("other", until), Step::Wait);
        leader.lost();
        assert_eq!(leader.leads_until(&settings), None);
    }
}
