//! The workload that a group's replicas are: read, and scaled.

use std::fmt;

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::Client;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::json;

use crate::controller::pods::PodFact;
use crate::crd::ScaleTargetRef;
use crate::k8s::{self, ErrorKind, FieldManager, K8sError, names};

/// The kinds of workloads that can be scaled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    #[default]
    Deployment,
    StatefulSet,
}

/// A workload as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) kind: Kind,
    pub(super) name: String,
    /// How many pods it is to have.
    pub(super) replicas: i32,
    /// How many it has.
    pub(super) pods: i32,
    /// Which pods are its own, as /scale shows it.
    pub(super) selector: String,
    /// The group whose members its pods are.
    pub(super) group: Option<String>,
    /// The number of its first pod.
    pub(super) first_ordinal: i32,
    /// It has pods of more than one template.
    pub(super) rolling_out: bool,
    /// The field manager that wrote `spec.replicas` last, if it is not this controller's.
    pub(super) written_by: Option<String>,
}

// === impl Kind ===

impl Kind {
    /// The kind that a reference names; the schema admits no others.
    pub(super) fn of(reference: &ScaleTargetRef) -> Self {
        match reference.kind.as_str() {
            "StatefulSet" => Self::StatefulSet,
            _ => Self::Deployment,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Deployment => "Deployment",
            Self::StatefulSet => "StatefulSet",
        })
    }
}

// === impl Target ===

impl Target {
    /// Whether the pod was made for it. A Deployment's `ReplicaSet` is named after it and the template.
    pub(super) fn has(&self, pod: &PodFact) -> bool {
        let Some(owner) = &pod.owner else {
            return false;
        };
        match (self.kind, &owner.template_hash) {
            (Kind::Deployment, Some(hash)) => {
                owner.kind == "ReplicaSet" && owner.name == format!("{}-{hash}", self.name)
            }
            (Kind::Deployment, None) => false,
            (Kind::StatefulSet, _) => owner.kind == "StatefulSet" && owner.name == self.name,
        }
    }

    fn of_deployment(name: &str, object: Deployment) -> Self {
        let spec = object.spec.unwrap_or_default();
        let status = object.status.unwrap_or_default();
        let pods = status.replicas.unwrap_or_default();
        let seen = status.observed_generation == object.metadata.generation;
        let updated = status.updated_replicas.unwrap_or_default();
        Self {
            kind: Kind::Deployment,
            name: name.to_owned(),
            replicas: spec.replicas.unwrap_or(1),
            pods,
            selector: serialised(&spec.selector),
            group: label(spec.template.metadata),
            first_ordinal: 0,
            rolling_out: seen && updated < pods,
            written_by: last_writer(&object.metadata),
        }
    }

