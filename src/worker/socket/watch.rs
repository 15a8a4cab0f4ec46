//! The member's events as the service tells them.

use futures_util::stream::{self, Stream, StreamExt};

use super::calls::Calls;
use super::convert::{Side, partition_epoch, time, wall_clock};
use crate::clock;
use crate::group::ServerTime;
use crate::wire::proto::{self, watch_response::Event};
use crate::worker::{MemberEvent, Missed};

/// Everything from now on, until the socket closes.
pub(super) fn watch(calls: &Calls) -> impl Stream<Item = proto::WatchResponse> + use<> {
    let events = calls.member.events();
    let all = stream::unfold(events, |mut events| async move {
        let seen = events.next().await?;
        let now = clock::unix_now();
        let response = proto::WatchResponse {
            time: Some(time(now)),
            event: Some(told(seen, now)),
        };
        Some((response, events))
    });
    all.take_until(calls.closing.clone().cancelled_owned())
}

#[expect(clippy::too_many_lines, reason = "a table: one row per event")]
fn told(seen: Result<MemberEvent, Missed>, now: ServerTime) -> Event {
    let event = match seen {
        Ok(event) => event,
        Err(Missed(events)) => return Event::Missed(proto::Missed { events }),
    };
    match event {
        MemberEvent::Joined { epoch } => Event::Joined(proto::Joined { epoch: epoch.0 }),
        MemberEvent::Assigned {
            partition, epoch, ..
        } => Event::Assigned(proto::Assigned {
            partitions: vec![partition_epoch(partition, epoch)],
        }),
        MemberEvent::Revoking {
            partition,
            epoch,
            deadline,
        } => Event::Revoking(proto::Revoking {
            partitions: vec![partition_epoch(partition, epoch)],
            deadline: Some(time(wall_clock(now, deadline, Side::Future))),
        }),
        MemberEvent::Kept { partition, epoch } => Event::Kept(proto::Kept {
            partitions: vec![partition_epoch(partition, epoch)],
        }),
        MemberEvent::Revoked {
            partition,
            epoch,
            clean,
        } => Event::Revoked(proto::Revoked {
            partitions: vec![partition_epoch(partition, epoch)],
            clean: Some(clean),
        }),
        MemberEvent::Fenced { partition, epoch } => Event::Fenced(proto::Fenced {
            partition: partition.0,
            epoch: epoch.0,
        }),
        MemberEvent::Suspended => Event::Suspended(proto::Suspended {}),
        MemberEvent::Resumed => Event::Resumed(proto::Resumed {}),
        MemberEvent::Committed {
            partition,
            epoch,
            next,
        } => Event::Committed(proto::Committed {
            partition: partition.0,
            epoch: epoch.0,
            committed: next.0,
        }),
        MemberEvent::Paused { partition } => Event::Paused(proto::Paused {
            partitions: vec![partition.0],
        }),
        MemberEvent::Unpaused { partition } => Event::Unpaused(proto::Unpaused {
            partitions: vec![partition.0],
        }),
        MemberEvent::AttemptFailed {
            partition,
            sequence,
            attempts,
            error,
        } => Event::AttemptFailed(proto::AttemptFailed {
            partition: partition.0,
            sequence: sequence.0,
            attempts,
            error,
        }),
        MemberEvent::Skipped {
            partition,
            sequence,
            attempts,
            error,
        } => Event::Skipped(proto::Skipped {
            partition: partition.0,
            sequence: sequence.0,
            attempts,
            error,
        }),
        MemberEvent::Stopped {
            partition,
            sequence,
            reason,
            detail,
        } => Event::Stopped(proto::Stopped {
            partition: partition.0,
            sequence: sequence.0,
            reason: format!("{reason:?}"),
            detail,
        }),
        MemberEvent::MessagesLost {
            partition,
            from,
            to,
        } => Event::MessagesLost(proto::MessagesLost {
            partition: partition.0,
            from: from.0,
            to: to.0,
        }),
        MemberEvent::PositionMoved {
            partition,
            from,
            to,
            reason,
        } => Event::PositionMoved(proto::PositionMoved {
            partition: partition.0,
            from: from.0,
            to: to.0,
            reason: format!("{reason:?}"),
        }),
        MemberEvent::ProcessingTimedOut {
            partition,
            sequence,
        } => Event::ProcessingTimedOut(proto::ProcessingTimedOut {
            partition: partition.0,
            sequence: sequence.0,
        }),
        MemberEvent::OffsetLost { partition, detail } => Event::OffsetLost(proto::OffsetLost {
            partition: partition.0,
            detail,
        }),
        MemberEvent::BucketReplaced => Event::BucketReplaced(proto::BucketReplaced {}),
        MemberEvent::Application { connected } => {
            Event::Application(proto::Application { connected })
        }
    }
}
