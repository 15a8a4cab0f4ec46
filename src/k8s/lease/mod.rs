//! Which controller tries to coordinate: one that holds the Lease.
//!
//! Candidates write the Lease by its resource version, so that of two writers one loses, and wait
//! for a silent holder on their own clock, from when they last *saw* the Lease change. No two
//! machines' clocks are ever compared. The Lease only decides who *tries*: what a leader writes is
//! fenced by its term in each group's document, should two lead for a moment.

mod decide;

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff;
use kube::Client;
use kube::api::{Api, ObjectMeta, PostParams};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::decide::{Memory, Record, Step};
use super::{ErrorKind, K8sError};
use crate::clock;
use crate::group::Timestamp;

/// How a Lease is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseSettings {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The identity of this process, different at each start.
    pub identity: String,
    /// How long others wait for a silent holder.
    pub duration: Duration,
    /// How long a holder leads after its last renewal; shorter than the duration.
    pub renew_deadline: Duration,
    /// Time between renewals, and between looks at somebody else's Lease.
    pub retry: Duration,
}

/// Whether this process leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// It does, until this moment unless it renews before.
    Leading(Timestamp),
    /// Somebody else does, if anybody is known to.
    Following(Option<String>),
}

/// A candidate for a Lease.
#[derive(Debug)]
pub struct Elector {
    api: Api<Lease>,
    settings: LeaseSettings,
    memory: Memory,
    /// What this candidate wrote last, while it is not known that somebody has written since.
    mine: Option<Lease>,
    shown: watch::Sender<Leadership>,
    said: Option<ErrorKind>,
}

// === impl LeaseSettings ===

impl Default for LeaseSettings {
    fn default() -> Self {
        Self::lasting(Duration::from_secs(15))
    }
}

impl LeaseSettings {
    /// Proportions as in Kubernetes' own components: 15 s, 10 s, 2 s.
    pub fn lasting(duration: Duration) -> Self {
        Self {
            namespace: "default".to_owned(),
            name: "lockstep-controller".to_owned(),
            identity: String::new(),
            duration,
            renew_deadline: duration * 2 / 3,
            retry: duration * 2 / 15,
        }
    }
}

// === impl Leadership ===

impl Leadership {
    /// Whether it leads at this moment: a process that was suspended finds out here.
    pub fn leads(&self, now: Timestamp) -> bool {
        matches!(self, Self::Leading(until) if now < *until)
    }
}

// === impl Elector ===

impl Elector {
    /// A candidate that has not tried yet.
    pub fn new(client: Client, settings: LeaseSettings) -> Self {
        Self {
            api: Api::namespaced(client, &settings.namespace),
            settings,
            memory: Memory::default(),
            mine: None,
            shown: watch::Sender::new(Leadership::Following(None)),
            said: None,
        }
    }

    /// Whether this process leads, as it changes.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.shown.subscribe()
    }

    /// Tries to lead until told to stop, and then gives the Lease back, so that another candidate
    /// leads at once.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            let until = self.memory.leads_until(&self.settings);
            tokio::select! {
                () = stop.cancelled() => break,
                () = clock::until(until) => self.memory.lost(),
                tried = {
                    let known = (&mut self.memory, &mut self.mine);
                    within(&self.settings, attempt(&self.api, &self.settings, known))
                } => self.say(tried.err()),
            }
            self.show();
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(self.settings.retry) => {}
            }
        }
        self.memory.lost();
        self.show();
        // Also when it does not lead: a write that was under way may have made it the holder.
        if let Err(error) = within(&self.settings, self.release()).await {
            tracing::info!(%error, "the Lease is not given back; others wait for its end");
        }
    }

    fn show(&self) {
        let next = match self.memory.leads_until(&self.settings) {
            Some(until) if clock::now() < until => Leadership::Leading(until),
            Some(_) | None => Leadership::Following(self.memory.holder().map(str::to_owned)),
        };
        self.shown.send_if_modified(|shown| {
            let changed = *shown != next;
            *shown = next;
            changed
        });
    }

    /// Says what went wrong, once.
    fn say(&mut self, error: Option<K8sError>) {
        let kind = error.as_ref().map(K8sError::kind);
        if let Some(error) = error
            && self.said != kind
        {
            tracing::warn!(%error, lease = self.settings.name, "the Lease cannot be renewed; trying on");
        }
        self.said = kind;
    }

    async fn release(&self) -> Result<(), K8sError> {
        let name = &self.settings.name;
        let failed = |error: kube::Error| K8sError::of(format!("Lease {name}"), &error);
        let Some(mut lease) = self.api.get_opt(name).await.map_err(failed)? else {
            return Ok(());
        };
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_deref() == Some(&self.settings.identity) {
            spec.holder_identity = None;
            let released = self.api.replace(name, &PostParams::default(), &lease).await;
            released.map_err(failed)?;
        }
        Ok(())
    }
}

