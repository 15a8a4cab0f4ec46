//! What the pump does about the handle's commands.

use std::sync::Arc;
use std::time::Duration;

use crate::clock;
use crate::group::ledger::SessionEnd;
use crate::group::member::{Accepted, AckKind, Event, MemberEvent};
use crate::group::{SessionId, Timestamp};

use super::command::{Command, Reply};
use super::engine::LAST_WORDS;
use super::handle::{
    AckMode, AckResult, AckStatus, AckWait, CallError, ConsumeFrame, Credit, Drained, Position,
    Publish, Published,
};
use super::publishing;
use super::pump::Pump;
use super::sessions::answer;

/// Publishes that wait for the server at the same time.
pub(super) const PUBLISHES: usize = 1024;

/// The most positions in one call.
const POSITIONS: usize = 100_000;

/// The longest that a retry may be put off by a nack.
const LONGEST_DELAY: Duration = Duration::from_secs(3600);

// === impl Pump ===

impl Pump {
    #[expect(clippy::too_many_lines, reason = "a list: one arm per command")]
    pub(super) fn serve(&mut self, command: Command) {
        let now = clock::now();
        match command {
            Command::Fetch {
                session,
                options,
                reply,
            } => match self.not_joined() {
                Some(error) => {
                    // The application is there, which is what makes the member eligible.
                    self.sessions.touch(&session, now).ok();
                    answer(reply, Err(error));
                }
                None => {
                    if let Some(meta) = self.member.meta() {
                        self.sessions.fetch(&session, (options, reply), meta, now);
                    }
                }
            },
            Command::Ack {
                session,
                positions,
                mode,
                wait,
                reply,
            } => self.take_acks(&session, &positions, (mode, wait), reply, now),
            Command::Nack {
                session,
                positions,
                error,
                delay,
                reply,
            } => {
                let result = self.take_nacks(&session, &positions, (&error, delay), now);
                answer(reply, result);
            }
            Command::Publish { message, reply } => self.publish(*message, reply),
            Command::Status { reply } => answer(reply, Ok(self.status(now))),
            Command::Pause { partitions, reply } => {
                self.step(Event::Pause { partitions }, now);
                answer(reply, Ok(()));
            }
            Command::Resume { partitions, reply } => {
                self.step(Event::Resume { partitions }, now);
                answer(reply, Ok(()));
            }
            Command::Consume {
                session,
                credit,
                frames,
                reply,
            } => {
                self.end_lost_sessions(now); // its own former stream may be one of them
                let opened = self.sessions.open_stream(&session, (credit, frames), now);
                let opened = opened.map(|number| (number, Arc::clone(&self.room)));
                if let Ok((number, _)) = &opened {
                    // What it had by fetches before is pushed again.
                    self.member.session_ended(&session, SessionEnd::Closed, now);
                    self.greet(*number);
                }
                answer(reply, opened);
            }
            Command::Grant { stream, credit } => self.grant(stream, credit),
            Command::Released {
                session,
                partition,
                epoch,
            } => {
                if self.member.held().any(|held| held == (partition, epoch)) {
                    let how = SessionEnd::Closed;
                    self.member.session_left(&session, partition, how, now);
                }
            }
            Command::KeepSession { session, reply } => {
                let kept = self.sessions.keep(&session, now);
                answer(reply, kept);
            }
            Command::CloseSession { session, reply } => {
                self.sessions.close(&session);
                self.member.session_ended(&session, SessionEnd::Closed, now);
                answer(reply, Ok(()));
            }
            Command::Drain { timeout, reply } => self.drain(timeout, reply, now),
        }
    }

    /// Why nothing can be handed out yet; none once the member takes part.
    fn not_joined(&self) -> Option<CallError> {
        if self.member.standing().is_some() || self.member.is_leaving() {
            return None;
        }
        let why = self.trouble.clone().unwrap_or_else(|| {
            "the coordinator has not taken it into the group document yet".to_owned()
        });
        Some(CallError::NotJoined { why })
    }

