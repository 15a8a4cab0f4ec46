//! The status of a `NatsConnection`: a pure function of what was found.

use super::Standing;
use crate::controller::objects::Conditions;
use crate::crd::{ConditionType, NatsConnection, NatsConnectionStatus, Reason};

/// What the status says, given what was found; times of transition stay where nothing changed.
pub(super) fn status(
    object: &NatsConnection,
    standing: &Standing,
    groups: usize,
) -> NatsConnectionStatus {
    let before = object.status.clone().unwrap_or_default();
    let mut conditions = Conditions::default();
    let version = match standing {
        Standing::Ready { version } => {
            conditions.holds(
                ConditionType::Ready,
                &format!("nats-server {version} answers"),
            );
            Some(version.clone())
        }
        Standing::NotReady { reason, message } => {
            conditions.fails(ConditionType::Ready, *reason, message.as_str());
            before.server_version.clone()
        }
    };
    NatsConnectionStatus {
        observed_generation: object.metadata.generation,
        conditions: conditions.after(&before.conditions, object.metadata.generation),
        server_version: version,
        groups: Some(i32::try_from(groups).unwrap_or(i32::MAX)),
    }
}

/// From the client's and the server's words to a reason.
pub(super) fn reason_of(words: &str) -> Reason {
    let words = words.to_lowercase();
    let authorization = [
        "authorization",
        "authentication",
        "permission",
        "user authentication",
    ];
    if authorization.iter().any(|word| words.contains(word)) {
        Reason::AuthorizationViolation
    } else {
        Reason::Unreachable
    }
}
