//! A publisher of a keyed stream of orders, at a steady rate, that never gives a message up.

use std::path::Path;
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::{self, Context};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::clock;
use crate::history::{Log, Record};

/// How long a server may take to acknowledge before the message is sent again.
const ACK_WITHIN: Duration = Duration::from_secs(2);

/// What is published, and how fast.
#[derive(Clone, Debug)]
pub struct Load {
    /// The stream that stores it.
    pub stream: String,
    /// Messages of key `k` go to `<subject>.k`.
    pub subject: String,
    /// The number of partitions of the stream.
    pub partitions: u32,
    /// The keys, in turn.
    pub keys: Vec<String>,
    /// Messages per second.
    pub rate: u32,
}

/// A publisher that runs until it is stopped, or dropped.
#[derive(Debug)]
pub struct Publisher {
    published: watch::Receiver<u64>,
    stop: watch::Sender<bool>,
    task: JoinSet<std::io::Result<()>>,
}

/// The server's `partition` function: FNV-1a of 32 bits, modulo the number of partitions. Written
/// here once more on purpose: the product's is judged by it.
pub fn partition_of(key: &str, partitions: u32) -> u32 {
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    key.bytes().fold(0x811c_9dc5, step) % partitions
}

// === impl Publisher ===

impl Publisher {
    /// Starts to publish; each acknowledged message is written to `log`.
    pub fn start(client: async_nats::Client, load: Load, log: &Path) -> std::io::Result<Self> {
        let (stop, stopping) = watch::channel(false);
        let (count, published) = watch::channel(0);
        let log = Log::open(log)?;
        let context = jetstream::new(client);
        let mut task = JoinSet::new();
        task.spawn(publish(context, load, log, stopping, count));
        Ok(Self {
            published,
            stop,
            task,
        })
    }

    /// How many messages are acknowledged so far.
    pub fn count(&self) -> u64 {
        *self.published.borrow()
    }

    /// Waits until this many are acknowledged (or the publisher has ended).
    pub async fn reached(&self, count: u64) {
        let mut published = self.published.clone();
        // An error says that it has ended; then nothing more will come.
        drop(published.wait_for(|published| *published >= count).await);
    }

    /// Stops after the current message is acknowledged; the number of messages in all.
    pub async fn stop(mut self) -> std::io::Result<u64> {
        self.stop.send_replace(true);
        if let Some(ended) = self.task.join_next().await {
            ended.map_err(std::io::Error::other)??;
        }
        Ok(self.count())
    }
}

async fn publish(
    context: Context,
    load: Load,
    mut log: Log,
    mut stopping: watch::Receiver<bool>,
    count: watch::Sender<u64>,
) -> std::io::Result<()> {
    let mut pace = tokio::time::interval(Duration::from_secs(1) / load.rate.max(1));
    pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for round in 1_u64.. {
        for key in &load.keys {
            tokio::select! {
                _ = pace.tick() => {}
                _ = stopping.wait_for(|stop| *stop) => return Ok(()),
            }
            let sequence = until_stored(&context, &load, key, round).await;
            let record = Record::Published {
                stream: load.stream.clone(),
                sequence,
                partition: partition_of(key, load.partitions),
                key: key.clone(),
                n: round,
                at: clock::boottime_ns(),
            };
            log.write(&record)?;
            count.send_modify(|count| *count += 1);
        }
    }
    Ok(())
}

/// Sends the message until it is acknowledged; its id makes repeats harmless.
async fn until_stored(context: &Context, load: &Load, key: &str, n: u64) -> u64 {
    let subject = format!("{}.{key}", load.subject);
    let payload = serde_json::json!({ "key": key, "n": n }).to_string();
    let mut headers = HeaderMap::new();
    headers.insert(async_nats::header::NATS_MESSAGE_ID, format!("{key}-{n}"));
    loop {
        let sent = async {
            let sent = context.publish_with_headers(
                subject.clone(),
                headers.clone(),
                payload.clone().into(),
            );
            sent.await?.await
        };
        match tokio::time::timeout(ACK_WITHIN, sent).await {
            Ok(Ok(ack)) => return ack.sequence,
            Ok(Err(_)) | Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_partition_is_the_servers() {
        // Measured on a server: tokens `customer-42` and `order-7`, 12 partitions.
        assert_eq!(partition_of("customer-42order-7", 12), 6);
        assert_eq!(partition_of("größeü", 12), 9);
    }
}
