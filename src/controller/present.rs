//! Which objects there are, and which connection each group refers to.
//!
//! Kept apart from the stores of the controllers: those say when they are complete to one listener
//! only, and say nothing of what is gone.

use std::collections::{BTreeMap, BTreeSet};

use tokio::sync::watch;

use super::objects::ObjectKey;
use crate::crd::DeletionPolicy;

/// What is there. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Present(watch::Sender<State>);

#[derive(Clone, Debug, Default)]
struct State {
    /// How many watches there are of each kind.
    scopes: usize,
    groups: Objects,
    connections: Objects,
    /// Of each group that was looked at; none of one that cannot be read.
    referring: BTreeMap<ObjectKey, Option<Reference>>,
}

/// The objects of one kind.
#[derive(Clone, Debug, Default)]
struct Objects {
    /// The uids, by the watch that shows them, once it has shown all there are.
    shown: BTreeMap<usize, BTreeMap<ObjectKey, String>>,
}

/// The kinds that are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Group,
    Connection,
}

/// What a group refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reference {
    pub(super) connection: ObjectKey,
    pub(super) policy: DeletionPolicy,
}

// === impl Present ===

impl Present {
    /// Nothing is known yet; there will be as many watches of each kind.
    pub(super) fn new(scopes: usize) -> Self {
        let state = State {
            scopes,
            ..State::default()
        };
        Self(watch::Sender::new(state))
    }

    /// A watch has shown everything; returns what it no longer shows, with its uids.
    pub(super) fn replace(
        &self,
        kind: Kind,
        scope: usize,
        all: BTreeMap<ObjectKey, String>,
    ) -> Vec<(ObjectKey, String)> {
        let mut gone = Vec::new();
        self.0.send_modify(|state| {
            let shown = &mut state.of(kind).shown;
            let before = shown.remove(&scope).unwrap_or_default();
            let before = before.into_iter();
            gone = before
                .filter(|(key, uid)| all.get(key) != Some(uid))
                .collect();
            shown.insert(scope, all);
        });
        gone
    }

    /// A watch shows an object; says whether it is a new one.
    pub(super) fn add(&self, kind: Kind, scope: usize, key: ObjectKey, uid: String) -> bool {
        self.0.send_if_modified(|state| {
            let shown = state.of(kind).shown.get_mut(&scope);
            shown.is_some_and(|shown| shown.insert(key, uid.clone()) != Some(uid))
        })
    }

    pub(super) fn remove(&self, kind: Kind, scope: usize, key: &ObjectKey) {
        self.0.send_modify(|state| {
            if let Some(shown) = state.of(kind).shown.get_mut(&scope) {
                shown.remove(key);
            }
            if kind == Kind::Group {
                state.referring.remove(key);
            }
        });
    }

    pub(super) fn is_there(&self, kind: Kind, key: &ObjectKey) -> bool {
        self.0.borrow().objects(kind).show(key)
    }

    /// All objects of a kind.
    pub(super) fn all(&self, kind: Kind) -> BTreeSet<ObjectKey> {
        let state = self.0.borrow();
        let shown = state.objects(kind).shown.values();
        shown.flat_map(BTreeMap::keys).cloned().collect()
    }

    /// Notes what a group refers to; says whether that is news. A group that cannot be read refers
    /// to nothing.
    pub(super) fn refers(&self, group: &ObjectKey, to: Option<Reference>) -> bool {
        self.0.send_if_modified(|state| {
            let news = state.referring.get(group) != Some(&to);
            state.referring.insert(group.clone(), to);
            news
        })
    }

    /// What a group was last seen to refer to.
    pub(super) fn reference_of(&self, group: &ObjectKey) -> Option<Reference> {
        self.0.borrow().referring.get(group).cloned().flatten()
    }

    /// Groups that refer to a connection. One that a look at came too late for does not count.
    pub(super) fn referring_to(&self, connection: &ObjectKey) -> Vec<(ObjectKey, DeletionPolicy)> {
        let state = self.0.borrow();
        let all = state.referring.iter();
        let of = all.filter_map(|(group, reference)| {
            let reference = reference.as_ref()?;
            let counts = reference.connection == *connection && state.groups.show(group);
            counts.then(|| (group.clone(), reference.policy))
        });
        of.collect()
    }

    /// Waits until all objects are known.
    pub(super) async fn known(&self) {
        let mut states = self.0.subscribe();
        drop(states.wait_for(State::is_known).await);
    }

