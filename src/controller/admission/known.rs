//! Groups and connections, as caches have them; what a cache lacks is looked up.
//!
//! A pod may come a moment after its group: "not found" is only said by the API server itself.

use std::sync::Arc;

use futures_util::{Stream, StreamExt};
use kube::Client;
use kube::api::Api;
use kube::core::NamespaceResourceScope;
use kube::core::error_boundary::DeserializeGuard;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{WatchStreamExt, watcher};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::LOOK_UP_WITHIN;
use crate::controller::injection::{ConnectionFacts, Denial, GroupFacts};
use crate::crd::{
    ConditionStatus, ConsumerGroup, ConsumerGroupSpec, DurationText, NatsConnection, Reason,
};
use crate::k8s::{self, K8sError};
use crate::tasks::Tasks;

/// One object that cannot be read hides no other.
type Group = DeserializeGuard<ConsumerGroup>;
type Nats = DeserializeGuard<NatsConnection>;

/// Groups and connections. Cheap to clone.
#[derive(Clone)]
pub(super) struct Known {
    client: Client,
    scopes: Arc<[Scope]>,
    unread: Unread,
}

/// How many caches are not filled yet. Cheap to clone; every clone counts the same.
///
/// The stores say when they are complete to one listener only; this wakes all that wait.
#[derive(Clone, Debug)]
struct Unread(watch::Sender<usize>);

/// The objects of one namespace, or of all.
#[derive(Debug)]
struct Scope {
    namespace: Option<String>,
    groups: Store<Group>,
    connections: Store<Nats>,
}

/// Why there are no facts.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unknown {
    /// The pod is not let in.
    #[error(transparent)]
    Denied(#[from] Denial),
    /// The API server did not say.
    #[error("the API server could not be asked about the pod's group; try again ({0})")]
    Unanswered(#[from] K8sError),
    /// The API server said nothing for too long.
    #[error("the API server did not answer a question about the pod's group in time; try again")]
    Late,
}

// === impl Known ===

impl std::fmt::Debug for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Known")
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}

impl Known {
    pub(super) fn follow(client: Client, namespaces: &[String], tasks: &Tasks) -> Self {
        let mut scopes: Vec<Option<String>> = namespaces.iter().cloned().map(Some).collect();
        if scopes.is_empty() {
            scopes.push(None);
        }
        let unread = Unread(watch::Sender::new(scopes.len() * 2));
        let scopes = scopes.into_iter().map(|namespace| {
            let scope = namespace.as_deref();
            Scope {
                groups: keep(api(&client, scope), &unread, tasks),
                connections: keep(api(&client, scope), &unread, tasks),
                namespace,
            }
        });
        Self {
            scopes: scopes.collect(),
            client,
            unread,
        }
    }

    pub(super) fn is_synced(&self) -> bool {
        self.unread.is_over()
    }

    /// What a pod of this namespace has to know of its group.
    pub(super) async fn facts(&self, namespace: &str, name: &str) -> Result<GroupFacts, Unknown> {
        let looked = tokio::time::timeout(LOOK_UP_WITHIN, self.look(namespace, name)).await;
        looked.map_err(|_| Unknown::Late)?
    }

    async fn look(&self, namespace: &str, name: &str) -> Result<GroupFacts, Unknown> {
        let group = self
            .group(namespace, name)
            .await?
            .ok_or_else(|| Denial::NoGroup {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            })?;
        let group = group
            .0
            .as_ref()
            .map_err(|error| invalid(namespace, name, &error.error))?;
        if group.metadata.deletion_timestamp.is_some() {
            return Err(Unknown::Denied(Denial::GroupBeingDeleted {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            }));
        }
        let spec = &group.spec;
        let home = spec
            .connection_ref
            .namespace
            .as_ref()
            .map_or(namespace, |n| n.as_str());
        let connection = spec.connection_ref.name.as_str();
        let full_name = format!("{home}/{connection}");
        if home != namespace && is_refused(group) {
            let connection = full_name;
            return Err(Unknown::Denied(Denial::NotGranted { connection }));
        }
        let found = self.connection(home, connection).await?;
        let found = found.ok_or_else(|| Denial::NoConnection {
            group: name.to_owned(),
            connection: full_name.clone(),
        })?;
        let found = found.0.as_ref().map_err(|error| {
            let why = format!("NatsConnection {full_name}: {}", error.error);
            invalid(namespace, name, &why)
        })?;
        of(namespace, name, group, connection_facts(full_name, found)).map_err(Unknown::Denied)
    }

