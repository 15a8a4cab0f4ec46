//! An API server with our CRDs, a NATS server, and one controller.

use std::time::Duration;

use lockstep_e2e::children::Child;
use lockstep_e2e::cluster::ApiServer;
use lockstep_e2e::scene::{Outcome, SceneError};
use lockstep_e2e::{NatsServer, http, process};
use serde_json::json;

use crate::flags::Flags;
use crate::groups::NAMESPACE;

/// Longer than a process takes to start on a loaded machine.
const SOON: Duration = Duration::from_secs(60);

pub(crate) struct Plant {
    pub(crate) api: ApiServer,
    pub(crate) nats: NatsServer,
    pub(crate) client: kube::Client,
}

/// A controller, and where it shows its metrics.
pub(crate) struct Controller {
    pub(crate) process: Child,
    address: String,
}

// === impl Plant ===

impl Plant {
    /// Both servers, and a connection `default` with credentials.
    pub(crate) async fn start() -> Outcome<Self> {
        let users = "authorization { users: [{user: bench, password: bench}] }";
        let nats = NatsServer::options().config(users).start();
        let (api, nats) = tokio::join!(ApiServer::start(), nats);
        let (api, nats) = (api?, nats?);
        api.install_crds().await?;
        let client = api.client().await?;
        let plant = Self { api, nats, client };
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "nats", "namespace": NAMESPACE},
            "stringData": {"username": "bench", "password": "bench"},
        });
        let connection = json!({
            "apiVersion": "lockstep.dev/v1alpha1", "kind": "NatsConnection",
            "metadata": {"name": "default", "namespace": NAMESPACE},
            "spec": {
                "servers": [plant.nats.url()],
                "auth": {"userPassword": {"name": "nats"}},
                "workerSecretName": "nats",
            },
        });
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": NAMESPACE},
        });
        for object in [secret, connection, account] {
            plant.api.apply(&object.to_string()).await?;
        }
        Ok(plant)
    }

    /// Starts a controller, with the settings that it has in production, and waits until it serves.
    pub(crate) async fn controller(&self, flags: &Flags, more: &[&str]) -> Outcome<Controller> {
        // A log of its own: the address is read from it.
        let name = format!("controller-{}.log", lockstep::chance::name());
        let output = self.api.folder().join(name);
        let kubeconfig = self.api.kubeconfig();
        let mut arguments = vec!["controller", "--namespace", NAMESPACE, "--id", "bench"];
        arguments.extend(["--http-addr", "127.0.0.1:0"]);
        arguments.extend(more);
        arguments.extend(flags.more.iter().map(String::as_str));
        let environment = [("KUBECONFIG", kubeconfig.as_path())];
        let process = process::start_program(&flags.lockstep, &arguments, &environment, &output)?;
        let line = process::wait_for_line(&process, "ready: ", SOON).await?;
        let address = line.rsplit("http://").next().unwrap_or_default();
        let address = address.split_whitespace().last().unwrap_or_default();
        Ok(Controller {
            address: address.to_owned(),
            process,
        })
    }
}

// === impl Controller ===

impl Controller {
    /// What it shows of itself.
    pub(crate) async fn metrics(&self) -> Outcome<String> {
        let (status, body) = http::get(&self.address, "/metrics").await?;
        if status == 200 {
            Ok(body)
        } else {
            Err(SceneError::new(format!("/metrics: {status}: {body}")))
        }
    }
}