    /// Waits until it is known of all groups what they refer to.
    pub(super) async fn references_known(&self) {
        let mut states = self.0.subscribe();
        let complete = |state: &State| {
            let groups = state.groups.shown.values().flat_map(BTreeMap::keys);
            let groups: BTreeSet<&ObjectKey> = groups.collect();
            state.is_known()
                && groups
                    .iter()
                    .all(|group| state.referring.contains_key(group))
        };
        drop(states.wait_for(complete).await);
    }
}

// === impl State ===

impl State {
    fn of(&mut self, kind: Kind) -> &mut Objects {
        match kind {
            Kind::Group => &mut self.groups,
            Kind::Connection => &mut self.connections,
        }
    }

    fn objects(&self, kind: Kind) -> &Objects {
        match kind {
            Kind::Group => &self.groups,
            Kind::Connection => &self.connections,
        }
    }

    fn is_known(&self) -> bool {
        self.groups.shown.len() == self.scopes && self.connections.shown.len() == self.scopes
    }
}

// === impl Objects ===

impl Objects {
    fn show(&self, key: &ObjectKey) -> bool {
        self.shown.values().any(|shown| shown.contains_key(key))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("shop", name)
    }

    fn objects(all: &[(&str, &str)]) -> BTreeMap<ObjectKey, String> {
        let all = all.iter();
        all.map(|(name, uid)| (key(name), (*uid).to_owned()))
            .collect()
    }

    fn reference(policy: DeletionPolicy) -> Reference {
        Reference {
            connection: key("nats"),
            policy,
        }
    }

    #[test]
    fn everything_is_known_once_every_watch_has_shown_everything() {
        let present = Present::new(2);
        for scope in 0..2 {
            assert!(present.known().now_or_never().is_none());
            present.replace(Kind::Group, scope, BTreeMap::new());
            present.replace(Kind::Connection, scope, objects(&[("nats", "n")]));
        }
        assert!(present.known().now_or_never().is_some());
        assert!(present.is_there(Kind::Connection, &key("nats")));
        assert!(!present.is_there(Kind::Group, &key("nats")));
    }

    #[test]
    fn who_refers_to_a_connection_is_known_once_all_groups_were_looked_at() {
        let present = Present::new(1);
        present.replace(Kind::Connection, 0, objects(&[("nats", "n")]));
        present.replace(
            Kind::Group,
            0,
            objects(&[("a", "1"), ("b", "2"), ("c", "3")]),
        );
        assert!(present.refers(&key("a"), Some(reference(DeletionPolicy::Delete))));
        assert!(!present.refers(&key("a"), Some(reference(DeletionPolicy::Delete))));
        assert!(present.refers(&key("b"), None), "one that cannot be read");
        assert!(present.references_known().now_or_never().is_none());
        present.refers(&key("c"), Some(reference(DeletionPolicy::Retain)));
        assert!(present.references_known().now_or_never().is_some());
        let referring = present.referring_to(&key("nats"));
        let wanted = [
            (key("a"), DeletionPolicy::Delete),
            (key("c"), DeletionPolicy::Retain),
        ];
        assert_eq!(referring, wanted);
        present.remove(Kind::Group, 0, &key("a"));
        assert_eq!(present.referring_to(&key("nats")), wanted[1..]);
        present.refers(&key("a"), Some(reference(DeletionPolicy::Delete)));
        assert_eq!(
            present.referring_to(&key("nats")),
            wanted[1..],
            "it is gone"
        );
        assert!(present.add(Kind::Group, 0, key("a"), "4".to_owned()));
        assert_eq!(present.referring_to(&key("nats")), wanted);
        assert!(!present.add(Kind::Group, 0, key("a"), "4".to_owned()));
    }

    #[test]
    fn what_went_while_a_watch_was_broken_is_noticed() {
        let present = Present::new(1);
        let none = present.replace(Kind::Group, 0, objects(&[("a", "1"), ("b", "2")]));
        assert!(none.is_empty());
        present.add(Kind::Group, 0, key("c"), "3".to_owned());
        let gone = present.replace(Kind::Group, 0, objects(&[("a", "1"), ("b", "other")]));
        let wanted = [(key("b"), "2".to_owned()), (key("c"), "3".to_owned())];
        assert_eq!(gone, wanted);
    }
}
