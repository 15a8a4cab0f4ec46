//! Members in this process: readers of the library, many of them, that keep a history as the
//! application processes do.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use lockstep::nats::Options;
use lockstep::worker::{AckStatus, Delivered};
use lockstep::{Reader, ReaderOptions};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::clock;
use crate::history::{Ack, Log, Record};
use crate::scene::{Outcome, SceneError};

/// How long a reader waits for messages before it looks whether it should stop.
const FETCH: Duration = Duration::from_secs(1);

/// How long a reader may take to leave.
const LEAVE_WITHIN: Duration = Duration::from_secs(30);

/// Readers that run until they are closed, or dropped.
#[derive(Debug)]
pub(super) struct Readers {
    stop: watch::Sender<bool>,
    tasks: JoinSet<Outcome<()>>,
}

struct One {
    name: String,
    log: Log,
    acks: u64,
}

impl Readers {
    /// Starts a reader for each name.
    pub(super) fn start(
        names: &[String],
        url: &str,
        group: &str,
        histories: &Path,
    ) -> Outcome<Self> {
        let (stop, _) = watch::channel(false);
        let mut tasks = JoinSet::new();
        for name in names {
            let one = One {
                name: name.clone(),
                log: Log::open(&histories.join(format!("{name}.jsonl")))?,
                acks: 0,
            };
            let group = group.parse().map_err(|_| SceneError::new("not a group"))?;
            let options = ReaderOptions::new(Options::for_url(url), group, name);
            tasks.spawn(one.run(options, stop.subscribe()));
        }
        Ok(Self { stop, tasks })
    }

    /// All of them leave in good order.
    pub(super) async fn close(mut self) -> Outcome<()> {
        self.stop.send_replace(true);
        while let Some(ended) = self.tasks.join_next().await {
            ended??;
        }
        Ok(())
    }
}

impl One {
    async fn run(mut self, options: ReaderOptions, stopping: watch::Receiver<bool>) -> Outcome<()> {
        let reader = Reader::connect(options).await?;
        while !*stopping.borrow() {
            let messages = reader.fetch(100, FETCH).await?;
            for message in &messages {
                self.log.write(&self.seen(message)?)?;
            }
            if !messages.is_empty() {
                self.acknowledge(&reader, &messages).await?;
            }
        }
        reader.close(LEAVE_WITHIN).await?;
        Ok(())
    }

    fn seen(&self, message: &Delivered) -> Outcome<Record> {
        let payload: serde_json::Value = serde_json::from_slice(&message.payload)?;
        let key = payload.get("key").and_then(serde_json::Value::as_str);
        Ok(Record::Seen {
            member: self.name.clone(),
            session: self.name.clone(),
            partition: message.partition.0,
            epoch: message.epoch.0,
            sequence: message.sequence.0,
            key: key.unwrap_or_default().to_owned(),
            n: payload
                .get("n")
                .and_then(serde_json::Value::as_u64)
                .unwrap_or(0),
            attempt: message.attempt,
            at: clock::boottime_ns(),
        })
    }

    /// Everything up to the newest of each partition.
    async fn acknowledge(&mut self, reader: &Reader, messages: &[Delivered]) -> Outcome<()> {
        let mut newest: BTreeMap<(u32, u64), Ack> = BTreeMap::new();
        for message in messages {
            self.acks += 1;
            let ack = Ack {
                member: self.name.clone(),
                session: self.name.clone(),
                ack: self.acks,
                partition: message.partition.0,
                epoch: message.epoch.0,
                sequence: message.sequence.0,
                at: clock::boottime_ns(),
            };
            newest.insert((ack.partition, ack.epoch), ack);
        }
        for ack in newest.values() {
            self.log.write(&Record::Acking(ack.clone()))?;
        }
        for result in reader.ack(messages).await? {
            let place = (result.position.partition.0, result.position.epoch.0);
            let Some(ack) = newest.get(&place) else {
                continue;
            };
            let ack = Ack {
                at: clock::boottime_ns(),
                ..ack.clone()
            };
            self.log.write(&match result.status {
                AckStatus::NotOwned => Record::Refused(ack),
                AckStatus::Accepted | AckStatus::Committed => Record::Acked(ack),
            })?;
        }
        Ok(())
    }
}
