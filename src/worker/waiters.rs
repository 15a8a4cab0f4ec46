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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::handle::Position;
    use tokio::sync::oneshot;

    fn result(sequence: u64) -> AckResult {
        AckResult {
            position: Position {
                partition: Partition(0),
                epoch: Epoch(1),
                sequence: Sequence(sequence),
            },
            status: AckStatus::Accepted,
            committed: Sequence(1),
        }
    }

    type Answer = oneshot::Receiver<Result<Vec<AckResult>, crate::worker::CallError>>;

    fn waiting(waiters: &mut Waiters, sequences: &[u64]) -> Answer {
        let (reply, answer) = oneshot::channel();
        let results: Vec<_> = sequences.iter().map(|s| result(*s)).collect();
        let open = sequences
            .iter()
            .enumerate()
            .map(|(index, s)| (index, Sequence(s + 1)))
            .collect();
        waiters.wait((results, open), reply, Timestamp::default());
        answer
    }

    fn statuses(answer: &mut Answer) -> Option<Vec<AckStatus>> {
        let results = answer.try_recv().ok()?.unwrap();
        Some(results.iter().map(|r| r.status).collect())
    }

    #[test]
    fn a_commit_answers_whom_it_covers_and_nobody_else() {
        let mut waiters = Waiters::default();
        let (mut one, mut two) = (waiting(&mut waiters, &[3]), waiting(&mut waiters, &[3, 7]));
        waiters.committed(Partition(0), Epoch(1), Sequence(3));
        assert_eq!(statuses(&mut one), None);
        waiters.committed(Partition(0), Epoch(2), Sequence(9));
        waiters.committed(Partition(1), Epoch(1), Sequence(9));
        assert_eq!(statuses(&mut one), None);
        waiters.committed(Partition(0), Epoch(1), Sequence(4));
        assert_eq!(statuses(&mut one), Some(vec![AckStatus::Committed]));
        assert_eq!(statuses(&mut two), None);
        waiters.committed(Partition(0), Epoch(1), Sequence(8));
        assert_eq!(statuses(&mut two), Some(vec![AckStatus::Committed; 2]));
    }

    #[test]
    fn a_partition_that_is_gone_answers_not_owned() {
        let mut waiters = Waiters::default();
        let mut answer = waiting(&mut waiters, &[3, 7]);
        waiters.committed(Partition(0), Epoch(1), Sequence(4));
        waiters.gone(Partition(0), Epoch(1));
        let expected = vec![AckStatus::Committed, AckStatus::NotOwned];
        assert_eq!(statuses(&mut answer), Some(expected));
        assert_eq!(waiters.deadline(), None);
    }

    #[test]
    fn nobody_waits_for_ever() {
        let mut waiters = Waiters::default();
        let mut answer = waiting(&mut waiters, &[3]);
        let end = waiters.deadline().unwrap();
        waiters.expire(end);
        assert_eq!(statuses(&mut answer), Some(vec![AckStatus::Accepted]));
        assert!(waiters.by_partition.is_empty());
    }
}
