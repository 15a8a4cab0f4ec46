//! The definitions as they are printed, and what the API server asks of them.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::super::{definitions, print_all, read, read_groups};

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Compares a file with what it should be; `BLESS=1 cargo test` writes it.
fn compare(file: &Path, wanted: &str) {
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(file, wanted).unwrap();
    }
    let found = std::fs::read_to_string(file).unwrap_or_default();
    let file = file.display();
    assert!(
        found == wanted,
        "{file} is not what the types say; BLESS=1 cargo test rewrites it"
    );
}

#[test]
fn the_files_are_what_the_types_say() {
    for definition in definitions() {
        let file = repository()
            .join("config/crd")
            .join(format!("{}.yaml", definition.plural));
        compare(&file, &definition.to_yaml());
    }
    let printed: Value = serde_saphyr::from_multiple::<Value>(&print_all())
        .unwrap()
        .into();
    let kinds: Vec<_> = printed
        .as_array()
        .unwrap()
        .iter()
        .map(|d| &d["spec"]["names"]["kind"])
        .collect();
    assert_eq!(kinds, ["ConsumerGroup", "NatsConnection", "OffsetReset"]);
}

#[test]
fn the_examples_are_valid() {
    let mut seen = Vec::new();
    for entry in std::fs::read_dir(repository().join("examples")).unwrap() {
        let file = entry.unwrap().path();
        if file
            .extension()
            .is_some_and(|extension| extension == "yaml")
        {
            let text = std::fs::read_to_string(&file).unwrap();
            let groups = read_groups(&file.display().to_string(), &text).unwrap();
            seen.extend(groups.iter().map(|group| group.group.to_string()));
        }
    }
    seen.sort();
    assert_eq!(
        seen,
        [
            "default/billing",
            "default/orders",
            "default/payments",
            "default/telemetry"
        ]
    );
}

/// Calls `visit` with each schema and its path.
fn walk(schema: &Value, path: &str, visit: &mut impl FnMut(&str, &Value)) {
    visit(path, schema);
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let field_path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        walk(field, &field_path, visit);
    }
    for (keyword, suffix) in [("items", "[]"), ("additionalProperties", ".*")] {
        if schema[keyword].is_object() {
            walk(&schema[keyword], &format!("{path}{suffix}"), visit);
        }
    }
}

fn each_schema(mut visit: impl FnMut(&str, &Value)) {
    for definition in definitions() {
        let mut named = |path: &str, schema: &Value| {
            if !path.starts_with("metadata") {
                visit(&format!("{}: {path}", definition.kind), schema);
            }
        };
        walk(&definition.schema, "", &mut named);
    }
}

#[test]
fn every_text_list_and_map_has_a_bound() {
    each_schema(|path, schema| {
        let bound = match schema["type"].as_str() {
            Some("string") if schema["enum"].is_null() => "maxLength",
            Some("array") => "maxItems",
            Some("object") if schema["additionalProperties"].is_object() => "maxProperties",
            _ => return,
        };
        let outermost = path.ends_with(": apiVersion") || path.ends_with(": kind");
        assert!(
            outermost || schema[bound].is_u64(),
            "{path} has no {bound}: {schema}"
        );
    });
}

