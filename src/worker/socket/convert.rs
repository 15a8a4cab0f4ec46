//! Protobuf messages to what the member understands, checked; and its answers back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::limits;
use super::problem::Problem;
use crate::clock;
use crate::group::{Epoch, Partition, Sequence, ServerTime};
use crate::wire::proto::{self, ack_request, ack_result, publish_request};
use crate::worker::{
    AckMode, AckResult, AckStatus, AckWait, Delivered, FetchOptions, Fetched, PartitionState,
    PartitionStatus, Position, Publish, PublishTo, Published, SessionId, Status, WorkerState,
};

/// A session's name; the shared one if none is given.
pub(super) fn session(name: Option<&str>) -> Result<SessionId, Problem> {
    let Some(name) = name else {
        return Ok(SessionId::default());
    };
    let fits = (1..=limits::MAX_SESSION).contains(&name.len());
    if fits && name.bytes().all(|b| b.is_ascii_graphic()) {
        return Ok(SessionId::new(name));
    }
    Err(Problem::field(
        "lockstep-session",
        &format!(
            "is not a session's name; use 1 to {} visible ASCII characters",
            limits::MAX_SESSION
        ),
    ))
}

pub(super) fn fetch_options(request: &proto::FetchRequest) -> Result<FetchOptions, Problem> {
    let max_messages = request.max_messages;
    if max_messages.is_some_and(|n| !(1..=limits::MAX_FETCH_MESSAGES).contains(&n)) {
        let sentence = format!("must be between 1 and {}", limits::MAX_FETCH_MESSAGES);
        return Err(Problem::field("max_messages", &sentence));
    }
    let max_bytes = request.max_bytes.unwrap_or(limits::DEFAULT_FETCH_BYTES);
    if !(1..=limits::MAX_FETCH_BYTES).contains(&max_bytes) {
        let sentence = format!("must be between 1 and {}", limits::MAX_FETCH_BYTES);
        return Err(Problem::field("max_bytes", &sentence));
    }
    Ok(FetchOptions {
        max_messages,
        max_wait: duration(
            "max_wait",
            request.max_wait.as_ref(),
            limits::MAX_FETCH_WAIT,
        )?,
        batch_wait: duration(
            "batch_wait",
            request.batch_wait.as_ref(),
            limits::MAX_BATCH_WAIT,
        )?,
        max_bytes: Some(max_bytes),
        partitions: partitions(&request.partitions),
    })
}

/// None named is all.
pub(super) fn partitions(named: &[u32]) -> Option<BTreeSet<Partition>> {
    (!named.is_empty()).then(|| named.iter().copied().map(Partition).collect())
}

pub(super) fn positions(field: &str, given: &[proto::Position]) -> Result<Vec<Position>, Problem> {
    if !(1..=limits::MAX_POSITIONS).contains(&given.len()) {
        let sentence = format!("must have between 1 and {} entries", limits::MAX_POSITIONS);
        return Err(Problem::field(field, &sentence));
    }
    given
        .iter()
        .enumerate()
        .map(|(index, given)| position(&format!("{field}[{index}]"), given))
        .collect()
}

fn position(field: &str, given: &proto::Position) -> Result<Position, Problem> {
    for (name, number) in [("epoch", given.epoch), ("sequence", given.sequence)] {
        if number == 0 {
            let sentence = "is 0; give the one that the message was handed over with";
            return Err(Problem::field(format!("{field}.{name}"), sentence));
        }
    }
    Ok(Position {
        partition: Partition(given.partition),
        epoch: Epoch(given.epoch),
        sequence: Sequence(given.sequence),
    })
}

pub(super) fn ack_mode(mode: i32) -> Result<AckMode, Problem> {
    match ack_request::Mode::try_from(mode) {
        Ok(ack_request::Mode::UpTo) => Ok(AckMode::UpTo),
        Ok(ack_request::Mode::Each) => Ok(AckMode::Each),
        Err(_) => Err(Problem::field("mode", "is neither UP_TO nor EACH")),
    }
}

pub(super) fn ack_wait(wait: i32) -> Result<AckWait, Problem> {
    match ack_request::Wait::try_from(wait) {
        Ok(ack_request::Wait::Accepted) => Ok(AckWait::Accepted),
        Ok(ack_request::Wait::Committed) => Ok(AckWait::Committed),
        Err(_) => Err(Problem::field("wait", "is neither ACCEPTED nor COMMITTED")),
    }
}

