//! Small clients for a worker's socket: HTTP over the Unix socket by hand, so that what is on the
//! wire is what a test wrote; and a gRPC channel.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use lockstep::wire::proto::worker_client::WorkerClient;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

/// Longer than any call of a test waits.
const PATIENCE: Duration = Duration::from_secs(60);

/// JSON over HTTP, one connection per call, as `curl --unix-socket` does it.
#[derive(Clone, Debug)]
pub struct SocketClient {
    socket: PathBuf,
    session: Option<String>,
}

/// What a call was answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// The head: status line and headers, as they came.
    pub head: String,
    /// The body; a string where it is not JSON.
    pub body: Value,
}

/// A running `GET /v1/events`.
#[derive(Debug)]
pub struct Events {
    lines: Lines<BufReader<UnixStream>>,
}

/// One server-sent event.
#[derive(Clone, Debug, PartialEq)]
pub struct SeenEvent {
    /// Its name.
    pub name: String,
    /// Its body.
    pub body: Value,
}

/// A gRPC client over the socket.
pub async fn grpc(socket: &Path) -> Result<WorkerClient<Channel>, tonic::transport::Error> {
    Ok(WorkerClient::new(channel(socket).await?))
}

/// A gRPC channel over the socket, for any service on it.
pub async fn channel(socket: &Path) -> Result<Channel, tonic::transport::Error> {
    let socket = socket.to_owned();
    let connect = service_fn(move |_| {
        let socket = socket.clone();
        async move { Ok::<_, io::Error>(TokioIo::new(UnixStream::connect(socket).await?)) }
    });
    Endpoint::from_static("http://worker")
        .connect_with_connector(connect)
        .await
}

// === impl SocketClient ===

impl SocketClient {
    /// A client of the default session.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Self {
            socket: socket.into(),
            session: None,
        }
    }

    /// The same socket, as this session.
    #[must_use]
    pub fn as_session(&self, name: &str) -> Self {
        Self {
            socket: self.socket.clone(),
            session: Some(name.to_owned()),
        }
    }

    /// POSTs this JSON.
    pub async fn post(&self, path: &str, body: &Value) -> io::Result<Reply> {
        self.call("POST", path, body.to_string().as_bytes()).await
    }

    /// POSTs these bytes.
    pub async fn post_bytes(&self, path: &str, body: &[u8]) -> io::Result<Reply> {
        self.call("POST", path, body).await
    }

    /// GETs.
    pub async fn get(&self, path: &str) -> io::Result<Reply> {
        self.call("GET", path, b"").await
    }

    /// Starts to read events.
    pub async fn events(&self) -> io::Result<Events> {
        let stream = self.send("GET", "/v1/events", b"").await?;
        let mut lines = BufReader::new(stream).lines();
        while let Some(line) = lines.next_line().await? {
            if line.is_empty() {
                return Ok(Events { lines });
            }
        }
        Err(odd("the answer ended within its head"))
    }

    async fn send(&self, method: &str, path: &str, body: &[u8]) -> io::Result<UnixStream> {
        let mut stream = UnixStream::connect(&self.socket).await?;
        let session = self
            .session
            .as_deref()
            .map_or_else(String::new, |name| format!("lockstep-session: {name}\r\n"));
        // HTTP/1.0: the answer ends with the connection, and comes in no chunks.
        let head = format!(
            "{method} {path} HTTP/1.0\r\nhost: worker\r\ncontent-length: {}\r\n{session}\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await?;
        // The worker may answer, and hang up, before it has read a body that is too large.
        match stream.write_all(body).await {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
            Ok(()) | Err(_) => Ok(stream),
        }
    }

    async fn call(&self, method: &str, path: &str, body: &[u8]) -> io::Result<Reply> {
        let exchange = async {
            let mut stream = self.send(method, path, body).await?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await?;
            read(&answer)
        };
        tokio::time::timeout(PATIENCE, exchange)
            .await
            .map_err(|_| odd(&format!("{method} {path} was not answered")))?
    }
}

fn read(answer: &[u8]) -> io::Result<Reply> {
    let text = String::from_utf8_lossy(answer);
    let (head, body) = text
        .split_once("\r\n\r\n")
        .ok_or_else(|| odd(&format!("no HTTP answer: {text:?}")))?;
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .ok_or_else(|| odd(head))?;
    Ok(Reply {
        status,
        head: head.to_owned(),
        body: serde_json::from_str(body).unwrap_or_else(|_| Value::from(body.trim_end())),
    })
}

fn odd(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text.to_owned())
}

// === impl Reply ===

impl Reply {
    /// The messages of a fetch.
    pub fn messages(&self) -> &[Value] {
        self.body["messages"].as_array().map_or(&[], Vec::as_slice)
    }
}

// === impl Events ===

impl Events {
    /// The next event.
    pub async fn next(&mut self) -> io::Result<SeenEvent> {
        let reading = async {
            let mut name = String::new();
            while let Some(line) = self.lines.next_line().await? {
                if let Some(given) = line.strip_prefix("event: ") {
                    given.clone_into(&mut name);
                } else if let Some(data) = line.strip_prefix("data: ") {
                    let body = serde_json::from_str(data)?;
                    return Ok(SeenEvent { name, body });
                }
            }
            Err(odd("the events ended"))
        };
        tokio::time::timeout(PATIENCE, reading)
            .await
            .map_err(|_| odd("no event came"))?
    }

    /// The next event of this name.
    pub async fn wait_for(&mut self, name: &str) -> io::Result<SeenEvent> {
        loop {
            let seen = self.next().await?;
            if seen.name == name {
                return Ok(seen);
            }
        }
    }
}
