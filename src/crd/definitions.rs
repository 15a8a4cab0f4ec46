//! The custom resource definitions: made from the Rust types, finished here, printed by
//! `lockstep crd`.

use std::sync::LazyLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::{Value, json};

use super::consumer_group::ConsumerGroup;
use super::nats_connection::NatsConnection;
use super::offset_reset::OffsetReset;
use super::rules;

/// One kind: what the API server needs, and what a manifest is checked against.
#[derive(Debug)]
pub struct Definition {
    /// The kind, such as `ConsumerGroup`.
    pub kind: String,
    /// The group and version, such as `lockstep.dev/v1alpha1`.
    pub api_version: String,
    /// The resource's plural, such as `consumergroups`.
    pub plural: String,
    /// The schema of the whole object.
    pub schema: Value,
    /// The whole definition.
    object: Value,
}

/// All kinds, in the order in which they are printed.
pub fn all() -> &'static [Definition] {
    static ALL: LazyLock<[Definition; 3]> = LazyLock::new(|| {
        let mut group = ConsumerGroup::crd();
        let mut objects = [
            finish(&mut group, &[rules::NAME]),
            finish(&mut NatsConnection::crd(), &[]),
            finish(&mut OffsetReset::crd(), &[]),
        ];
        objects
            .each_mut()
            .map(|object| Definition::of(object.take()))
    });
    ALL.as_slice()
}

/// All definitions as one YAML file: what `lockstep crd` prints. Equal bytes for equal builds.
pub fn print_all() -> String {
    let documents = all().iter().map(Definition::to_yaml);
    documents
        .flat_map(|document| [SEPARATOR.to_owned(), document])
        .collect()
}

/// Begins a document of a YAML file.
const SEPARATOR: &str = "---\n";

// === impl Definition ===

impl Definition {
    fn of(object: Value) -> Self {
        let text = |pointer: &str| {
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let version = "/spec/versions/0";
        Self {
            kind: text("/spec/names/kind"),
            api_version: format!(
                "{}/{}",
                text("/spec/group"),
                text(&format!("{version}/name"))
            ),
            plural: text("/spec/names/plural"),
            schema: object
                .pointer(&format!("{version}/schema/openAPIV3Schema"))
                .cloned()
                .unwrap_or_default(),
            object,
        }
    }

    /// The definition as one YAML document, without a separator.
    pub fn to_yaml(&self) -> String {
        // A value of texts, numbers, lists and maps can always be written; a test compares the bytes.
        serde_saphyr::to_string(&self.object).unwrap_or_default()
    }
}

/// What the derive macros cannot say.
fn finish(definition: &mut CustomResourceDefinition, root_rules: &[rules::Rule]) -> Value {
    let mut object = serde_json::to_value(&*definition).unwrap_or_default();
    if let Some(schema) = object.pointer_mut("/spec/versions/0/schema/openAPIV3Schema") {
        if !root_rules.is_empty() {
            schema["x-kubernetes-validations"] = json!(root_rules);
        }
        tidy(schema);
    }
    object
}

/// Takes out what Kubernetes does not know or need: unsigned formats, titles, numbers written as
/// fractions, and `nullable`, so that an explicit null means "not given" and gets the default.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.retain(|name, value| {
                !(name == "nullable" && value.is_boolean() || name == "title" && value.is_string())
            });
            for (name, value) in fields.iter_mut() {
                match (name.as_str(), value.as_str()) {
                    ("format", Some("uint8" | "uint16" | "uint32")) => *value = json!("int32"),
                    // Doc comments mark code; `kubectl explain` shows plain text.
                    ("description", Some(text)) => *value = json!(text.replace('`', "")),
                    ("format", Some("uint64")) => *value = json!("int64"),
                    // Data, not schema.
                    ("default" | "enum", _) => {}
                    _ => tidy(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        Value::Number(number) => {
            if let Some(whole) = number.as_f64().and_then(whole) {
                *schema = json!(whole);
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// The number without its fraction, if that is nothing.
fn whole(number: f64) -> Option<i64> {
    format!("{number:.0}")
        .parse()
        .ok()
        .filter(|_| number.fract() == 0.0)
}
