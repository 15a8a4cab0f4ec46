//! What everything reads: NATS servers, and streams that hold the messages of a cell.

use std::time::Duration;

use async_nats::jetstream::{self, Context, stream};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use lockstep_e2e::scene::{Outcome, SceneError};
use lockstep_e2e::{NatsCluster, NatsServer, nats_server};
use tempfile::TempDir;

/// Publications that may wait for their acknowledgement.
const UNACKNOWLEDGED: usize = 2000;

/// The one stream of [`Layout::Filters`].
const STREAM: &str = "ONE";

/// How a group's partitions are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// One stream; each partition is read with a filter.
    Filters,
    /// One stream per partition, read without a filter.
    Streams,
}

/// What is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) layout: Layout,
    pub(crate) partitions: u32,
    /// Bytes of a payload.
    pub(crate) size: usize,
    /// Replicas of the streams, and servers.
    pub(crate) replicas: usize,
    /// Messages in all, the same number in each partition.
    pub(crate) messages: u64,
}

/// Servers with the messages of a cell.
#[derive(Debug)]
pub(crate) struct Ground {
    pub(crate) cell: Cell,
    pub(crate) servers: NatsCluster,
    /// For sockets, logs and manifests.
    pub(crate) folder: TempDir,
}

/// A stream and what of it is a partition; without a filter all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) stream: String,
    pub(crate) filter: Option<String>,
}

// === impl Cell ===

impl Cell {
    /// As figures name it.
    pub(crate) fn name(&self) -> String {
        let layout = match self.layout {
            Layout::Filters => "one_stream",
            Layout::Streams => "streams",
        };
        let Self {
            partitions,
            size,
            replicas,
            ..
        } = self;
        format!("{layout} {partitions}p {size}B R{replicas}")
    }

    /// Where a partition is.
    pub(crate) fn part(&self, partition: u32) -> Part {
        match self.layout {
            Layout::Filters => Part {
                stream: STREAM.to_owned(),
                filter: Some(format!("{partition}.one.>")),
            },
            Layout::Streams => Part {
                stream: format!("MANY-{partition}"),
                filter: None,
            },
        }
    }

    /// What a partition's messages are published to. The partition is the first token, as pcgroups
    /// wants it.
    pub(crate) fn subject(&self, partition: u32) -> String {
        match self.layout {
            Layout::Filters => format!("{partition}.one.k"),
            Layout::Streams => format!("{partition}.many.k"),
        }
    }

    pub(crate) fn messages_of_one(&self) -> u64 {
        self.messages / u64::from(self.partitions)
    }

    /// `spec.source` and `spec.partitioning` of a group that reads it.
    pub(crate) fn source_yaml(&self) -> String {
        let source = match self.layout {
            Layout::Filters => format!(
                "    stream:\n      name: {STREAM}\n      subjectPattern: \"{{partition}}.one.>\""
            ),
            Layout::Streams => "    streams:\n      pattern: \"MANY-{partition}\"".to_owned(),
        };
        let partitions = self.partitions;
        format!("  source:\n{source}\n  partitioning:\n    partitions: {partitions}")
    }

    fn streams(&self) -> Vec<stream::Config> {
        let config = |name: String, subjects: Vec<String>| stream::Config {
            name,
            subjects,
            num_replicas: self.replicas,
            ..stream::Config::default()
        };
        match self.layout {
            Layout::Filters => {
                // `*.one.*` would overlap with the server's own subjects.
                let subjects = (0..self.partitions).map(|p| format!("{p}.one.*"));
                vec![config(STREAM.to_owned(), subjects.collect())]
            }
            Layout::Streams => (0..self.partitions)
                .map(|p| config(self.part(p).stream, vec![format!("{p}.many.*")]))
                .collect(),
        }
    }
}

// === impl Ground ===

impl Ground {
    /// Starts servers and fills the streams.
    pub(crate) async fn prepare(cell: Cell) -> Outcome<Self> {
        let ground = Self::empty(cell).await?;
        let context = jetstream::new(ground.servers.connect().await?);
        fill(&context, &cell).await?;
        Ok(ground)
    }

    /// Starts servers and makes the streams; nothing is in them.
    pub(crate) async fn empty(cell: Cell) -> Outcome<Self> {
        let servers = match cell.replicas {
            0 | 1 => NatsCluster::of(NatsServer::start().await?),
            several => NatsCluster::start_with(several, nats_server::Options::default()).await?,
        };
        let context = jetstream::new(servers.connect().await?);
        for config in cell.streams() {
            make(&context, config).await?;
        }
        let folder = tempfile::Builder::new()
            .prefix("lockstep-bench-")
            .tempdir()?;
        Ok(Self {
            cell,
            servers,
            folder,
        })
    }
}

/// Makes a stream; a cluster that has just begun may have to be asked again.
async fn make(context: &Context, config: stream::Config) -> Outcome<()> {
    let what = format!("stream {}", config.name);
    let made = lockstep_e2e::until(what, Duration::from_secs(30), async || {
        let made = context.get_or_create_stream(config.clone()).await;
        made.map(drop).map_err(|error| error.to_string())
    });
    Ok(made.await?)
}

async fn fill(context: &Context, cell: &Cell) -> Outcome<()> {
    let payload = Bytes::from(vec![b'x'; cell.size]);
    let subjects: Vec<String> = (0..cell.partitions).map(|p| cell.subject(p)).collect();
    let mut waiting = FuturesUnordered::new();
    for _ in 0..cell.messages_of_one() {
        for subject in &subjects {
            let sent = context.publish(subject.clone(), payload.clone()).await?;
            waiting.push(sent.into_future());
            if waiting.len() >= UNACKNOWLEDGED {
                stored(waiting.next().await)?;
            }
        }
    }
    while !waiting.is_empty() {
        stored(waiting.next().await)?;
    }
    Ok(())
}

fn stored<T>(answer: Option<Result<T, impl std::error::Error>>) -> Outcome<()> {
    match answer {
        Some(Err(error)) => Err(SceneError::new(format!("not stored: {error}"))),
        Some(Ok(_)) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_a_filter_or_a_stream() {
        let mut cell = Cell {
            layout: Layout::Filters,
            partitions: 8,
            size: 128,
            replicas: 1,
            messages: 80,
        };
        assert_eq!(cell.name(), "one_stream 8p 128B R1");
        assert_eq!(cell.part(3).filter.as_deref(), Some("3.one.>"));
        assert_eq!(cell.messages_of_one(), 10);
        cell.layout = Layout::Streams;
        let part = Part {
            stream: "MANY-3".to_owned(),
            filter: None,
        };
        assert_eq!(cell.part(3), part);
    }
}
