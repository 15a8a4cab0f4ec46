//! Who can reach whom: a proxy on every link, so that any side of the network can be cut off.
//!
//! Links lead from whoever connects to a server: from clients, and from one server to another
//! (their routes). Proxies do the same with and without root, and leave the machine's own network
//! alone.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use crate::proxy::{Mode, Proxy};

/// A place in the network.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    /// A server, by its index in the cluster.
    Server(usize),
    /// A client of the group: a worker, a coordinator.
    Client(String),
    /// Somebody who looks on, or publishes: it is told of a broken link at once, and takes another.
    Witness(String),
}

/// All links there are.
#[derive(Debug, Default)]
pub struct Network {
    links: BTreeMap<(Node, usize), Proxy>,
}

// === impl Node ===

impl Node {
    /// A client of this name.
    pub fn client(name: &str) -> Self {
        Self::Client(name.to_owned())
    }

    /// A witness of this name.
    pub fn witness(name: &str) -> Self {
        Self::Witness(name.to_owned())
    }
}

// === impl Network ===

impl Network {
    /// Links a node to the server of this index, which listens on this port; the address to
    /// connect to, `host:port`. Asked again, it is the same link.
    pub(crate) fn link(&mut self, from: &Node, to: usize, port: u16) -> io::Result<String> {
        let place = (from.clone(), to);
        if let Some(link) = self.links.get(&place) {
            return Ok(link.address());
        }
        let link = Proxy::open(format!("127.0.0.1:{port}"))?;
        let address = link.address();
        self.links.insert(place, link);
        Ok(address)
    }

    /// Parts these nodes from all others. What is said across is held back until [`Self::heal`];
    /// witnesses outside are refused, and look for another server.
    pub fn part(&self, side: &BTreeSet<Node>) {
        for ((from, to), link) in &self.links {
            let (here, there) = (side.contains(from), side.contains(&Node::Server(*to)));
            if here == there {
                continue;
            }
            link.set(match from {
                Node::Server(_) | Node::Client(_) => Mode::Freeze,
                Node::Witness(_) => Mode::Refuse,
            });
        }
    }

    /// Does this to all links of a client.
    pub fn set(&self, client: &str, mode: Mode) {
        for link in self.of(client) {
            link.set(mode);
        }
    }

    /// Closes all connections of a client; it may connect anew.
    pub fn cut(&self, client: &str) {
        for link in self.of(client) {
            link.cut();
        }
    }

    /// Loses the next bytes that servers say to a client.
    pub fn lose(&self, client: &str, bytes: u64) {
        for link in self.of(client) {
            link.lose_to_client(bytes);
        }
    }

    /// Every link carries again; what was held back arrives.
    pub fn heal(&self) {
        for link in self.links.values() {
            link.set(Mode::Pass);
        }
    }

    fn of(&self, client: &str) -> impl Iterator<Item = &Proxy> {
        let node = Node::client(client);
        self.links
            .iter()
            .filter(move |((from, _), _)| *from == node)
            .map(|(_, link)| link)
    }
}
