//! An API server with our CRDs, and the controller as a process whose webhook it calls.

use std::net::TcpListener;
use std::path::PathBuf;
use std::time::Duration;

use lockstep_e2e::children::Child;
use lockstep_e2e::cluster::{ApiServer, webhook_configuration};
use lockstep_e2e::process::{self, Finished};
use lockstep_e2e::until;
use serde_json::{Value, json};

/// Longer than anything here takes.
pub(crate) const SOON: Duration = Duration::from_secs(60);

pub(crate) struct Stage {
    pub(crate) api: ApiServer,
    controller: Option<Child>,
}

// === impl Stage ===

impl Stage {
    /// An API server, and a controller that answers its questions about pods.
    pub(crate) async fn new() -> Self {
        Self::with(ApiServer::start().await.unwrap()).await
    }

    pub(crate) async fn with(api: ApiServer) -> Self {
        let mut stage = Self::without_controller(api).await;
        let port = free_port();
        stage.configure(&[port]).await;
        let output = stage.api.folder().join("controller.log");
        let address = format!("127.0.0.1:{port}");
        let arguments = [
            "controller",
            "--namespace=default",
            "--id=c1",
            "--worker-image=lockstep.test/lockstep:1",
            "--webhook-host=127.0.0.1",
            "--webhook-addr",
            &address,
        ];
        let kubeconfig = stage.api.kubeconfig();
        let environment = [("KUBECONFIG", kubeconfig.as_path())];
        let child = process::start_lockstep_with(&arguments, &environment, &output);
        stage.controller = Some(child.unwrap());
        stage.namespace_with_group("shop").await;
        stage.answers("shop").await;
        stage
    }

    /// An API server with our CRDs alone.
    pub(crate) async fn without_controller(api: ApiServer) -> Self {
        let stage = Self {
            api,
            controller: None,
        };
        let crds = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../config/crd");
        stage
            .kubectl(&["apply", "-f", &crds.display().to_string()])
            .await;
        for crd in ["consumergroups", "natsconnections"] {
            let crd = format!("crd/{crd}.lockstep.dev");
            let wait = ["wait", "--for=condition=Established", &crd, "--timeout=60s"];
            stage.kubectl(&wait).await;
        }
        stage
    }

    /// Has the API server ask on each of these ports, one after another.
    pub(crate) async fn configure(&self, ports: &[u16]) {
        self.apply(&webhook_configuration(ports)).await;
    }

    /// Waits until pods are answered about.
    pub(crate) async fn answers(&self, namespace: &str) {
        let waited = until("answers of the webhook", SOON, async || {
            let manifest = pod(namespace, "probe", &json!({}));
            let finished = self.try_apply(&manifest, &["--dry-run=server"]).await;
            if finished.code == Some(0) {
                Ok(())
            } else {
                Err(finished.stderr)
            }
        });
        let tail = || {
            self.controller
                .as_ref()
                .map_or_else(String::new, Child::tail)
        };
        waited
            .await
            .unwrap_or_else(|late| panic!("{late}\n{}", tail()));
    }

    /// kubectl, which has to go well; what it prints.
    pub(crate) async fn kubectl(&self, arguments: &[&str]) -> String {
        let finished = self.api.kubectl(arguments).await.unwrap();
        let Finished {
            code,
            stdout,
            stderr,
        } = finished;
        assert_eq!(code, Some(0), "kubectl {arguments:?}: {stderr}");
        stdout
    }

    pub(crate) async fn apply(&self, manifest: &str) {
        let finished = self.try_apply(manifest, &[]).await;
        assert_eq!(finished.code, Some(0), "{manifest}: {}", finished.stderr);
    }

    pub(crate) async fn try_apply(&self, manifest: &str, more: &[&str]) -> Finished {
        let file = tempfile::NamedTempFile::new_in(self.api.folder()).unwrap();
        std::fs::write(file.path(), manifest).unwrap();
        let path = file.path().display().to_string();
        let mut arguments = vec!["apply", "-f", &path];
        arguments.extend(more);
        self.api.kubectl(&arguments).await.unwrap()
    }

    /// A namespace in which pods can be made.
    pub(crate) async fn namespace(&self, name: &str) {
        self.kubectl(&["create", "namespace", name]).await;
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": name}});
        self.apply(&account.to_string()).await;
    }

    /// The same, with group `orders` and a connection for it.
    pub(crate) async fn namespace_with_group(&self, name: &str) {
        self.namespace(name).await;
        self.apply(&connection(name, "worker-nats")).await;
        self.apply(&group(name, "orders")).await;
    }

    /// Makes a pod; as the API server has it then, and what was said on the way.
    pub(crate) async fn makes(
        &self,
        namespace: &str,
        name: &str,
        changes: &Value,
    ) -> (Value, String) {
        let finished = self.try_apply(&pod(namespace, name, changes), &[]).await;
        assert_eq!(finished.code, Some(0), "{name}: {}", finished.stderr);
        let text = self
            .kubectl(&["get", "pod", "-n", namespace, name, "-o", "json"])
            .await;
        (serde_json::from_str(&text).unwrap(), finished.stderr)
    }

    /// Tries to make a pod that is refused; the sentence.
    pub(crate) async fn refuses(&self, namespace: &str, name: &str, changes: &Value) -> String {
        let finished = self.try_apply(&pod(namespace, name, changes), &[]).await;
        assert_eq!(
            finished.code,
            Some(1),
            "{name} was let in: {}",
            finished.stdout
        );
        finished.stderr
    }
}

pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// A labelled pod, with some of it written over.
pub(crate) fn pod(namespace: &str, name: &str, changes: &Value) -> String {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace,
                     "labels": {"lockstep.dev/consumer-group": "orders"}},
        "spec": {"containers": [{"name": "app", "image": "app:1"}]},
    });
    merge(&mut pod, changes);
    pod.to_string()
}

fn merge(into: &mut Value, changes: &Value) {
    match changes {
        Value::Object(changes) => {
            for (key, change) in changes {
                merge(&mut into[key], change);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            *into = changes.clone();
        }
    }
}

pub(crate) fn connection(namespace: &str, worker_secret: &str) -> String {
    json!({
        "apiVersion": "lockstep.dev/v1alpha1", "kind": "NatsConnection",
        "metadata": {"name": "default", "namespace": namespace},
        "spec": {"servers": ["nats://127.0.0.1:1"], "workerSecretName": worker_secret},
    })
    .to_string()
}

pub(crate) fn group(namespace: &str, name: &str) -> String {
    json!({
        "apiVersion": "lockstep.dev/v1alpha1", "kind": "ConsumerGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "source": {"stream": {"name": "ORDERS", "create": {"subjects": ["orders.*"]}}},
            "partitioning": {"partitions": 4, "keyTokens": [1]},
            "membership": {"processingTimeout": "20s"},
        },
    })
    .to_string()
}

/// The worker of a pod; there has to be exactly one, and last.
pub(crate) fn worker(pod: &Value) -> &Value {
    let all = pod["spec"]["initContainers"].as_array().unwrap();
    let named = |container: &&Value| container["name"] == "lockstep-worker";
    assert_eq!(all.iter().filter(named).count(), 1, "{all:?}");
    let last = all.last().unwrap();
    assert_eq!(last["name"], "lockstep-worker");
    last
}
