//! The leader's part: the Secret, and the authorities that the API server trusts.

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, PostParams};
use kube::{Client, Resource};
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Lifetimes;
use super::make::{self, Keys};
use super::plan::{Announced, Due, due};
use super::stored::Stored;
use crate::clock;
use crate::k8s::lease::Leadership;
use crate::k8s::{self, ErrorKind, EventKind, EventReason, Events, FieldManager, K8sError, Note};

/// Where things are, and how long they last.
#[derive(Clone, Debug)]
pub struct KeeperSettings {
    /// The controller's namespace.
    pub namespace: String,
    /// The Secret in it.
    pub secret: String,
    /// The `MutatingWebhookConfiguration` whose webhooks all trust our authorities.
    pub configuration: String,
    /// The names and addresses that the API server may use.
    pub hosts: Vec<String>,
    /// How long things last.
    pub lifetimes: Lifetimes,
}

/// Makes, renews and announces.
#[derive(Clone)]
pub struct Keeper {
    client: Client,
    events: Events,
    settings: KeeperSettings,
}

/// Why a turn did not succeed.
#[derive(Debug, thiserror::Error)]
enum TurnError {
    #[error("{0}; trying again")]
    Cluster(#[from] K8sError),
    #[error("a certificate could not be made: {0}; the names it is for are --webhook-host")]
    Make(#[from] rcgen::Error),
    #[error("a Secret could not be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

// === impl Keeper ===

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Keeper {
    /// A keeper that does nothing yet.
    pub fn new(client: Client, events: Events, settings: KeeperSettings) -> Self {
        Self {
            client,
            events,
            settings,
        }
    }

    /// Keeps certificates fresh whenever this replica leads.
    pub async fn run(self, mut leadership: watch::Receiver<Leadership>, stop: CancellationToken) {
        loop {
            if leadership.borrow_and_update().leads(clock::now())
                && let Err(error) = self.turn().await
            {
                tracing::warn!(%error, "the webhook's certificates are not as they should be");
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(self.settings.lifetimes.look) => {}
                changed = leadership.changed() => if changed.is_err() { return },
            }
        }
    }

    async fn turn(&self) -> Result<(), TurnError> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.settings.namespace);
        // Each step is written before the next is thought of; a few end in "nothing".
        loop {
            let secret = k8s::get_opt(&secrets, &self.settings.secret).await?;
            let stored = secret.as_ref().and_then(Stored::of);
            let announced = match &stored {
                Some(stored) => self.announce(stored).await?,
                None => Announced::NotYet,
            };
            let at = (
                self.settings.lifetimes,
                clock::unix_now().0.div_euclid(1_000_000_000),
            );
            let due = due(stored.as_ref(), &self.settings.hosts, announced, at);
            let Some(next) = self.make(due, stored, at)? else {
                return Ok(());
            };
            match self.write(&secrets, secret, &next).await {
                Ok(written) => self.report(due, &written),
                // Another leader, or somebody's hand: look again.
                Err(TurnError::Cluster(error))
                    if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::AlreadyExists) =>
                {
                    tracing::debug!(%error, "the webhook's Secret was written by another");
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn make(
        &self,
        due: Due,
        stored: Option<Stored>,
        at: (Lifetimes, i64),
    ) -> Result<Option<Stored>, TurnError> {
        let hosts = &self.settings.hosts;
        if due == Due::Nothing {
            return Ok(None);
        }
        let keys = Keys::generate()?;
        let made = match (due, stored) {
            (Due::Nothing, _) => return Ok(None),
            (Due::All, before) => make::all(hosts, at, &keys, before.as_ref())?,
            (_, None) => make::all(hosts, at, &keys, None)?,
            (Due::Authority, Some(before)) => make::announced(before, at, &keys)?,
            (Due::Succession, Some(before)) => make::succeeded(before, hosts, at, &keys)?,
            (Due::Leaf, Some(before)) => make::renewed(before, hosts, at, &keys)?,
        };
        Ok(Some(made))
    }

    /// Writes the Secret over exactly what was read.
    async fn write(
        &self,
        secrets: &Api<Secret>,
        read: Option<Secret>,
        next: &Stored,
    ) -> Result<Secret, TurnError> {
        let name = &self.settings.secret;
        let mut secret = next.secret(&self.settings.namespace, name)?;
        let params = PostParams {
            field_manager: Some(FieldManager::Controller.as_str().to_owned()),
            ..PostParams::default()
        };
        let written = if let Some(read) = read {
            secret.metadata.resource_version = read.metadata.resource_version;
            secret.metadata.labels = read.metadata.labels.or(secret.metadata.labels);
            secret.metadata.annotations = read.metadata.annotations;
            secret.metadata.owner_references = read.metadata.owner_references;
            secret.type_ = read.type_.or(secret.type_);
            secrets.replace(name, &params, &secret).await
        } else {
            secrets.create(&params, &secret).await
        };
        let what = format!("Secret {}/{name}", self.settings.namespace);
        Ok(written.map_err(|error| K8sError::of(what, &error))?)
    }

    /// Has the API server trust all authorities. Says whether it did before.
    async fn announce(&self, stored: &Stored) -> Result<Announced, K8sError> {
        let configurations: Api<MutatingWebhookConfiguration> = Api::all(self.client.clone());
        let name = &self.settings.configuration;
        let found = k8s::get_opt(&configurations, name).await?;
        let Some(webhooks) = found.and_then(|found| found.webhooks) else {
            tracing::warn!(
                configuration = name,
                "no such MutatingWebhookConfiguration, or none with webhooks: no pod gets a worker"
            );
            return Ok(Announced::NotYet);
        };
        let bundle = ByteString(stored.bundle().into_bytes());
        let told = |config: &Option<ByteString>| config.as_ref() == Some(&bundle);
        if webhooks
            .iter()
            .all(|webhook| told(&webhook.client_config.ca_bundle))
        {
            return Ok(Announced::Yes);
        }
        let webhooks: Vec<_> = webhooks
            .iter()
            .map(|webhook| json!({"name": webhook.name, "clientConfig": {"caBundle": bundle}}))
            .collect();
        let fields = json!({
            "metadata": {"name": name},
            "webhooks": webhooks,
        });
        k8s::apply(&configurations, name, FieldManager::Controller, fields).await?;
        tracing::info!(
            configuration = name,
            "the API server was told of the webhook's authorities"
        );
        Ok(Announced::NotYet)
    }

    fn report(&self, due: Due, secret: &Secret) {
        let text = match due {
            Due::All => "made an authority and a certificate for the webhook",
            Due::Authority => "made the webhook's next authority and announced it",
            Due::Succession => "the webhook's certificate is signed by the next authority",
            Due::Leaf => "renewed the webhook's certificate",
            Due::Nothing => return,
        };
        tracing::info!(secret = self.settings.secret, "{text}");
        let note = Note {
            kind: EventKind::Normal,
            reason: EventReason::CertificateRotated,
            action: "Rotate",
            text: text.to_owned(),
        };
        self.events.record(&secret.object_ref(&()), note);
    }
}
