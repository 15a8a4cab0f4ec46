//! What the Secret holds.
//!
//! `tls.crt`, `tls.key` and `ca.crt` are where people and programs look; `state.json` is what the
//! leader goes on with.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

/// The certificate.
pub(super) const CERTIFICATE: &str = "tls.crt";
/// Its key.
pub(super) const KEY: &str = "tls.key";
/// All authorities that are to be trusted.
const AUTHORITIES: &str = "ca.crt";
/// Everything.
const STATE: &str = "state.json";

/// Authorities and the certificate. Times are seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stored {
    /// Signs.
    pub(super) authority: Signed,
    /// Is announced and will sign.
    pub(super) next: Option<Signed>,
    /// Has signed, and is still trusted.
    pub(super) previous: Option<String>,
    /// Is shown to the API server.
    pub(super) leaf: Signed,
    /// The names and addresses that it is for.
    pub(super) hosts: Vec<String>,
}

/// A certificate with its key, PEM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Signed {
    pub(super) certificate: String,
    pub(super) key: String,
    pub(super) from: i64,
    pub(super) until: i64,
}

// === impl Stored ===

impl Stored {
    /// What a Secret holds; none if it cannot be read, and is to be made anew.
    pub(super) fn of(secret: &Secret) -> Option<Self> {
        let state = secret.data.as_ref()?.get(STATE)?;
        serde_json::from_slice(&state.0).ok()
    }

    /// The authorities that the API server is to trust.
    pub(super) fn bundle(&self) -> String {
        let mut bundle = self.authority.certificate.clone();
        for other in self
            .next
            .iter()
            .map(|next| &next.certificate)
            .chain(&self.previous)
        {
            bundle.push_str(other);
        }
        bundle
    }

    pub(super) fn secret(&self, namespace: &str, name: &str) -> Result<Secret, serde_json::Error> {
        let data = [
            (CERTIFICATE, self.leaf.certificate.clone().into_bytes()),
            (KEY, self.leaf.key.clone().into_bytes()),
            (AUTHORITIES, self.bundle().into_bytes()),
            (STATE, serde_json::to_vec(self)?),
        ];
        let data = data.map(|(name, bytes)| (name.to_owned(), ByteString(bytes)));
        let managed = (
            "app.kubernetes.io/managed-by".to_owned(),
            "lockstep-controller".to_owned(),
        );
        Ok(Secret {
            metadata: ObjectMeta {
                namespace: Some(namespace.to_owned()),
                name: Some(name.to_owned()),
                labels: Some([managed].into()),
                ..ObjectMeta::default()
            },
            type_: Some("kubernetes.io/tls".to_owned()),
            data: Some(BTreeMap::from(data)),
            ..Secret::default()
        })
    }
}
