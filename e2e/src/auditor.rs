//! Reads a group's bucket as it is written, and turns it into a history.
//!
//! It fetches one message after the other by sequence, so that no server restart and no lost
//! consumer can make it skip one. What was overwritten before it came by is counted as missed;
//! a bucket that keeps 64 revisions per key ([`keep_history`]) leaves it time.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use lockstep::group::{Assignment, GroupDocument};
use lockstep::wire::{self, keys::Key};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::clock;
use crate::history::{At, Log, Record};

/// How long the end of the bucket is left alone before the next look.
const PAUSE: Duration = Duration::from_millis(10);

/// How long an answer is waited for before it is asked again. A stream that has no leader yet does
/// not answer, and what is written meanwhile must not be missed.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// A running audit.
#[derive(Debug)]
pub struct Auditor {
    progress: watch::Receiver<Progress>,
    task: JoinSet<()>,
}

/// How far an audit has come.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// The last revision that was read.
    pub revision: u64,
    /// Revisions that were overwritten before they were read.
    pub missed: u64,
    /// `next_seq` of each partition, as last read.
    pub committed: BTreeMap<u32, u64>,
    /// Why each stopped partition stands still, as last read.
    pub stopped: BTreeMap<u32, String>,
    /// The names of coordinator candidates, by incarnation.
    pub candidates: BTreeMap<String, String>,
    /// The last group document.
    pub document: Option<GroupDocument>,
    /// What could not be understood.
    pub odd: Vec<String>,
}

/// A message of the bucket.
struct Revision {
    key: Key,
    sequence: u64,
    value: Vec<u8>,
    at: At,
}

/// Makes the bucket keep this many revisions per key. Only tests do that.
pub async fn keep_history(
    client: &async_nats::Client,
    bucket: &str,
    count: i64,
) -> Result<(), String> {
    let name = format!("KV_{bucket}");
    let info = request(
        client,
        &format!("STREAM.INFO.{name}"),
        &serde_json::json!({}),
    )
    .await?;
    let mut config = info
        .get("config")
        .cloned()
        .ok_or_else(|| format!("no bucket: {info}"))?;
    config["max_msgs_per_subject"] = count.into();
    let answer = request(client, &format!("STREAM.UPDATE.{name}"), &config).await?;
    answer
        .get("error")
        .map_or(Ok(()), |error| Err(error.to_string()))
}

async fn request(
    client: &async_nats::Client,
    call: &str,
    body: &serde_json::Value,
) -> Result<serde_json::Value, String> {
    let subject = format!("$JS.API.{call}");
    let asked = client.request(subject, body.to_string().into());
    let answered = tokio::time::timeout(ANSWER_WITHIN, asked).await;
    let answer = answered.map_err(|late| format!("{call}: {late}"))?;
    let answer = answer.map_err(|error| error.to_string())?;
    serde_json::from_slice(&answer.payload).map_err(|error| error.to_string())
}

// === impl Auditor ===

impl Auditor {
    /// Follows the bucket `KV_<bucket>` from its beginning, also before it exists.
    pub fn start(client: async_nats::Client, bucket: &str, log: &Path) -> std::io::Result<Self> {
        Self::start_after(0, client, bucket, log)
    }

    /// As [`Self::start`], of a bucket that took another one's place: its revisions are counted
    /// from where the other one's ended, so that they can be told apart and stay in order.
    pub fn start_after(
        before: u64,
        client: async_nats::Client,
        bucket: &str,
        log: &Path,
    ) -> std::io::Result<Self> {
        let known = Progress {
            revision: before,
            ..Progress::default()
        };
        let (report, progress) = watch::channel(known);
        let log = Log::open(log)?;
        let stream = format!("KV_{bucket}");
        let mut task = JoinSet::new();
        task.spawn(follow(
            client,
            stream,
            Audit {
                log,
                report,
                epochs: BTreeMap::new(),
                before,
            },
        ));
        Ok(Self { progress, task })
    }

    /// How far it has come.
    pub fn progress(&self) -> Progress {
        self.progress.borrow().clone()
    }

    /// Stops reading.
    pub fn stop(mut self) -> Progress {
        self.task.abort_all();
        self.progress()
    }
}

struct Audit {
    log: Log,
    report: watch::Sender<Progress>,
    /// The newest grant that was seen of each partition.
    epochs: BTreeMap<u32, Assignment>,
    /// What is added to the bucket's own revisions.
    before: u64,
}

