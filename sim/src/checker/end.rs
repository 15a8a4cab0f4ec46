//! What has to be true when the trouble has been over for long enough.

use std::collections::BTreeSet;

use lockstep::group::{Incarnation, Partition, Standing, StopReason};

use super::{Checker, Rule};
use crate::model::data::Data;

/// The world at its end.
#[derive(Clone, Copy, Debug)]
pub struct Final<'a> {
    /// Members that run.
    pub members: &'a BTreeSet<Incarnation>,
    /// The streams.
    pub data: &'a Data,
    /// How many partitions there are.
    pub partitions: u32,
}

// === impl Checker ===

impl Checker {
    /// Judges the end.
    pub fn finish(&mut self, end: &Final<'_>) {
        for partition in Partition::all(end.partitions) {
            self.judge_completeness(partition, end.data);
        }
        self.judge_the_document(end);
        self.count_what_was_lost();
        self.judge_silence(u64::from(end.partitions));
    }

    /// One late move is allowed: a member that flapped counts again after some minutes (P63), and so is
    /// the position of an idle partition (P113).
    fn judge_silence(&mut self, partitions: u64) {
        let (documents, commits) = (self.quiet_documents, self.quiet_commits);
        if documents > 2 || commits > 3 * partitions {
            self.broken(Rule::Quiet, || {
                format!("{documents} documents and {commits} commits in a group to which nothing happens")
            });
        }
    }

    fn judge_completeness(&mut self, partition: Partition, data: &Data) {
        let Some(record) = self.records.get(&partition) else {
            if !self.record_lost.contains(&partition) {
                self.broken(Rule::Complete, || {
                    format!("{partition} has no commit record")
                });
            }
            return;
        };
        let stopped = record.stopped.as_ref().map(|stopped| stopped.reason);
        let broke = self.history_broke.contains(&partition);
        match stopped {
            Some(StopReason::StreamRecreated | StopReason::StreamTruncated) if broke => return,
            Some(StopReason::MessagesLost) => return,
            Some(_) | None => {}
        }
        if self.record_lost.contains(&partition) {
            return;
        }
        let next = record.next_seq.0;
        let left = data.messages(partition, next).next().map(|m| m.seq);
        if let Some(seq) = left {
            self.broken(Rule::Complete, || {
                format!("{partition} stands at {next} with {partition}/{seq} not done; stopped: {stopped:?}")
            });
        }
        let undone = data.messages(partition, 1).filter(|m| m.seq < next);
        let undone = undone.filter(|m| {
            let judged = self
                .message(m.id)
                .is_some_and(|p| p.handed.is_none() && !p.worked);
            judged && !self.is_done(m.id) && self.is_owed(m.id)
        });
        let undone = undone.map(|m| m.seq).next();
        if let Some(seq) = undone.filter(|_| !self.unmarked.contains(&partition)) {
            self.broken(Rule::Complete, || {
                format!("{partition}/{seq} was never handed over")
            });
        }
        if let Some(at) = self.cut.get(&partition).copied() {
            self.broken(Rule::Detected, || {
                let at = at.to_string();
                format!(
                    "nobody noticed that the stream of {partition} lost what was committed at {}",
                    at.trim()
                )
            });
        }
    }

    fn judge_the_document(&mut self, end: &Final<'_>) {
        let Some(document) = self.document.clone() else {
            return self.broken(Rule::Complete, || "there is no group document".to_owned());
        };
        for (partition, a) in Partition::all(u32::MAX).zip(&document.partitions) {
            let alive = a
                .owner
                .as_ref()
                .is_some_and(|owner| end.members.contains(owner));
            let lost = self.record_lost.contains(&partition);
            if (!alive || a.owner != a.target) && !lost {
                self.broken(Rule::Complete, || {
                    format!(
                        "{partition} is with {:?}, meant for {:?}",
                        a.owner, a.target
                    )
                });
            }
        }
        let silent: Vec<&Incarnation> = document
            .members
            .iter()
            .filter(|(member, entry)| {
                entry.standing == Standing::Active && !end.members.contains(*member)
            })
            .map(|(member, _)| member)
            .collect();
        if !silent.is_empty() {
            self.broken(Rule::Complete, || {
                format!("the document lists {silent:?}, who are gone")
            });
        }
    }
}
