//! The socket against a member that says what the test tells it to: what is asked and answered on
//! the wire. What a real member answers is shown by the tests on a real server.

use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use hyper_util::rt::TokioIo;
use tempfile::TempDir;
use tokio::net::UnixStream;
use tokio::sync::{Notify, broadcast, mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use super::client::{Answer, ask};
use super::*;
use crate::group::{Epoch, Partition, Sequence, ServerTime, Source};
use crate::tasks::Tasks;
use crate::wire::proto::{self, consume_request as into, consume_response as out};
use crate::worker::command::Command;
use crate::worker::{
    AckResult, AckStatus, CallError, ConsumeFrame, Delivered, Fetched, Headers, Health,
    MemberEvent, MemberHandle,
};

mod consume;
mod file;
mod grpc;
mod http;
mod probes;
mod properties;

/// Far more than any of this takes.
const PATIENCE: Duration = Duration::from_secs(10);

struct Scene {
    directory: TempDir,
    tasks: Tasks,
    commands: mpsc::Receiver<Command>,
    events: broadcast::Sender<MemberEvent>,
    health: watch::Sender<Health>,
}

impl Scene {
    fn start() -> Self {
        Self::with(|_| Settings::default())
    }

    fn with(settings: impl FnOnce(&TempDir) -> Settings) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (sender, commands) = mpsc::channel(16);
        let events = broadcast::Sender::new(16);
        let (health, seen) = watch::channel(Health {
            listening: true,
            joined: false,
            alive: true,
        });
        let member = MemberHandle {
            commands: sender,
            events: events.clone(),
            health: seen,
        };
        let tasks = Tasks::new();
        let bound = Bound::bind(&directory.path().join("s")).unwrap();
        let server = Server::new(member, &tasks, settings(&directory));
        tasks.spawn("socket", |stop| server.serve(bound, stop));
        Self {
            directory,
            tasks,
            commands,
            events,
            health,
        }
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("s")
    }

    async fn post(&self, path: &str, body: impl Into<String>) -> Answer {
        ask(&self.socket(), Method::POST, path, body.into(), PATIENCE)
            .await
            .unwrap()
    }

    async fn get(&self, path: &str) -> Answer {
        ask(&self.socket(), Method::GET, path, String::new(), PATIENCE)
            .await
            .unwrap()
    }

    /// Answers the next command while the request is running.
    async fn answering<T>(
        &mut self,
        request: impl Future<Output = T>,
        answer: impl FnOnce(Command),
    ) -> T {
        let commands = &mut self.commands;
        let answering = async {
            answer(
                tokio::time::timeout(PATIENCE, commands.recv())
                    .await
                    .expect("the member is asked")
                    .expect("the socket runs"),
            );
            std::future::pending::<T>().await
        };
        tokio::select! {
            answer = request => answer,
            never = answering => never,
        }
    }

    async fn grpc(&self) -> Channel {
        let path = self.socket();
        let connect = service_fn(move |_| {
            let path = path.clone();
            async move { Ok::<_, std::io::Error>(TokioIo::new(UnixStream::connect(path).await?)) }
        });
        Endpoint::from_static("http://worker")
            .connect_with_connector(connect)
            .await
            .unwrap()
    }

    async fn worker(&self) -> proto::worker_client::WorkerClient<Channel> {
        proto::worker_client::WorkerClient::new(self.grpc().await)
    }
}

fn json(answer: &Answer) -> serde_json::Value {
    serde_json::from_str(&answer.body).expect("a JSON body")
}

fn delivered(sequence: u64, payload: &'static [u8]) -> Delivered {
    Delivered {
        partition: Partition(3),
        epoch: Epoch(7),
        sequence: Sequence(sequence),
        stream: "ORDERS".into(),
        subject: "orders.3.customer-42".into(),
        source: std::sync::Arc::new(Source::Stream {
            stream: "ORDERS".to_owned(),
            partitions: 8,
            filter: "orders.{partition}.*".to_owned(),
            transform: None,
        }),
        payload: payload.into(),
        headers: Headers::from(vec![("x".to_owned(), vec!["1".to_owned()])]),
        timestamp: ServerTime(5),
        attempt: 2,
        time_left: Duration::from_secs(300),
        deadline: ServerTime(300_000_000_005),
    }
}

const ONE: &str = r#"{"positions": [{"partition": 3, "epoch": 7, "sequence": 41}]}"#;
