//! The HTTPS server of the webhook.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum_server::Handle;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use rustls::ServerConfig;
use tokio_util::sync::CancellationToken;

use super::Certificates;

/// How long answers that are on their way have when the server stops.
const FAREWELL: Duration = Duration::from_secs(5);

/// A handshake that takes longer is given up.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// Why the webhook cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// The address is taken, or not ours.
    #[error("cannot listen on --webhook-addr {address}; choose another address")]
    Bind {
        /// What was tried.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

/// A server that has its address and does not answer yet.
#[derive(Debug)]
pub struct BoundWebhook {
    listener: TcpListener,
    address: SocketAddr,
}

// === impl BoundWebhook ===

impl BoundWebhook {
    /// Takes the address; port 0 takes a free one.
    pub fn bind(address: SocketAddr) -> Result<Self, WebhookError> {
        let bound = || {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok(Self { listener, address })
        };
        bound().map_err(|source| WebhookError::Bind { address, source })
    }

    /// The address that was taken.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

pub(super) async fn serve(
    bound: BoundWebhook,
    routes: Router,
    certificates: Certificates,
    stop: CancellationToken,
) {
    let served = async {
        let config = RustlsConfig::from_config(Arc::new(tls(certificates)?));
        let handle = Handle::new();
        let acceptor = RustlsAcceptor::new(config).handshake_timeout(HANDSHAKE);
        let server = axum_server::from_tcp(bound.listener)?
            .acceptor(acceptor)
            .handle(handle.clone());
        let serving = server.serve(routes.into_make_service());
        let mut serving = std::pin::pin!(serving);
        tokio::select! {
            ended = serving.as_mut() => ended,
            () = stop.cancelled() => {
                handle.graceful_shutdown(Some(FAREWELL));
                serving.await
            }
        }
    };
    if let Err(error) = served.await {
        tracing::error!(
            error = &error as &(dyn std::error::Error + 'static),
            "the webhook's server ended"
        );
    }
}

/// TLS with whatever certificate is loaded when somebody connects.
fn tls(certificates: Certificates) -> io::Result<ServerConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut config = versions
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(certificates));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