    async fn group(&self, namespace: &str, name: &str) -> Result<Option<Arc<Group>>, K8sError> {
        let scope = self.scope_of(namespace);
        let cached =
            scope.and_then(|scope| scope.groups.get(&ObjectRef::new(name).within(namespace)));
        match cached {
            // One that is being deleted may have been made anew meanwhile.
            Some(group) if kube::Resource::meta(&*group).deletion_timestamp.is_none() => {
                Ok(Some(group))
            }
            Some(_) | None => self.live(namespace, name).await,
        }
    }

    async fn connection(&self, namespace: &str, name: &str) -> Result<Option<Arc<Nats>>, K8sError> {
        let scope = self.scope_of(namespace);
        let object = ObjectRef::new(name).within(namespace);
        match scope.and_then(|scope| scope.connections.get(&object)) {
            Some(found) => Ok(Some(found)),
            None => self.live(namespace, name).await,
        }
    }

    async fn live<K>(&self, namespace: &str, name: &str) -> Result<Option<Arc<K>>, K8sError>
    where
        K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned,
    {
        let found = k8s::get_opt(&api(&self.client, Some(namespace)), name).await?;
        Ok(found.map(Arc::new))
    }

    fn scope_of(&self, namespace: &str) -> Option<&Scope> {
        let covers = |scope: &&Scope| scope.namespace.as_deref().is_none_or(|n| n == namespace);
        self.scopes.iter().find(covers)
    }
}

fn api<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

/// A cache of the objects, kept by a task that the webhook cannot do without.
fn keep<K>(api: Api<K>, unread: &Unread, tasks: &Tasks) -> Store<K>
where
    K: kube::Resource<DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    let objects = watcher(api, watcher::Config::default()).default_backoff();
    keep_of(objects, unread.clone(), tasks)
}

/// The same of any watch.
fn keep_of<K>(
    objects: impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send + 'static,
    unread: Unread,
    tasks: &Tasks,
) -> Store<K>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + Send + Sync + 'static,
{
    let (store, writer) = reflector::store();
    tasks.spawn_vital(
        "webhook's cache",
        move |stop: CancellationToken| async move {
            let mut unread = Some(unread);
            let mut kept = std::pin::pin!(reflector::reflector(writer, objects));
            while let Some(Some(event)) = stop.run_until_cancelled(kept.next()).await {
                match event {
                    // It is in the store by now.
                    Ok(watcher::Event::InitDone) => {
                        if let Some(unread) = unread.take() {
                            unread.one_less();
                        }
                    }
                    Ok(_) => {}
                    Err(error) => {
                        tracing::warn!(%error, "the webhook's watch is broken; it begins anew");
                    }
                }
            }
        },
    );
    store
}

// === impl Unread ===

impl Unread {
    fn one_less(&self) {
        self.0
            .send_modify(|unread| *unread = unread.saturating_sub(1));
    }

    fn is_over(&self) -> bool {
        *self.0.borrow() == 0
    }
}

/// Whether the controller found that the connection's owner does not allow the group to use it.
fn is_refused(group: &ConsumerGroup) -> bool {
    let conditions = group.status.iter().flat_map(|status| &status.conditions);
    let mut refused = conditions.filter(|condition| {
        condition.status == ConditionStatus::False
            && condition.reason == Reason::NotGranted.as_str()
    });
    refused.next().is_some()
}

