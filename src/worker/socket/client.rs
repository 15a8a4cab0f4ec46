//! A request to a worker's socket from its own command line: probes and drain.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;

use super::limits;

/// An answer of the worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its body as text.
    pub body: String,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Nobody listens.
    #[error("no worker listens on {path:?}; start one, or correct --socket")]
    Nobody {
        /// The socket.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// It did not answer in time.
    #[error("the worker on {path:?} did not answer within {waited:?}")]
    Silent {
        /// The socket.
        path: PathBuf,
        /// How long was waited.
        waited: Duration,
    },
    /// The connection broke.
    #[error("the worker on {path:?} broke off: {why}")]
    BrokeOff {
        /// The socket.
        path: PathBuf,
        /// How.
        why: String,
    },
}

/// Sends one request over a connection of its own and waits this long for the whole answer.
pub async fn ask(
    socket: &Path,
    method: Method,
    path: &str,
    body: String,
    patience: Duration,
) -> Result<Answer, AskError> {
    let asked = tokio::time::timeout(patience, exchange(socket, method, path, body)).await;
    asked.unwrap_or_else(|_| {
        Err(AskError::Silent {
            path: socket.to_owned(),
            waited: patience,
        })
    })
}

async fn exchange(
    socket: &Path,
    method: Method,
    path: &str,
    body: String,
) -> Result<Answer, AskError> {
    let stream = UnixStream::connect(socket)
        .await
        .map_err(|source| AskError::Nobody {
            path: socket.to_owned(),
            source,
        })?;
    let broke_off = |why: String| AskError::BrokeOff {
        path: socket.to_owned(),
        why,
    };
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| broke_off(error.to_string()))?;
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "worker")
        .body(Full::new(axum::body::Bytes::from(body)))
        .map_err(|error| broke_off(error.to_string()))?;
    let asking = async {
        let answer = sender.send_request(request).await?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), limits::MAX_BODY)
            .collect()
            .await?;
        let body = String::from_utf8_lossy(&body.to_bytes()).into_owned();
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(Answer { status, body })
    };
    let mut asking = std::pin::pin!(asking);
    let answer = tokio::select! {
        answer = asking.as_mut() => answer,
        // It may end before its answer was looked at, which then is complete or broken.
        _ended = connection => asking.await,
    };
    answer.map_err(|error| broke_off(error.to_string()))
}
