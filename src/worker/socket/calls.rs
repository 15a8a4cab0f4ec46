//! The calls, once for both encodings: check what was asked, ask the member, put its answer.

use tokio_util::sync::CancellationToken;

use super::convert;
use super::limits;
use super::problem::Problem;
use crate::tasks::Tasks;
use crate::wire::proto;
use crate::worker::{MemberHandle, SessionId};

/// What all connections share.
#[derive(Clone, Debug)]
pub(super) struct Calls {
    pub(super) member: MemberHandle,
    pub(super) tasks: Tasks,
    /// Fires when the socket closes: ends what would last for ever.
    pub(super) closing: CancellationToken,
}

// === impl Calls ===

impl Calls {
    pub(super) async fn fetch(
        &self,
        session: &SessionId,
        request: &proto::FetchRequest,
    ) -> Result<proto::FetchResponse, Problem> {
        let options = convert::fetch_options(request)?;
        let fetched = self.member.fetch(session, options).await?;
        Ok(convert::fetched(fetched))
    }

    pub(super) async fn ack(
        &self,
        session: &SessionId,
        request: &proto::AckRequest,
    ) -> Result<proto::AckResponse, Problem> {
        let positions = convert::positions("positions", &request.positions)?;
        let mode = convert::ack_mode(request.mode)?;
        let wait = convert::ack_wait(request.wait)?;
        let results = self.member.ack(session, positions, mode, wait).await?;
        Ok(proto::AckResponse {
            results: convert::ack_results(results),
        })
    }

    pub(super) async fn nack(
        &self,
        session: &SessionId,
        request: proto::NackRequest,
    ) -> Result<proto::NackResponse, Problem> {
        let positions = convert::positions("messages", &request.messages)?;
        let delay = convert::duration("delay", request.delay.as_ref(), limits::MAX_DELAY)?;
        let error = convert::kept_error(request.error);
        let results = self.member.nack(session, positions, error, delay).await?;
        Ok(proto::NackResponse {
            results: convert::ack_results(results),
        })
    }

    pub(super) async fn publish(
        &self,
        request: proto::PublishRequest,
    ) -> Result<proto::PublishResponse, Problem> {
        let message = convert::publish(request)?;
        let published = self.member.publish(message).await?;
        Ok(convert::published(published))
    }

    pub(super) async fn status(&self) -> Result<proto::StatusResponse, Problem> {
        Ok(convert::status(self.member.status().await?))
    }

    pub(super) async fn pause(&self, request: &proto::PauseRequest) -> Result<(), Problem> {
        let partitions = convert::partitions(&request.partitions);
        Ok(self.member.pause(partitions).await?)
    }

    pub(super) async fn resume(&self, request: &proto::ResumeRequest) -> Result<(), Problem> {
        let partitions = convert::partitions(&request.partitions);
        Ok(self.member.resume(partitions).await?)
    }

    pub(super) async fn drain(
        &self,
        request: &proto::DrainRequest,
    ) -> Result<proto::DrainResponse, Problem> {
        let timeout = convert::duration("timeout", request.timeout.as_ref(), limits::MAX_DRAIN)?;
        let drained = self
            .member
            .drain(timeout.unwrap_or(limits::DEFAULT_DRAIN))
            .await?;
        Ok(proto::DrainResponse {
            clean: drained.clean,
            unclean: drained.unclean,
        })
    }
}
