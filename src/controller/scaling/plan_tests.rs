//! One look after another at a group's replicas.

use super::*;
use crate::controller::pods::tests::pod;

/// A group `orders` of four partitions and Deployment `app` with as many pods as it should have.
struct Story {
    now: Timestamp,
    target: Option<Target>,
    wanted: Option<u32>,
    rival: Option<&'static str>,
    scaler: Option<&'static str>,
    pods: Vec<PodFact>,
    pods_are_known: bool,
    members: Option<Vec<MemberView>>,
    memory: Memory,
}

impl Story {
    fn with(replicas: i32) -> Self {
        let mut story = Self {
            now: Timestamp::default(),
            target: Some(Target {
                name: "app".to_owned(),
                replicas,
                group: Some("orders".to_owned()),
                ..Target::default()
            }),
            wanted: Some(replicas.unsigned_abs()),
            rival: None,
            scaler: None,
            pods: Vec::new(),
            pods_are_known: true,
            members: Some(Vec::new()),
            memory: Memory::default(),
        };
        story.pods = (0..replicas).map(one_of_app).collect();
        story
    }

    /// Members of these names own so many partitions.
    fn own(&mut self, owned: &[(&str, usize)]) {
        let member = |(id, partitions): &(&str, usize)| MemberView {
            id: (*id).to_owned(),
            state: "Active",
            partitions: *partitions,
            version: String::new(),
        };
        self.members = Some(owned.iter().map(member).collect());
    }

    fn look(&mut self) -> Plan {
        let seen = Seen {
            now: self.now,
            group: "orders",
            named: "Deployment app".to_owned(),
            target: self.target.clone(),
            wanted: self.wanted,
            partitions: 4,
            rebalance_timeout: Duration::from_secs(60),
            rival: self.rival,
            scaler: self.scaler,
            pods: self.pods_are_known.then_some(&*self.pods),
            members: self.members.as_deref(),
            costs: Costs::Set,
        };
        let plan = plan(&seen, &mut self.memory);
        // What it wants written is written.
        if let (Some(scale), Some(target)) = (&plan.scale, &mut self.target) {
            target.replicas = scale.to;
            target.written_by = None;
        }
        plan
    }

    fn passes(&mut self, seconds: u64) {
        self.now = self.now.after(Duration::from_secs(seconds));
    }

    /// Somebody else writes the target.
    fn foreign(&mut self, manager: &str, replicas: i32) {
        let target = self.target.as_mut().unwrap();
        target.replicas = replicas;
        target.written_by = Some(manager.to_owned());
    }
}

fn one_of_app(n: i32) -> PodFact {
    let more = serde_json::json!({
        "metadata": {
            "labels": { "pod-template-hash": "abc" },
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "app-abc", "uid": "r",
                "controller": true,
            }],
        },
    });
    pod(&format!("app-{n}"), &more)
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn written(plan: &Plan) -> Option<i32> {
    plan.scale.as_ref().map(|scale| scale.to)
}

#[test]
fn replicas_are_adopted_once_the_target_exists_and_whenever_they_are_unset() {
    let mut story = Story::with(0);
    story.wanted = None;
    let target = story.target.take();
    let plan = story.look();
    assert_eq!(
        (plan.adopt, plan.active.reason),
        (None, Reason::TargetNotInGroup)
    );
    story.target = target;
    let plan = story.look();
    assert_eq!(
        (plan.adopt, written(&plan)),
        (Some(0), None),
        "0 is a number, too"
    );
    story.wanted = Some(2);
    assert_eq!(written(&story.look()), Some(2));
    story.wanted = None;
    assert_eq!(story.look().adopt, Some(2));
}

#[test]
fn a_target_of_another_group_or_none_is_left_alone() {
    let mut story = Story::with(2);
    story.wanted = None;
    for group in [None, Some("others".to_owned())] {
        story.target.as_mut().unwrap().group = group;
        let plan = story.look();
        assert_eq!(plan.active.reason, Reason::TargetNotInGroup);
        assert_eq!((plan.adopt, plan.scale, plan.declared), (None, None, None));
    }
}

#[test]
fn of_two_groups_with_one_target_the_older_wins() {
    let mut story = Story::with(2);
    story.wanted = Some(4);
    story.rival = Some("elders");
    let plan = story.look();
    assert_eq!(
        (plan.active.reason, written(&plan)),
        (Reason::ScalerConflict, None)
    );
    assert!(
        plan.active.message.contains("elders"),
        "{}",
        plan.active.message
    );
    story.rival = None;
    assert_eq!(written(&story.look()), Some(4));
}

#[test]
fn another_autoscaler_on_the_target_stops_every_write_until_it_is_gone() {
    let mut story = Story::with(2);
    story.wanted = Some(3);
    story.scaler = Some("HorizontalPodAutoscaler app");
    let plan = story.look();
    assert_eq!(
        (plan.active.reason, written(&plan)),
        (Reason::ScalerConflict, None)
    );
    story.scaler = None;
    assert_eq!(written(&story.look()), Some(3));
}