/// Ends a request that nobody answers: the next may find another API server, and a leader's time is
/// short. A write that was cut off may still land; the next look shows it.
async fn within<T>(
    settings: &LeaseSettings,
    request: impl Future<Output = Result<T, K8sError>>,
) -> Result<T, K8sError> {
    let longest = settings.renew_deadline / 2;
    let ended = tokio::time::timeout(longest, request).await;
    ended.unwrap_or_else(|_| Err(K8sError::unanswered(&settings.name, longest)))
}

/// One look at the Lease, and one write if it may be written. Who wrote it last needs no look: that
/// the next write is taken shows that nobody has written since.
async fn attempt(
    api: &Api<Lease>,
    settings: &LeaseSettings,
    (memory, mine): (&mut Memory, &mut Option<Lease>),
) -> Result<(), K8sError> {
    // Taken out: after a write whose end is not known there is a look again.
    if let Some(written) = mine.take() {
        *mine = write(api, settings, memory, written).await?;
        if mine.is_some() {
            return Ok(());
        }
    }
    let name = &settings.name;
    let failed = |error: kube::Error| K8sError::of(format!("Lease {name}"), &error);
    let Some(lease) = api.get_opt(name).await.map_err(failed)? else {
        let sent = clock::now();
        let lease = held(settings, None);
        return match api.create(&PostParams::default(), &lease).await {
            Ok(made) => {
                memory.wrote(record(&made), sent);
                *mine = Some(made);
                Ok(())
            }
            // Another candidate was quicker; the next look shows who.
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
            Err(error) => Err(failed(error)),
        };
    };
    memory.saw(record(&lease), clock::now());
    if memory.step(&settings.identity, clock::now()) == Step::Wait {
        memory.lost();
        return Ok(());
    }
    *mine = write(api, settings, memory, lease).await?;
    if mine.is_none() {
        memory.lost();
    }
    Ok(())
}

/// Writes the own name over what was seen; none if somebody has written since.
async fn write(
    api: &Api<Lease>,
    settings: &LeaseSettings,
    memory: &mut Memory,
    seen: Lease,
) -> Result<Option<Lease>, K8sError> {
    let (name, sent) = (&settings.name, clock::now());
    let next = held(settings, Some(seen));
    match api.replace(name, &PostParams::default(), &next).await {
        Ok(written) => {
            memory.wrote(record(&written), sent);
            Ok(Some(written))
        }
        Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => Ok(None),
        Err(error) => Err(K8sError::of(format!("Lease {name}"), &error)),
    }
}

/// The Lease with this process as its holder. Times in it are for people.
fn held(settings: &LeaseSettings, old: Option<Lease>) -> Lease {
    let now = MicroTime(jiff::Timestamp::now());
    let (metadata, old) = match old {
        Some(lease) => (lease.metadata, lease.spec.unwrap_or_default()),
        None => (named(settings), LeaseSpec::default()),
    };
    let stays = old.holder_identity.as_deref() == Some(&settings.identity);
    let transitions = old.lease_transitions.unwrap_or_default();
    Lease {
        metadata,
        spec: Some(LeaseSpec {
            holder_identity: Some(settings.identity.clone()),
            lease_duration_seconds: i32::try_from(settings.duration.as_secs().max(1)).ok(),
            acquire_time: if stays {
                old.acquire_time
            } else {
                Some(now.clone())
            },
            renew_time: Some(now),
            lease_transitions: Some(if stays { transitions } else { transitions + 1 }),
            ..LeaseSpec::default()
        }),
    }
}

fn named(settings: &LeaseSettings) -> ObjectMeta {
    ObjectMeta {
        name: Some(settings.name.clone()),
        namespace: Some(settings.namespace.clone()),
        ..ObjectMeta::default()
    }
}

fn record(lease: &Lease) -> Record {
    let spec = lease.spec.clone().unwrap_or_default();
    let seconds = u64::try_from(spec.lease_duration_seconds.unwrap_or(15)).unwrap_or(15);
    Record {
        holder: spec.holder_identity.unwrap_or_default(),
        version: lease.metadata.resource_version.clone().unwrap_or_default(),
        duration: Duration::from_secs(seconds.max(1)),
    }
}
