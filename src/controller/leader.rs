//! What a controller does while it leads: reconciles objects and runs the groups' coordinators.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{FutureExt, StreamExt};
use kube::api::Api;
use kube::core::NamespaceResourceScope;
use kube::core::error_boundary::DeserializeGuard;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::{controller, watcher};
use kube::{Client, Resource};
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;

use super::connections::{self, Connections};
use super::figures;
use super::gone;
use super::groups::{self, Again, Running};
use super::namespaces::Namespaces;
use super::objects::ObjectKey;
use super::pods::Pods;
use super::present::{Kind, Present, Reference};
use super::resets;
use super::scaling::{self, Scaling};
use super::settings::Settings;
use crate::backoff::Backoff;
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
pub(super) type Group = DeserializeGuard<ConsumerGroup>;
pub(super) type Nats = DeserializeGuard<NatsConnection>;

/// Triggers that wait to be taken in.
const TRIGGERS: usize = 4096;

/// News of one group are gathered for this long.
const GATHER: Duration = Duration::from_millis(250);

/// How long the series of an object may outlive it.
const PRUNE: Duration = Duration::from_secs(15);
/// The kinds of objects that are reconciled.
const GROUP: &str = "ConsumerGroup";
const CONNECTION: &str = "NatsConnection";

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
    pub(super) namespaces: Namespaces,
    pub(super) running: Running,
    pub(super) pods: Pods,
    pub(super) scaling: Scaling,
}

/// One term of leading: what its reconciles share.
pub(super) struct Office {
    pub(super) leader: Leader,
    pub(super) scopes: Vec<Scope>,
    pub(super) tasks: Tasks,
    /// Groups that are provided at a time.
    providing: Semaphore,
    failures: Mutex<Failures>,
    pub(super) present: Present,
    pub(super) swept: gone::Swept,
}