/// The part of a nack's error that is kept.
pub(super) fn kept_error(mut error: String) -> String {
    if error.len() > limits::MAX_ERROR {
        let end = (0..=limits::MAX_ERROR)
            .rev()
            .find(|end| error.is_char_boundary(*end));
        error.truncate(end.unwrap_or_default());
    }
    error
}

/// A duration between 0 and `longest`.
pub(super) fn duration(
    field: &str,
    given: Option<&prost_types::Duration>,
    longest: Duration,
) -> Result<Option<Duration>, Problem> {
    let Some(given) = given else { return Ok(None) };
    match Duration::try_from(*given) {
        Ok(duration) if duration <= longest => Ok(Some(duration)),
        Ok(_) | Err(_) => Err(Problem::field(
            field,
            &format!("must be between 0s and {}s", longest.as_secs()),
        )),
    }
}

pub(super) fn publish(request: proto::PublishRequest) -> Result<Publish, Problem> {
    let to = match request.to {
        Some(publish_request::To::Key(key)) => {
            check_tokens("key", &key)?;
            PublishTo::Key(key)
        }
        Some(publish_request::To::Subject(subject)) => {
            check_tokens("subject", &subject)?;
            PublishTo::Subject(subject)
        }
        None => {
            let sentence = "is required and is missing; give it or subject";
            return Err(Problem::field("key", sentence));
        }
    };
    let derived_from = request.derived_from.as_ref();
    if let Some(id) = &request.id {
        if derived_from.is_some() {
            let sentence = "excludes id; give one of them";
            return Err(Problem::field("derived_from", sentence));
        }
        if !(1..=limits::MAX_NAME).contains(&id.len()) || id.chars().any(char::is_control) {
            let sentence = format!(
                "must have 1 to {} bytes and no control characters",
                limits::MAX_NAME
            );
            return Err(Problem::field("id", &sentence));
        }
    }
    Ok(Publish {
        to,
        payload: request.payload,
        headers: headers(request.headers)?,
        id: request.id,
        derived_from: derived_from
            .map(|given| position("derived_from", given))
            .transpose()?,
    })
}

/// A subject to publish to, or a part of one.
fn check_tokens(field: &str, text: &str) -> Result<(), Problem> {
    let fits = (1..=limits::MAX_NAME).contains(&text.len());
    let chars = !text.chars().any(|c| c.is_whitespace() || c.is_control());
    let tokens = text
        .split('.')
        .all(|token| !token.is_empty() && token != "*" && token != ">");
    if fits && chars && tokens {
        return Ok(());
    }
    let sentence = format!(
        "must have 1 to {} bytes, without spaces, wildcards and empty tokens",
        limits::MAX_NAME
    );
    Err(Problem::field(field, &sentence))
}

fn headers(
    given: BTreeMap<String, proto::HeaderValues>,
) -> Result<Vec<(String, Vec<String>)>, Problem> {
    if given.len() > limits::MAX_HEADERS {
        let sentence = format!("must have at most {} entries", limits::MAX_HEADERS);
        return Err(Problem::field("headers", &sentence));
    }
    let checked = given.into_iter().map(|(name, values)| {
        let field = || format!("headers.{}", name.chars().take(64).collect::<String>());
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_graphic() && b != b':') {
            let sentence = "is not a header's name; use visible ASCII characters except ':'";
            return Err(Problem::field(field(), sentence));
        }
        if name.eq_ignore_ascii_case("Nats-Msg-Id") {
            return Err(Problem::field(field(), "is made from id; give that"));
        }
        let broken = |value: &String| value.contains(['\r', '\n']);
        if values.values.is_empty() || values.values.iter().any(broken) {
            let sentence = "must have at least one value, and no value more than one line";
            return Err(Problem::field(field(), sentence));
        }
        Ok((name, values.values))
    });
    checked.collect()
}

pub(super) fn fetched(fetched: Fetched) -> proto::FetchResponse {
    proto::FetchResponse {
        messages: fetched.messages.into_iter().map(message).collect(),
        redelivered: fetched.redelivered,
    }
}

pub(super) fn message(delivered: Delivered) -> proto::Message {
    let headers = delivered.headers.iter().map(|(name, values)| {
        let values = values.clone();
        (name.clone(), proto::HeaderValues { values })
    });
    proto::Message {
        partition: delivered.partition.0,
        epoch: delivered.epoch.0,
        sequence: delivered.sequence.0,
        stream: delivered.stream.as_ref().to_owned(),
        subject: delivered.subject.to_string(),
        key: delivered.key(),
        headers: headers.collect(),
        timestamp: Some(time(delivered.timestamp)),
        attempt: delivered.attempt,
        deadline: Some(time(delivered.deadline)),
        payload: delivered.payload,
    }
}

