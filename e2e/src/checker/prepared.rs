//! A history, sorted and indexed for the rules.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{Ack, At, Record};

/// One hand-over of one message to one application.
#[derive(Clone, Debug)]
pub(crate) struct Sighting {
    pub(crate) member: String,
    pub(crate) session: String,
    pub(crate) partition: u32,
    pub(crate) epoch: u64,
    pub(crate) sequence: u64,
    pub(crate) key: String,
    pub(crate) n: u64,
    pub(crate) at: At,
}

/// What an application did, in the order of time.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Seen(Sighting),
    /// Acknowledgements that were refused are not among them.
    Acking(Ack),
    Acked(Ack),
    Nacking(Ack),
}

/// A message as its publisher knows it.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) key: String,
    pub(crate) n: u64,
    pub(crate) at: At,
}

/// One revision of `offset.<p>`.
#[derive(Clone, Debug)]
pub(crate) struct Commit {
    pub(crate) epoch: u64,
    pub(crate) owner: String,
    pub(crate) next_seq: u64,
    pub(crate) at: At,
}

/// One grant of the group document.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) epoch: u64,
    pub(crate) owner: String,
    pub(crate) unclean: bool,
}

/// The whole history.
#[derive(Clone, Debug, Default)]
pub(crate) struct Prepared {
    /// Partition, sequence, message.
    pub(crate) published: BTreeMap<u32, BTreeMap<u64, Message>>,
    /// Publisher's records that contradict each other: the same place twice.
    pub(crate) published_twice: Vec<(u32, u64)>,
    pub(crate) steps: Vec<Step>,
    /// Per partition and revision.
    pub(crate) commits: BTreeMap<u32, BTreeMap<u64, Commit>>,
    pub(crate) grants: BTreeMap<u32, BTreeMap<u64, Grant>>,
    /// Name of each incarnation.
    pub(crate) names: BTreeMap<String, String>,
    pub(crate) events: Vec<(At, String)>,
}

/// An acknowledgement is known by its session and its number there.
type AckId = (String, String, u64);

fn id_of(ack: &Ack) -> AckId {
    (ack.member.clone(), ack.session.clone(), ack.ack)
}

impl Prepared {
    pub(crate) fn of(records: &[Record]) -> Self {
        let refused: BTreeSet<AckId> = records
            .iter()
            .filter_map(|record| {
                if let Record::Refused(ack) = record {
                    Some(ack)
                } else {
                    None
                }
            })
            .map(id_of)
            .collect();
        let mut sorted: Vec<&Record> = records.iter().collect();
        sorted.sort_by_key(|record| record.at());
        let mut prepared = Self::default();
        for record in sorted {
            prepared.take(record, &refused);
        }
        prepared
    }

    #[expect(clippy::too_many_lines, reason = "one arm per kind of record")]
    fn take(&mut self, record: &Record, refused: &BTreeSet<AckId>) {
        match record.clone() {
            Record::Published {
                sequence,
                partition,
                key,
                n,
                at,
                ..
            } => {
                let place = self.published.entry(partition).or_default();
                if place.insert(sequence, Message { key, n, at }).is_some() {
                    self.published_twice.push((partition, sequence));
                }
            }
            Record::Seen {
                member,
                session,
                partition,
                epoch,
                sequence,
                key,
                n,
                at,
                ..
            } => {
                let sighting = Sighting {
                    member,
                    session,
                    partition,
                    epoch,
                    sequence,
                    key,
                    n,
                    at,
                };
                self.steps.push(Step::Seen(sighting));
            }
            Record::Acking(ack) if !refused.contains(&id_of(&ack)) => {
                self.steps.push(Step::Acking(ack));
            }
            Record::Acking(_) | Record::Refused(_) => {}
            Record::Acked(ack) => self.steps.push(Step::Acked(ack)),
            Record::Nacking(ack) => self.steps.push(Step::Nacking(ack)),
            Record::Commit {
                partition,
                epoch,
                owner,
                next_seq,
                revision,
                at,
            } => {
                let commit = Commit {
                    epoch,
                    owner,
                    next_seq,
                    at,
                };
                self.commits
                    .entry(partition)
                    .or_default()
                    .insert(revision, commit);
            }
            Record::Granted {
                partition,
                epoch,
                owner,
                unclean,
                revision,
                ..
            } => {
                let grant = Grant {
                    epoch,
                    owner,
                    unclean,
                };
                self.grants
                    .entry(partition)
                    .or_default()
                    .insert(revision, grant);
            }
            Record::Member { incarnation, id } => drop(self.names.insert(incarnation, id)),
            Record::Event { name, at } => self.events.push((at, name)),
        }
    }

    /// All hand-overs, in the order of time.
    pub(crate) fn sightings(&self) -> impl Iterator<Item = &Sighting> {
        self.steps.iter().filter_map(|step| match step {
            Step::Seen(sighting) => Some(sighting),
            Step::Acking(_) | Step::Acked(_) | Step::Nacking(_) => None,
        })
    }

    /// Everything that was published, in the order of partition and sequence.
    pub(crate) fn messages(&self) -> impl Iterator<Item = (u32, u64, &Message)> {
        self.published.iter().flat_map(|(partition, messages)| {
            messages
                .iter()
                .map(|(sequence, message)| (*partition, *sequence, message))
        })
    }
}
