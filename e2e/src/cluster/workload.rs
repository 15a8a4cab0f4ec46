//! The applications that test clusters run: they have a label, talk to a socket, and know nothing
//! of NATS.

use std::path::Path;

use serde_json::{Value, json};

/// Where the container finds the folder of histories.
const HISTORY: &str = "/history";

/// The Kubernetes object whose pods an application's are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Pods that are all alike.
    Deployment,
    /// Pods with names of their own.
    StatefulSet,
    /// Pods that end.
    Job,
}

/// What the application is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// `e2e/app`, over HTTP.
    Python,
    /// `examples/applications/go`, over gRPC.
    Go,
}

/// An application of the group `orders`.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Its name, and the label `app` of its pods.
    pub name: &'static str,
    /// What makes its pods.
    pub kind: Kind,
    /// How many pods; of a job, how many have to end well.
    pub replicas: u32,
    /// What it is written in.
    pub language: Language,
    /// More arguments of the application.
    pub arguments: Vec<&'static str>,
    /// How long its pods stay on a node that is not ready; Kubernetes' five minutes if absent.
    pub tolerates_seconds: Option<u32>,
}

// === impl Workload ===

impl Workload {
    /// `orders` in Python.
    pub fn new(kind: Kind, replicas: u32) -> Self {
        Self {
            name: "orders",
            kind,
            replicas,
            language: Language::Python,
            arguments: Vec::new(),
            tolerates_seconds: None,
        }
    }

    /// The manifest; pods write their histories into this folder of the node.
    pub fn manifest(&self, history: &Path) -> Value {
        let (version, kind) = match self.kind {
            Kind::Deployment => ("apps/v1", "Deployment"),
            Kind::StatefulSet => ("apps/v1", "StatefulSet"),
            Kind::Job => ("batch/v1", "Job"),
        };
        json!({
            "apiVersion": version,
            "kind": kind,
            "metadata": {"name": self.name, "namespace": "default"},
            "spec": self.spec(history),
        })
    }

    fn spec(&self, history: &Path) -> Value {
        let template = self.template(history);
        let selector = json!({"matchLabels": {"app": self.name}});
        match self.kind {
            Kind::Deployment => {
                json!({"replicas": self.replicas, "selector": selector, "template": template})
            }
            Kind::StatefulSet => json!({
                "replicas": self.replicas,
                "selector": selector,
                "serviceName": self.name,
                "template": template,
            }),
            Kind::Job => json!({
                "completions": self.replicas,
                "parallelism": self.replicas,
                "template": template,
            }),
        }
    }

    fn template(&self, history: &Path) -> Value {
        let (image, mut arguments) = match self.language {
            Language::Python => ("lockstep.test/app-python:1", Vec::new()),
            Language::Go => ("lockstep.test/app-go:1", vec!["--api", "grpc"]),
        };
        arguments.extend(["--socket", "$(LOCKSTEP_SOCKET)", "--member", "$(POD_NAME)"]);
        arguments.extend(["--log", "/history/$(POD_NAME).jsonl"]);
        arguments.extend(&self.arguments);
        // The webhook adds the socket's place to the variables of the container, and overwrites none;
        // Kubernetes fills `$(…)` in from those before it only.
        let environment = json!([
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "LOCKSTEP_SOCKET", "value": "/var/run/lockstep/worker.sock"},
        ]);
        let policy = if self.kind == Kind::Job {
            "Never"
        } else {
            "Always"
        };
        json!({
            "metadata": {"labels": {"app": self.name, "lockstep.dev/consumer-group": "orders"}},
            "spec": {
                "restartPolicy": policy,
                "terminationGracePeriodSeconds": 30,
                "tolerations": self.tolerations(),
                "containers": [{
                    "name": "app",
                    "image": image,
                    "imagePullPolicy": "Never",
                    "args": arguments,
                    "env": environment,
                    "volumeMounts": [{"name": "history", "mountPath": HISTORY}],
                }],
                "volumes": [{
                    "name": "history",
                    "hostPath": {"path": history, "type": "Directory"},
                }],
            },
        })
    }

    fn tolerations(&self) -> Vec<Value> {
        let seconds = self.tolerates_seconds.into_iter();
        let both = seconds.flat_map(|seconds| {
            ["unreachable", "not-ready"].map(|state| {
                json!({
                    "key": format!("node.kubernetes.io/{state}"),
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": seconds,
                })
            })
        });
        both.collect()
    }
}
