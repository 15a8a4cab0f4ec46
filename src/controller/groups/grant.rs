//! Whether a group may use a connection of another namespace.

use std::collections::BTreeMap;

use crate::crd::{LabelOperator, NamespaceSelector};

/// Whether a namespace with these labels is one of those that the connection's owner allows; its
/// name counts as the label `kubernetes.io/metadata.name`, which the API server sets.
pub(super) fn is_granted(
    allowed: Option<&NamespaceSelector>,
    labels: &BTreeMap<String, String>,
) -> bool {
    let Some(selector) = allowed else {
        return false;
    };
    let equal = selector.match_labels.iter();
    let mut equal = equal.map(|(key, value)| labels.get(key) == Some(value));
    let mut meet = selector.match_expressions.iter().map(|requirement| {
        let value = labels.get(&requirement.key);
        let named = value.is_some_and(|value| requirement.values.contains(value));
        match requirement.operator {
            LabelOperator::In => named,
            LabelOperator::NotIn => !named,
            LabelOperator::Exists => value.is_some(),
            LabelOperator::DoesNotExist => value.is_none(),
        }
    });
    equal.all(|holds| holds) && meet.all(|holds| holds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crd::LabelRequirement;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let pairs = pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        pairs.collect()
    }

    #[test]
    fn no_selector_grants_nothing_and_an_empty_one_everything() {
        assert!(!is_granted(None, &labels(&[])));
        assert!(is_granted(
            Some(&NamespaceSelector::default()),
            &labels(&[])
        ));
    }

    #[test]
    fn labels_and_expressions_all_have_to_hold() {
        let expression = |operator, values: &[&str]| LabelRequirement {
            key: "team".to_owned(),
            operator,
            values: values.iter().map(|v| (*v).to_owned()).collect(),
        };
        let selector = |requirement| NamespaceSelector {
            match_labels: labels(&[("tier", "prod")]),
            match_expressions: vec![requirement],
        };
        let shop = labels(&[("tier", "prod"), ("team", "shop")]);
        for (operator, values, granted) in [
            (LabelOperator::In, &["shop"][..], true),
            (LabelOperator::In, &["bank"], false),
            (LabelOperator::NotIn, &["shop"], false),
            (LabelOperator::NotIn, &["bank"], true),
            (LabelOperator::Exists, &[], true),
            (LabelOperator::DoesNotExist, &[], false),
        ] {
            let selector = selector(expression(operator, values));
            assert_eq!(
                is_granted(Some(&selector), &shop),
                granted,
                "{operator:?} {values:?}"
            );
            assert!(!is_granted(Some(&selector), &labels(&[("team", "shop")])));
        }
    }
}
