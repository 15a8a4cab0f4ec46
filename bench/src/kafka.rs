//! Apache Kafka on this machine: one node in `KRaft` mode, and the Java client as processes.

use std::path::Path;
use std::time::Duration;

use lockstep_e2e::children::{self, Child};
use lockstep_e2e::ports;
use lockstep_e2e::scene::{Outcome, SceneError};
use serde::Deserialize;
use tempfile::TempDir;
use tokio::process::Command;

use crate::ground::Cell;
use crate::outside::{self, built, counted, last_line};
use crate::tally::{Enough, Pace};

/// How long the server may take until it listens.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// A running server. Dropping it kills it and removes its store.
#[derive(Debug)]
pub(crate) struct Kafka {
    port: u16,
    pub(crate) folder: TempDir,
    _server: Child,
}

/// Latencies as the Java program prints them.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Latency {
    pub(crate) p50_ns: u64,
    pub(crate) p99_ns: u64,
}

/// Whether Java is here and Maven has collected what is run.
pub(crate) fn is_here() -> bool {
    outside::is_built("kafka/bench-kafka-1.jar")
}

// === impl Kafka ===

impl Kafka {
    /// Starts a server whose groups have this session timeout, and heartbeats as Lockstep's.
    pub(crate) async fn start(session: Duration, heartbeat: Duration) -> Outcome<Self> {
        let free = || ports::free().ok_or_else(|| SceneError::new("no free port"));
        let (port, control) = (free()?, free()?);
        let folder = tempfile::Builder::new()
            .prefix("lockstep-kafka-")
            .tempdir()?;
        let settings = folder.path().join("server.properties");
        let logs = folder.path().join("logs");
        let (session, heartbeat) = (session.as_millis(), heartbeat.as_millis());
        let text = format!(
            "process.roles=broker,controller\nnode.id=1\n\
             listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{control}\n\
             advertised.listeners=PLAINTEXT://127.0.0.1:{port}\n\
             controller.listener.names=CONTROLLER\n\
             controller.quorum.voters=1@127.0.0.1:{control}\nlog.dirs={}\n\
             offsets.topic.replication.factor=1\n\
             transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n\
             group.consumer.min.session.timeout.ms={session}\n\
             group.consumer.session.timeout.ms={session}\n\
             group.consumer.min.heartbeat.interval.ms={heartbeat}\n\
             group.consumer.heartbeat.interval.ms={heartbeat}\n",
            logs.display()
        );
        std::fs::write(&settings, text)?;
        let mut format = java();
        // Any 16 bytes in base64 will do as the cluster's id.
        format
            .args([
                "kafka.tools.StorageTool",
                "format",
                "-t",
                "bG9ja3N0ZXAtYmVuY2gtMQ",
            ])
            .arg("-c")
            .arg(&settings);
        last_line(format, READY_WITHIN).await?;
        let mut server = java();
        server.arg("kafka.Kafka").arg(&settings);
        let log = folder.path().join("server.log");
        let kafka = Self {
            port,
            _server: children::start(server.into_std(), &log)?,
            folder,
        };
        let address = format!("127.0.0.1:{port}");
        lockstep_e2e::until("Kafka's port", READY_WITHIN, async || {
            let connected = tokio::net::TcpStream::connect(&address).await;
            connected.map(drop).map_err(|error| error.to_string())
        })
        .await?;
        Ok(kafka)
    }

    /// Makes a topic of the cell's partitions, with its messages.
    pub(crate) async fn fill(&self, topic: &str, cell: &Cell) -> Outcome<()> {
        let mut command = self.peer("fill", topic);
        command
            .arg(format!("partitions={}", cell.partitions))
            .arg(format!("size={}", cell.size))
            .arg(format!("messages={}", cell.messages));
        last_line(command, READY_WITHIN * 2).await.map(drop)
    }

    /// Reads a topic as a new group; at most `window` messages per poll, each with a commit.
    pub(crate) async fn read(&self, topic: &str, window: u32, enough: Enough) -> Outcome<Pace> {
        let mut command = self.peer("count", topic);
        command
            .arg(format!("group={}", crate::group::new_name()))
            .arg(format!("window={window}"))
            .arg(format!("messages={}", enough.messages))
            .arg(format!("within_ms={}", enough.within.as_millis()));
        counted(command, enough.within).await
    }

    /// The latency from publication to hand-over at this rate, for so many seconds.
    pub(crate) async fn latency(&self, cell: &Cell, rate: u32, seconds: u32) -> Outcome<Latency> {
        let mut command = self.peer("latency", "latency");
        command
            .arg("group=latency")
            .arg(format!("partitions={}", cell.partitions))
            .arg(format!("size={}", cell.size))
            .arg(format!("rate={rate}"))
            .arg(format!("seconds={seconds}"));
        let line = last_line(command, Duration::from_secs(seconds.into())).await?;
        Ok(serde_json::from_str(&line)?)
    }

    /// Publishes at this rate until it is dropped.
    pub(crate) fn produce(&self, topic: &str, cell: &Cell, rate: u32) -> Outcome<Child> {
        let mut command = self.peer("produce", topic);
        command
            .arg(format!("partitions={}", cell.partitions))
            .arg(format!("size={}", cell.size))
            .arg(format!("rate={rate}"));
        let log = self.folder.path().join("produce.log");
        Ok(children::start(command.into_std(), &log)?)
    }

    /// A member of a group that writes what it receives into a file.
    pub(crate) fn member(&self, topic: &str, group: &str, output: &Path) -> Outcome<Child> {
        let mut command = self.peer("member", topic);
        command.arg(format!("group={group}"));
        Ok(children::start(command.into_std(), output)?)
    }

    fn peer(&self, mode: &str, topic: &str) -> Command {
        let mut command = java();
        command
            .args(["bench.Peer", mode])
            .arg(format!("at=127.0.0.1:{}", self.port))
            .arg(format!("topic={topic}"));
        command
    }
}

/// Java with everything that Maven collected; its memory as Kafka's own scripts set it for a client.
fn java() -> Command {
    let mut command = Command::new("java");
    command
        .args(["-Xmx512m", "-cp"])
        .arg(format!("{}/*", built("kafka").display()));
    command
}
