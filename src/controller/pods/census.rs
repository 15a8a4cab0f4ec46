//! What was seen of the pods, and which of them were seen to end.
//!
//! A pod is *gone* for its group only when this process has seen its worker run and has then seen the
//! worker's end: reported by a kubelet on a node that is ready, for a pod that finished or was
//! deleted with time to end. Absence proves nothing, and neither does a deletion that nobody waited
//! for: such a worker may live on, and its session timeout is waited for. // P48

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::fact::{Deletion, Phase, PodFact, Worker};
use crate::controller::objects::ObjectKey;
use crate::group::Timestamp;

/// A member's last word is in the bucket for an hour; an end is not needed for longer than twice that.
const REMEMBERED: Duration = Duration::from_secs(2 * 60 * 60);

/// All pods with a group's label, as they were seen.
#[derive(Debug, Default)]
pub(super) struct Census {
    pods: BTreeMap<String, Known>,
    by_group: BTreeMap<ObjectKey, BTreeSet<String>>,
    gone: BTreeMap<String, (ObjectKey, Timestamp)>,
    /// Namespaces whose pods are all known; none stands for every one.
    known: BTreeSet<Option<String>>,
}

/// One pod.
#[derive(Debug)]
struct Known {
    fact: PodFact,
    /// Its worker was seen to run.
    ran: bool,
    /// It was deleted without time to end while its worker ran.
    forced: bool,
    joined: Joined,
    /// It was said that it has no worker.
    said_to_lack: bool,
}

/// Whether the pod has joined its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Joined {
    /// It was there before anything was known of its group.
    Unknown,
    /// It was seen without partitions.
    NotYet,
    /// It was seen with some.
    Yes,
}

/// When a pod came to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Since {
    /// It was there when the watch began.
    Before,
    /// It appeared, or changed, before the watch's eyes.
    Now,
}

/// A pod whose worker has ended, if its node is to be believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Evidence {
    pub(super) uid: String,
    pub(super) node: String,
    pub(super) group: ObjectKey,
}

// === impl Census ===

impl Census {
    /// Takes in a pod as it is; what speaks for its end, if anything does.
    pub(super) fn see(&mut self, fact: PodFact, since: Since) -> Option<Evidence> {
        let before = self.pods.remove(&fact.uid);
        if let Some(before) = &before
            && before.fact.group != fact.group
        {
            self.strike(&before.fact.group, &fact.uid);
        }
        let of = self.by_group.entry(fact.group.clone()).or_default();
        of.insert(fact.uid.clone());
        let joined = match since {
            Since::Before => Joined::Unknown,
            Since::Now if fact.worker == Worker::Running => Joined::Unknown,
            Since::Now => Joined::NotYet,
        };
        let mut known = before.unwrap_or(Known {
            fact: fact.clone(),
            ran: false,
            forced: false,
            joined,
            said_to_lack: false,
        });
        known.ran |= fact.worker == Worker::Running;
        known.forced |= fact.deletion == Deletion::Forced && fact.worker != Worker::Ended;
        known.fact = fact;
        let evidence = known.evidence();
        self.pods.insert(known.fact.uid.clone(), known);
        evidence.filter(|evidence| !self.gone.contains_key(&evidence.uid))
    }

    /// A pod's object is no longer there, or no longer has the label: that alone says nothing.
    pub(super) fn lose(&mut self, uid: &str) -> Option<ObjectKey> {
        let known = self.pods.remove(uid)?;
        self.strike(&known.fact.group, uid);
        Some(known.fact.group)
    }

    /// The watch of a namespace, or of all, began anew and has named these; others are not there any
    /// more.
    pub(super) fn keep_only(
        &mut self,
        named: &BTreeSet<String>,
        namespace: Option<&str>,
    ) -> BTreeSet<ObjectKey> {
        self.known.insert(namespace.map(str::to_owned));
        let within = |of: &str| namespace.is_none_or(|namespace| namespace == of);
        let lost = self
            .pods
            .iter()
            .filter(|(uid, known)| !named.contains(*uid) && within(&known.fact.group.namespace));
        let lost: Vec<String> = lost.map(|(uid, _)| uid.clone()).collect();
        lost.iter().filter_map(|uid| self.lose(uid)).collect()
    }

    /// The evidence holds: the pod is gone for its group.
    pub(super) fn believe(&mut self, evidence: Evidence, now: Timestamp) {
        self.gone
            .retain(|_, (_, since)| now.since(*since) < REMEMBERED);
        self.gone.insert(evidence.uid, (evidence.group, now));
    }

    /// Whether all pods of a namespace were named at least once.
    pub(super) fn knows(&self, namespace: &str) -> bool {
        self.known.contains(&None) || self.known.contains(&Some(namespace.to_owned()))
    }

