//! What a controller does while it leads: reconciles objects and runs the groups' coordinators.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use kube::Client;
use kube::api::Api;
use kube::core::NamespaceResourceScope;
use kube::core::error_boundary::DeserializeGuard;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher::{self, Event, watcher};
use kube::runtime::{WatchStreamExt, controller};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;

use super::connections::{self, Connections};
use super::figures;
use super::groups::{self, Running};
use super::objects::ObjectKey;
use super::settings::Settings;
use crate::clock;
use crate::coordinator::GroupCoordinator;
use crate::crd::{ConsumerGroup, DeletionPolicy, NatsConnection};
use crate::k8s::{Events, K8sError};
use crate::metrics::{
    ControllerMetrics, CoordinatorMetrics, ObjectKind, ObjectName, ReconcileOutcome,
};
use crate::nats::{Connection, ConnectionEvent};
use crate::tasks::Tasks;

/// Objects that may break the schema of this version are still seen one by one.
type Group = DeserializeGuard<ConsumerGroup>;
type Nats = DeserializeGuard<NatsConnection>;

/// Triggers that wait to be taken in.
const TRIGGERS: usize = 4096;

/// News of one group are gathered for this long.
const GATHER: Duration = Duration::from_millis(250);

/// How long the series of an object may outlive it.
const PRUNE: Duration = Duration::from_secs(15);

/// The first wait after a failure, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// A controller that may lead. Cheap to clone.
#[derive(Clone)]
pub(super) struct Leader {
    pub(super) settings: Settings,
    pub(super) client: Client,
    pub(super) manager: String,
    pub(super) events: Events,
    pub(super) metrics: CoordinatorMetrics,
    pub(super) figures: ControllerMetrics,
    pub(super) connections: Connections,
    pub(super) running: Running,
}

/// One term of leading: what its reconciles share.
struct Office {
    leader: Leader,
    scopes: Vec<Scope>,
    tasks: Tasks,
    failures: Mutex<HashMap<ObjectKey, u32>>,
    swept: Mutex<BTreeSet<ObjectKey>>,
}

/// The objects of one namespace, or of all.
struct Scope {
    namespace: Option<String>,
    groups: Store<Group>,
    connections: Store<Nats>,
    wake_group: mpsc::Sender<ObjectRef<Group>>,
    wake_connection: mpsc::Sender<ObjectRef<Nats>>,
}

/// A controller of objects of one kind in one scope, ready to run.
struct Ready {
    groups: Controller<Group>,
    connections: Controller<Nats>,
}

// === impl Leader ===

impl Leader {
    /// Leads until told that it is over.
    pub(super) async fn lead(&self, over: CancellationToken) {
        let (scopes, ready): (Vec<Scope>, Vec<Ready>) = self.scopes(&over).into_iter().unzip();
        let office = Arc::new(Office {
            leader: self.clone(),
            scopes,
            tasks: Tasks::new(),
            failures: Mutex::default(),
            swept: Mutex::default(),
        });
        let running = ready.into_iter().map(|ready| {
            let (groups, connections) = (Arc::clone(&office), Arc::clone(&office));
            async move {
                let groups = ready.groups.run(reconcile_group, after_failure, groups);
                let connections =
                    ready
                        .connections
                        .run(reconcile_connection, after_failure, connections);
                tokio::join!(groups.for_each(done), connections.for_each(done));
            }
        });
        let pruner = Arc::clone(&office);
        office.tasks.spawn("figures", |stop| prune(pruner, stop));
        let gone = office
            .scopes
            .iter()
            .map(|scope| watch_deletions(&office, scope));
        tokio::select! {
            () = over.cancelled() => {}
            _ = join_all(running) => {}
            _ = join_all(gone) => {}
        }
        office.tasks.stop().await;
    }

    /// Stops everything that leading has started.
    pub(super) async fn stopped(&self) {
        self.running.stop_all().await;
        self.connections.close().await;
    }