#[test]
fn every_list_says_how_it_is_merged() {
    each_schema(|path, schema| {
        if schema["type"] == "array" {
            assert!(
                schema["x-kubernetes-list-type"].is_string(),
                "{path}: {schema}"
            );
        }
        for key in schema["x-kubernetes-list-map-keys"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let required = schema["items"]["required"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let has_default = schema["items"]["properties"][key.as_str().unwrap()]
                .get("default")
                .is_some();
            assert!(
                required.contains(key) || has_default,
                "{path}: key {key} may be absent"
            );
        }
    });
}

#[test]
fn every_field_is_explained() {
    each_schema(|path, schema| {
        let is_item = path.ends_with("[]") || path.ends_with(".*");
        let is_outermost =
            path.ends_with(": ") || path.ends_with("apiVersion") || path.ends_with("kind");
        if !is_item && !is_outermost {
            let text = schema["description"].as_str().unwrap_or_default();
            assert!(text.len() > 8, "{path} has no description: {schema}");
        }
    });
}

#[test]
fn schemas_are_structural_and_within_what_the_api_server_knows() {
    let known_formats = ["int32", "int64", "double", "date-time"];
    each_schema(|path, schema| {
        let typed = schema["type"].is_string() || schema["x-kubernetes-int-or-string"] == true;
        assert!(typed, "{path} has no type: {schema}");
        assert!(schema["nullable"].is_null(), "{path} is nullable");
        for keyword in ["oneOf", "allOf", "$ref", "title", "const"] {
            assert!(schema[keyword].is_null(), "{path} uses {keyword}");
        }
        if let Some(format) = schema["format"].as_str() {
            assert!(
                known_formats.contains(&format),
                "{path} has format {format}"
            );
        }
        if let Some(pattern) = schema["pattern"].as_str() {
            let read = regex::bytes::RegexBuilder::new(pattern)
                .unicode(false)
                .build();
            assert!(
                read.is_ok(),
                "{path} has a pattern that cannot be read: {pattern}"
            );
        }
    });
}

#[test]
fn a_default_beside_rules_is_complete() {
    each_schema(|path, schema| {
        let default = &schema["default"];
        if !default.is_null() {
            let mut given = default.clone();
            let found = super::super::schema::check(schema, &mut given);
            assert_eq!(found.violations, [], "{path}");
        }
        if let Some(given) = default.as_object() {
            for (name, field) in schema["properties"].as_object().into_iter().flatten() {
                if field.get("default").is_some() {
                    assert!(
                        given.contains_key(name),
                        "the default of {path} leaves {name} out"
                    );
                }
            }
        }
    });
}

#[test]
fn the_types_default_to_what_the_schema_says() {
    // The API server fills in the schema's defaults; a manifest read here gets serde's.
    fn fill(schema: &Value, value: &mut Value) {
        let Some(fields) = value.as_object_mut() else {
            return;
        };
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            if !fields.contains_key(name) {
                let Some(default) = schema.get("default") else {
                    continue;
                };
                fields.insert(name.clone(), default.clone());
            }
            fill(schema, &mut fields[name]);
        }
    }
    let manifest = super::with(&[
        ("spec.startFrom", serde_json::json!({})),
        (
            "spec.delivery",
            serde_json::json!({ "retry": { "backoff": {} }, "buffer": {} }),
        ),
        ("spec.delivery.push", serde_json::json!({ "port": 80 })),
        ("spec.membership", serde_json::json!({ "assignor": {} })),
        ("spec.autoscaling", serde_json::json!({ "behavior": {} })),
    ]);
    let mut filled = manifest.clone();
    fill(&definitions()[0].schema, &mut filled);
    let typed = serde_json::to_value(super::raw(&manifest)).unwrap();
    assert_eq!(typed["spec"], filled["spec"]);
}

#[test]
fn the_definition_has_its_columns_names_and_subresources() {
    let yaml = definitions()[0].to_yaml();
    let definition: Value = serde_saphyr::from_str(&yaml).unwrap();
    let spec = &definition["spec"];
    assert_eq!(spec["names"]["shortNames"][0], "cg");
    assert_eq!(spec["names"]["categories"][0], "lockstep");
    let version = &spec["versions"][0];
    assert_eq!(
        version["subresources"]["scale"]["labelSelectorPath"],
        ".status.selector"
    );
    assert!(version["subresources"]["status"].is_object());
    let columns: Vec<_> = version["additionalPrinterColumns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| {
            (
                column["name"].as_str().unwrap(),
                column["priority"].as_u64().unwrap_or(0),
            )
        })
        .collect();
    let wide = [("Coordinator", 1), ("Connection", 1)];
    let narrow = [
        "Stream",
        "Partitions",
        "Assigned",
        "Replicas",
        "Members",
        "Lag",
        "State",
        "Age",
    ];
    assert_eq!(columns[..8], narrow.map(|name| (name, 0)));
    assert_eq!(columns[8..], wide);
}