    /// A group's pods.
    pub(super) fn of(&self, group: &ObjectKey) -> Vec<PodFact> {
        let uids = self.by_group.get(group).into_iter().flatten();
        let known = uids.filter_map(|uid| self.pods.get(uid));
        known.map(|known| known.fact.clone()).collect()
    }

    /// Uids of the group's pods that were seen to end.
    pub(super) fn gone(&self, group: &ObjectKey) -> BTreeSet<String> {
        let of = self.gone.iter().filter(|(_, (of, _))| of == group);
        of.map(|(uid, _)| uid.clone()).collect()
    }

    /// Names of the group's pods that are being deleted and have time to end.
    pub(super) fn leaving(&self, group: &ObjectKey) -> BTreeSet<String> {
        let uids = self.by_group.get(group).into_iter().flatten();
        let facts = uids.filter_map(|uid| self.pods.get(uid).map(|known| &known.fact));
        let leaving = facts.filter(|fact| fact.deletion == Deletion::Graceful);
        leaving.map(|fact| fact.name.clone()).collect()
    }

    /// How many of the group's pods should have a worker and have none; the names of those of which
    /// that was not said before.
    pub(super) fn uninjected(&mut self, group: &ObjectKey) -> (usize, Vec<String>) {
        let (mut count, mut fresh) = (0, Vec::new());
        for uid in self.by_group.get(group).into_iter().flatten() {
            let Some(known) = self.pods.get_mut(uid) else {
                continue;
            };
            if known.fact.lacks_its_worker() {
                count += 1;
                if !std::mem::replace(&mut known.said_to_lack, true) {
                    fresh.push(known.fact.name.clone());
                }
            }
        }
        (count, fresh)
    }

    /// Pods that own partitions for the first time, given who owns some by name.
    pub(super) fn joins(&mut self, group: &ObjectKey, owners: &BTreeSet<&str>) -> Vec<PodFact> {
        let uids = self.by_group.get(group).cloned().unwrap_or_default();
        let mut first = Vec::new();
        for uid in uids {
            let Some(known) = self.pods.get_mut(&uid) else {
                continue;
            };
            let owns = owners.contains(known.fact.name.as_str());
            if owns && known.joined == Joined::NotYet {
                first.push(known.fact.clone());
            }
            if owns {
                known.joined = Joined::Yes;
            } else if known.joined == Joined::Unknown {
                known.joined = Joined::NotYet;
            }
        }
        first
    }

    fn strike(&mut self, group: &ObjectKey, uid: &str) {
        if let Some(of) = self.by_group.get_mut(group) {
            of.remove(uid);
            if of.is_empty() {
                self.by_group.remove(group);
            }
        }
    }
}

// === impl Known ===

