//! The small HTTP server behind `--http-addr`: `/metrics`, `/healthz`, `/readyz`.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;

use crate::metrics::{self, Metrics};

/// The answer to a probe: a word, and whether it is good news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// 200 with this word.
    Yes(&'static str),
    /// 503 with this word.
    No(&'static str),
}

/// What the probes ask.
pub trait Vitals: Send + Sync + 'static {
    /// Whether the process works; if not, it should be restarted.
    fn healthy(&self) -> Verdict;
    /// Whether it does now what it is there for.
    fn ready(&self) -> Verdict;
}

/// A bound server that does not answer yet.
#[derive(Debug)]
pub struct HttpServer {
    listener: TcpListener,
    address: SocketAddr,
}

/// Why the server could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on --http-addr {address}; choose another address, or port 0 for a free one")]
pub struct BindError {
    address: SocketAddr,
    #[source]
    source: std::io::Error,
}

struct Served<V> {
    metrics: Metrics,
    vitals: V,
}

// === impl Verdict ===

impl IntoResponse for Verdict {
    fn into_response(self) -> Response {
        match self {
            Self::Yes(word) => (StatusCode::OK, format!("{word}\n")),
            Self::No(word) => (StatusCode::SERVICE_UNAVAILABLE, format!("{word}\n")),
        }
        .into_response()
    }
}

// === impl HttpServer ===

impl HttpServer {
    /// Takes the address; port 0 takes a free one.
    pub async fn bind(address: SocketAddr) -> Result<Self, BindError> {
        let bound = async {
            let listener = TcpListener::bind(address).await?;
            let address = listener.local_addr()?;
            Ok(Self { listener, address })
        };
        bound.await.map_err(|source| BindError { address, source })
    }

    /// The address that was taken.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `shutdown` ends.
    pub async fn serve(
        self,
        metrics: Metrics,
        vitals: impl Vitals,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) {
        let routes = routes(metrics, vitals);
        let served = axum::serve(self.listener, routes).with_graceful_shutdown(shutdown);
        if let Err(error) = served.await {
            tracing::error!(
                error = &error as &(dyn std::error::Error + 'static),
                "the HTTP server ended"
            );
        }
    }
}

fn routes<V: Vitals>(metrics: Metrics, vitals: V) -> Router {
    Router::new()
        .route("/metrics", get(show_metrics::<V>))
        .route("/healthz", get(healthz::<V>))
        .route("/readyz", get(readyz::<V>))
        .with_state(Arc::new(Served { metrics, vitals }))
}

async fn show_metrics<V: Vitals>(State(served): State<Arc<Served<V>>>) -> Response {
    match served.metrics.render() {
        Ok(text) => ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(_) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            "a metric could not be written as text; please report this\n",
        )
            .into_response(),
    }
}

async fn healthz<V: Vitals>(State(served): State<Arc<Served<V>>>) -> Verdict {
    served.vitals.healthy()
}

async fn readyz<V: Vitals>(State(served): State<Arc<Served<V>>>) -> Verdict {
    served.vitals.ready()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::tasks::Tasks;

    struct Switch(Arc<AtomicBool>);

    impl Vitals for Switch {
        fn healthy(&self) -> Verdict {
            Verdict::Yes("alive")
        }
        fn ready(&self) -> Verdict {
            if self.0.load(Ordering::Relaxed) {
                Verdict::Yes("ready")
            } else {
                Verdict::No("joining")
            }
        }
    }

    async fn ask(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn probes_and_metrics_are_answered_until_the_shutdown() {
        let ready = Arc::new(AtomicBool::new(false));
        let server = HttpServer::bind("127.0.0.1:0".parse().unwrap())
            .await
            .unwrap();
        let address = server.address();
        let (tasks, over) = (Tasks::new(), CancellationToken::new());
        let serving = server.serve(
            Metrics::new(),
            Switch(Arc::clone(&ready)),
            over.clone().cancelled_owned(),
        );
        tasks.spawn("http", |_| serving);

        let metrics = ask(address, "/metrics").await;
        assert!(metrics.starts_with("HTTP/1.1 200"), "{metrics}");
        assert!(metrics.contains(metrics::CONTENT_TYPE), "{metrics}");
        assert!(
            metrics.contains("lockstep_build_info{version="),
            "{metrics}"
        );
        assert!(ask(address, "/healthz").await.ends_with("\r\n\r\nalive\n"));
        let not_yet = ask(address, "/readyz").await;
        assert!(not_yet.starts_with("HTTP/1.1 503"), "{not_yet}");
        ready.store(true, Ordering::Relaxed);
        assert!(ask(address, "/readyz").await.starts_with("HTTP/1.1 200"));

        over.cancel();
        tasks.stop().await;
        assert!(TcpStream::connect(address).await.is_err());
    }

    #[tokio::test]
    async fn a_taken_address_is_a_sentence() {
        let first = HttpServer::bind("127.0.0.1:0".parse().unwrap())
            .await
            .unwrap();
        let error = HttpServer::bind(first.address()).await.unwrap_err();
        assert!(error.to_string().contains(&first.address().to_string()));
        assert!(error.to_string().contains("choose another address"));
    }
}