    fn api<K>(&self, namespace: Option<&String>) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        match namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        }
    }

    fn scopes(&self, over: &CancellationToken) -> Vec<(Scope, Ready)> {
        let named = self.settings.watch_namespaces.iter().cloned().map(Some);
        let mut namespaces: Vec<Option<String>> = named.collect();
        if namespaces.is_empty() {
            namespaces.push(None);
        }
        let scopes = namespaces
            .into_iter()
            .map(|namespace| self.scope(namespace, over));
        scopes.collect()
    }

    fn scope(&self, namespace: Option<String>, over: &CancellationToken) -> (Scope, Ready) {
        let (wake_group, groups_woken) = mpsc::channel(TRIGGERS);
        let (wake_connection, connections_woken) = mpsc::channel(TRIGGERS);
        let config =
            controller::Config::default().concurrency(self.settings.max_concurrent_reconciles);
        let groups: Api<Group> = self.api(namespace.as_ref());
        let groups = Controller::new(groups, watcher::Config::default())
            .with_config(config.clone())
            .reconcile_on(ReceiverStream::new(groups_woken))
            .graceful_shutdown_on(over.clone().cancelled_owned());
        let connections: Api<Nats> = self.api(namespace.as_ref());
        let connections = Controller::new(connections, watcher::Config::default())
            .with_config(config)
            .reconcile_on(ReceiverStream::new(connections_woken))
            .graceful_shutdown_on(over.clone().cancelled_owned());
        let scope = Scope {
            namespace,
            groups: groups.store(),
            connections: connections.store(),
            wake_group,
            wake_connection,
        };
        (
            scope,
            Ready {
                groups,
                connections,
            },
        )
    }
}

// === impl Office ===

impl Office {
    fn scope_of(&self, key: &ObjectKey) -> Option<&Scope> {
        let covers = |scope: &&Scope| {
            scope
                .namespace
                .as_ref()
                .is_none_or(|namespace| *namespace == key.namespace)
        };
        self.scopes.iter().find(covers)
    }

    /// All groups that can be read.
    fn groups(&self) -> Vec<ConsumerGroup> {
        let all = self.scopes.iter().flat_map(|scope| scope.groups.state());
        all.filter_map(|group| group.0.as_ref().ok().cloned())
            .collect()
    }

    /// Groups that refer to a connection, and how many of them need it to clean up.
    fn groups_of(&self, connection: &ObjectKey) -> (usize, usize) {
        let mut of = self.groups();
        of.retain(|group| groups::connection_of(group, &ObjectKey::of(group)) == *connection);
        let deleting = of
            .iter()
            .filter(|group| group.spec.deletion_policy == DeletionPolicy::Delete);
        (of.len(), deleting.count())
    }

    /// Has a group reconciled soon.
    fn wake_group(&self, key: &ObjectKey) {
        if let Some(scope) = self.scope_of(key) {
            let object = ObjectRef::new(&key.name).within(&key.namespace);
            // A full queue means that everything is on its way to be looked at anyway.
            drop(scope.wake_group.try_send(object));
        }
    }

    fn wake_connection(&self, key: &ObjectKey) {
        if let Some(scope) = self.scope_of(key) {
            let object = ObjectRef::new(&key.name).within(&key.namespace);
            drop(scope.wake_connection.try_send(object));
        }
    }

    /// Has every group of a connection looked at in full.
    fn look_at_groups_of(&self, connection: &ObjectKey) {
        for group in self.groups() {
            let key = ObjectKey::of(&group);
            if groups::connection_of(&group, &key) == *connection {
                self.leader.running.look_again(&key);
                self.wake_group(&key);
            }
        }
    }

    fn succeeded(&self, key: &ObjectKey) {
        self.failures
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(key);
    }

    /// How long to wait after one more failure.
    fn failed(&self, key: &ObjectKey) -> Duration {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let count = failures.entry(key.clone()).or_default();
        *count = count.saturating_add(1);
        let (first, longest) = BACKOFF;
        first.saturating_mul(1 << (*count - 1).min(10)).min(longest)
    }