pub(super) fn ack_results(results: Vec<AckResult>) -> Vec<proto::AckResult> {
    let results = results.into_iter().map(|result| proto::AckResult {
        partition: result.position.partition.0,
        epoch: result.position.epoch.0,
        sequence: result.position.sequence.0,
        status: match result.status {
            AckStatus::Accepted => ack_result::Status::Accepted,
            AckStatus::Committed => ack_result::Status::Committed,
            AckStatus::NotOwned => ack_result::Status::NotOwned,
        }
        .into(),
        committed: result.committed.0,
    });
    results.collect()
}

pub(super) fn published(published: Published) -> proto::PublishResponse {
    proto::PublishResponse {
        stream: published.stream,
        sequence: published.sequence.0,
        partition: published.partition.map(|partition| partition.0),
        duplicate: published.duplicate,
    }
}

pub(super) fn status(status: Status) -> proto::StatusResponse {
    let state = match status.state {
        WorkerState::Joining => proto::status_response::State::Joining,
        WorkerState::Standby => proto::status_response::State::Standby,
        WorkerState::Active => proto::status_response::State::Active,
        WorkerState::Suspended => proto::status_response::State::Suspended,
        WorkerState::Draining => proto::status_response::State::Draining,
    };
    proto::StatusResponse {
        group: status.group.to_string(),
        member_id: status.member_id.to_string(),
        incarnation: status.incarnation.to_string(),
        state: state.into(),
        reason: status.standby.map(|r| format!("{r:?}")).unwrap_or_default(),
        epoch: status.epoch.0,
        lease_remaining: status.lease_remaining.try_into().ok(),
        partitions: status
            .partitions
            .into_iter()
            .map(partition_status)
            .collect(),
        nats: Some(proto::NatsStatus {
            connected: status.nats.connected,
            server: status.nats.server,
            version: status.nats.version,
        }),
        app: Some(proto::AppStatus {
            connected: status.app.connected,
            sessions: status.app.sessions,
            since: Some(time(wall_clock(
                clock::unix_now(),
                status.app.since,
                Side::Past,
            ))),
        }),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        problems: status.problems,
    }
}

fn partition_status(status: PartitionStatus) -> proto::PartitionStatus {
    let state = match status.state {
        PartitionState::Claiming => proto::partition_status::State::Claiming,
        PartitionState::Feeding => proto::partition_status::State::Feeding,
        PartitionState::Paused => proto::partition_status::State::Paused,
        PartitionState::Revoking => proto::partition_status::State::Revoking,
        PartitionState::Stopped => proto::partition_status::State::Stopped,
        PartitionState::Suspended => proto::partition_status::State::Suspended,
    };
    let (reason, detail) = status.stopped.map_or_else(Default::default, |stopped| {
        (format!("{:?}", stopped.reason), stopped.detail)
    });
    proto::PartitionStatus {
        partition: status.partition.0,
        epoch: status.epoch.0,
        state: state.into(),
        position: status.position.0,
        committed: status.committed.0,
        in_flight: status.in_flight,
        pending: status.pending,
        head_attempts: status.head_attempts,
        reason,
        detail,
    }
}

pub(super) fn partition_epoch(partition: Partition, epoch: Epoch) -> proto::PartitionEpoch {
    proto::PartitionEpoch {
        partition: partition.0,
        epoch: epoch.0,
    }
}

/// Whether a span lies before or after now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Past,
    Future,
}

/// The moment so far from now, for people: the wall clock may be set at any time.
pub(super) fn wall_clock(now: ServerTime, span: Duration, side: Side) -> ServerTime {
    let span = i64::try_from(span.as_nanos()).unwrap_or(i64::MAX);
    ServerTime(match side {
        Side::Past => now.0.saturating_sub(span),
        Side::Future => now.0.saturating_add(span),
    })
}

pub(super) fn time(time: ServerTime) -> prost_types::Timestamp {
    const NANOS: i64 = 1_000_000_000;
    prost_types::Timestamp {
        seconds: time.0.div_euclid(NANOS),
        nanos: i32::try_from(time.0.rem_euclid(NANOS)).unwrap_or_default(),
    }
}
