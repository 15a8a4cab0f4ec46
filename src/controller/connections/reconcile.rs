//! One `NatsConnection`: credentials, connection, a look at the server, status, finalizer.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube::api::Api;
use serde_json::json;

use super::secrets::{self, SecretError};
use super::status::{reason_of, status};
use super::{Connections, Entry, Made, Standing};
use crate::controller::objects::{ObjectKey, has_finalizer, is_left_alone, reference};
use crate::crd::{NatsConnection, NatsConnectionSpec, Reason};
use crate::k8s::{self, EventKind, EventReason, Events, FieldManager, K8sError, Note, names};
use crate::nats::{self, Auth, CheckError, Connection, Role, SecretFolder};

/// How long a new connection is waited for before its state is written.
const PATIENCE: Duration = Duration::from_secs(3);

/// How often Secrets are read again while all is well.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// How soon a connection that cannot be used is looked at again.
pub(super) const TRY_AGAIN: Duration = Duration::from_secs(3);

/// What a reconcile needs of the controller.
pub(in crate::controller) struct Needs<'a> {
    pub(in crate::controller) client: &'a Client,
    pub(in crate::controller) connections: &'a Connections,
    pub(in crate::controller) events: &'a Events,
    /// Groups that refer to the connection, and how many of them have deletionPolicy Delete.
    pub(in crate::controller) groups: (usize, usize),
    /// Is told of a connection that was made anew.
    pub(in crate::controller) follow: &'a (dyn Fn(&Connection) + Sync),
}

/// Brings the connection to what its object says; returns when to look again.
pub(in crate::controller) async fn reconcile(
    object: &NatsConnection,
    needs: &Needs<'_>,
) -> Result<Duration, K8sError> {
    let key = ObjectKey::of(object);
    let (_, deleting) = needs.groups;
    if object.metadata.deletion_timestamp.is_some() && deleting == 0 {
        needs.connections.drop_one(&key).await;
    }
    let written = !is_left_alone(&object.metadata);
    if written {
        keep_finalizer(object, needs, deleting > 0).await?;
    }
    if object.metadata.deletion_timestamp.is_some() && deleting == 0 {
        return Ok(LOOK_AGAIN);
    }
    let standing = connect(object, &key, needs).await;
    if written {
        tell(object, needs, &standing);
        report(object, &key, needs, &standing).await?;
    }
    Ok(match standing {
        Standing::Ready { .. } => LOOK_AGAIN,
        Standing::NotReady { .. } => TRY_AGAIN,
    })
}

async fn report(
    object: &NatsConnection,
    key: &ObjectKey,
    needs: &Needs<'_>,
    standing: &Standing,
) -> Result<(), K8sError> {
    let next = status(object, standing, needs.groups.0);
    if object.status.as_ref() == Some(&next) {
        return Ok(());
    }
    let api: Api<NatsConnection> = Api::namespaced(needs.client.clone(), &key.namespace);
    k8s::apply_status(&api, &key.name, &next).await
}

/// The connection stays as long as a group needs it to clean up.
async fn keep_finalizer(
    object: &NatsConnection,
    needs: &Needs<'_>,
    wanted: bool,
) -> Result<(), K8sError> {
    let there = has_finalizer(&object.metadata);
    let may_add = object.metadata.deletion_timestamp.is_none();
    if there == wanted || (wanted && !may_add) {
        return Ok(());
    }
    let key = ObjectKey::of(object);
    let finalizers = if wanted {
        vec![names::FINALIZER]
    } else {
        Vec::new()
    };
    let fields = json!({ "metadata": { "finalizers": finalizers } });
    let api: Api<NatsConnection> = Api::namespaced(needs.client.clone(), &key.namespace);
    k8s::apply(&api, &key.name, FieldManager::Controller, fields).await
}

/// Sees to it that there is a connection with the credentials of now; what is known is kept.
async fn connect(object: &NatsConnection, key: &ObjectKey, needs: &Needs<'_>) -> Standing {
    let before = needs.connections.get(key);
    let (made, standing) = match secrets::read(needs.client, &key.namespace, &object.spec).await {
        Ok(files) => match make(object, before, &files, needs).await {
            Ok(made) => {
                let standing = look(&made.connection).await;
                (Some(made), standing)
            }
            Err(standing) => (None, standing),
        },
        Err(error) => without_secrets(key, before, &error).await,
    };
    let entry = Entry {
        spec: object.spec.clone(),
        made,
        standing: standing.clone(),
    };
    needs.connections.put(key, entry);
    standing
}

