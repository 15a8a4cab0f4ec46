//! The candidates as they were heard: who would coordinate, and whether the holder is silent.

use std::collections::BTreeMap;

use super::healthy_time::Healthy;
use super::members::FORGOTTEN_AFTER;
use super::observed::{Observed, Watch};
use crate::group::{CandidateDocument, Incarnation};

/// Every candidate whose document was seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Candidates {
    seen: BTreeMap<Incarnation, Sight>,
}

#[derive(Clone, Debug)]
struct Sight {
    says: CandidateDocument,
    heard: Option<Healthy>,
}

// === impl Candidates ===

impl Candidates {
    /// Forgets who was not heard for as long as keys live.
    pub(super) fn forget(&mut self, at: Healthy) {
        self.seen.retain(|_, sight| {
            let heard = sight.heard;
            heard.is_none_or(|heard| at.since(heard) < FORGOTTEN_AFTER)
        });
    }

    /// Takes in a heartbeat; returns whether its beat rose.
    pub(super) fn see(
        &mut self,
        candidate: &Incarnation,
        says: CandidateDocument,
        (watch, at): (Watch, Healthy),
    ) -> bool {
        let before = self.seen.get(candidate);
        if before.is_some_and(|sight| says.beat <= sight.says.beat) {
            return false;
        }
        let rose = before.is_some() || watch == Watch::Current;
        let heard = rose.then_some(at);
        self.seen.insert(candidate.clone(), Sight { says, heard });
        true
    }
}

// === impl Observed ===

impl Observed {
    /// Whether nobody holds the office, by this candidate's own clock. // P35
    pub(super) fn office_is_vacant(&self) -> bool {
        let Some(document) = self.group.known() else {
            return true;
        };
        let Some(holder) = &document.holder else {
            return true;
        };
        if *holder == self.me.incarnation {
            return true; // it was this one's, and it stepped down // P40
        }
        let sight = self.candidates.seen.get(holder);
        sight.is_some_and(|s| s.says.left) // P43
            || self.healthy.confirmed() >= self.holder_ends(holder)
    }

    /// Until when a holder that is not heard is waited for.
    pub(super) fn holder_ends(&self, holder: &Incarnation) -> Healthy {
        let heard = self.candidates.seen.get(holder).and_then(|s| s.heard);
        let since = heard
            .max(Some(self.memory.holder_since()))
            .unwrap_or_default();
        since.after(self.me.session_timeout)
    }

    /// Whether this candidate is the one that tries. // P36
    pub(super) fn is_first_in_line(&self) -> bool {
        // The others see the beats of who stepped down and is back: they wait for it.
        let holder = self.group.known().and_then(|d| d.holder.as_ref());
        if holder == Some(&self.me.incarnation) {
            return true;
        }
        let confirmed = self.healthy.confirmed();
        self.candidates.seen.iter().all(|(incarnation, sight)| {
            let rank = (sight.says.priority, sight.says.id.as_str(), incarnation);
            let alive = sight.heard.is_some_and(|at| {
                !sight.says.left && confirmed < at.after(self.me.session_timeout)
            });
            *incarnation == self.me.incarnation || !alive || rank < self.me.rank()
        })
    }
}