#[test]
fn more_than_the_partitions_is_shown_and_not_written() {
    let mut story = Story::with(2);
    story.wanted = Some(9);
    let plan = story.look();
    assert_eq!(
        (written(&plan), plan.adopt, plan.declared),
        (Some(4), None, Some(4))
    );
    let plan = story.look();
    let limited = plan.limited.unwrap();
    assert_eq!(
        (limited.status, limited.reason),
        (ConditionStatus::True, Reason::PartitionLimit)
    );
    assert_eq!(plan.active.reason, Reason::AsExpected);
    story.wanted = Some(4);
    assert_eq!(story.look().limited.unwrap().status, ConditionStatus::False);
}

#[test]
fn a_target_grows_at_once() {
    let mut story = Story::with(1);
    story.wanted = Some(3);
    assert_eq!(written(&story.look()), Some(3));
    assert_eq!(written(&story.look()), None);
}

#[test]
fn a_target_shrinks_when_those_who_go_own_nothing() {
    let mut story = Story::with(3);
    story.look();
    story.own(&[("app-0", 1), ("app-1", 1), ("app-2", 2)]);
    story.wanted = Some(1);
    let plan = story.look();
    assert_eq!(written(&plan), None);
    assert_eq!(
        plan.asked_to_leave,
        names(&["app-0", "app-1"]),
        "they have least"
    );
    let costs: Vec<_> = plan
        .costs
        .iter()
        .map(|(name, cost)| (name.as_str(), *cost))
        .collect();
    assert_eq!(
        costs,
        [("app-0", Some(FIRST_TO_GO)), ("app-1", Some(FIRST_TO_GO))]
    );
    let limited = plan.limited.unwrap();
    assert_eq!(limited.reason, Reason::RebalanceInProgress);
    story.passes(5);
    story.own(&[("app-0", 0), ("app-1", 1), ("app-2", 3)]);
    assert_eq!(written(&story.look()), None, "app-1 has one yet");
    story.own(&[("app-0", 0), ("app-1", 0), ("app-2", 4)]);
    let plan = story.look();
    assert_eq!(
        plan.scale,
        Some(Scale {
            from: 3,
            to: 1,
            drained: 2
        })
    );
    assert_eq!(
        plan.asked_to_leave,
        names(&["app-0", "app-1"]),
        "until they are gone"
    );
}

#[test]
fn who_owns_nothing_is_waited_for_until_the_coordinator_has_heard() {
    let mut story = Story::with(2);
    story.own(&[("app-0", 4), ("app-1", 0)]);
    story.wanted = Some(1);
    assert_eq!(written(&story.look()), None);
    story.passes(1);
    assert_eq!(written(&story.look()), Some(1));
}

#[test]
fn draining_is_given_up_after_the_rebalance_timeout() {
    let mut story = Story::with(2);
    story.own(&[("app-0", 2), ("app-1", 2)]);
    story.wanted = Some(1);
    story.look();
    story.passes(59);
    assert_eq!(written(&story.look()), None);
    story.passes(1);
    let plan = story.look();
    assert_eq!(
        plan.scale,
        Some(Scale {
            from: 2,
            to: 1,
            drained: 0
        })
    );
}

#[test]
fn while_nobody_coordinates_the_timeout_is_waited_for() {
    let mut story = Story::with(2);
    story.members = None;
    story.wanted = Some(1);
    story.look();
    story.passes(30);
    assert_eq!(written(&story.look()), None);
    story.passes(30);
    assert_eq!(written(&story.look()), Some(1));
}

#[test]
fn while_pods_are_not_known_nobody_is_taken() {
    let mut story = Story::with(2);
    story.own(&[("app-0", 4), ("app-1", 0)]);
    story.pods_are_known = false;
    story.wanted = Some(1);
    story.look();
    story.passes(30);
    assert_eq!(written(&story.look()), None, "as after a fail-over");
    story.pods_are_known = true;
    story.passes(1);
    assert_eq!(written(&story.look()), Some(1));
}

#[test]
fn a_target_goes_to_nothing_at_once_since_nobody_could_take_over() {
    let mut story = Story::with(2);
    story.own(&[("app-0", 2), ("app-1", 2)]);
    story.wanted = Some(0);
    assert_eq!(written(&story.look()), Some(0));
}

#[test]
fn who_was_to_go_is_asked_until_its_pod_is_gone() {
    let mut story = Story::with(2);
    story.own(&[("app-0", 4), ("app-1", 0)]);
    story.wanted = Some(1);
    story.look();
    story.passes(1);
    assert_eq!(written(&story.look()), Some(1));
    assert_eq!(story.look().asked_to_leave, names(&["app-1"]));
    story.pods[1].deletion = crate::controller::pods::Deletion::Graceful;
    assert_eq!(story.look().asked_to_leave, names(&["app-1"]));
    story.pods.pop();
    assert_eq!(story.look().asked_to_leave, names(&[]));
}