async fn follow(client: async_nats::Client, stream: String, mut audit: Audit) {
    let mut next = 1;
    loop {
        match fetch(&client, &stream, next).await {
            Ok(Some(mut revision)) => {
                let missed = revision.sequence - next;
                next = revision.sequence + 1;
                revision.sequence += audit.before;
                let sequence = revision.sequence;
                let odd = audit.take(revision).err();
                audit.report.send_modify(|progress| {
                    progress.revision = sequence;
                    progress.missed += missed;
                    progress.odd.extend(odd);
                });
            }
            // The end of the bucket, no bucket yet, or no server: look again.
            Ok(None) | Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// The first message at or after a sequence.
async fn fetch(
    client: &async_nats::Client,
    stream: &str,
    from: u64,
) -> Result<Option<Revision>, String> {
    let body = serde_json::json!({ "seq": from, "next_by_subj": ">" });
    let answer = request(client, &format!("STREAM.MSG.GET.{stream}"), &body).await?;
    let Some(message) = answer.get("message") else {
        return Ok(None);
    };
    let text = |name: &str| message.get(name).and_then(serde_json::Value::as_str);
    let sequence = message.get("seq").and_then(serde_json::Value::as_u64);
    let (Some(subject), Some(sequence), Some(time)) = (text("subject"), sequence, text("time"))
    else {
        return Err(format!("not a stored message: {answer}"));
    };
    let key = subject.splitn(3, '.').nth(2).unwrap_or_default();
    Ok(Some(Revision {
        key: Key::parse(key),
        sequence,
        value: base64_of(text("data").unwrap_or_default())?,
        at: clock::boottime_of(time).ok_or_else(|| format!("not a time: {time}"))?,
    }))
}

fn base64_of(text: &str) -> Result<Vec<u8>, String> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD
        .decode(text)
        .map_err(|error| error.to_string())
}

// === impl Progress ===

impl Progress {
    /// The name of the coordinator that holds the term.
    pub fn coordinator(&self) -> Option<&str> {
        let holder = self.document.as_ref()?.holder.as_ref()?.to_string();
        self.candidates.get(&holder).map(String::as_str)
    }

    /// Whether every partition has an owner, and none is on its way to another one.
    pub fn is_settled(&self) -> bool {
        let settled = |a: &Assignment| a.owner.is_some() && a.owner == a.target;
        self.document
            .as_ref()
            .is_some_and(|document| document.partitions.iter().all(settled))
    }

    /// Whether these messages, by partition, are committed.
    pub fn has_committed(&self, last: &BTreeMap<u32, u64>) -> bool {
        let reached = |p: &u32| self.committed.get(p).copied().unwrap_or(0);
        last.iter()
            .all(|(partition, sequence)| reached(partition) > *sequence)
    }

    /// The name of each partition's owner.
    pub fn owners(&self) -> BTreeMap<u32, String> {
        let Some(document) = &self.document else {
            return BTreeMap::new();
        };
        let name = |assignment: &Assignment| {
            document
                .members
                .get(assignment.owner.as_ref()?)
                .map(|entry| entry.id.to_string())
        };
        let named = (0_u32..).zip(&document.partitions);
        named
            .filter_map(|(partition, assignment)| Some((partition, name(assignment)?)))
            .collect()
    }

    /// The epoch of each partition.
    pub fn epochs(&self) -> Vec<u64> {
        let partitions = self
            .document
            .iter()
            .flat_map(|document| &document.partitions);
        partitions.map(|assignment| assignment.epoch.0).collect()
    }
}

// === impl Audit ===

impl Audit {
    fn take(&mut self, revision: Revision) -> Result<(), String> {
        let Revision {
            key,
            sequence,
            value,
            at,
        } = revision;
        match key {
            Key::Offset(partition) => {
                let record = wire::offset::decode(&value).map_err(|error| error.to_string())?;
                let owner = record
                    .owner
                    .map_or_else(|| "seed".to_owned(), |o| o.to_string());
                let (epoch, next_seq) = (record.epoch.0, record.next_seq.0);
                let (partition, revision) = (partition.0, sequence);
                let stopped = record
                    .stopped
                    .map(|stop| (partition, format!("{:?}", stop.reason)));
                self.report.send_modify(|progress| {
                    progress.committed.insert(partition, next_seq);
                    progress.stopped.remove(&partition);
                    progress.stopped.extend(stopped);
                });
                let commit = Record::Commit {
                    partition,
                    epoch,
                    owner,
                    next_seq,
                    revision,
                    at,
                };
                self.log.write(&commit).map_err(|error| error.to_string())
            }
            Key::Group => {
                let document = wire::group::decode(&value).map_err(|error| error.to_string())?;
                self.take_document(&document, sequence, at)?;
                self.report
                    .send_modify(|progress| progress.document = Some(document));
                Ok(())
            }
            Key::Candidate(incarnation) => {
                let candidate = wire::candidate::decode(&value).map_err(|e| e.to_string())?;
                let (incarnation, id) = (incarnation.to_string(), candidate.id.clone());
                self.report.send_modify(|progress| {
                    progress.candidates.insert(incarnation, id);
                });
                Ok(())
            }
            Key::Meta | Key::Member(_) | Key::Reset(_) | Key::Foreign(_) => Ok(()),
        }
    }

    /// Writes down what this edition grants that the last one did not.
    fn take_document(
        &mut self,
        document: &GroupDocument,
        revision: u64,
        at: At,
    ) -> Result<(), String> {
        let write =
            |log: &mut Log, record: &Record| log.write(record).map_err(|error| error.to_string());
        for (partition, assignment) in (0_u32..).zip(&document.partitions) {
            let before = self.epochs.get(&partition);
            let known = before.is_some_and(|before| {
                (&before.owner, before.epoch) == (&assignment.owner, assignment.epoch)
            });
            let Some(owner) = assignment.owner.as_ref().filter(|_| !known) else {
                continue;
            };
            if let Some(member) = document.members.get(owner) {
                let (incarnation, id) = (owner.to_string(), member.id.to_string());
                write(&mut self.log, &Record::Member { incarnation, id })?;
            }
            let grant = Record::Granted {
                partition,
                epoch: assignment.epoch.0,
                owner: owner.to_string(),
                unclean: assignment.unclean,
                revision,
                at,
            };
            write(&mut self.log, &grant)?;
            self.epochs.insert(partition, assignment.clone());
        }
        Ok(())
    }
}
