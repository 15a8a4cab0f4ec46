//! The limit: a bare reader of the partitions, without acknowledgements, into a counter.
//!
//! It does what the fastest reader would: one consumer per partition in memory, raw pulls that
//! overlap as little as the way there and back needs, and nothing with the messages.

use std::sync::Arc;

use async_nats::Client;
use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::{self, Context};
use futures_util::StreamExt;
use lockstep_e2e::clock;
use lockstep_e2e::scene::{Outcome, SceneError};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::ground::{Ground, Part};
use crate::tally::{Enough, Pace, Tally};

/// Messages that are counted together: a lock for each would be felt.
const TOGETHER: u64 = 100;

/// How it pulls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pulling {
    /// Messages per pull.
    pub(crate) batch: u64,
    /// Messages on their way below which the next pull is sent.
    pub(crate) low: u64,
    /// Connections; partitions are dealt out among them.
    pub(crate) connections: u32,
}

/// What was found to be the fastest; `--only pulls` compares.
pub(crate) const BEST: Pulling = Pulling {
    batch: 500,
    low: 150,
    connections: 1,
};

/// Reads everything once.
pub(crate) async fn read(ground: &Ground, enough: Enough, pulling: Pulling) -> Outcome<Pace> {
    let mut clients = Vec::new();
    for _ in 0..pulling.connections.max(1) {
        clients.push(ground.servers.connect().await?);
    }
    let tally = Arc::new(Mutex::new(Tally::until(enough)));
    let mut readers = Vec::new();
    for (partition, client) in (0..ground.cell.partitions).zip(clients.iter().cycle()) {
        let part = ground.cell.part(partition);
        readers.push(Reader::begin(client.clone(), part, pulling).await?);
    }
    let mut running = JoinSet::new();
    let messages = ground.cell.messages_of_one();
    for reader in readers {
        running.spawn(reader.count(messages, Arc::clone(&tally)));
    }
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    let pace = tally.lock().await.pace();
    pace.ok_or_else(|| SceneError::new("nothing was read"))
}

struct Reader {
    client: Client,
    call: String,
    inbox: String,
    pulling: Pulling,
}

// === impl Reader ===

impl Reader {
    async fn begin(client: Client, part: Part, pulling: Pulling) -> Outcome<Self> {
        let context: Context = jetstream::new(client.clone());
        let stream = context.get_stream_no_info(&part.stream).await?;
        let consumer = stream
            .create_consumer(pull::Config {
                ack_policy: AckPolicy::None,
                filter_subject: part.filter.unwrap_or_default(),
                memory_storage: true,
                num_replicas: 1,
                ..pull::Config::default()
            })
            .await?;
        let name = &consumer.cached_info().name;
        Ok(Self {
            call: format!("$JS.API.CONSUMER.MSG.NEXT.{}.{name}", part.stream),
            inbox: client.new_inbox(),
            client,
            pulling,
        })
    }

    /// Counts so many messages.
    async fn count(self, messages: u64, tally: Arc<Mutex<Tally>>) -> Outcome<()> {
        let mut arrivals = self.client.subscribe(self.inbox.clone()).await?;
        let (mut to_ask, mut on_their_way, mut seen, mut told) = (messages, 0, 0, 0);
        while seen < messages {
            if on_their_way <= self.pulling.low && to_ask > 0 {
                let batch = to_ask.min(self.pulling.batch);
                self.ask(batch).await?;
                to_ask -= batch;
                on_their_way += batch;
            }
            let message = arrivals.next().await;
            let message = message.ok_or_else(|| SceneError::new("the connection was closed"))?;
            if message.reply.is_none() {
                continue; // a word about a pull
            }
            seen += 1;
            on_their_way = on_their_way.saturating_sub(1);
            if seen - told == TOGETHER || seen == messages {
                let goes_on = tally.lock().await.note(seen - told, clock::now());
                told = seen;
                if !goes_on {
                    break;
                }
            }
        }
        Ok(())
    }

    async fn ask(&self, batch: u64) -> Outcome<()> {
        let body = format!("{{\"batch\":{batch},\"expires\":30000000000}}");
        let (call, reply) = (self.call.clone(), self.inbox.clone());
        self.client
            .publish_with_reply(call, reply, body.into())
            .await?;
        Ok(())
    }
}
