//! What the tests of the controller have in common: an API server with our CRDs, a NATS server, and
//! controllers as processes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use lockstep_e2e::children::Child;
use lockstep_e2e::cluster::ApiServer;
use lockstep_e2e::process;
use lockstep_e2e::socket_client::SocketClient;
use lockstep_e2e::{NatsServer, until};
use serde_json::Value;

/// Longer than anything here takes.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// The Lease's duration.
pub(crate) const LEASE: &str = "3s";

pub(crate) struct Stage {
    pub(crate) api: ApiServer,
    pub(crate) nats: NatsServer,
    pub(crate) controllers: Vec<Child>,
}

impl Stage {
    /// An API server with our CRDs, a NATS server, a connection `default`, and one controller.
    pub(crate) async fn new() -> Self {
        let mut stage = Self::without_controller().await;
        stage.controller("c1");
        stage.apply(&connection("default", &stage.nats.url())).await;
        stage
    }

    pub(crate) async fn without_controller() -> Self {
        let (api, nats) = tokio::join!(ApiServer::start(), NatsServer::start());
        let stage = Self {
            api: api.unwrap(),
            nats: nats.unwrap(),
            controllers: Vec::new(),
        };
        let crds = repository().join("config/crd");
        let applied = stage
            .kubectl(&["apply", "-f", &crds.display().to_string()])
            .await;
        assert!(applied.contains("created"), "{applied}");
        let crds = ["consumergroups", "natsconnections", "offsetresets"];
        for crd in crds {
            let crd = format!("crd/{crd}.lockstep.dev");
            stage
                .kubectl(&["wait", "--for=condition=Established", &crd, "--timeout=30s"])
                .await;
        }
        stage
    }

    /// Starts one more controller.
    pub(crate) fn controller(&mut self, id: &str) {
        self.controller_with(id, &[]);
    }

    pub(crate) fn controller_with(&mut self, id: &str, more: &[&str]) {
        let mut arguments = vec![
            "controller",
            "--namespace",
            "default",
            "--no-webhook",
            "--id",
            id,
        ];
        arguments.extend(["--log-level", "info"]);
        if !more.contains(&"--lease-duration") {
            arguments.extend(["--lease-duration", LEASE]);
        }
        arguments.extend(more);
        let kubeconfig = self.api.kubeconfig();
        self.controller_as(id, &kubeconfig, &arguments);
    }

    /// Starts one with nothing but these arguments, and with the rights of a kubeconfig.
    pub(crate) fn controller_as(&mut self, id: &str, kubeconfig: &Path, arguments: &[&str]) {
        let output = self.api.folder().join(format!("{id}.log"));
        let environment = [("KUBECONFIG", kubeconfig)];
        let child = process::start_lockstep_with(arguments, &environment, &output);
        self.controllers.push(child.unwrap());
    }

    /// Starts a worker of group `orders` by hand, and a client at its socket.
    pub(crate) fn worker(&self) -> (Child, SocketClient) {
        let socket = self.api.folder().join("w.sock");
        let (path, url) = (socket.display().to_string(), self.nats.url());
        let arguments = [
            "worker",
            "--group",
            "orders",
            "--socket",
            &path,
            "--nats-url",
            &url,
        ];
        let output = self.api.folder().join("worker.log");
        let worker = process::start_lockstep(&arguments, &output).unwrap();
        (worker, SocketClient::new(&socket))
    }

    /// Waits until the worker hands over a message.
    pub(crate) async fn handed_over(&self, client: &SocketClient) -> Value {
        let handed = until("message", SOON, async || {
            let body = serde_json::json!({"max_messages": 1, "max_wait": "1s"});
            let answer = client.post("/v1/fetch", &body).await;
            let answer = answer.map_err(|error| error.to_string())?;
            let first = answer.messages().first().cloned();
            first.ok_or_else(|| answer.body.to_string())
        });
        handed
            .await
            .unwrap_or_else(|late| panic!("{late}\n{}", self.logs()))
    }

    /// kubectl, which has to go well; what it prints.
    pub(crate) async fn kubectl(&self, arguments: &[&str]) -> String {
        let finished = self.api.kubectl(arguments).await.unwrap();
        assert_eq!(
            finished.code,
            Some(0),
            "kubectl {arguments:?}: {}",
            finished.stderr
        );
        finished.stdout
    }

    /// Applies a manifest.
    pub(crate) async fn apply(&self, yaml: &str) {
        let file = self.api.folder().join("manifest.yaml");
        std::fs::write(&file, yaml).unwrap();
        let path = file.display().to_string();
        self.kubectl(&["apply", "-f", &path]).await;
    }

