//! The service as gRPC.

use std::pin::Pin;

use futures_util::stream::{Stream, StreamExt};
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status, Streaming};

use super::calls::Calls;
use super::watch::watch;
use super::{consume, convert};
use crate::wire::proto;
use crate::wire::proto::worker_server::Worker;
use crate::worker::SessionId;

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send + 'static>>;

#[tonic::async_trait]
impl Worker for Calls {
    async fn fetch(
        &self,
        request: Request<proto::FetchRequest>,
    ) -> Result<Response<proto::FetchResponse>, Status> {
        let session = session(request.metadata())?;
        let answer = Self::fetch(self, &session, request.get_ref()).await?;
        Ok(Response::new(answer))
    }

    async fn ack(
        &self,
        request: Request<proto::AckRequest>,
    ) -> Result<Response<proto::AckResponse>, Status> {
        let session = session(request.metadata())?;
        let answer = Self::ack(self, &session, request.get_ref()).await?;
        Ok(Response::new(answer))
    }

    async fn nack(
        &self,
        request: Request<proto::NackRequest>,
    ) -> Result<Response<proto::NackResponse>, Status> {
        let session = session(request.metadata())?;
        let answer = Self::nack(self, &session, request.into_inner()).await?;
        Ok(Response::new(answer))
    }

    async fn publish(
        &self,
        request: Request<proto::PublishRequest>,
    ) -> Result<Response<proto::PublishResponse>, Status> {
        let answer = Self::publish(self, request.into_inner()).await?;
        Ok(Response::new(answer))
    }

    async fn status(
        &self,
        _: Request<proto::StatusRequest>,
    ) -> Result<Response<proto::StatusResponse>, Status> {
        Ok(Response::new(Self::status(self).await?))
    }

    async fn pause(
        &self,
        request: Request<proto::PauseRequest>,
    ) -> Result<Response<proto::PauseResponse>, Status> {
        Self::pause(self, request.get_ref()).await?;
        Ok(Response::new(proto::PauseResponse {}))
    }

    async fn resume(
        &self,
        request: Request<proto::ResumeRequest>,
    ) -> Result<Response<proto::ResumeResponse>, Status> {
        Self::resume(self, request.get_ref()).await?;
        Ok(Response::new(proto::ResumeResponse {}))
    }

    async fn drain(
        &self,
        request: Request<proto::DrainRequest>,
    ) -> Result<Response<proto::DrainResponse>, Status> {
        let answer = Self::drain(self, request.get_ref()).await?;
        Ok(Response::new(answer))
    }

    type WatchStream = Answers<proto::WatchResponse>;

    async fn watch(
        &self,
        _: Request<proto::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        Ok(Response::new(watch(self).map(Ok).boxed()))
    }

    type ConsumeStream = Answers<proto::ConsumeResponse>;

    async fn consume(
        &self,
        request: Request<Streaming<proto::ConsumeRequest>>,
    ) -> Result<Response<Self::ConsumeStream>, Status> {
        let session = consume::session(request.metadata().get("lockstep-session"))?;
        let answers = consume::start(self, session, request.into_inner());
        Ok(Response::new(answers.boxed()))
    }
}

/// The session that the request names.
fn session(metadata: &MetadataMap) -> Result<SessionId, Status> {
    let name = metadata.get("lockstep-session");
    // What is not ASCII is refused with the rest.
    let session = convert::session(name.map(|name| name.to_str().unwrap_or_default()))?;
    Ok(session)
}
