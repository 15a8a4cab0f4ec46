//! Who goes when a target shrinks.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::target::{Kind, Target};
use crate::controller::pods::PodFact;

/// What makes Kubernetes take a pod first: less than anything a person would write.
pub(super) const FIRST_TO_GO: i32 = -1_000_000_000;

/// Whether Kubernetes is told which pods of a Deployment to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Costs {
    /// Their deletion cost says it: those go whose departure moves least.
    Set,
    /// It takes the youngest.
    NotAllowed,
}

/// What the choice rests on, besides the target.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grounds<'a> {
    /// The group's pods.
    pub(super) pods: &'a [PodFact],
    /// How many partitions a member owns.
    pub(super) owned: &'a BTreeMap<&'a str, usize>,
    /// Who was chosen before.
    pub(super) asked: &'a BTreeSet<String>,
    pub(super) costs: Costs,
}

/// The names of the pods that go when the target shrinks to this many. For a Deployment that is
/// rolling out nobody can say, and none is named.
pub(super) fn victims(target: &Target, to: i32, grounds: Grounds<'_>) -> BTreeSet<String> {
    match target.kind {
        Kind::StatefulSet => highest_ordinals(target, to),
        Kind::Deployment if target.rolling_out => BTreeSet::new(),
        Kind::Deployment => {
            let of = grounds.pods.iter();
            let mut of: Vec<&PodFact> = of.filter(|pod| target.has(pod) && pod.counts()).collect();
            let keep = usize::try_from(to).unwrap_or_default();
            let count = of.len().saturating_sub(keep);
            of.sort_by_key(|pod| rank(pod, grounds));
            let first = of.into_iter().take(count);
            first.map(|pod| pod.name.clone()).collect()
        }
    }
}

fn highest_ordinals(target: &Target, to: i32) -> BTreeSet<String> {
    let start = target.first_ordinal;
    let ordinals = start.saturating_add(to)..start.saturating_add(target.replicas);
    ordinals.map(|n| format!("{}-{n}", target.name)).collect()
}

