//! What Lockstep's tests and its demo stand on: real servers, real processes, and the judge.
//!
//! Everything that is started here ends with the test that started it: by `Drop`, by its own
//! process id, and, should the test itself be killed, by the kernel (see [`children`]).

pub mod auditor;
pub mod chaos;
pub mod checker;
pub mod children;
pub mod clock;
#[cfg(feature = "cluster")]
pub mod cluster;
pub mod console;
pub mod figures;
pub mod history;
pub mod http;
#[cfg(feature = "cluster")]
pub mod image;
pub mod matrix;
pub mod nats_cluster;
pub mod nats_server;
pub mod network;
pub mod ports;
pub mod process;
pub mod proxy;
pub mod publisher;
pub mod scene;
pub mod socket_client;
pub mod until;
pub mod usage;

pub use nats_cluster::NatsCluster;
pub use nats_server::NatsServer;
pub use scene::Scene;
pub use until::until;

/// The folder of the checked-out repository.
pub(crate) fn repository() -> std::path::PathBuf {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}
