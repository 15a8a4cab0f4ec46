//! When joiners are taken in: not one by one, but together.

use std::time::Duration;

use super::draft::Draft;
use super::healthy_time::Healthy;
use super::observed::Observed;
use super::standing::Joiners;
use crate::group::{Meta, Timestamp};

/// The longest wait of the first joiner for others, where `rebalanceDelay` is not longer. // P60
const LONGEST_DEBOUNCE: Duration = Duration::from_secs(5);

/// The first joiner waits at most this many times `initialRebalanceDelay`. // P61
const INITIAL_DELAYS: u32 = 5;

impl Observed {
    /// Whether the joiners' wait is over, or there is no point in it: partitions have to be given to
    /// somebody anyway.
    pub(super) fn may_join(
        &self,
        meta: &Meta,
        draft: &Draft,
        joiners: &Joiners,
        now: Timestamp,
    ) -> bool {
        let need = draft
            .partitions()
            .any(|(_, a)| !is_in_good_hands(draft, a.target.as_ref()));
        (is_running(draft) && need)
            || self
                .joins_due(meta, draft, joiners)
                .is_some_and(|due| self.healthy.at(now) >= due)
    }

    /// When the joiners are taken in.
    pub(super) fn joins_due(
        &self,
        meta: &Meta,
        draft: &Draft,
        joiners: &Joiners,
    ) -> Option<Healthy> {
        let (first, last) = (joiners.first?, joiners.last?);
        let settings = &meta.membership;
        if is_running(draft) {
            let longest = LONGEST_DEBOUNCE.max(settings.rebalance_delay);
            return Some(
                last.after(settings.rebalance_delay)
                    .min(first.after(longest)),
            );
        }
        let declared = self.declared_replicas.map(|n| n as usize);
        if declared.is_some_and(|declared| declared > 0 && joiners.members.len() >= declared) {
            return Some(last);
        }
        let delay = settings.initial_rebalance_delay;
        Some(last.after(delay).min(first.after(delay * INITIAL_DELAYS)))
    }
}

/// Whether there are members that joiners come to, or come after: also while all of them leave, as in a
/// rolling update. // P61
fn is_running(draft: &Draft) -> bool {
    draft.actives().next().is_some() || draft.partitions().any(|(_, a)| a.owner.is_some())
}

/// Whether who is meant to have a partition may have it.
pub(super) fn is_in_good_hands(draft: &Draft, target: Option<&crate::group::Incarnation>) -> bool {
    target.is_some_and(|target| draft.is_active(target))
}
