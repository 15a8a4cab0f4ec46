//! The member's events as lines of the log: each once, at the level of who has to look.

use crate::group::member::MemberEvent;

/// Logs one event.
pub(super) fn event(event: &MemberEvent) {
    match event {
        MemberEvent::Committed { .. } | MemberEvent::Kept { .. } => {
            tracing::debug!(?event, "member");
        }
        MemberEvent::Joined { .. }
        | MemberEvent::Assigned { .. }
        | MemberEvent::Revoking { .. }
        | MemberEvent::Revoked { .. }
        | MemberEvent::Resumed
        | MemberEvent::Paused { .. }
        | MemberEvent::Unpaused { .. }
        | MemberEvent::AttemptFailed { .. }
        | MemberEvent::Application { .. } => tracing::info!(?event, "member"),
        MemberEvent::Fenced { .. }
        | MemberEvent::Suspended
        | MemberEvent::Skipped { .. }
        | MemberEvent::MessagesLost { .. }
        | MemberEvent::PositionMoved { .. }
        | MemberEvent::ProcessingTimedOut { .. }
        | MemberEvent::BucketReplaced => tracing::warn!(?event, "member"),
        MemberEvent::Stopped { .. } | MemberEvent::OffsetLost { .. } => {
            tracing::error!(?event, "member");
        }
    }
}