impl Known {
    fn evidence(&self) -> Option<Evidence> {
        let fact = &self.fact;
        let over = fact.phase == Phase::Finished || fact.deletion != Deletion::None;
        if !self.ran || self.forced || fact.worker != Worker::Ended || !over {
            return None;
        }
        Some(Evidence {
            uid: fact.uid.clone(),
            node: fact.node.clone()?,
            group: fact.group.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::fact::tests::{pod, worker_is};
    use super::*;

    fn running(name: &str) -> PodFact {
        pod(name, &worker_is("running"))
    }

    fn deleted(name: &str, grace: i64, state: &str) -> PodFact {
        let mut more = worker_is(state);
        more["metadata"] = json!({
            "deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": grace,
        });
        pod(name, &more)
    }

    fn finished(name: &str) -> PodFact {
        let mut more = worker_is("terminated");
        more["status"]["phase"] = Value::from("Succeeded");
        pod(name, &more)
    }

    fn orders() -> ObjectKey {
        ObjectKey::new("shop", "orders")
    }

    #[test]
    fn a_pod_that_ran_and_ended_gracefully_is_gone() {
        let mut census = Census::default();
        assert_eq!(census.see(running("a"), Since::Before), None);
        assert_eq!(census.see(deleted("a", 30, "running"), Since::Now), None);
        let evidence = census
            .see(deleted("a", 30, "terminated"), Since::Now)
            .unwrap();
        assert_eq!(evidence.node, "node-1");
        assert!(
            census.gone(&orders()).is_empty(),
            "its node was not asked yet"
        );
        census.believe(evidence, Timestamp::default());
        assert!(census.gone(&orders()).contains("uid-a"));
        // The kubelet itself deletes it with no time left, when all is over.
        assert_eq!(census.see(deleted("a", 0, "terminated"), Since::Now), None);
        census.lose("uid-a");
        assert!(census.gone(&orders()).contains("uid-a"));
        assert!(census.of(&orders()).is_empty());
    }

    #[test]
    fn pods_that_are_deleted_with_time_to_end_are_leaving() {
        let mut census = Census::default();
        census.see(running("a"), Since::Before);
        census.see(deleted("b", 30, "running"), Since::Now);
        census.see(deleted("c", 0, "running"), Since::Now);
        assert_eq!(census.leaving(&orders()), BTreeSet::from(["b".to_owned()]));
        let uid = census.of(&orders())[1].uid.clone();
        census.lose(&uid);
        assert_eq!(census.leaving(&orders()), BTreeSet::new());
    }

    #[test]
    fn a_pod_that_finished_is_gone() {
        let mut census = Census::default();
        census.see(running("a"), Since::Now);
        assert!(census.see(finished("a"), Since::Now).is_some());
    }

    #[test]
    fn a_worker_that_is_started_again_is_not_gone() {
        let mut census = Census::default();
        census.see(running("a"), Since::Now);
        assert_eq!(
            census.see(pod("a", &worker_is("terminated")), Since::Now),
            None
        );
    }

    #[test]
    fn nothing_follows_from_what_was_not_seen() {
        let mut census = Census::default();
        assert_eq!(
            census.see(finished("a"), Since::Before),
            None,
            "it was not seen to run"
        );
        census.see(running("b"), Since::Now);
        census.lose("uid-b");
        census.see(running("c"), Since::Now);
        census.keep_only(&BTreeSet::new(), None);
        assert!(census.of(&orders()).is_empty() && census.gone(&orders()).is_empty());
    }

    #[test]
    fn a_forced_deletion_proves_nothing_whatever_comes_after_it() {
        let mut census = Census::default();
        census.see(running("a"), Since::Now);
        census.see(deleted("a", 30, "running"), Since::Now);
        assert_eq!(census.see(deleted("a", 0, "running"), Since::Now), None);
        assert_eq!(census.see(deleted("a", 0, "terminated"), Since::Now), None);
    }

    #[test]
    fn an_end_is_forgotten_when_nobody_can_need_it() {
        let mut census = Census::default();
        let evidence = |name: &str| Evidence {
            uid: name.to_owned(),
            node: String::new(),
            group: orders(),
        };
        let start = Timestamp::default();
        census.believe(evidence("a"), start);
        census.believe(evidence("b"), start.after(REMEMBERED));
        assert_eq!(census.gone(&orders()), ["b".to_owned()].into());
    }

    #[test]
    fn a_new_watch_loses_only_pods_of_its_own_namespaces() {
        let mut census = Census::default();
        census.see(running("a"), Since::Now);
        assert!(!census.knows("shop"));
        let lost = census.keep_only(&BTreeSet::new(), Some("other"));
        assert!(census.knows("other") && !census.knows("shop"));
        assert!(lost.is_empty() && census.of(&orders()).len() == 1);
        let lost = census.keep_only(&BTreeSet::new(), Some("shop"));
        assert_eq!(lost, [orders()].into());
    }

    #[test]
    fn a_pod_joins_once_and_only_if_it_was_seen_without_partitions() {
        let mut census = Census::default();
        census.see(running("old"), Since::Before);
        census.see(pod("new", &json!({})), Since::Now);
        let all = ["old", "new"].into();
        let names = |pods: Vec<PodFact>| pods.into_iter().map(|p| p.name).collect::<Vec<_>>();
        assert_eq!(names(census.joins(&orders(), &["old"].into())), [""; 0]);
        assert_eq!(names(census.joins(&orders(), &all)), ["new"]);
        assert_eq!(names(census.joins(&orders(), &all)), [""; 0]);
        census.see(running("new"), Since::Now);
        assert_eq!(names(census.joins(&orders(), &BTreeSet::new())), [""; 0]);
        assert_eq!(
            names(census.joins(&orders(), &all)),
            [""; 0],
            "a second time is none"
        );
    }

    #[test]
    fn a_pod_whose_label_changes_is_of_the_other_group() {
        let mut census = Census::default();
        census.see(running("a"), Since::Now);
        let label = json!({ "lockstep.dev/consumer-group": "others" });
        census.see(
            pod("a", &json!({ "metadata": { "labels": label } })),
            Since::Now,
        );
        assert!(census.of(&orders()).is_empty());
        assert_eq!(census.of(&ObjectKey::new("shop", "others")).len(), 1);
    }

    #[test]
    fn pods_without_a_worker_are_counted_and_each_is_named_once() {
        let mut census = Census::default();
        let bare = json!({ "spec": { "initContainers": null } });
        census.see(pod("a", &bare), Since::Now);
        census.see(running("b"), Since::Now);
        assert_eq!(census.uninjected(&orders()), (1, vec!["a".to_owned()]));
        census.see(pod("c", &bare), Since::Now);
        assert_eq!(census.uninjected(&orders()), (2, vec!["c".to_owned()]));
        census.lose("uid-a");
        assert_eq!(census.uninjected(&orders()), (1, vec![]));
        assert_eq!(
            census.uninjected(&ObjectKey::new("shop", "other")),
            (0, vec![])
        );
    }
}
