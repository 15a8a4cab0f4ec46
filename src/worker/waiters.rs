//! Acknowledgements whose callers wait for the commit.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::group::{Epoch, Partition, Sequence, Timestamp};

use super::command::Reply;
use super::handle::{AckResult, AckStatus};
use super::sessions::answer;

/// The longest wait for a commit: then the answer is `ACCEPTED`, and the commit follows.
const LONGEST: Duration = Duration::from_secs(30);

/// All waiting acknowledgements.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    waiting: BTreeMap<u64, Waiter>,
    by_partition: BTreeMap<Partition, Vec<Claim>>,
    next: u64,
}

/// One caller.
#[derive(Debug)]
struct Waiter {
    results: Vec<AckResult>,
    open: usize,
    reply: Reply<Vec<AckResult>>,
    until: Timestamp,
}

/// One position that a caller waits for.
#[derive(Clone, Copy, Debug)]
struct Claim {
    epoch: Epoch,
    /// The position that has to be committed.
    until: Sequence,
    waiter: u64,
    index: usize,
}

// === impl Waiters ===

impl Waiters {
    /// Keeps an answer back until these of its results (by index, with the position that has to
    /// be committed) are settled.
    pub(super) fn wait(
        &mut self,
        (results, open): (Vec<AckResult>, Vec<(usize, Sequence)>),
        reply: Reply<Vec<AckResult>>,
        now: Timestamp,
    ) {
        if open.is_empty() {
            return answer(reply, Ok(results));
        }
        self.next += 1;
        let waiter = self.next;
        for (index, until) in &open {
            let Some(position) = results.get(*index).map(|result| result.position) else {
                continue;
            };
            self.by_partition
                .entry(position.partition)
                .or_default()
                .push(Claim {
                    epoch: position.epoch,
                    until: *until,
                    waiter,
                    index: *index,
                });
        }
        self.waiting.insert(
            waiter,
            Waiter {
                results,
                open: open.len(),
                reply,
                until: now.after(LONGEST),
            },
        );
    }

    /// The partition is committed up to `next`.
    pub(super) fn committed(&mut self, partition: Partition, epoch: Epoch, next: Sequence) {
        self.settle(partition, AckStatus::Committed, next, |claim| {
            claim.epoch == epoch && claim.until <= next
        });
    }

    /// The partition is gone: what was not committed at this epoch will not be.
    pub(super) fn gone(&mut self, partition: Partition, epoch: Epoch) {
        self.settle(partition, AckStatus::NotOwned, Sequence(0), |claim| {
            claim.epoch <= epoch
        });
    }

    fn settle(
        &mut self,
        partition: Partition,
        status: AckStatus,
        committed: Sequence,
        which: impl Fn(&Claim) -> bool,
    ) {
        let Some(claims) = self.by_partition.get_mut(&partition) else {
            return;
        };
        let (settled, open): (Vec<Claim>, Vec<Claim>) =
            claims.iter().copied().partition(|claim| which(claim));
        if open.is_empty() {
            self.by_partition.remove(&partition);
        } else {
            *claims = open;
        }
        for claim in settled {
            self.settle_one(claim, status, committed);
        }
    }

    fn settle_one(&mut self, claim: Claim, status: AckStatus, committed: Sequence) {
        let Some(waiter) = self.waiting.get_mut(&claim.waiter) else {
            return;
        };
        if let Some(result) = waiter.results.get_mut(claim.index) {
            (result.status, result.committed) = (status, committed);
        }
        waiter.open -= 1;
        if waiter.open == 0
            && let Some(waiter) = self.waiting.remove(&claim.waiter)
        {
            answer(waiter.reply, Ok(waiter.results));
        }
    }

    /// Answers those that have waited long enough.
    pub(super) fn expire(&mut self, now: Timestamp) {
        let late: Vec<u64> = self
            .waiting
            .iter()
            .filter(|(_, waiter)| waiter.until <= now || waiter.reply.is_closed())
            .map(|(number, _)| *number)
            .collect();
        for number in &late {
            if let Some(waiter) = self.waiting.remove(number) {
                answer(waiter.reply, Ok(waiter.results));
            }
        }
        if !late.is_empty() {
            self.by_partition.retain(|_, claims| {
                claims.retain(|claim| !late.contains(&claim.waiter));
                !claims.is_empty()
            });
        }
    }

    /// When to look again.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        self.waiting.values().map(|waiter| waiter.until).min()
    }
}
