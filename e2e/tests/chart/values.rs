//! The schema of the chart's values: what cannot be meant is refused, and the field is named.

use serde_json::Value;

use super::{chart, template};

/// Wrong values, and how Helm names the field.
const WRONG: [(&str, &str); 26] = [
    ("replica: 2", "'replica'"),
    ("replicas: 0", "/replicas"),
    ("replicas: two", "/replicas"),
    ("replicas: 10", "/replicas"),
    ("crds: {enabled: maybe}", "/crds/enabled"),
    ("crds: {install: true}", "'install'"),
    ("image: {repository: \"\"}", "/image/repository"),
    ("image: {pullPolicy: Sometimes}", "/image/pullPolicy"),
    ("image: {tag: 1}", "/image/tag"),
    ("imagePullSecrets: [registry]", "/imagePullSecrets/0"),
    (
        "imagePullSecrets: [{nome: registry}]",
        "/imagePullSecrets/0",
    ),
    ("watchNamespaces: shop", "/watchNamespaces"),
    ("watchNamespaces: [Shop]", "/watchNamespaces/0"),
    ("watchNamespaces: [shop, shop]", "/watchNamespaces"),
    (
        "rbac: {connectionNamespaces: [\"a b\"]}",
        "/rbac/connectionNamespaces/0",
    ),
    ("clusterId: \"a b\"", "/clusterId"),
    (
        "controller: {leaseDuration: 15}",
        "/controller/leaseDuration",
    ),
    (
        "controller: {leaseDuration: 1d}",
        "/controller/leaseDuration",
    ),
    ("controller: {logLevel: loud}", "/controller/logLevel"),
    (
        "controller: {maxConcurrentReconciles: 257}",
        "/controller/maxConcurrentReconciles",
    ),
    ("webhook: {failurePolicy: Maybe}", "/webhook/failurePolicy"),
    ("webhook: {timeoutSeconds: 31}", "/webhook/timeoutSeconds"),
    ("webhook: {port: 443}", "/webhook/port"),
    (
        "podDisruptionBudget: {maxUnavailable: 0}",
        "/podDisruptionBudget/maxUnavailable",
    ),
    (
        "metrics: {serviceMonitor: {interval: often}}",
        "/metrics/serviceMonitor/interval",
    ),
    ("metrics: {dashboard: {enable: true}}", "'enable'"),
];

#[test]
fn wrong_values_are_refused_by_the_name_of_their_field() {
    let mut trouble = Vec::new();
    for (values, field) in WRONG {
        match template(values) {
            Ok(_) => trouble.push(format!("{values}: accepted")),
            Err(said) if said.contains(field) => {}
            Err(said) => trouble.push(format!("{values}: {field} is not named: {said}")),
        }
    }
    assert!(trouble.is_empty(), "{}", trouble.join("\n"));
}

/// The paths of all objects of the schema with the names of their fields.
fn objects(at: &str, schema: &Value, root: &Value, found: &mut Vec<(String, Vec<String>, bool)>) {
    let schema = match schema["$ref"].as_str() {
        Some(reference) => root.pointer(reference.trim_start_matches('#')).unwrap(),
        None => schema,
    };
    let Some(properties) = schema["properties"].as_object() else {
        return;
    };
    let closed = schema["additionalProperties"] == false;
    let names = properties.keys().cloned().collect();
    found.push((at.to_owned(), names, closed));
    for (name, property) in properties {
        objects(&format!("{at}/{name}"), property, root, found);
    }
}

#[test]
fn every_object_of_the_schema_is_closed_and_every_field_is_explained() {
    let schema = std::fs::read_to_string(chart().join("values.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let explained = std::fs::read_to_string(chart().join("values.yaml")).unwrap();
    let mut found = Vec::new();
    objects("", &schema, &schema, &mut found);
    assert!(found.len() > 10, "the schema was not read: {found:?}");
    let words: Vec<&str> = explained
        .split(|c: char| !c.is_ascii_alphanumeric() && c != ':')
        .collect();
    let mut trouble = Vec::new();
    for (at, names, closed) in found {
        if !closed {
            trouble.push(format!("{at} takes any field"));
        }
        // `global` is Helm's, for charts that hold others.
        for name in names.iter().filter(|name| *name != "global") {
            if !words.contains(&format!("{name}:").as_str()) {
                trouble.push(format!("values.yaml does not mention {at}/{name}"));
            }
        }
    }
    assert!(trouble.is_empty(), "{}", trouble.join("\n"));
}