/// The order in which a `ReplicaSet` takes its pods: not scheduled, not running, not ready, cheapest;
/// among equals we choose, and say so by the cost. Who was asked to leave already stays chosen (after a
/// fail-over the cost says who that was); else the owner of the fewest partitions: exactly these move.
fn rank<'a>(pod: &'a PodFact, grounds: Grounds<'_>) -> impl Ord + use<'a> {
    let Grounds { owned, asked, .. } = grounds;
    let given = pod.deletion_cost.filter(|cost| *cost != FIRST_TO_GO);
    let (stays, partitions) = match grounds.costs {
        Costs::Set => (
            !asked.contains(&pod.name) && pod.deletion_cost != Some(FIRST_TO_GO),
            owned.get(pod.name.as_str()).copied().unwrap_or_default(),
        ),
        Costs::NotAllowed => (false, 0),
    };
    (
        pod.node.is_some(),
        pod.phase,
        pod.ready,
        given.unwrap_or_default(),
        stays,
        partitions,
        Reverse(pod.created),
        pod.name.as_str(),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::controller::pods::tests::pod;

    fn deployment(replicas: i32) -> Target {
        Target {
            kind: Kind::Deployment,
            name: "app".to_owned(),
            replicas,
            ..Target::default()
        }
    }

    fn member(name: &str, created: i64) -> PodFact {
        let owner = json!([{
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "app-abc", "uid": "r",
            "controller": true,
        }]);
        let more = json!({
            "metadata": { "ownerReferences": owner, "labels": { "pod-template-hash": "abc" } },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
        });
        PodFact {
            created,
            ..pod(name, &more)
        }
    }

    fn grounds<'a>(
        pods: &'a [PodFact],
        owned: &'a BTreeMap<&'a str, usize>,
        asked: &'a BTreeSet<String>,
    ) -> Grounds<'a> {
        let costs = Costs::Set;
        Grounds {
            pods,
            owned,
            asked,
            costs,
        }
    }

    fn chosen(pods: &[PodFact], to: i32, owned: &[(&str, usize)]) -> Vec<String> {
        let owned = owned.iter().copied().collect();
        let target = deployment(3);
        let chosen = victims(&target, to, grounds(pods, &owned, &BTreeSet::new()));
        chosen.into_iter().collect()
    }

    #[test]
    fn of_a_deployment_those_go_whose_departure_moves_least() {
        let pods = [member("a", 1), member("b", 2), member("c", 3)];
        let owned = [("a", 2), ("b", 3), ("c", 3)];
        assert_eq!(chosen(&pods, 2, &owned), ["a"]);
        assert_eq!(
            chosen(&pods, 1, &owned),
            ["a", "c"],
            "the youngest of equals"
        );
        assert_eq!(chosen(&pods, 0, &owned), ["a", "b", "c"]);
        assert_eq!(chosen(&pods, 3, &owned), [""; 0]);
    }

    #[test]
    fn kubernetes_own_order_comes_first() {
        let mut waiting = member("waiting", 1);
        waiting.node = None;
        waiting.phase = crate::controller::pods::Phase::Pending;
        let mut unready = member("unready", 1);
        unready.ready = false;
        let mut dear = member("dear", 9);
        dear.deletion_cost = Some(100);
        let pods = [member("a", 5), dear, unready, waiting];
        let owned = [("a", 5), ("unready", 9)];
        assert_eq!(chosen(&pods, 3, &owned), ["waiting"]);
        assert_eq!(chosen(&pods, 2, &owned), ["unready", "waiting"]);
        assert_eq!(chosen(&pods, 1, &owned), ["a", "unready", "waiting"]);
    }

    #[test]
    fn who_was_asked_already_stays_chosen() {
        let pods = [member("a", 1), member("b", 2), member("c", 3)];
        let owned = [("a", 2), ("b", 2)].into();
        let asked = ["b".to_owned()].into();
        let target = deployment(3);
        let chosen = victims(&target, 2, grounds(&pods, &owned, &asked));
        assert_eq!(chosen, asked, "although c owns nothing");
        let costs = Costs::NotAllowed;
        let grounds = Grounds {
            costs,
            ..grounds(&pods, &owned, &asked)
        };
        let chosen = victims(&target, 2, grounds);
        assert_eq!(
            chosen,
            ["c".to_owned()].into(),
            "Kubernetes takes the youngest"
        );
    }

    #[test]
    fn after_a_fail_over_the_cost_says_who_was_asked() {
        let mut priced = member("b", 2);
        priced.deletion_cost = Some(FIRST_TO_GO);
        let pods = [member("a", 1), priced, member("c", 3)];
        assert_eq!(chosen(&pods, 2, &[("a", 1), ("b", 3), ("c", 1)]), ["b"]);
    }

    #[test]
    fn pods_that_go_already_or_are_of_others_do_not_count() {
        let mut gone = member("gone", 1);
        gone.deletion = crate::controller::pods::Deletion::Graceful;
        let others = pod("others", &json!({}));
        let pods = [member("a", 1), member("b", 2), gone, others];
        assert_eq!(chosen(&pods, 1, &[("a", 1)]), ["b"]);
    }

    #[test]
    fn of_a_stateful_set_the_highest_ordinals_go() {
        let target = Target {
            kind: Kind::StatefulSet,
            name: "app".to_owned(),
            replicas: 4,
            first_ordinal: 10,
            ..Target::default()
        };
        let owned = BTreeMap::new();
        let chosen = victims(&target, 2, grounds(&[], &owned, &BTreeSet::new()));
        assert_eq!(chosen, ["app-12".to_owned(), "app-13".to_owned()].into());
    }

    #[test]
    fn while_a_deployment_rolls_out_nobody_is_named() {
        let mut target = deployment(2);
        target.rolling_out = true;
        let pods = [member("a", 1), member("b", 2)];
        let owned = BTreeMap::new();
        let chosen = victims(&target, 1, grounds(&pods, &owned, &BTreeSet::new()));
        assert!(chosen.is_empty());
    }
}
