//! Objects in numbers: what the leader's metrics show of their statuses.

use crate::controller::objects::ObjectKey;
use crate::crd::{Condition, ConditionStatus, ConditionType, ConsumerGroup};
use crate::metrics::{ConditionWord, GroupFigures, ObjectName};

/// A group's object in numbers.
pub(super) fn of_group(group: &ConsumerGroup) -> GroupFigures {
    let status = group.status.clone().unwrap_or_default();
    let asked = group.spec.replicas.and_then(|n| i32::try_from(n).ok());
    GroupFigures {
        replicas: status.replicas,
        desired_replicas: status.desired_replicas.or(asked),
        conditions: of_conditions(&status.conditions),
    }
}

/// Conditions by their types; types that this version does not know have no series.
pub(super) fn of_conditions(conditions: &[Condition]) -> Vec<(&'static str, ConditionWord)> {
    let known = conditions.iter().filter_map(|condition| {
        let types = ConditionType::ALL.iter().map(|kind| kind.as_str());
        let kind = types.into_iter().find(|kind| *kind == condition.kind)?;
        Some((kind, word(condition.status)))
    });
    known.collect()
}

fn word(status: ConditionStatus) -> ConditionWord {
    match status {
        ConditionStatus::True => ConditionWord::True,
        ConditionStatus::False => ConditionWord::False,
        ConditionStatus::Unknown => ConditionWord::Unknown,
    }
}

impl From<&ObjectKey> for ObjectName {
    fn from(key: &ObjectKey) -> Self {
        Self {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(kind: &str, status: ConditionStatus) -> Condition {
        Condition {
            kind: kind.to_owned(),
            status,
            observed_generation: None,
            last_transition_time: "2026-01-31T12:00:00Z".to_owned(),
            reason: "AsExpected".to_owned(),
            message: String::new(),
        }
    }

    #[test]
    fn conditions_keep_their_words_and_strangers_have_none() {
        let conditions = [
            condition("Ready", ConditionStatus::Unknown),
            condition("FromTheFuture", ConditionStatus::True),
            condition("Stalled", ConditionStatus::False),
        ];
        let shown = [
            ("Ready", ConditionWord::Unknown),
            ("Stalled", ConditionWord::False),
        ];
        assert_eq!(of_conditions(&conditions), shown);
    }
}