    #[expect(clippy::too_many_arguments, reason = "one command, taken apart")]
    fn take_acks(
        &mut self,
        session: &SessionId,
        positions: &[Position],
        (mode, wait): (AckMode, AckWait),
        reply: Reply<Vec<AckResult>>,
        now: Timestamp,
    ) {
        if let Err(error) = self.check(session, positions, now) {
            return answer(reply, Err(error));
        }
        let kind = match mode {
            AckMode::UpTo => AckKind::UpTo,
            AckMode::Each => AckKind::Each,
        };
        let mut results = Vec::with_capacity(positions.len());
        let mut open = Vec::new();
        for position in positions {
            let at = (position.partition, position.epoch, position.sequence);
            let accepted = self.member.ack(session, at, kind, now);
            if let Accepted::Yes { until, took, .. } = accepted {
                self.settings.metrics.acked.inc();
                if let Some(took) = took {
                    let seconds = took.as_secs_f64();
                    self.settings.metrics.processing_seconds.observe(seconds);
                }
                if wait == AckWait::Committed {
                    open.push((results.len(), until));
                }
            }
            results.push(result(*position, accepted));
        }
        if wait == AckWait::Committed {
            for position in positions {
                self.member.hurry(position.partition, now);
            }
            open.retain(|(index, _)| results[*index].status == AckStatus::Accepted);
        }
        self.waiters.wait((results, open), reply, now);
    }

    fn take_nacks(
        &mut self,
        session: &SessionId,
        positions: &[Position],
        (error, delay): (&str, Option<Duration>),
        now: Timestamp,
    ) -> Result<Vec<AckResult>, CallError> {
        self.check(session, positions, now)?;
        if delay.is_some_and(|delay| delay > LONGEST_DELAY) {
            return Err(CallError::BadRequest {
                field: "delay",
                sentence: "a retry can be put off by at most 1h; pause the partition instead"
                    .to_owned(),
            });
        }
        let mut results = Vec::with_capacity(positions.len());
        for position in positions {
            let at = (position.partition, position.epoch, position.sequence);
            let accepted = self.member.nack(session, at, (error, delay), now);
            if matches!(accepted, Accepted::Yes { .. }) {
                self.settings.metrics.nacked.inc();
            }
            results.push(result(*position, accepted));
        }
        Ok(results)
    }

    fn check(
        &mut self,
        session: &SessionId,
        positions: &[Position],
        now: Timestamp,
    ) -> Result<(), CallError> {
        self.sessions.touch(session, now)?;
        if positions.len() > POSITIONS {
            return Err(CallError::BadRequest {
                field: "positions",
                sentence: format!(
                    "{} positions in one call; send at most {POSITIONS}, or acknowledge UP_TO",
                    positions.len()
                ),
            });
        }
        Ok(())
    }

    fn publish(&mut self, message: Publish, reply: Reply<Published>) {
        let Some(meta) = self.member.meta() else {
            let error = self.not_joined().unwrap_or(CallError::Draining);
            return answer(reply, Err(error));
        };
        let addressed = match publishing::address(message, meta, self.settings.resolver.as_ref()) {
            Ok(addressed) => addressed,
            Err(error) => return answer(reply, Err(error)),
        };
        let Ok(permit) = Arc::clone(&self.publishing).try_acquire_owned() else {
            let why = format!("{PUBLISHES} messages wait for the server already");
            return answer(reply, Err(CallError::Unavailable { why }));
        };
        let data = self.data.clone();
        self.tasks.spawn("publish", |_| async move {
            answer(reply, publishing::send(data, addressed).await);
            drop(permit);
        });
    }

    /// Tells a new stream what is owned.
    fn greet(&mut self, number: u64) {
        let owned: Vec<_> = self
            .member
            .views()
            .into_iter()
            .filter(|view| view.state != crate::group::HoldState::Claiming)
            .map(|view| (view.partition, view.epoch))
            .collect();
        let suspended = self.member.is_suspended();
        if let Some(stream) = self.sessions.stream_mut(number) {
            if !owned.is_empty() {
                stream.tell(ConsumeFrame::Assigned(owned));
            }
            if suspended {
                stream.tell(ConsumeFrame::Suspended);
            }
        }
    }

