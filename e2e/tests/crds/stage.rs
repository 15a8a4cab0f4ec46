//! An API server that knows Lockstep's kinds, and objects to put into it.

use std::time::Duration;

use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use kube::core::{GroupVersionKind, TypeMeta};
use lockstep::crd;
use lockstep_e2e::cluster::ApiServer;
use lockstep_e2e::until;
use serde_json::{Value, json};

/// How long discovery may lag behind a definition; generous for a loaded machine.
const DISCOVERED_WITHIN: Duration = Duration::from_secs(60);

/// Fields to set in a manifest, each by its path; a null takes one out.
pub(crate) type Edits = Vec<(&'static str, Value)>;

/// The kinds, as `crd::definitions` orders them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    ConsumerGroup,
    NatsConnection,
    OffsetReset,
}

pub(crate) struct Stage {
    pub(crate) server: ApiServer,
    client: Client,
}

// === impl Stage ===

impl Stage {
    /// An API server with the definitions of `config/crd`.
    pub(crate) async fn start() -> Self {
        let server = ApiServer::start().await.unwrap();
        let client = server.client().await.unwrap();
        let stage = Self { server, client };
        let folder = format!("{}/../config/crd", env!("CARGO_MANIFEST_DIR"));
        stage
            .kubectl(&["apply", "--server-side", "-f", &folder])
            .await
            .unwrap();
        stage.wait_until_known().await;
        stage
    }

    /// Waits until `kubectl` finds the kinds: established, discovered and explained.
    async fn wait_until_known(&self) {
        for definition in crd::definitions() {
            let name = format!("crd/{}.lockstep.dev", definition.plural);
            let wait = [
                "wait",
                "--for=condition=Established",
                "--timeout=60s",
                &name,
            ];
            self.kubectl(&wait).await.unwrap();
            let plural = definition.plural.as_str();
            let found = until(plural, DISCOVERED_WITHIN, async || {
                let ask = ["api-resources", "--api-group=lockstep.dev", "-o", "name"];
                let listed = self.kubectl(&ask).await?;
                if !listed.contains(plural) {
                    return Err(listed);
                }
                self.kubectl(&["explain", plural]).await
            });
            found.await.unwrap();
        }
    }

    /// Runs `kubectl`; what it complained of is the error.
    pub(crate) async fn kubectl(&self, arguments: &[&str]) -> Result<String, String> {
        let finished = self.server.kubectl(arguments).await.unwrap();
        match finished.code {
            Some(0) => Ok(finished.stdout),
            _ => Err(finished.stderr),
        }
    }

    pub(crate) fn api(&self, kind: Kind) -> Api<DynamicObject> {
        let definition = &crd::definitions()[kind as usize];
        let (group, version) = definition.api_version.split_once('/').unwrap();
        let of = GroupVersionKind::gvk(group, version, &definition.kind);
        let resource = ApiResource::from_gvk_with_plural(&of, &definition.plural);
        Api::default_namespaced_with(self.client.clone(), &resource)
    }

    /// Would the API server take this object? It is not stored.
    pub(crate) async fn try_create(&self, kind: Kind, manifest: &Value) -> Result<Value, String> {
        let dry = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        self.post(kind, manifest, &dry).await
    }

    pub(crate) async fn create(&self, kind: Kind, manifest: &Value) -> Value {
        let stored = self.post(kind, manifest, &PostParams::default()).await;
        stored.unwrap_or_else(|error| panic!("refused: {error}\n{manifest:#}"))
    }

    async fn post(&self, kind: Kind, manifest: &Value, how: &PostParams) -> Result<Value, String> {
        let object = object(kind, manifest);
        let made = self.api(kind).create(how, &object).await;
        made.map(|made| serde_json::to_value(made).unwrap())
            .map_err(|error| words(&error))
    }

    /// Would the API server take this change of a stored object? It is not stored.
    pub(crate) async fn try_change(
        &self,
        kind: Kind,
        stored: &Value,
        edits: &[(&'static str, Value)],
    ) -> Result<Value, String> {
        let dry = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let mut changed = stored.clone();
        for (path, value) in edits {
            set(&mut changed, path, value.clone());
        }
        let name = stored["metadata"]["name"].as_str().unwrap();
        let replaced = self
            .api(kind)
            .replace(name, &dry, &object(kind, &changed))
            .await;
        replaced
            .map(|made| serde_json::to_value(made).unwrap())
            .map_err(|error| words(&error))
    }
}

fn object(kind: Kind, manifest: &Value) -> DynamicObject {
    let definition = &crd::definitions()[kind as usize];
    let mut object: DynamicObject = serde_json::from_value(manifest.clone()).unwrap();
    object.types = Some(TypeMeta {
        api_version: definition.api_version.clone(),
        kind: definition.kind.clone(),
    });
    object
}

/// What the API server said.
fn words(error: &kube::Error) -> String {
    let kube::Error::Api(status) = error else {
        panic!("no answer: {error}");
    };
    status.message.clone()
}

/// The smallest object of a kind.
pub(crate) fn smallest(kind: Kind) -> Value {
    match kind {
        Kind::ConsumerGroup => json!({
            "metadata": { "name": "orders" },
            "spec": {
                "source": { "stream": { "name": "ORDERS", "create": { "subjects": ["orders.*"] } } },
                "partitioning": { "partitions": 8 },
            },
        }),
        Kind::NatsConnection => json!({
            "metadata": { "name": "default" },
            "spec": { "servers": ["nats://nats.nats:4222"] },
        }),
        Kind::OffsetReset => json!({
            "metadata": { "name": "again" },
            "spec": { "groupRef": { "name": "orders" }, "to": { "policy": "Earliest" } },
        }),
    }
}

/// The smallest object of a kind with fields set.
pub(crate) fn with(kind: Kind, edits: &[(&'static str, Value)]) -> Value {
    let mut manifest = smallest(kind);
    for (path, value) in edits {
        set(&mut manifest, path, value.clone());
    }
    manifest
}

pub(crate) fn set(manifest: &mut Value, path: &str, value: Value) {
    let (parent, name) = path.rsplit_once('.').unwrap_or(("", path));
    let mut at = manifest;
    for step in parent.split('.').filter(|step| !step.is_empty()) {
        if at[step].is_null() {
            at[step] = json!({});
        }
        at = &mut at[step];
    }
    if value.is_null() {
        at.as_object_mut().unwrap().remove(name);
    } else {
        at[name] = value;
    }
}
