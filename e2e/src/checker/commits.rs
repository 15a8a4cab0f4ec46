//! Commits never move back, come from whoever was granted the epoch, and pass nothing that is
//! not acknowledged.

use std::collections::{BTreeMap, BTreeSet};

use super::Expectations;
use super::prepared::{Commit, Prepared, Step};
use super::verdict::{Rule, Violation};
use crate::history::At;

pub(crate) fn check(history: &Prepared, expect: &Expectations) -> Vec<Violation> {
    let acknowledged = first_acknowledgements(history);
    let mut violations = Vec::new();
    for (partition, commits) in &history.commits {
        violations.extend(move_on(*partition, commits, expect));
        violations.extend(were_granted(history, *partition));
        let judged = Judged {
            history,
            expect,
            partition: *partition,
        };
        violations.extend(judged.are_sound(&acknowledged));
    }
    violations.extend(end_is_reached(history, expect));
    violations
}

/// When each message was first about to be acknowledged.
fn first_acknowledgements(history: &Prepared) -> BTreeMap<(u32, u64), At> {
    type View<'a> = (&'a str, &'a str, u32, u64);
    let mut held: BTreeMap<View<'_>, BTreeSet<u64>> = BTreeMap::new();
    let mut first = BTreeMap::new();
    for step in &history.steps {
        match step {
            Step::Seen(seen) => {
                let view = (
                    seen.member.as_str(),
                    seen.session.as_str(),
                    seen.partition,
                    seen.epoch,
                );
                held.entry(view).or_default().insert(seen.sequence);
            }
            Step::Acking(ack) => {
                let view = (
                    ack.member.as_str(),
                    ack.session.as_str(),
                    ack.partition,
                    ack.epoch,
                );
                let Some(held) = held.get_mut(&view) else {
                    continue;
                };
                let above = held.split_off(&(ack.sequence + 1));
                for sequence in std::mem::replace(held, above) {
                    first.entry((ack.partition, sequence)).or_insert(ack.at);
                }
            }
            Step::Acked(_) | Step::Nacking(_) => {}
        }
    }
    first
}

/// From each revision to the next; but where the bucket or the stream was replaced.
fn move_on(
    partition: u32,
    commits: &BTreeMap<u64, Commit>,
    expect: &Expectations,
) -> Vec<Violation> {
    let pairs = commits.iter().zip(commits.iter().skip(1));
    let same_bucket =
        pairs.filter(|((earlier, _), (later, _))| !expect.lost_between(**earlier, **later));
    let mut violations: Vec<Violation> = same_bucket
        .filter_map(|((_, before), (_, commit))| moves_on(partition, before, commit))
        .collect();
    let mut excused = expect.moves_back;
    violations.retain(|violation| {
        let excuse = violation.rule == Rule::CommitFell && excused > 0;
        excused -= usize::from(excuse);
        !excuse
    });
    violations
}

fn moves_on(partition: u32, before: &Commit, commit: &Commit) -> Option<Violation> {
    if commit.epoch < before.epoch {
        let text = format!(
            "a commit of epoch {} was stored after epoch {}",
            commit.epoch, before.epoch
        );
        return Some(Violation::new(Rule::EpochFell, partition, text));
    }
    (commit.next_seq < before.next_seq).then(|| {
        let text = format!(
            "the commit moved back from {} to {}",
            before.next_seq, commit.next_seq
        );
        Violation::new(Rule::CommitFell, partition, text)
    })
}

/// Every writer of an epoch had it from an earlier revision of the group document.
fn were_granted(history: &Prepared, partition: u32) -> Vec<Violation> {
    let Some(grants) = history.grants.get(&partition) else {
        return Vec::new();
    };
    let mut violations = Vec::new();
    let mut judged = BTreeSet::new();
    for (revision, commit) in &history.commits[&partition] {
        let first = judged.insert((commit.epoch, commit.owner.as_str()));
        let granted = grants
            .range(..revision)
            .any(|(_, grant)| grant.epoch == commit.epoch && grant.owner == commit.owner);
        if first && commit.epoch > 0 && !granted {
            let text = format!(
                "{} committed at epoch {}, which it was not granted before",
                commit.owner, commit.epoch
            );
            violations.push(Violation::new(Rule::NotGranted, partition, text));
        }
    }
    violations
}

struct Judged<'a> {
    history: &'a Prepared,
    expect: &'a Expectations,
    partition: u32,
}

impl Judged<'_> {
    /// Nothing is passed that was not acknowledged by then.
    fn are_sound(&self, acknowledged: &BTreeMap<(u32, u64), At>) -> Vec<Violation> {
        let Some(published) = self.history.published.get(&self.partition) else {
            return Vec::new();
        };
        let tolerance = u64::try_from(self.expect.clock_tolerance.as_nanos()).unwrap_or(u64::MAX);
        let commits = &self.history.commits[&self.partition];
        let mut violations = Vec::new();
        // What the record began with was resolved from the stream, not acknowledged.
        let mut reached = commits.values().next().map_or(0, |first| first.next_seq);
        for commit in commits.values() {
            let passed = published.range(reached.min(commit.next_seq)..commit.next_seq);
            for (sequence, message) in passed {
                let when = acknowledged.get(&(self.partition, *sequence));
                let in_time = when.is_some_and(|when| *when <= commit.at.saturating_add(tolerance));
                if !in_time && !self.expect.excuses(*sequence, message) {
                    let text = format!(
                        "{} committed up to {} before {sequence} was acknowledged",
                        commit.owner, commit.next_seq
                    );
                    violations.push(Violation::new(Rule::UnsoundCommit, self.partition, text));
                }
            }
            reached = reached.max(commit.next_seq);
        }
        violations
    }
}

/// At the end everything published lies below the commit.
fn end_is_reached(history: &Prepared, expect: &Expectations) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (partition, messages) in &history.published {
        let Some((last, _)) = messages.last_key_value() else {
            continue;
        };
        let commits = history.commits.get(partition);
        let reached = commits
            .and_then(|commits| commits.last_key_value())
            .map_or(0, |(_, commit)| commit.next_seq);
        if expect.complete(*partition) && reached <= *last {
            let text = format!("committed up to {reached}, published up to {last}");
            violations.push(Violation::new(Rule::NotCommitted, *partition, text));
        }
    }
    violations
}