    fn grant(&mut self, number: u64, more: Credit) {
        if let Some(stream) = self.sessions.stream_mut(number) {
            stream.credit.messages = stream.credit.messages.saturating_add(more.messages);
            stream.credit.bytes = stream.credit.bytes.saturating_add(more.bytes);
        }
    }

    fn drain(&mut self, timeout: Duration, reply: Reply<Drained>, now: Timestamp) {
        self.drains.push(reply);
        let by = now.after(timeout).after(LAST_WORDS);
        self.drained_by = Some(self.drained_by.map_or(by, |before| before.min(by)));
        if self.member.is_over() {
            self.answer_drains();
        } else {
            self.step(Event::Drain { timeout }, now);
        }
    }

    /// Who waits for a drain does not wait for a server that is away.
    pub(super) fn answer_late_drains(&mut self, now: Timestamp) {
        if self.drained_by.is_none_or(|by| now < by) {
            return;
        }
        for reply in self.drains.drain(..) {
            let why = "NATS has not confirmed that this member left; its group notices that after \
                       the session timeout"
                .to_owned();
            answer(reply, Err(CallError::Unavailable { why }));
        }
    }

    pub(super) fn answer_drains(&mut self) {
        let (clean, unclean) = self.member.given_back();
        for reply in self.drains.drain(..) {
            answer(reply, Ok(Drained { clean, unclean }));
        }
    }

    /// Says an event to everybody whom it concerns.
    pub(super) fn tell(&mut self, event: MemberEvent) {
        let frame = match &event {
            MemberEvent::Committed {
                partition,
                epoch,
                next,
            } => {
                self.waiters.committed(*partition, *epoch, *next);
                None
            }
            MemberEvent::Revoked {
                partition, epoch, ..
            } => {
                self.waiters.gone(*partition, *epoch);
                Some(ConsumeFrame::Revoked {
                    partition: *partition,
                    epoch: *epoch,
                })
            }
            MemberEvent::Assigned {
                partition, epoch, ..
            } => Some(ConsumeFrame::Assigned(vec![(*partition, *epoch)])),
            MemberEvent::Revoking {
                partition,
                epoch,
                deadline,
            } => Some(ConsumeFrame::Revoking {
                partition: *partition,
                epoch: *epoch,
                deadline: *deadline,
            }),
            MemberEvent::Kept { partition, epoch } => {
                Some(ConsumeFrame::Assigned(vec![(*partition, *epoch)]))
            }
            MemberEvent::Suspended => Some(ConsumeFrame::Suspended),
            MemberEvent::Resumed => Some(ConsumeFrame::Resumed),
            MemberEvent::Fenced { .. } => {
                self.settings.metrics.fenced.inc();
                None
            }
            MemberEvent::Joined { .. }
            | MemberEvent::Paused { .. }
            | MemberEvent::Unpaused { .. }
            | MemberEvent::AttemptFailed { .. }
            | MemberEvent::Skipped { .. }
            | MemberEvent::Stopped { .. }
            | MemberEvent::MessagesLost { .. }
            | MemberEvent::PositionMoved { .. }
            | MemberEvent::ProcessingTimedOut { .. }
            | MemberEvent::OffsetLost { .. }
            | MemberEvent::BucketReplaced
            | MemberEvent::Application { .. } => None,
        };
        super::log::event(&event);
        if let Some(frame) = frame {
            for stream in self.sessions.streams() {
                stream.tell(frame.clone());
            }
        }
        // Nobody subscribes at the moment: that is fine, events are not kept.
        self.events.send(event).ok();
    }
}

fn result(position: Position, accepted: Accepted) -> AckResult {
    let (status, committed) = match accepted {
        Accepted::NotOwned => (AckStatus::NotOwned, crate::group::Sequence(0)),
        Accepted::Yes {
            committed, until, ..
        } if committed >= until => (AckStatus::Committed, committed),
        Accepted::Yes { committed, .. } => (AckStatus::Accepted, committed),
    };
    AckResult {
        position,
        status,
        committed,
    }
}