    /// An object as JSON; none if it is not there.
    pub(crate) async fn get(&self, kind: &str, name: &str) -> Option<Value> {
        let ask = ["get", kind, name, "--ignore-not-found", "-o", "json"];
        let text = self.kubectl(&ask).await;
        (!text.trim().is_empty()).then(|| serde_json::from_str(&text).unwrap())
    }

    /// Waits until a condition of an object has this status and reason; its message.
    pub(crate) async fn condition(
        &self,
        (kind, name): (&str, &str),
        condition: &str,
        wanted: (&str, &str),
    ) -> String {
        let what = format!("{condition} of {kind} {name} to be {wanted:?}");
        let found = until(what, SOON, async || {
            let object = self.get(kind, name).await.ok_or("no such object")?;
            let conditions = &object["status"]["conditions"];
            let all = conditions.as_array().into_iter().flatten();
            let found = all.clone().find(|c| c["type"] == condition);
            match found {
                Some(c) if c["status"] == wanted.0 && c["reason"] == wanted.1 => {
                    Ok(c["message"].as_str().unwrap_or_default().to_owned())
                }
                Some(_) | None => Err(words(all)),
            }
        });
        found
            .await
            .unwrap_or_else(|late| panic!("{late}\n{}", self.logs()))
    }

    /// Waits until a group is ready.
    pub(crate) async fn ready(&self, group: &str, reason: &str) {
        self.condition(("cg", group), "Ready", ("True", reason))
            .await;
    }

    /// The Events of an object, as `reason: note`.
    pub(crate) async fn events(&self, name: &str) -> Vec<String> {
        let text = self
            .kubectl(&["get", "events.events.k8s.io", "-o", "json"])
            .await;
        let all: Value = serde_json::from_str(&text).unwrap();
        let items = all["items"].as_array().into_iter().flatten();
        let of = items.filter(|event| event["regarding"]["name"] == name);
        of.map(|event| {
            let text = |field: &str| event[field].as_str().unwrap_or_default();
            format!("{}: {}", text("reason"), text("note"))
        })
        .collect()
    }

    /// Waits until an Event of this reason was recorded about an object; its text.
    pub(crate) async fn event(&self, name: &str, reason: &str) -> String {
        let found = until(format!("Event {reason} of {name}"), SOON, async || {
            let events = self.events(name).await;
            let found = events
                .iter()
                .find(|event| event.starts_with(&format!("{reason}: ")));
            found.cloned().ok_or_else(|| events.join("\n"))
        });
        found
            .await
            .unwrap_or_else(|late| panic!("{late}\n{}", self.logs()))
    }

    /// A stream as the server has it; none if it is not there.
    pub(crate) async fn stream(&self, name: &str) -> Option<async_nats::jetstream::stream::Info> {
        let client = async_nats::connect(self.nats.url()).await.unwrap();
        let context = async_nats::jetstream::new(client);
        let stream = context.get_stream(name).await.ok()?;
        Some(stream.cached_info().clone())
    }

    pub(crate) async fn jetstream(&self) -> async_nats::jetstream::Context {
        async_nats::jetstream::new(async_nats::connect(self.nats.url()).await.unwrap())
    }

    pub(crate) fn logs(&self) -> String {
        let tails = self.controllers.iter().map(Child::tail);
        tails.collect::<Vec<_>>().join("\n")
    }
}

fn words<'a>(conditions: impl Iterator<Item = &'a Value>) -> String {
    let words = conditions.map(|c| {
        let text = |field: &str| c[field].as_str().unwrap_or_default().to_owned();
        format!(
            "{}={} {}: {}",
            text("type"),
            text("status"),
            text("reason"),
            text("message")
        )
    });
    words.collect::<Vec<_>>().join("\n")
}

pub(crate) fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A connection in namespace default.
pub(crate) fn connection(name: &str, url: &str) -> String {
    format!(
        "apiVersion: lockstep.dev/v1alpha1\n\
         kind: NatsConnection\n\
         metadata: {{name: {name}}}\n\
         spec: {{servers: [\"{url}\"]}}\n"
    )
}

/// A group in namespace default, with more lines of its spec.
pub(crate) fn group(name: &str, more: &str) -> String {
    let stream = name.to_uppercase();
    format!(
        r#"apiVersion: lockstep.dev/v1alpha1
kind: ConsumerGroup
metadata: {{name: {name}}}
spec:
  source:
    stream:
      name: {stream}
      create: {{subjects: ["{name}.*"]}}
  partitioning: {{partitions: 4, keyTokens: [1]}}
  membership: {{heartbeatInterval: 500ms, sessionTimeout: 6s, rebalanceTimeout: 5s, initialRebalanceDelay: 500ms, rebalanceDelay: 200ms}}
{more}"#
    )
}
