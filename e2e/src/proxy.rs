//! A TCP proxy with faults: silence, one-way silence, lost bytes, cut connections.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How much is read at once. Small, so that a change of mode is felt soon.
const CHUNK: usize = 16 * 1024;

/// What the proxy does with bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Forwards both ways.
    Pass,
    /// Keeps connections and accepts new ones, and forwards nothing: a half-open path. What is
    /// held back goes out when the mode changes.
    Freeze,
    /// Holds back what the server says.
    HoldToClient,
    /// Holds back what the client says.
    HoldToServer,
    /// Loses what the server says, for ever.
    LoseToClient,
    /// Closes every connection, new ones as well.
    Refuse,
}

/// A running proxy; it ends, with all its connections, when dropped.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    control: Arc<Control>,
    _accepting: JoinSet<()>,
}

#[derive(Debug)]
struct Control {
    mode: watch::Sender<Mode>,
    cuts: watch::Sender<u64>,
    lose_to_client: AtomicU64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    ToClient,
    ToServer,
}

// === impl Proxy ===

impl Proxy {
    /// Listens on a free port, and connects each client to `target` (`host:port`).
    #[expect(
        clippy::unused_async,
        reason = "whoever starts something here awaits it"
    )]
    pub async fn start(target: impl Into<String>) -> io::Result<Self> {
        Self::open(target)
    }

    /// As [`Self::start`], for those who cannot wait; within a runtime.
    pub fn open(target: impl Into<String>) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let port = listener.local_addr()?.port();
        let control = Arc::new(Control {
            mode: watch::Sender::new(Mode::Pass),
            cuts: watch::Sender::new(0),
            lose_to_client: AtomicU64::new(0),
        });
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, target.into(), Arc::clone(&control)));
        Ok(Self {
            port,
            control,
            _accepting: accepting,
        })
    }

    /// In front of a nats-server.
    pub async fn before(server: &crate::NatsServer) -> io::Result<Self> {
        Self::start(format!("127.0.0.1:{}", server.port())).await
    }

    /// Where clients connect.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Where it listens, `host:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Changes what happens to bytes from now on.
    pub fn set(&self, mode: Mode) {
        self.control.mode.send_replace(mode);
        if mode == Mode::Refuse {
            self.cut();
        }
    }

    /// Closes all connections there are; new ones follow the mode.
    pub fn cut(&self) {
        self.control.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Loses the next `bytes` that the server says, on whichever connection they come.
    pub fn lose_to_client(&self, bytes: u64) {
        self.control
            .lose_to_client
            .fetch_add(bytes, Ordering::Relaxed);
    }
}

async fn accept(listener: TcpListener, target: String, control: Arc<Control>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((client, _)) = listener.accept().await else {
            return;
        };
        if *control.mode.borrow() != Mode::Refuse {
            connections.spawn(connect(client, target.clone(), Arc::clone(&control)));
        }
        while connections.try_join_next().is_some() {}
    }
}

/// Serves one client until either side ends, or the connection is cut.
async fn connect(client: TcpStream, target: String, control: Arc<Control>) {
    let mut cuts = control.cuts.subscribe();
    cuts.mark_unchanged();
    let Ok(server) = TcpStream::connect(target).await else {
        return;
    };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        _ = pump(from_client, to_server, Direction::ToServer, &control) => {}
        _ = pump(from_server, to_client, Direction::ToClient, &control) => {}
        _ = cuts.changed() => {}
    }
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    direction: Direction,
    control: &Control,
) -> io::Result<()> {
    let mut mode = control.mode.subscribe();
    let mut buffer = vec![0; CHUNK];
    loop {
        let length = from.read(&mut buffer).await?;
        if length == 0 {
            return Ok(());
        }
        if mode.wait_for(|mode| !mode.holds(direction)).await.is_err() {
            return Ok(());
        }
        let lost = *mode.borrow() == Mode::LoseToClient && direction == Direction::ToClient;
        let kept = if lost {
            length
        } else {
            control.lose(direction, length)
        };
        to.write_all(&buffer[kept..length]).await?;
    }
}

// === impl Mode ===

impl Mode {
    fn holds(self, direction: Direction) -> bool {
        match self {
            Self::Freeze => true,
            Self::HoldToClient => direction == Direction::ToClient,
            Self::HoldToServer => direction == Direction::ToServer,
            Self::Pass | Self::LoseToClient | Self::Refuse => false,
        }
    }
}

// === impl Control ===

impl Control {
    /// How many of the next `length` bytes are to be lost.
    fn lose(&self, direction: Direction, length: usize) -> usize {
        if direction == Direction::ToServer {
            return 0;
        }
        let length = u64::try_from(length).unwrap_or(u64::MAX);
        let take = |wanted: u64| Some(wanted - wanted.min(length));
        let before = self
            .lose_to_client
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .unwrap_or(0);
        usize::try_from(before.min(length)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A client behind a proxy, and the server's end of its connection.
    async fn pair() -> (Proxy, TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let proxy = Proxy::start(address.to_string()).await.unwrap();
        let client = TcpStream::connect(("127.0.0.1", proxy.port)).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        (proxy, client, server)
    }

    async fn reads(stream: &mut TcpStream) -> Option<String> {
        let mut buffer = [0; 64];
        let read = tokio::time::timeout(Duration::from_millis(200), stream.read(&mut buffer));
        let length = read.await.ok()?.unwrap_or(0);
        Some(String::from_utf8_lossy(&buffer[..length]).into_owned())
    }

    #[tokio::test]
    async fn what_is_held_comes_later_and_what_is_lost_never() {
        let (proxy, mut client, mut server) = pair().await;
        proxy.set(Mode::HoldToClient);
        server.write_all(b"held").await.unwrap();
        assert_eq!(reads(&mut client).await, None);
        client.write_all(b"up").await.unwrap();
        assert_eq!(reads(&mut server).await.as_deref(), Some("up"));
        proxy.set(Mode::Pass);
        assert_eq!(reads(&mut client).await.as_deref(), Some("held"));

        proxy.set(Mode::LoseToClient);
        server.write_all(b"lost").await.unwrap();
        assert_eq!(reads(&mut client).await, None);
        proxy.set(Mode::Pass);
        proxy.lose_to_client(2);
        server.write_all(b"..kept").await.unwrap();
        assert_eq!(reads(&mut client).await.as_deref(), Some("kept"));
    }

    #[tokio::test]
    async fn a_cut_ends_the_connection_and_a_freeze_does_not() {
        let (proxy, mut client, mut server) = pair().await;
        proxy.set(Mode::Freeze);
        client.write_all(b"x").await.unwrap();
        assert_eq!(reads(&mut server).await, None);
        proxy.cut();
        assert_eq!(reads(&mut client).await.as_deref(), Some(""));
        proxy.set(Mode::Refuse);
        let mut refused = TcpStream::connect(("127.0.0.1", proxy.port)).await.unwrap();
        assert_eq!(reads(&mut refused).await.as_deref(), Some(""));
    }
}
