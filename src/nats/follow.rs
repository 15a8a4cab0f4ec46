//! A connection follows its folder: what is changed in it is used without a restart.
//!
//! The client with the changed content follows the one in use once it has reached a server: a
//! mistake in a Secret ends no connection that stands.

use std::sync::Arc;
use std::time::Duration;

use async_nats::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::client::{Made, Maker, Place};
use super::connect::ConnectError;
use super::secret_folder::SecretFolder;

/// How often the folder is looked at: Kubernetes itself takes up to a minute.
const LOOK: Duration = Duration::from_secs(2);

/// One connection's folder and what was made of it.
#[derive(Debug)]
pub(super) struct Follower {
    maker: Maker,
    folder: SecretFolder,
    /// The content that was last tried.
    tried: u64,
    in_use: Made,
    candidate: Option<Made>,
    clients: Arc<watch::Sender<Client>>,
}

// === impl Follower ===

impl Follower {
    /// Begins with what is in the folder now; as long as that cannot be used, with nothing.
    pub(super) async fn begin(maker: Maker, folder: SecretFolder) -> Result<Self, ConnectError> {
        let tried = folder.fingerprint();
        let in_use = match maker.make(Place::InUse).await {
            Ok(made) => made,
            Err(error) => {
                maker.reports.is_down_because(&error.to_string());
                tracing::warn!(%error, "NATS cannot be reached like this; trying again once it is changed");
                maker.stand_in().await?
            }
        };
        let (clients, _) = watch::channel(in_use.client.clone());
        Ok(Self {
            maker,
            folder,
            tried,
            in_use,
            candidate: None,
            clients: Arc::new(clients),
        })
    }

    /// The client in use, now and later.
    pub(super) fn clients(&self) -> Arc<watch::Sender<Client>> {
        Arc::clone(&self.clients)
    }

    /// Looks into the folder again and again until told to stop.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                () = is_up(self.candidate.as_ref()) => self.take_over().await,
                () = tokio::time::sleep(LOOK) => self.look().await,
            }
        }
        if let Some(made) = self.candidate.take() {
            made.retire().await;
        }
    }

    async fn look(&mut self) {
        let now = self.folder.fingerprint();
        if now == self.tried {
            return;
        }
        self.tried = now;
        if let Some(former) = self.candidate.take() {
            former.retire().await;
        }
        let place = Place::Candidate {
            up: false,
            complaint: None,
        };
        let folder = self.folder.path().display();
        match self.maker.make(place).await {
            Ok(made) => {
                tracing::info!(%folder, "credentials have changed: connecting anew");
                self.candidate = Some(made);
            }
            Err(error) => {
                self.maker.reports.is_down_because(&error.to_string());
                tracing::warn!(%folder, %error, "credentials have changed, and cannot be used");
            }
        }
    }

    async fn take_over(&mut self) {
        let Some(made) = self.candidate.take() else {
            return;
        };
        let (reports, clients) = (&self.maker.reports, &self.clients);
        made.put_into_use(reports, || {
            clients.send_replace(made.client.clone());
        });
        std::mem::replace(&mut self.in_use, made).retire().await;
    }
}

async fn is_up(candidate: Option<&Made>) {
    match candidate {
        Some(made) => made.up().await,
        None => std::future::pending().await,
    }
}