#[test]
fn who_was_to_go_and_stays_is_let_be() {
    let mut story = Story::with(2);
    story.own(&[("app-0", 4), ("app-1", 0)]);
    story.wanted = Some(1);
    story.look();
    story.passes(1);
    story.look();
    story.pods[1].deletion_cost = Some(FIRST_TO_GO);
    story.pods.remove(0); // another one was taken instead
    let plan = story.look();
    assert_eq!(plan.asked_to_leave, names(&[]));
    assert_eq!(
        plan.costs.get("app-1"),
        Some(&None),
        "its cost is taken back"
    );
}

#[test]
fn a_change_of_mind_ends_the_drain() {
    let mut story = Story::with(3);
    story.own(&[("app-0", 1), ("app-1", 1), ("app-2", 2)]);
    story.wanted = Some(1);
    assert_eq!(story.look().asked_to_leave.len(), 2);
    story.pods[0].deletion_cost = Some(FIRST_TO_GO);
    story.pods[1].deletion_cost = Some(FIRST_TO_GO);
    story.wanted = Some(2);
    let plan = story.look();
    assert_eq!(plan.asked_to_leave.len(), 1);
    assert_eq!(plan.costs.values().collect::<Vec<_>>(), [&None]);
    story.wanted = Some(3);
    let plan = story.look();
    assert!(plan.asked_to_leave.is_empty() && plan.scale.is_none());
    assert_eq!(plan.costs.len(), 2);
}

#[test]
fn costs_that_somebody_else_gave_stay() {
    let mut story = Story::with(2);
    story.own(&[("app-0", 2), ("app-1", 2)]);
    story.pods[1].deletion_cost = Some(-7);
    story.wanted = Some(1);
    let plan = story.look();
    assert_eq!(plan.asked_to_leave, names(&["app-1"]));
    assert!(plan.costs.is_empty());
}

#[test]
fn a_foreign_write_is_corrected_and_named() {
    let mut story = Story::with(2);
    story.look();
    story.foreign("kubectl", 3);
    story.pods.push(one_of_app(2));
    story.own(&[("app-0", 2), ("app-1", 1), ("app-2", 1)]);
    let plan = story.look();
    let foreign = plan.foreign.as_ref().unwrap();
    assert_eq!(
        (foreign.manager.as_str(), foreign.wrote, foreign.instead_of),
        ("kubectl", 3, 2)
    );
    // Three pods are to become two again: by a drain as always.
    assert_eq!(written(&plan), None);
    story.passes(60);
    let plan = story.look();
    assert_eq!((written(&plan), plan.foreign), (Some(2), None));
    assert_eq!(story.look().active.reason, Reason::AsExpected);
}

#[test]
fn a_change_of_what_is_wanted_is_no_foreign_write() {
    let mut story = Story::with(2);
    story.target.as_mut().unwrap().written_by = Some("kubectl".to_owned());
    story.look();
    story.wanted = Some(3);
    let plan = story.look();
    assert_eq!((written(&plan), plan.foreign), (Some(3), None));
}

#[test]
fn who_is_corrected_three_times_in_ten_minutes_is_let_be_for_a_while() {
    let mut story = Story::with(2);
    story.look();
    for n in 1..=3 {
        story.foreign("argocd", 1);
        let plan = story.look();
        assert_eq!(written(&plan), Some(2));
        let expected = if n < 3 {
            Reason::AsExpected
        } else {
            Reason::ScalerConflict
        };
        assert_eq!(plan.active.reason, expected, "correction {n}");
        story.look();
        story.passes(60);
    }
    story.foreign("argocd", 1);
    let plan = story.look();
    assert_eq!(
        (plan.active.reason, written(&plan)),
        (Reason::ScalerConflict, None)
    );
    assert!(
        plan.active.message.contains("argocd"),
        "{}",
        plan.active.message
    );
    story.passes(7 * 60 - 1);
    assert_eq!(written(&story.look()), None);
    story.passes(1);
    assert_eq!(
        written(&story.look()),
        Some(2),
        "the first correction is ten minutes ago"
    );
}

#[test]
fn three_corrections_against_three_managers_are_no_conflict() {
    let mut story = Story::with(2);
    story.look();
    for manager in ["a", "b", "c"] {
        story.foreign(manager, 1);
        assert_eq!(story.look().active.reason, Reason::AsExpected);
        story.look();
    }
}

#[test]
fn another_target_is_met_without_memories() {
    let mut story = Story::with(2);
    story.look();
    assert_ne!(story.memory.settled, None);
    story.memory.target = "Deployment old".to_owned();
    story.foreign("kubectl", 1);
    let plan = story.look();
    assert_eq!((plan.foreign, written(&story.look())), (None, None));
}