fn of(
    namespace: &str,
    name: &str,
    group: &ConsumerGroup,
    connection: ConnectionFacts,
) -> Result<GroupFacts, Denial> {
    let ConsumerGroupSpec {
        membership,
        delivery,
        worker,
        ..
    } = &group.spec;
    let wrong = |field: &str| invalid(namespace, name, &format!("{field} cannot be read"));
    let duration = |text: &DurationText| text.parse();
    let members = group
        .status
        .as_ref()
        .and_then(|status| status.members.as_ref());
    let members = members.map_or(0, |members| members.count);
    let limit = membership.max_members;
    Ok(GroupFacts {
        name: name.to_owned(),
        worker: worker.clone().unwrap_or_default(),
        processing_timeout: duration(&membership.processing_timeout)
            .ok_or_else(|| wrong("membership.processingTimeout"))?,
        buffer_bytes: delivery
            .buffer
            .bytes
            .parse()
            .ok_or_else(|| wrong("delivery.buffer.bytes"))?,
        full_at: (i64::from(members) >= i64::from(limit)).then_some(limit),
        connection,
    })
}

fn invalid(namespace: &str, name: &str, why: &str) -> Denial {
    Denial::GroupInvalid {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        why: why.to_owned(),
    }
}

fn connection_facts(name: String, connection: &NatsConnection) -> ConnectionFacts {
    let spec = &connection.spec;
    let tls = spec.tls.as_ref();
    let authority = tls.is_some_and(|tls| tls.ca_secret_ref.is_some());
    let certificate = tls.is_some_and(|tls| tls.client_cert_secret_ref.is_some());
    ConnectionFacts {
        name,
        servers: spec.servers.clone(),
        jetstream_domain: spec.jetstream_domain.clone(),
        bucket_prefix: spec.bucket.prefix.clone(),
        handshake_first: tls.is_some_and(|tls| tls.handshake_first),
        needs_credentials: spec.auth.is_some() || authority || certificate,
        worker_secret: spec
            .worker_secret_name
            .as_ref()
            .map(|name| name.as_str().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use tokio::sync::mpsc;

    use super::*;

    fn watched() -> (
        mpsc::Sender<watcher::Event<NatsConnection>>,
        impl Stream<Item = watcher::Result<watcher::Event<NatsConnection>>>,
    ) {
        let (events, receiver) = mpsc::channel(8);
        let objects = stream::unfold(receiver, |mut receiver| async move {
            Some((Ok(receiver.recv().await?), receiver))
        });
        (events, objects)
    }

    fn connection() -> NatsConnection {
        let object = serde_json::json!({
            "apiVersion": "lockstep.dev/v1alpha1",
            "kind": "NatsConnection",
            "metadata": { "name": "default", "namespace": "shop" },
            "spec": { "servers": ["nats://nats:4222"] },
        });
        serde_json::from_value(object).unwrap()
    }

    #[tokio::test]
    async fn all_that_wait_for_the_caches_are_woken_once_the_last_is_filled() {
        let (unread, tasks) = (Unread(watch::Sender::new(2)), Tasks::new());
        let (first, objects) = watched();
        let store = keep_of(objects, unread.clone(), &tasks);
        let (second, objects) = watched();
        let _store = keep_of(objects, unread.clone(), &tasks);
        let mut waiters: Vec<_> = (0..5).map(|_| unread.0.subscribe()).collect();
        for event in [
            watcher::Event::Init,
            watcher::Event::InitApply(connection()),
            watcher::Event::InitDone,
            // A watch that begins anew has been read before.
            watcher::Event::Init,
            watcher::Event::InitDone,
            watcher::Event::Apply(connection()),
        ] {
            first.send(event).await.unwrap();
        }
        unread
            .0
            .subscribe()
            .wait_for(|unread| *unread == 1)
            .await
            .unwrap();
        // All that was said is taken in: the channel is empty, and one more event is, too.
        drop(first.reserve_many(8).await.unwrap());
        assert!(!unread.is_over());
        for event in [watcher::Event::Init, watcher::Event::InitDone] {
            second.send(event).await.unwrap();
        }
        for waiter in &mut waiters {
            waiter.wait_for(|unread| *unread == 0).await.unwrap();
        }
        assert!(unread.is_over());
        assert_eq!(store.state().len(), 1);
        tasks.stop().await;
    }
}
