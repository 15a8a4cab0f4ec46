//! Several nats-servers that replicate: R3 streams, elections, a member that is stopped.

use std::time::Duration;

use crate::nats_server::{self, NatsServer, Options, StartError};
use crate::network::{Network, Node};
use crate::ports;
use crate::until::{TimedOut, until};

/// Names how many servers tests take that would do with one: 1, or 3 that replicate.
pub const COUNT_VARIABLE: &str = "LOCKSTEP_NATS_SERVERS";

/// How long an election may take; 4-9 s are normal.
const ELECTION_WITHIN: Duration = Duration::from_secs(40);

/// A JetStream cluster on the loopback interface.
#[derive(Debug)]
pub struct NatsCluster {
    /// Its servers; any of them can be killed, paused and restarted.
    pub servers: Vec<NatsServer>,
    /// The links between them, and to them, where the cluster is [`Self::divisible`].
    pub network: Option<Network>,
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
        Ok(Self {
            servers,
            network: None,
        })
    }

    /// One server, or several, with a proxy on every link: between them, and to each client that
    /// takes its addresses from [`Self::urls_for`].
    pub async fn divisible(size: usize, options: Vec<Options>) -> Result<Self, StartError> {
        let mut network = Network::default();
        let ports: Vec<u16> = (0..size).filter_map(|_| ports::free()).collect();
        let mut servers = Vec::new();
        for (index, options) in options.into_iter().take(size).enumerate() {
            let routes = routes(&mut network, index, &ports)
                .map_err(nats_server::system("opening a proxy"))?;
            let options = match routes {
                Some(routes) => options.config(&routes),
                None => options,
            };
            servers.push(NatsServer::prepare(options)?);
        }
        for server in &mut servers {
            server.spawn()?;
        }
        for server in &mut servers {
            server.wait_until_ready().await?;
        }
        Ok(Self {
            servers,
            network: Some(network),
        })
    }

    /// One server, or as many as [`COUNT_VARIABLE`] names, for tests that do not care.
    pub async fn usual() -> Result<Self, StartError> {
        match std::env::var(COUNT_VARIABLE)
            .ok()
            .and_then(|count| count.parse().ok())
        {
            None | Some(1) => Ok(Self::of(NatsServer::start().await?)),
            Some(several) => Self::start(several).await,
        }
    }

    /// How many replicas a stream can have: one on each server.
    pub fn replicas(&self) -> u32 {
        u32::try_from(self.servers.len()).unwrap_or(1)
    }

    /// A single server, where several would do as well.
    pub fn of(server: NatsServer) -> Self {
        Self {
            servers: vec![server],
            network: None,
        }
    }

    /// The addresses that this node uses: its own links where the cluster is
    /// [`Self::divisible`].
    pub fn urls_for(&mut self, node: &Node) -> std::io::Result<Vec<String>> {
        let Some(network) = &mut self.network else {
            return Ok(self.urls());
        };
        let ports = self.servers.iter().map(NatsServer::port).enumerate();
        ports
            .map(|(index, port)| Ok(format!("nats://{}", network.link(node, index, port)?)))
            .collect()
    }

    /// A client that survives the loss of a server, at a node of its own.
    pub async fn connect_as(&mut self, node: &Node) -> std::io::Result<async_nats::Client> {
        let urls = self.urls_for(node)?;
        let connected = nats_server::patient().connect(urls).await;
        connected.map_err(std::io::Error::other)
    }

    /// Parts a server from the others, with these clients on its side; nothing where nothing can
    /// be parted.
    pub fn isolate(&self, server: usize, with: &[&str]) {
        if let Some(network) = &self.network {
            let clients = with.iter().map(|name| Node::client(name));
            network.part(&clients.chain([Node::Server(server)]).collect());
        }
    }

    /// Every link carries again.
    pub fn heal(&self) {
        if let Some(network) = &self.network {
            network.heal();
        }
    }

    /// The index of the server that leads JetStream itself.
    pub async fn meta_leader(&self) -> Result<usize, TimedOut> {
        until("meta leader", ELECTION_WITHIN, async || {
            let mut seen = Vec::new();
            for (index, server) in self.servers.iter().enumerate() {
                let page = server.inspect("/jsz").await.unwrap_or_default();
                let leader = page.pointer("/meta_cluster/leader").cloned();
                if leader.as_ref().is_some_and(|name| *name == server.name()) {
                    return Ok(index);
                }
                seen.push(leader);
            }
            Err(format!("{seen:?}"))
        })
        .await
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

/// The cluster block of a server whose routes all lead through proxies; none for a single one.
/// What it tells others of its own address leads nowhere, so that they make no route around them.
fn routes(network: &mut Network, own: usize, ports: &[u16]) -> std::io::Result<Option<String>> {
    let mut routes = Vec::new();
    for (index, port) in ports.iter().enumerate().filter(|(index, _)| *index != own) {
        let address = network.link(&Node::Server(own), index, *port)?;
        routes.push(format!("nats://{address}"));
    }
    if routes.is_empty() {
        return Ok(None);
    }
    Ok(Some(format!(
        "cluster {{\n name: test\n listen: \"127.0.0.1:{}\"\n advertise: \"127.0.0.1:1\"\n \
         no_advertise: true\n routes: [{}]\n}}",
        ports[own],
        routes.join(", ")
    )))
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
