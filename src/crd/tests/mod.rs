//! Manifests, good and bad.

mod conversion;
mod golden;
mod properties;
mod reading;
mod rules;
mod update;

use serde_json::{Value, json};

use super::{ConsumerGroup, ManifestError, ValidGroup, read_groups};

/// The smallest manifest of a group, as JSON, which is YAML.
fn orders() -> Value {
    json!({
        "apiVersion": "lockstep.dev/v1alpha1",
        "kind": "ConsumerGroup",
        "metadata": { "name": "orders" },
        "spec": {
            "source": { "stream": { "name": "ORDERS", "create": { "subjects": ["orders.*"] } } },
            "partitioning": { "partitions": 8 },
        },
    })
}

/// `orders` with fields set, each by its path: `spec.delivery.batch`. A null takes a field out.
fn with(fields: &[(&str, Value)]) -> Value {
    let mut manifest = orders();
    for (path, value) in fields {
        set(&mut manifest, path, value.clone());
    }
    manifest
}

fn set(manifest: &mut Value, path: &str, value: Value) {
    let (parent, name) = path.rsplit_once('.').unwrap_or(("", path));
    let mut at = manifest;
    for step in parent.split('.').filter(|step| !step.is_empty()) {
        if at[step].is_null() {
            at[step] = json!({});
        }
        at = &mut at[step];
    }
    at[name] = value;
}

fn read_one(manifest: &Value) -> Result<ValidGroup, ManifestError> {
    read_groups("test.yaml", &manifest.to_string()).map(|mut groups| groups.remove(0))
}

#[track_caller]
fn accepted(manifest: &Value) -> ValidGroup {
    read_one(manifest).unwrap_or_else(|error| panic!("refused: {error}\n{manifest:#}"))
}

/// What is said of a manifest that is refused.
#[track_caller]
fn refused(manifest: &Value) -> Vec<String> {
    match read_one(manifest) {
        Ok(_) => panic!("accepted: {manifest:#}"),
        Err(error) => error
            .problems
            .iter()
            .map(|problem| problem.violation.to_string())
            .collect(),
    }
}

/// The object as it was written, unchecked.
fn raw(manifest: &Value) -> ConsumerGroup {
    serde_json::from_value(manifest.clone()).unwrap()
}
