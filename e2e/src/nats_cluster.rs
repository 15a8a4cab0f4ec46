//! Several nats-servers that replicate: R3 streams, elections, a member that is stopped.

use std::time::Duration;

use crate::nats_server::{self, NatsServer, Options, StartError};
use crate::ports;
use crate::until::{TimedOut, until};

/// How long an election may take; 4-9 s are normal.
const ELECTION_WITHIN: Duration = Duration::from_secs(40);

/// A JetStream cluster on the loopback interface.
#[derive(Debug)]
pub struct NatsCluster {
    /// Its servers; any of them can be killed, paused and restarted.
    pub servers: Vec<NatsServer>,
}

impl NatsCluster {
    /// Starts `size` servers and waits until all of them follow one meta leader.
    pub async fn start(size: usize) -> Result<Self, StartError> {
        Self::start_with(size, Options::default()).await
    }

    /// As [`Self::start`], each server with these settings.
    pub async fn start_with(size: usize, options: Options) -> Result<Self, StartError> {
        let routes: Vec<u16> = (0..size).filter_map(|_| ports::free()).collect();
        let list: Vec<String> = routes
            .iter()
            .map(|port| format!("nats://127.0.0.1:{port}"))
            .collect();
        let list = list.join(", ");
        let mut servers = Vec::new();
        for port in routes {
            let cluster = format!(
                "cluster {{\n name: test\n listen: \"127.0.0.1:{port}\"\n routes: [{list}]\n}}"
            );
            servers.push(NatsServer::prepare(options.clone().config(&cluster))?);
        }
        for server in &mut servers {
            server.spawn()?;
        }
        for server in &mut servers {
            server.wait_until_ready().await?;
        }
        Ok(Self { servers })
    }

    /// A single server, where several would do as well.
    pub fn of(server: NatsServer) -> Self {
        Self {
            servers: vec![server],
        }
    }

    /// A client that survives the loss of a server.
    pub async fn connect(&self) -> Result<async_nats::Client, async_nats::ConnectError> {
        nats_server::patient().connect(self.urls()).await
    }

    /// SIGKILL to all of them.
    pub fn kill(&mut self) -> std::io::Result<()> {
        self.servers.iter_mut().try_for_each(NatsServer::kill)
    }

    /// Starts them all again, each with its port and its store.
    pub async fn restart(&mut self) -> Result<(), StartError> {
        self.kill()
            .map_err(nats_server::system("killing the old process"))?;
        for server in &mut self.servers {
            server.spawn()?;
        }
        for server in &mut self.servers {
            server.wait_until_ready().await?;
        }
        Ok(())
    }

    /// All addresses, for a client that survives the loss of one.
    pub fn urls(&self) -> Vec<String> {
        self.servers.iter().map(NatsServer::url).collect()
    }

    /// All addresses in one string, as `--nats-url` takes them.
    pub fn url(&self) -> String {
        self.urls().join(",")
    }

    /// Waits until a stream has a leader; the index of its server.
    pub async fn leader_of(&self, stream: &str) -> Result<usize, TimedOut> {
        until(
            format!("leader of stream {stream}"),
            ELECTION_WITHIN,
            async || {
                let mut seen = Vec::new();
                for (index, server) in self.servers.iter().enumerate() {
                    let page = server.inspect("/jsz?streams=true").await;
                    let page =
                        page.map_or(Leads::NoAnswer, |page| leads(&page, stream, &server.name()));
                    if page == Leads::Yes {
                        return Ok(index);
                    }
                    seen.push(page);
                }
                Err(format!("{seen:?}"))
            },
        )
        .await
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leads {
    Yes,
    No,
    NoAnswer,
}

/// Whether this page says that the server of this name leads the stream.
fn leads(page: &serde_json::Value, stream: &str, server: &str) -> Leads {
    let accounts = page.get("account_details").and_then(|list| list.as_array());
    let details = accounts
        .into_iter()
        .flatten()
        .filter_map(|account| account.get("stream_detail"));
    let mut streams = details.filter_map(|list| list.as_array()).flatten();
    let found = streams.find(|detail| detail.get("name").is_some_and(|name| name == stream));
    let leader = found.and_then(|detail| detail.pointer("/cluster/leader"));
    if leader.is_some_and(|name| name == server) {
        Leads::Yes
    } else {
        Leads::No
    }
}
