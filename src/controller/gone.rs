//! Objects that are gone: they had no finalizer, so nothing else says it.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use kube::ResourceExt;
use kube::api::Api;
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use serde::de::DeserializeOwned;

use super::connections::View;
use super::groups::{self, Whether};
use super::leader::Office;
use super::objects::ObjectKey;
use super::present::Kind;
use crate::clock;
use crate::crd::{ConsumerGroup, NatsConnection};
use crate::group::Timestamp;

/// How often buckets are looked through for groups that have no object any more.
const SWEEP_AGAIN: Duration = Duration::from_secs(300);

/// When the buckets behind each connection were last looked through.
#[derive(Debug, Default)]
pub(super) struct Swept(Mutex<HashMap<ObjectKey, Timestamp>>);

// === impl Swept ===

impl Swept {
    /// Whether it is time; if so, it counts as done.
    fn begin(&self, connection: &ObjectKey) -> bool {
        let (mut swept, now) = (self.locked(), clock::now());
        let last = swept.get(connection);
        let due = last.is_none_or(|last| now.since(*last) >= SWEEP_AGAIN);
        if due {
            swept.insert(connection.clone(), now);
        }
        due
    }

    fn was_not_done(&self, connection: &ObjectKey) {
        self.locked().remove(connection);
    }

    fn all_again(&self) {
        self.locked().clear();
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, HashMap<ObjectKey, Timestamp>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Follows which objects there are, for as long as it is polled.
pub(super) async fn watch(office: &Arc<Office>, number: usize) {
    let Some(scope) = office.scopes.get(number) else {
        return;
    };
    let groups: Api<PartialObjectMeta<ConsumerGroup>> = office.leader.api(scope.namespace.as_ref());
    let connections: Api<PartialObjectMeta<NatsConnection>> =
        office.leader.api(scope.namespace.as_ref());
    tokio::join!(
        follow(office, groups, (Kind::Group, number)),
        follow(office, connections, (Kind::Connection, number)),
    );
}

async fn follow<K>(office: &Arc<Office>, api: Api<PartialObjectMeta<K>>, of: (Kind, usize))
where
    K: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let (kind, scope) = of;
    let mut events = pin!(watcher(api, watcher::Config::default()).default_backoff());
    let mut all = BTreeMap::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => all.clear(),
            Ok(Event::InitApply(object)) => {
                all.insert(ObjectKey::of(&object), object.uid().unwrap_or_default());
            }
            Ok(Event::InitDone) => {
                let there = std::mem::take(&mut all);
                for (key, uid) in office.present.replace(kind, scope, there) {
                    is_gone(office, kind, (key, uid)).await;
                }
            }
            Ok(Event::Apply(object)) => {
                let (key, uid) = (ObjectKey::of(&object), object.uid().unwrap_or_default());
                let new = office.present.add(kind, scope, key.clone(), uid);
                if new && kind == Kind::Group {
                    wake_the_connection_of(office, &key);
                }
            }
            Ok(Event::Delete(object)) => {
                let (key, uid) = (ObjectKey::of(&object), object.uid().unwrap_or_default());
                if kind == Kind::Group {
                    wake_the_connection_of(office, &key);
                }
                office.present.remove(kind, scope, &key);
                is_gone(office, kind, (key, uid)).await;
            }
            Err(error) => tracing::debug!(%error, "the watch of deletions begins anew"),
        }
    }
}

async fn is_gone(office: &Arc<Office>, kind: Kind, (key, uid): (ObjectKey, String)) {
    match kind {
        Kind::Group => group_is_gone(office, key, uid).await,
        Kind::Connection => connection_is_gone(office, &key).await,
    }
}

fn wake_the_connection_of(office: &Office, group: &ObjectKey) {
    if let Some(reference) = office.present.reference_of(group) {
        office.wake_connection(&reference.connection);
    }
}

async fn group_is_gone(office: &Arc<Office>, key: ObjectKey, uid: String) {
    let (leader, running) = (&office.leader, office.leader.running.clone());
    leader.scaling.forget(&key);
    let told = groups::group_is_gone(&key, &uid, &leader.manager, &leader.connections).await;
    if !told {
        // With the next look at a connection.
        office.swept.all_again();
    }
    office.tasks.spawn("farewell", |stop| async move {
        running.retire(&key, &uid, stop).await;
    });
}

async fn connection_is_gone(office: &Office, key: &ObjectKey) {
    office.leader.connections.drop_one(key).await;
    office.look_at_groups_of(key);
    // If it was made anew meanwhile.
    office.wake_connection(key);
}

/// Marks groups whose objects went while nobody led, from time to time and for each connection.
pub(super) async fn sweep(office: &Office, connection: &ObjectKey) {
    let leader = &office.leader;
    let View::Ready(usable) = leader.connections.view(connection) else {
        return;
    };
    if !office.swept.begin(connection) {
        return;
    }
    let known = |key: &ObjectKey| {
        if office.scope_of(key).is_none() {
            Whether::Elsewhere
        } else if office.present.is_there(Kind::Group, key) {
            Whether::There
        } else {
            Whether::Gone
        }
    };
    let swept = groups::sweep(&leader.client, &usable, &leader.manager, known).await;
    if let Err(error) = swept {
        tracing::warn!(%connection, %error, "groups without objects were not all looked at");
        office.swept.was_not_done(connection);
    }
}