/// Everything that a group can say, as it is used in Kubernetes.
const EVERYTHING: &str = r#"
apiVersion: lockstep.dev/v1alpha1
kind: ConsumerGroup
metadata: {name: order-processors, namespace: shop, labels: {team: checkout}}
spec:
  connectionRef: {name: nats}
  source:
    stream:
      name: ORDERS
      create: {subjects: ["orders.*"], storage: File, maxAge: 168h, maxBytes: 10Gi, replicas: 3}
  partitioning: {partitions: 16, keyTokens: [1]}
  startFrom: {policy: Earliest}
  delivery:
    order: Partition
    maxInFlight: 1
    batch: 100
    fetchWait: 5s
    batchWait: 5ms
    buffer: {messages: 5000, bytes: 16Mi}
    retry: {maxAttempts: 5, backoff: {initial: 200ms, max: 30s, factor: 2}}
    onFailure: DeadLetter
    deadLetter: {subject: dlq.orders, stream: {name: ORDERS_DLQ, create: {maxAge: 720h}}}
    push: {port: 8080, path: /messages}
  membership:
    assignor: {type: Sticky}
    heartbeatInterval: 3s
    sessionTimeout: 20s
    rebalanceTimeout: 60s
    processingTimeout: 5m
    initialRebalanceDelay: 3s
    rebalanceDelay: 1s
    maxMembers: 64
  onTruncation: Stop
  onGap: Earliest
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: order-app}
  autoscaling:
    mode: Active
    minReplicas: 1
    maxReplicas: 16
    lag: {targetPerReplica: 1000, activation: 0}
    behavior: {scaleUpStabilization: 30s, scaleDownStabilization: 300s, idle: 5m}
  paused: false
  pausedPartitions: []
  deletionPolicy: Retain
  worker:
    natsSecretName: order-worker-nats
    resources: {requests: {cpu: 20m, memory: 64Mi}, limits: {memory: 128Mi, cpu: 1}}
    logLevel: info
---
apiVersion: lockstep.dev/v1alpha1
kind: NatsConnection
metadata: {name: nats, namespace: shop}
spec:
  servers: ["nats://nats.nats:4222"]
  jetstreamDomain: hub
  tls: {caSecretRef: {name: ca}, clientCertSecretRef: {name: client}, handshakeFirst: true}
  auth: {creds: {name: creds, key: user.creds}}
  allowedNamespaces: {matchExpressions: [{key: team, operator: In, values: [shop]}]}
  workerSecretName: worker-nats
  bucket: {prefix: lockstep, replicas: 3}
  requestTimeout: 5s
---
apiVersion: lockstep.dev/v1alpha1
kind: OffsetReset
metadata: {name: back-to-monday, namespace: shop}
spec:
  groupRef: {name: order-processors}
  partitions: [0, 3]
  to: {policy: Sequence, sequences: [{partition: 0, sequence: 17}, {partition: 3, sequence: 1}]}
  dryRun: true
  ttlAfterFinished: 24h
"#;

#[test]
fn everything_that_a_manifest_can_say_is_read() {
    let read = read("everything.yaml", EVERYTHING).unwrap();
    assert_eq!(
        read.iter().map(|(number, _)| *number).collect::<Vec<_>>(),
        [1, 2, 3]
    );
    // What is written out again says the same.
    for (number, manifest) in &read {
        let written = match manifest {
            super::super::Manifest::ConsumerGroup(object) => serde_saphyr::to_string(object),
            super::super::Manifest::NatsConnection(object) => serde_saphyr::to_string(object),
            super::super::Manifest::OffsetReset(object) => serde_saphyr::to_string(object),
        };
        let again = super::super::read("again.yaml", &written.unwrap()).unwrap();
        assert_eq!(&again[0].1, manifest, "document {number}");
    }
}

#[test]
fn what_is_not_built_yet_is_refused_by_name() {
    let error = read_groups("everything.yaml", EVERYTHING)
        .unwrap_err()
        .to_string();
    let lines: Vec<_> = error.lines().collect();
    assert_eq!(
        lines,
        [
            "everything.yaml: document 1: spec.delivery.onFailure: DeadLetter is not supported yet",
            "everything.yaml: document 1: spec.delivery.deadLetter is not supported yet",
            "everything.yaml: document 1: spec.delivery.push is not supported yet",
            "everything.yaml: document 3: kind is OffsetReset, which acts in Kubernetes only; take \
             it out of this file",
        ]
    );
}
