//! The member's events as lines of the log: each once, by its name, at the level of who has to
//! look, with the house's field names.

use crate::group::member::MemberEvent;

/// Logs one event.
#[expect(clippy::too_many_lines, reason = "a list: one line per event")]
pub(super) fn event(event: &MemberEvent) {
    match event {
        MemberEvent::Joined { epoch } => tracing::info!(group_epoch = %epoch, "Joined"),
        MemberEvent::Assigned {
            partition,
            epoch,
            position,
        } => tracing::info!(%partition, %epoch, %position, "Assigned"),
        MemberEvent::Revoking {
            partition,
            epoch,
            deadline,
        } => tracing::info!(%partition, %epoch, ?deadline, "Revoking"),
        MemberEvent::Kept { partition, epoch } => tracing::debug!(%partition, %epoch, "Kept"),
        MemberEvent::Revoked {
            partition,
            epoch,
            clean,
        } => tracing::info!(%partition, %epoch, clean, "Revoked"),
        MemberEvent::Fenced { partition, epoch } => tracing::warn!(%partition, %epoch, "Fenced"),
        MemberEvent::Suspended => tracing::warn!("Suspended"),
        MemberEvent::Resumed => tracing::info!("Resumed"),
        MemberEvent::Committed {
            partition,
            epoch,
            next,
        } => tracing::debug!(%partition, %epoch, %next, "Committed"),
        MemberEvent::Paused { partition } => tracing::info!(%partition, "Paused"),
        MemberEvent::Unpaused { partition } => tracing::info!(%partition, "Unpaused"),
        MemberEvent::AttemptFailed {
            partition,
            sequence,
            attempts,
            error,
        } => tracing::info!(%partition, seq = %sequence, attempts, error, "AttemptFailed"),
        MemberEvent::Skipped {
            partition,
            sequence,
            attempts,
            error,
        } => tracing::warn!(%partition, seq = %sequence, attempts, error, "Skipped"),
        MemberEvent::Stopped {
            partition,
            sequence,
            reason,
            detail,
        } => tracing::error!(%partition, seq = %sequence, ?reason, detail, "Stopped"),
        MemberEvent::MessagesLost {
            partition,
            from,
            to,
        } => tracing::warn!(%partition, %from, %to, "MessagesLost"),
        MemberEvent::PositionMoved {
            partition,
            from,
            to,
            reason,
        } => tracing::warn!(%partition, %from, %to, ?reason, "PositionMoved"),
        MemberEvent::ProcessingTimedOut {
            partition,
            sequence,
        } => tracing::warn!(%partition, seq = %sequence, "ProcessingTimedOut"),
        MemberEvent::OffsetLost { partition, detail } => {
            tracing::error!(%partition, detail, "OffsetLost");
        }
        MemberEvent::BucketReplaced => tracing::warn!("BucketReplaced"),
        MemberEvent::Application { connected } => tracing::info!(connected, "Application"),
    }
}
