//! The webhook's certificate: an authority of our own signs it, and both live in one Secret.
//!
//! The leader makes and renews them; every replica watches the Secret and serves what is in it. A new
//! authority is announced to the API server (`caBundle`) before anything is signed with it, and the
//! old one stays announced, so that at no moment a replica shows a certificate that is not trusted.

mod keeper;
mod make;
mod plan;
mod stored;

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::watch_object;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_util::sync::CancellationToken;

pub use keeper::{Keeper, KeeperSettings};

use crate::metrics::AdmissionMetrics;
use stored::Stored;

/// How long authorities and certificates last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// An authority.
    pub authority: Duration,
    /// A certificate.
    pub leaf: Duration,
    /// How long an authority is announced before it signs.
    pub announcement: Duration,
    /// How often the leader looks.
    pub look: Duration,
}

/// The certificate that is served at present. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Certificates(Arc<RwLock<Option<Arc<CertifiedKey>>>>);

/// Why a Secret's certificate cannot be served.
#[derive(Debug, thiserror::Error)]
enum LoadError {
    #[error("the Secret has no {0}")]
    Missing(&'static str),
    #[error("{what}: {detail}")]
    Unusable { what: &'static str, detail: String },
}

// === impl Lifetimes ===

impl Default for Lifetimes {
    fn default() -> Self {
        let days = |n: u64| Duration::from_secs(n * 24 * 3600);
        Self {
            authority: days(365),
            leaf: days(30),
            announcement: Duration::from_secs(300),
            look: Duration::from_secs(30),
        }
    }
}

// === impl Certificates ===

impl Certificates {
    /// Whether there is one.
    pub fn is_loaded(&self) -> bool {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .is_some()
    }

    /// Serves what a Secret holds, whenever it changes.
    pub async fn follow(
        self,
        client: Client,
        (namespace, name): (String, String),
        metrics: AdmissionMetrics,
        stop: CancellationToken,
    ) {
        let secrets: Api<Secret> = Api::namespaced(client, &namespace);
        let mut changes = std::pin::pin!(watch_object(secrets, &name).default_backoff());
        while let Some(Some(change)) = stop.run_until_cancelled(changes.next()).await {
            match change {
                Ok(Some(secret)) => self.take(&secret, &metrics),
                // What was loaded is served on: a Secret that is gone is made anew by the leader.
                Ok(None) => tracing::info!(secret = name, "the webhook's Secret is not there"),
                Err(error) => {
                    tracing::warn!(%error, "the webhook's Secret cannot be watched; trying on");
                }
            }
        }
    }

    fn take(&self, secret: &Secret, metrics: &AdmissionMetrics) {
        match load(secret) {
            Ok(key) => {
                *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(key));
                let until = Stored::of(secret).map(|stored| stored.leaf.until);
                metrics.certificate_expiry.set(until.unwrap_or_default());
                tracing::info!(until, "the webhook's certificate is loaded");
            }
            Err(error) => {
                tracing::warn!(%error, "the webhook's Secret holds no certificate to serve");
            }
        }
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

fn load(secret: &Secret) -> Result<CertifiedKey, LoadError> {
    let bytes = |name: &'static str| {
        let data = secret.data.as_ref().and_then(|data| data.get(name));
        data.map(|bytes| bytes.0.as_slice())
            .ok_or(LoadError::Missing(name))
    };
    let unusable = |what, detail: String| LoadError::Unusable { what, detail };
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(bytes(stored::CERTIFICATE)?).collect();
    let chain = chain.map_err(|error| unusable(stored::CERTIFICATE, error.to_string()))?;
    let key = PrivateKeyDer::from_pem_slice(bytes(stored::KEY)?)
        .map_err(|error| unusable(stored::KEY, error.to_string()))?;
    let provider = rustls::crypto::ring::default_provider();
    CertifiedKey::from_der(chain, key, &provider)
        .map_err(|error| unusable("certificate and key", error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_can_be_served_and_what_cannot_be_served_is_named() {
        let hosts = ["lockstep-webhook.lockstep.svc".to_owned()];
        let keys = make::Keys::generate().unwrap();
        let made = make::all(&hosts, (Lifetimes::default(), 1_800_000_000), &keys, None).unwrap();
        let mut secret = made.secret("lockstep", "tls").unwrap();
        load(&secret).unwrap();
        let data = secret.data.as_mut().unwrap();
        let other = make::Keys::generate().unwrap();
        let key = other.leaf.serialize_pem().into_bytes();
        data.insert(stored::KEY.to_owned(), k8s_openapi::ByteString(key));
        let error = load(&secret).unwrap_err().to_string();
        assert!(error.contains("certificate and key"), "{error}");
        secret.data.as_mut().unwrap().remove(stored::KEY);
        assert_eq!(
            load(&secret).unwrap_err().to_string(),
            "the Secret has no tls.key"
        );
    }
}