    /// Groups whose objects went while nobody led, once per connection.
    async fn sweep(&self, key: &ObjectKey) {
        let connections::View::Ready(usable) = self.leader.connections.view(key) else {
            return;
        };
        let new = self
            .swept
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key.clone());
        if !new {
            return;
        }
        let objects: BTreeSet<ObjectKey> = self
            .scopes
            .iter()
            .flat_map(|s| s.groups.state())
            .map(|group| ObjectKey::of(&*group))
            .collect();
        let within = |key: &ObjectKey| self.scope_of(key).is_some();
        let swept = groups::sweep(&usable, &self.leader.manager, &objects, within).await;
        if let Err(error) = swept {
            tracing::warn!(%error, "groups without objects were not all looked at");
            self.swept
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .remove(key);
        }
    }
}

async fn reconcile_group(object: Arc<Group>, office: Arc<Office>) -> Result<Action, K8sError> {
    let (figures, began) = (&office.leader.figures, clock::now());
    if let Ok(group) = &object.0 {
        // What the next look shows of this one's status: a status that changed brings it about.
        figures.group(
            &ObjectName::from(&ObjectKey::of(group)),
            &figures::of_group(group),
        );
    }
    let ended = look_at_group(&object, &office).await;
    let outcome = outcome(object.0.is_ok(), &ended);
    figures.reconciled(
        ObjectKind::ConsumerGroup,
        outcome,
        clock::now().since(began),
    );
    ended
}

/// How a look at an object ended.
fn outcome(is_readable: bool, ended: &Result<Action, K8sError>) -> ReconcileOutcome {
    match ended {
        Err(_) => ReconcileOutcome::Failed,
        Ok(_) if is_readable => ReconcileOutcome::Done,
        Ok(_) => ReconcileOutcome::Invalid,
    }
}

async fn look_at_group(object: &Group, office: &Arc<Office>) -> Result<Action, K8sError> {
    let leader = &office.leader;
    let group = match &object.0 {
        Ok(group) => group,
        Err(invalid) => {
            groups::report_invalid(&leader.client, invalid).await?;
            return Ok(Action::await_change());
        }
    };
    let news = |coordinator: &GroupCoordinator, key: &ObjectKey| {
        let (mut changes, key, office) = (coordinator.changes(), key.clone(), Arc::clone(office));
        let tasks = office.tasks.clone();
        tasks.spawn("news", |stop| async move {
            while let Some(Ok(())) = stop.run_until_cancelled(changes.changed()).await {
                tokio::time::sleep(GATHER).await;
                office.wake_group(&key);
            }
        });
    };
    let again = groups::reconcile(
        group,
        &groups::Needs {
            client: &leader.client,
            connections: &leader.connections,
            running: &leader.running,
            events: &leader.events,
            metrics: &leader.metrics,
            manager: &leader.manager,
            id: &leader.settings.id,
            session_timeout: leader.settings.lease_duration,
            cleanup_timeout: leader.settings.cleanup_timeout,
            news: &news,
        },
    )
    .await?;
    office.succeeded(&ObjectKey::of(group));
    Ok(Action::requeue(again))
}

async fn reconcile_connection(object: Arc<Nats>, office: Arc<Office>) -> Result<Action, K8sError> {
    let (figures, began) = (&office.leader.figures, clock::now());
    if let Ok(connection) = &object.0 {
        let status = connection.status.clone().unwrap_or_default();
        let name = ObjectName::from(&ObjectKey::of(connection));
        figures.connection(&name, &figures::of_conditions(&status.conditions));
    }
    let ended = look_at_connection(&object, &office).await;
    let outcome = outcome(object.0.is_ok(), &ended);
    figures.reconciled(
        ObjectKind::NatsConnection,
        outcome,
        clock::now().since(began),
    );
    ended
}