    fn of_stateful_set(name: &str, object: StatefulSet) -> Self {
        let spec = object.spec.unwrap_or_default();
        let status = object.status.unwrap_or_default();
        Self {
            kind: Kind::StatefulSet,
            name: name.to_owned(),
            replicas: spec.replicas.unwrap_or(1),
            pods: status.replicas,
            selector: serialised(&spec.selector),
            group: label(spec.template.metadata),
            first_ordinal: spec.ordinals.and_then(|o| o.start).unwrap_or_default(),
            rolling_out: status.current_revision != status.update_revision,
            written_by: last_writer(&object.metadata),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

fn label(template: Option<ObjectMeta>) -> Option<String> {
    template?.labels?.remove(names::GROUP_LABEL)
}

/// A selector in the form in which /scale shows it.
fn serialised(selector: &LabelSelector) -> String {
    let equal = selector.match_labels.iter().flatten();
    let equal = equal.map(|(key, value)| format!("{key}={value}"));
    let rules = selector.match_expressions.iter().flatten().map(|rule| {
        let values = rule.values.clone().unwrap_or_default().join(",");
        match rule.operator.as_str() {
            "In" => format!("{} in ({values})", rule.key),
            "NotIn" => format!("{} notin ({values})", rule.key),
            "DoesNotExist" => format!("!{}", rule.key),
            _ => rule.key.clone(),
        }
    });
    equal.chain(rules).collect::<Vec<_>>().join(",")
}

/// Who wrote `spec.replicas` last, by the object's own record; none if it was this controller.
fn last_writer(metadata: &ObjectMeta) -> Option<String> {
    let entries = metadata.managed_fields.as_deref().unwrap_or_default();
    let writers = entries.iter().filter(|entry| {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
        fields.is_some_and(|fields| !fields["f:spec"]["f:replicas"].is_null())
    });
    // Times are to the second: of two in one second the other one wrote, or nobody would ask.
    let last = writers.max_by_key(|entry| {
        let ours = entry.manager.as_deref() == Some(FieldManager::Scale.as_str());
        (entry.time.as_ref().map(|time| time.0.as_second()), !ours)
    })?;
    let manager = last.manager.clone().unwrap_or_default();
    (manager != FieldManager::Scale.as_str()).then_some(manager)
}

/// The target, if it is there.
pub(super) async fn read(
    client: &Client,
    namespace: &str,
    reference: &ScaleTargetRef,
) -> Result<Option<Target>, K8sError> {
    let name = reference.name.as_str();
    match Kind::of(reference) {
        Kind::Deployment => {
            let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
            let found = k8s::get_opt(&api, name).await?;
            Ok(found.map(|found| Target::of_deployment(name, found)))
        }
        Kind::StatefulSet => {
            let api: Api<StatefulSet> = Api::namespaced(client.clone(), namespace);
            let found = k8s::get_opt(&api, name).await?;
            Ok(found.map(|found| Target::of_stateful_set(name, found)))
        }
    }
}

/// Writes the target's /scale.
pub(super) async fn scale(
    client: &Client,
    namespace: &str,
    target: &Target,
    to: i32,
) -> Result<(), K8sError> {
    let params = PatchParams {
        field_manager: Some(FieldManager::Scale.as_str().to_owned()),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(json!({ "spec": { "replicas": to } }));
    let name = target.name.as_str();
    let written = match target.kind {
        Kind::Deployment => {
            let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
            api.patch_scale(name, &params, &patch).await
        }
        Kind::StatefulSet => {
            let api: Api<StatefulSet> = Api::namespaced(client.clone(), namespace);
            api.patch_scale(name, &params, &patch).await
        }
    };
    written
        .map(drop)
        .map_err(|error| K8sError::of(format!("the scale of {target}"), &error))
}

/// An autoscaler that scales the target by itself, by kind and name.
pub(super) async fn other_scaler(
    client: &Client,
    namespace: &str,
    target: &Target,
) -> Result<Option<String>, K8sError> {
    let kind = target.kind.to_string();
    let api: Api<HorizontalPodAutoscaler> = Api::namespaced(client.clone(), namespace);
    let found = api.list(&ListParams::default()).await;
    let found = found.map_err(|error| K8sError::of("HorizontalPodAutoscalers", &error))?;
    let of = found.items.into_iter().find(|hpa| {
        let of = hpa.spec.as_ref().map(|spec| &spec.scale_target_ref);
        of.is_some_and(|of| of.kind == kind && of.name == target.name)
    });
    if let Some(name) = of.and_then(|hpa| hpa.metadata.name) {
        return Ok(Some(format!("HorizontalPodAutoscaler {name}")));
    }
    scaled_object(client, namespace, target).await
}

/// A `ScaledObject` of KEDA, where KEDA is installed.
async fn scaled_object(
    client: &Client,
    namespace: &str,
    target: &Target,
) -> Result<Option<String>, K8sError> {
    let kind = GroupVersionKind::gvk("keda.sh", "v1alpha1", "ScaledObject");
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let found = match api.list(&ListParams::default()).await {
        Ok(found) => found.items,
        Err(error) => {
            let error = K8sError::of("ScaledObjects", &error);
            return if error.kind() == ErrorKind::NotFound {
                Ok(None)
            } else {
                Err(error)
            };
        }
    };
    let of = found.into_iter().find(|object| {
        let of = &object.data["spec"]["scaleTargetRef"];
        let its = of["kind"].as_str().unwrap_or("Deployment");
        its == target.kind.to_string() && of["name"] == target.name.as_str()
    });
    Ok(of
        .and_then(|object| object.metadata.name)
        .map(|name| format!("ScaledObject {name}")))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn deployment(more: &Value) -> Target {
        let mut object = json!({
            "metadata": { "name": "app", "generation": 2 },
            "spec": {
                "replicas": 3,
                "selector": { "matchLabels": { "app": "x" } },
                "template": { "metadata": { "labels": { "lockstep.dev/consumer-group": "orders" } } },
            },
            "status": { "replicas": 3, "updatedReplicas": 3, "observedGeneration": 2 },
        });
        for (key, value) in more.as_object().unwrap() {
            for (inner, value) in value.as_object().unwrap() {
                object[key][inner] = value.clone();
            }
        }
        Target::of_deployment("app", serde_json::from_value(object).unwrap())
    }

    #[test]
    fn a_deployment_is_read_as_its_scale_shows_it() {
        let target = deployment(&json!({}));
        assert_eq!((target.replicas, target.pods), (3, 3));
        assert_eq!(target.selector, "app=x");
        assert_eq!(target.group.as_deref(), Some("orders"));
        assert!(!target.rolling_out);
        let rolling = deployment(&json!({ "status": { "updatedReplicas": 1 } }));
        assert!(rolling.rolling_out);
    }

    #[test]
    fn a_selector_of_expressions_is_serialised() {
        let selector: LabelSelector = serde_json::from_value(json!({
            "matchLabels": { "a": "1", "b": "2" },
            "matchExpressions": [
                { "key": "c", "operator": "In", "values": ["x", "y"] },
                { "key": "d", "operator": "Exists" },
                { "key": "e", "operator": "DoesNotExist" },
                { "key": "f", "operator": "NotIn", "values": ["z"] },
            ],
        }))
        .unwrap();
        assert_eq!(serialised(&selector), "a=1,b=2,c in (x,y),d,!e,f notin (z)");
    }

    #[test]
    fn the_last_writer_of_the_replicas_is_named_unless_it_was_us() {
        let entry = |manager: &str, second: u32, field: &str| {
            json!({
                "manager": manager, "operation": "Update", "apiVersion": "apps/v1",
                "time": format!("2026-01-01T00:00:{second:02}Z"), "fieldsType": "FieldsV1",
                "fieldsV1": { "f:spec": { field: {} } },
            })
        };
        let writer = |entries: &[Value]| {
            deployment(&json!({ "metadata": { "managedFields": entries } })).written_by
        };
        let kubectl = entry("kubectl", 5, "f:replicas");
        let other = entry("helm", 9, "f:template");
        assert_eq!(
            writer(&[kubectl.clone(), other]).as_deref(),
            Some("kubectl")
        );
        let ours = |second| entry("lockstep-scale", second, "f:replicas");
        assert_eq!(writer(&[kubectl.clone(), ours(6)]), None);
        assert_eq!(writer(&[ours(5), kubectl]).as_deref(), Some("kubectl"));
        assert_eq!(writer(&[]), None);
    }
}
