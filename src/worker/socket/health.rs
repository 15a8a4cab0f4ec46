//! Probes, over HTTP and as gRPC health.
//!
//! Readiness stays once it was there: a NATS outage makes no member useless to its application,
//! and taking it out of service would help nobody.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::stream::{self, Stream, StreamExt};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::Health;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::http::{Verdict, Vitals};
use crate::worker::MemberHandle;

/// How often a watched health is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// The service whose health is asked for, besides "" for all.
const SERVICE: &str = "lockstep.worker.v1.Worker";

/// The answers to the probes of one worker. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Probes {
    member: MemberHandle,
    joined_once: Arc<AtomicBool>,
    joined_file: Option<PathBuf>,
}

// === impl Probes ===

impl Probes {
    pub(super) fn new(member: MemberHandle, joined_file: Option<PathBuf>) -> Self {
        let before = joined_file.as_deref().is_some_and(Path::exists);
        Self {
            member,
            joined_once: Arc::new(AtomicBool::new(before)),
            joined_file,
        }
    }

    /// Notes the first join, also for lives of this worker to come.
    pub(super) async fn note_the_first_join(self, stopping: CancellationToken) {
        let mut events = self.member.events();
        while !self.member.health().joined {
            tokio::select! {
                event = events.next() => if event.is_none() { return },
                () = tokio::time::sleep(LOOK) => {}
                () = stopping.cancelled() => return,
            }
        }
        self.joined_once.store(true, Ordering::Relaxed);
        let Some(file) = self.joined_file else { return };
        if let Err(error) = tokio::fs::write(&file, b"").await {
            tracing::warn!(
                error = &error as &(dyn std::error::Error + 'static),
                file = %file.display(),
                "the first join could not be noted; a restart during an outage will not be ready"
            );
        }
    }

    /// The socket answers.
    pub(super) fn started() -> Verdict {
        Verdict::Yes("listening")
    }
}

impl Vitals for Probes {
    fn healthy(&self) -> Verdict {
        if self.member.health().alive {
            Verdict::Yes("alive")
        } else {
            Verdict::No("stuck")
        }
    }

    fn ready(&self) -> Verdict {
        if self.member.health().joined {
            Verdict::Yes("joined")
        } else if self.joined_once.load(Ordering::Relaxed) {
            Verdict::Yes("joined-before")
        } else {
            Verdict::No("not-joined")
        }
    }
}

#[tonic::async_trait]
impl Health for Probes {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        match request.get_ref().service.as_str() {
            "" | SERVICE => Ok(Response::new(self.serving())),
            other => Err(Status::not_found(format!(
                "service {other:?} is not served here; ask for \"\" or {SERVICE:?}"
            ))),
        }
    }

    type WatchStream =
        Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send + 'static>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let probes = self.clone();
        if !matches!(request.get_ref().service.as_str(), "" | SERVICE) {
            // As the health protocol demands: unknown is said, and may change.
            let status = ServingStatus::ServiceUnknown.into();
            let unknown = stream::once(async move { Ok(HealthCheckResponse { status }) });
            return Ok(Response::new(unknown.chain(stream::pending()).boxed()));
        }
        let changes = stream::unfold((probes, None), |(probes, told)| async move {
            loop {
                let now = probes.serving();
                if told.as_ref() != Some(&now) {
                    return Some((Ok(now), (probes, Some(now))));
                }
                tokio::time::sleep(LOOK).await;
            }
        });
        Ok(Response::new(changes.boxed()))
    }
}

impl Probes {
    fn serving(&self) -> HealthCheckResponse {
        let status = match self.ready() {
            Verdict::Yes(_) => ServingStatus::Serving,
            Verdict::No(_) => ServingStatus::NotServing,
        };
        HealthCheckResponse {
            status: status.into(),
        }
    }
}