async fn look_at_connection(object: &Nats, office: &Arc<Office>) -> Result<Action, K8sError> {
    let leader = &office.leader;
    let key = ObjectKey::of(object);
    let connection = match &object.0 {
        Ok(connection) => connection,
        Err(invalid) => {
            tracing::warn!(connection = %key, error = invalid.error, "this object cannot be read");
            return Ok(Action::await_change());
        }
    };
    // Who refers to it decides whether it may go: nothing is known before the groups are.
    for scope in &office.scopes {
        drop(scope.groups.wait_until_ready().await);
    }
    let follow = |made: &Connection| {
        let (mut events, key, office) = (made.events(), key.clone(), Arc::clone(office));
        let tasks = office.tasks.clone();
        tasks.spawn("connection", |stop| async move {
            while let Some(Ok(event)) = stop.run_until_cancelled(events.recv()).await {
                if matches!(event, ConnectionEvent::Disconnected) {
                    office
                        .leader
                        .figures
                        .connection_lost(&ObjectName::from(&key));
                }
                match event {
                    ConnectionEvent::Connected | ConnectionEvent::Disconnected => {
                        office.look_at_groups_of(&key);
                        office.wake_connection(&key);
                    }
                    ConnectionEvent::Complaint(_) => office.wake_connection(&key),
                    ConnectionEvent::SlowConsumer => {}
                }
            }
        });
    };
    let before = office.usable(&key);
    let again = connections::reconcile(
        connection,
        &connections::Needs {
            client: &leader.client,
            connections: &leader.connections,
            events: &leader.events,
            groups: office.groups_of(&key),
            follow: &follow,
        },
    )
    .await?;
    office.succeeded(&key);
    if office.usable(&key) != before {
        office.look_at_groups_of(&key);
    }
    office.sweep(&key).await;
    Ok(Action::requeue(again))
}

impl Office {
    fn usable(&self, key: &ObjectKey) -> bool {
        matches!(
            self.leader.connections.view(key),
            connections::View::Ready(_)
        )
    }
}

fn after_failure<K>(object: Arc<K>, error: &K8sError, office: Arc<Office>) -> Action
where
    K: kube::Resource,
{
    let key = ObjectKey::of(&*object);
    let wait = office.failed(&key);
    tracing::warn!(object = %key, %error, ?wait, "reconciling failed; trying again");
    Action::requeue(wait)
}

/// What a controller's stream says of a finished reconcile: failures are told where they are handled.
async fn done<T, E: std::fmt::Debug>(done: Result<T, E>) {
    if let Err(error) = done {
        tracing::debug!(?error, "a turn of a controller");
    }
}

/// Takes the series of objects away that are gone.
async fn prune(office: Arc<Office>, stop: CancellationToken) {
    let pause = || stop.run_until_cancelled(tokio::time::sleep(PRUNE));
    while pause().await.is_some() {
        let groups = office.scopes.iter().flat_map(|scope| scope.groups.state());
        let groups = groups.map(|group| ObjectName::from(&ObjectKey::of(&*group)));
        let connections = office.scopes.iter().flat_map(|s| s.connections.state());
        let connections = connections.map(|nats| ObjectName::from(&ObjectKey::of(&*nats)));
        office
            .leader
            .figures
            .keep(&groups.collect(), &connections.collect());
    }
}

/// Notices objects that are gone: they had no finalizer, so nothing else says it.
async fn watch_deletions(office: &Arc<Office>, scope: &Scope) {
    let leader = &office.leader;
    let api: Api<Group> = leader.api(scope.namespace.as_ref());
    let events = watcher(api, watcher::Config::default()).default_backoff();
    events
        .for_each(|event| async move {
            match event {
                Ok(Event::Delete(object)) => {
                    let key = ObjectKey::of(&object);
                    let (connections, running) = (&leader.connections, &leader.running);
                    groups::group_is_gone(&key, &leader.manager, connections, running).await;
                }
                Ok(Event::Apply(_) | Event::Init | Event::InitApply(_) | Event::InitDone) => {}
                Err(error) => tracing::debug!(%error, "the watch of deletions begins anew"),
            }
        })
        .await;
}
