//! How a server is reached: what the common flags say.

use std::path::PathBuf;
use std::time::Duration;

use super::client;
use super::connect::ConnectError;
use super::secret_folder::SecretFolder;
use crate::group::GroupRef;

/// What is needed to reach and use a NATS server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Servers to try, in random order; at least one.
    pub urls: Vec<String>,
    /// How this client identifies itself, unless a URL carries a user.
    pub auth: Auth,
    /// Certificates.
    pub tls: Tls,
    /// The `JetStream` domain, where the streams are behind a leaf node.
    pub jetstream_domain: Option<String>,
    /// How long an answer to a request is awaited before its outcome is unknown.
    pub request_timeout: Duration,
    /// Messages that a subscription holds before the client *drops* them; far above what is ever
    /// asked for at once.
    pub subscription_capacity: usize,
}

/// How a client identifies itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Auth {
    /// Not at all, or as the URL says.
    #[default]
    None,
    /// With a credentials file (JWT and seed).
    Credentials(PathBuf),
    /// With a user and a password that a file holds.
    Password {
        /// The user's name.
        user: String,
        /// The file; a line break at its end is not part of the password.
        file: PathBuf,
    },
    /// With an nkey seed that a file holds.
    Nkey(PathBuf),
    /// With what a folder holds, read anew at each attempt and watched; its certificates and
    /// addresses go before those of the options.
    Folder(SecretFolder),
}

/// Certificates of a connection; the system's roots apply where nothing is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Roots to trust, PEM. Given, it makes TLS mandatory.
    pub ca: Option<PathBuf>,
    /// Our certificate and its key, PEM.
    pub client: Option<ClientCertificate>,
    /// Encrypt before the server says anything.
    pub handshake_first: bool,
}

/// A client certificate and its private key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The certificate chain, PEM.
    pub cert: PathBuf,
    /// The private key, PEM.
    pub key: PathBuf,
}

/// What a connection is for: decides the prefix of its inboxes, so that permissions can tell
/// clients apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// A member of this group.
    Member(GroupRef),
    /// The command line.
    Cli,
    /// A coordinator.
    Coordinator,
    /// The controller of a Kubernetes cluster.
    Controller,
}

// === impl Options ===

impl Default for Options {
    fn default() -> Self {
        Self {
            urls: vec!["nats://127.0.0.1:4222".to_owned()],
            auth: Auth::None,
            tls: Tls::default(),
            jetstream_domain: None,
            request_timeout: Duration::from_secs(3),
            subscription_capacity: 65_536,
        }
    }
}

impl Options {
    /// Options for a single server without authentication.
    pub fn for_url(url: impl Into<String>) -> Self {
        Self {
            urls: vec![url.into()],
            ..Self::default()
        }
    }

    /// Whether a client can be made of them: addresses are ones, and files hold what they should.
    pub fn check(&self) -> Result<(), ConnectError> {
        client::usable(&self.with_what_its_folder_says()).map(|_| ())
    }

    /// With the addresses and certificates of its folder, if it has one, in place of its own.
    pub(super) fn with_what_its_folder_says(&self) -> Self {
        let mut made = self.clone();
        if let Auth::Folder(folder) = &self.auth {
            let Tls { ca, client, .. } = folder.tls();
            made.tls.ca = ca.or(made.tls.ca);
            made.tls.client = client.or(made.tls.client);
            made.urls = folder.servers().unwrap_or(made.urls);
        }
        made
    }
}

// === impl Role ===

impl Role {
    /// The prefix of all inboxes of this role.
    pub fn inbox_prefix(&self) -> String {
        match self {
            Self::Member(group) => format!("_INBOX.lockstep.{}.{}", group.namespace, group.name),
            Self::Cli => "_INBOX.lockstep.cli".to_owned(),
            Self::Coordinator => "_INBOX.lockstep.coordinator".to_owned(),
            Self::Controller => "_INBOX.lockstep.controller".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // P20b
    #[test]
    fn every_role_has_inboxes_of_its_own() {
        let member = Role::Member("shop/orders".parse().unwrap());
        assert_eq!(member.inbox_prefix(), "_INBOX.lockstep.shop.orders");
        assert_eq!(Role::Cli.inbox_prefix(), "_INBOX.lockstep.cli");
        assert_eq!(
            Role::Coordinator.inbox_prefix(),
            "_INBOX.lockstep.coordinator"
        );
    }
}