/// How long each object that failed waits next, by its kind and name.
type Failures = HashMap<(&'static str, ObjectKey), Backoff>;

/// The objects of one namespace, or of all.
pub(super) struct Scope {
    pub(super) namespace: Option<String>,
    groups: Store<Group>,
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
            present: Present::new(scopes.len()),
            scopes,
            tasks: Tasks::new(),
            providing: Semaphore::new(self.settings.max_concurrent_groups.into()),
            failures: Mutex::default(),
            swept: gone::Swept::default(),
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
        for scope in &office.scopes {
            let (client, api) = (self.client.clone(), self.api(scope.namespace.as_ref()));
            office
                .tasks
                .spawn("resets", |stop| resets::run(client, api, stop));
        }
        let watches = 0..office.scopes.len();
        let gone = watches.map(|scope| gone::watch(&office, scope));
        let wake = |group: &ObjectKey| office.wake_group(group);
        let pods = office.scopes.iter().map(|scope| {
            let namespace = scope.namespace.as_deref();
            self.pods.follow(&self.client, namespace, &wake)
        });
        tokio::select! {
            () = over.cancelled() => {}
            _ = join_all(running) => {}
            _ = join_all(gone) => {}
            _ = join_all(pods) => {}
        }
        office.tasks.stop().await;
    }

    /// Stops everything that leading has started.
    pub(super) async fn stopped(&self) {
        self.running.stop_all().await;
        self.connections.close().await;
        self.pods.forget_all();
        self.scaling.forget_all();
    }

    pub(super) fn api<K>(&self, namespace: Option<&String>) -> Api<K>
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
    pub(super) fn scope_of(&self, key: &ObjectKey) -> Option<&Scope> {
        let covers = |scope: &&Scope| {
            scope
                .namespace
                .as_ref()
                .is_none_or(|namespace| *namespace == key.namespace)
        };
        self.scopes.iter().find(covers)
    }

    /// An older group with the same target as this one.
    fn rival_of(&self, group: &ConsumerGroup) -> Option<String> {
        group.spec.scale_target_ref.as_ref()?;
        let all = self.scopes.iter().flat_map(|scope| scope.groups.state());
        let all: Vec<_> = all.collect();
        scaling::rival(group, all.iter().filter_map(|other| other.0.as_ref().ok()))
    }

    /// Groups that refer to a connection, and how many of them need it to clean up.
    fn groups_of(&self, connection: &ObjectKey) -> (usize, usize) {
        let of = self.present.referring_to(connection);
        let deleting = of.iter();
        let deleting = deleting.filter(|(_, policy)| *policy == DeletionPolicy::Delete);
        (of.len(), deleting.count())
    }

    /// Notes which connection a group refers to; a connection that has to know is looked at.
    fn refers(&self, group: &ConsumerGroup, key: &ObjectKey) {
        let connection = groups::connection_of(group, key);
        let reference = Reference {
            connection: connection.clone(),
            policy: group.spec.deletion_policy,
        };
        if self.present.refers(key, Some(reference)) {
            self.wake_connection(&connection);
        }
    }

    /// Has a group reconciled soon.
    pub(super) fn wake_group(&self, key: &ObjectKey) {
        if let Some(scope) = self.scope_of(key) {
            let object = ObjectRef::new(&key.name).within(&key.namespace);
            // A full queue means that everything is on its way to be looked at anyway.
            drop(scope.wake_group.try_send(object));
        }
    }

    pub(super) fn wake_connection(&self, key: &ObjectKey) {
        if let Some(scope) = self.scope_of(key) {
            let object = ObjectRef::new(&key.name).within(&key.namespace);
            drop(scope.wake_connection.try_send(object));
        }
    }

    /// Has every group of a connection looked at in full.
    pub(super) fn look_at_groups_of(&self, connection: &ObjectKey) {
        for (group, _) in self.present.referring_to(connection) {
            self.leader.running.look_again(&group);
            self.wake_group(&group);
        }
    }

    fn succeeded(&self, kind: &'static str, key: &ObjectKey) {
        self.failures().remove(&(kind, key.clone()));
    }

    /// How long to wait after one more failure.
    fn failed(&self, kind: &'static str, key: &ObjectKey) -> Duration {
        let (first, longest) = BACKOFF;
        let mut failures = self.failures();
        let backoff = failures.entry((kind, key.clone()));
        let backoff = backoff.or_insert_with(|| Backoff::doubling(first, longest));
        backoff.next(1.0)
    }

    fn failures(&self) -> MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection that can be used now, by its serial number.
    fn usable(&self, key: &ObjectKey) -> Option<u64> {
        match self.leader.connections.view(key) {
            connections::View::Ready(usable) => Some(usable.serial),
            connections::View::Unseen | connections::View::NotReady(..) => None,
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
            office.present.refers(&ObjectKey::of(object), None);
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
    let key = ObjectKey::of(group);
    office.refers(group, &key);
    office.present.known().await;
    let is_declared = |of: &ObjectKey| office.present.is_there(Kind::Connection, of);
    let again = groups::reconcile(
        group,
        &groups::Needs {
            client: &leader.client,
            connections: &leader.connections,
            namespaces: &leader.namespaces,
            is_declared: &is_declared,
            providing: &office.providing,
            running: &leader.running,
            events: &leader.events,
            metrics: &leader.metrics,
            manager: &leader.manager,
            id: &leader.settings.id,
            session_timeout: leader.settings.lease_duration,
            cleanup_timeout: leader.settings.cleanup_timeout,
            figures: &leader.figures,
            pods: &leader.pods,
            scaling: &leader.scaling,
            rival: office.rival_of(group),
            deletion_costs: leader.settings.pod_deletion_costs,
            news: &news,
        },
    )
    .await?;
    Ok(Action::requeue(match again {
        Again::In(wait) => {
            office.succeeded(GROUP, &key);
            wait
        }
        Again::Later => office.failed(GROUP, &key),
    }))
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
    office.present.references_known().await;
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
    office.succeeded(CONNECTION, &key);
    if office.usable(&key) != before {
        office.look_at_groups_of(&key);
    }
    gone::sweep(office, &key).await;
    Ok(Action::requeue(again))
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the signature that a controller asks for"
)]
fn after_failure<K>(object: Arc<K>, error: &K8sError, office: Arc<Office>) -> Action
where
    K: kube::Resource<DynamicType = ()>,
{
    let key = ObjectKey::of(&*object);
    let kind = if K::kind(&()) == ConsumerGroup::kind(&()) {
        GROUP
    } else {
        CONNECTION
    };
    let wait = office.failed(kind, &key);
    tracing::warn!(kind, object = %key, %error, ?wait, "reconciling failed; trying again");
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
        if office.present.known().now_or_never().is_none() {
            continue;
        }
        let of = |kind| {
            office
                .present
                .all(kind)
                .iter()
                .map(ObjectName::from)
                .collect()
        };
        let (groups, connections) = (of(Kind::Group), of(Kind::Connection));
        office.leader.figures.keep(&groups, &connections);
    }
}