/// What it has may still be good: a Secret that is away for a moment ends nothing.
async fn without_secrets(
    key: &ObjectKey,
    before: Option<Entry>,
    error: &SecretError,
) -> (Option<Made>, Standing) {
    let made = before.and_then(|entry| entry.made);
    if let Some(made) = &made
        && made.connection.is_up()
    {
        tracing::warn!(connection = %key, %error, "credentials cannot be read anew");
        let standing = look(&made.connection).await;
        return (Some(made.clone()), standing);
    }
    let reason = match error {
        SecretError::Missing { .. } | SecretError::NoKey { .. } => Reason::SecretNotFound,
        SecretError::Api(_) => Reason::Unreachable,
    };
    let message = error.to_string();
    (made, Standing::NotReady { reason, message })
}

/// The connection with these credentials; made anew if its addresses or its domain changed.
async fn make(
    object: &NatsConnection,
    before: Option<Entry>,
    files: &secrets::Files,
    needs: &Needs<'_>,
) -> Result<Made, Standing> {
    let broken = |message: String| Standing::NotReady {
        reason: Reason::InvalidSpec,
        message,
    };
    let (before, spec) = before.map_or((None, None), |entry| (entry.made, Some(entry.spec)));
    let folder = match &before {
        Some(made) => Arc::clone(&made.folder),
        None => Arc::new(
            tempfile::Builder::new()
                .prefix("lockstep-nats-")
                .tempdir()
                .map_err(|error| broken(format!("no folder for credentials: {error}")))?,
        ),
    };
    secrets::write(folder.path(), files)
        .map_err(|error| broken(format!("credentials cannot be kept: {error}")))?;
    if let Some(made) = before {
        if spec.is_some_and(|spec| reaches_the_same(&spec, &object.spec)) {
            return Ok(made);
        }
        // Its groups get the new one; until then they wait as they do for a server that is away.
        made.connection.close().await;
    }
    let options = options(&object.spec, folder.path());
    options.check().map_err(|error| broken(error.to_string()))?;
    let connection = Connection::connect(&options, &Role::Controller, "lockstep controller").await;
    let connection = connection.map_err(|error| broken(error.to_string()))?;
    (needs.follow)(&connection);
    Ok(Made {
        folder,
        connection,
        serial: needs.connections.next_serial(),
    })
}

/// Whether a connection made for one spec serves the other.
fn reaches_the_same(one: &NatsConnectionSpec, other: &NatsConnectionSpec) -> bool {
    one.servers == other.servers
        && one.jetstream_domain == other.jetstream_domain
        && one.tls == other.tls
        && one.request_timeout == other.request_timeout
}

fn options(spec: &NatsConnectionSpec, folder: &std::path::Path) -> nats::Options {
    let usual = nats::Options::default();
    nats::Options {
        urls: spec.servers.clone(),
        auth: Auth::Folder(SecretFolder::new(folder)),
        tls: nats::Tls {
            handshake_first: spec.tls.as_ref().is_some_and(|tls| tls.handshake_first),
            ..nats::Tls::default()
        },
        jetstream_domain: spec.jetstream_domain.clone(),
        request_timeout: spec
            .request_timeout
            .parse()
            .unwrap_or(usual.request_timeout),
        ..usual
    }
}

async fn look(connection: &Connection) -> Standing {
    let up = tokio::time::timeout(PATIENCE, connection.up())
        .await
        .is_ok();
    if !up {
        let words = match connection.standing() {
            nats::Standing::Down { why: Some(why) } => why,
            nats::Standing::Down { why: None } | nats::Standing::Up => {
                "no server answers at these addresses".to_owned()
            }
        };
        return Standing::NotReady {
            reason: reason_of(&words),
            message: format!("{words}; trying on"),
        };
    }
    match connection.check_version().await {
        Ok(()) => Standing::Ready {
            version: connection
                .server()
                .map_or_else(String::new, |server| server.version),
        },
        Err(error) => Standing::NotReady {
            reason: match &error {
                CheckError::TooOld(_) => Reason::ServerTooOld,
                CheckError::NoJetStream { .. } => Reason::JetStreamDisabled,
                CheckError::Unanswered { .. } => Reason::AuthorizationViolation,
                CheckError::Api(error) => reason_of(&error.to_string()),
            },
            message: error.to_string(),
        },
    }
}

/// An Event when the connection became usable, or no longer is.
fn tell(object: &NatsConnection, needs: &Needs<'_>, standing: &Standing) {
    let conditions = object.status.iter().flat_map(|status| &status.conditions);
    let ready = conditions.filter(|c| c.kind == "Ready");
    let before = ready.map(|c| c.reason.clone()).next().unwrap_or_default();
    let note = match standing {
        Standing::Ready { version } if before != Reason::AsExpected.as_str() => Note {
            kind: EventKind::Normal,
            reason: EventReason::Connected,
            action: "Connect",
            text: format!("nats-server {version} answers"),
        },
        Standing::NotReady { reason, message } if before != reason.as_str() => Note {
            kind: EventKind::Warning,
            reason: EventReason::ConnectionFailed,
            action: "Connect",
            text: format!("{reason}: {message}"),
        },
        Standing::Ready { .. } | Standing::NotReady { .. } => return,
    };
    needs.events.record(&reference(object), note);
}
