//! Accepts connections and serves both encodings on each.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tonic_health::pb::health_server::HealthServer;
use tower::{Service, ServiceExt};

use super::bound::Bound;
use super::calls::Calls;
use super::health::Probes;
use super::problem::{Code, Problem};
use super::{http, limits};
use crate::http::Vitals;
use crate::tasks::Tasks;
use crate::wire::proto::worker_server::WorkerServer;
use crate::worker::MemberHandle;

/// How long connections have to end once the socket closes.
const FAREWELL: Duration = Duration::from_secs(2);

/// After an error of `accept` (too many open files): connections may end meanwhile.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How a worker's socket is served.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// A file that is made at the first join and outlives the worker: while it is there, the worker
    /// is ready.
    pub joined_file: Option<PathBuf>,
}

/// A member's socket.
#[derive(Clone, Debug)]
pub struct Server {
    calls: Calls,
    probes: Probes,
}

// === impl Server ===

impl Server {
    /// A server for this member.
    pub fn new(member: MemberHandle, tasks: &Tasks, settings: Settings) -> Self {
        let calls = Calls {
            member: member.clone(),
            tasks: tasks.clone(),
            closing: CancellationToken::new(),
        };
        Self {
            calls,
            probes: Probes::new(member, settings.joined_file),
        }
    }

    /// What the probes answer, for other servers.
    pub fn vitals(&self) -> impl Vitals + use<> {
        self.probes.clone()
    }

    /// Serves until `stopping` fires, and then lets running calls end for a short while.
    pub async fn serve(self, bound: Bound, stopping: CancellationToken) {
        let tasks = self.calls.tasks.clone();
        let probes = self.probes.clone();
        tasks.spawn("first join", |stop| probes.note_the_first_join(stop));
        let closing = self.calls.closing.clone();
        let places = Places::new();
        let routes = self.routes();
        loop {
            let accepted = tokio::select! {
                accepted = bound.listener().accept() => accepted,
                () = stopping.cancelled() => break,
            };
            match accepted {
                Ok((stream, _)) => places.seat(stream, &routes, &tasks, &closing),
                Err(error) => {
                    tracing::warn!(
                        error = &error as &(dyn std::error::Error + 'static),
                        "a connection to the socket could not be accepted"
                    );
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        closing.cancel();
        drop(bound); // nobody finds it any more
        let _late = tokio::time::timeout(FAREWELL, places.empty()).await;
    }

    fn routes(self) -> Router {
        let grpc = WorkerServer::new(self.calls.clone())
            .max_decoding_message_size(limits::MAX_BODY)
            .max_encoding_message_size(usize::MAX);
        let health = HealthServer::new(self.probes.clone());
        http::routes(self.calls, self.probes)
            .route_service("/lockstep.worker.v1.Worker/{*call}", over_axum(grpc))
            .route_service("/grpc.health.v1.Health/{*call}", over_axum(health))
    }
}

/// A gRPC service with the bodies that the router has.
fn over_axum<S>(
    service: S,
) -> impl Service<
    Request,
    Response = S::Response,
    Error = std::convert::Infallible,
    Future: Send + 'static,
> + Clone
+ Send
+ Sync
+ 'static
where
    S: Service<axum::http::Request<tonic::body::Body>, Error = std::convert::Infallible>
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send + 'static,
{
    service.map_request(|request: axum::http::Request<Body>| request.map(tonic::body::Body::new))
}

/// Places for connections.
struct Places {
    served: Arc<Semaphore>,
    refused: Arc<Semaphore>,
}

// === impl Places ===

impl Places {
    fn new() -> Self {
        Self {
            served: Arc::new(Semaphore::new(limits::MAX_CONNECTIONS)),
            refused: Arc::new(Semaphore::new(limits::MAX_REFUSALS)),
        }
    }

    /// Serves the connection, or tells it that there is no place; or closes it.
    fn seat(
        &self,
        stream: UnixStream,
        routes: &Router,
        tasks: &Tasks,
        closing: &CancellationToken,
    ) {
        if let Ok(place) = Arc::clone(&self.served).try_acquire_owned() {
            let served = serve_connection(stream, routes.clone(), place, closing.clone());
            tasks.spawn("connection", |_| served);
        } else if let Ok(place) = Arc::clone(&self.refused).try_acquire_owned() {
            let refused = async {
                let over = CancellationToken::new();
                let served = serve_connection(stream, refusal(), place, over);
                let _late = tokio::time::timeout(FAREWELL, served).await;
            };
            tasks.spawn("refused connection", |_| refused);
        }
    }

    /// Waits until no connection is served.
    async fn empty(&self) {
        let all = u32::try_from(limits::MAX_CONNECTIONS).unwrap_or(u32::MAX);
        let _all = self.served.acquire_many(all).await;
    }
}

/// What a connection beyond the limit gets, whatever it asks.
fn refusal() -> Router {
    Router::new().fallback(async || {
        let problem = Problem::new(
            Code::TooManyConnections,
            format!(
                "{} connections are open, which is the limit",
                limits::MAX_CONNECTIONS
            ),
            "keep connections and share them, or close some",
        );
        ([("connection", "close")], problem)
    })
}

async fn serve_connection(
    stream: UnixStream,
    routes: Router,
    _place: OwnedSemaphorePermit,
    closing: CancellationToken,
) {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        // An application may keep a connection while it works on what it fetched.
        .header_read_timeout(None)
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits::MAX_STREAMS)
        .initial_stream_window_size(1024 * 1024)
        .initial_connection_window_size(4 * 1024 * 1024)
        .max_frame_size(256 * 1024)
        .max_send_buf_size(1024 * 1024);
    let service = TowerToHyperService::new(routes);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = closing.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(error = &*error, "a connection to the socket broke");
    }
}
