//! The `NatsConnection`: where groups live, and with which credentials. It acts in Kubernetes only.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::conditions::Condition;
use super::rules;
use super::text::{DurationText, ObjectName};

/// Where groups live, and with which credentials. Who may write `servers` receives the referenced
/// Secret.
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(
    clippy::duplicated_attributes,
    reason = "columns are alike in all but their names"
)]
#[kube(
    group = "lockstep.dev",
    version = "v1alpha1",
    kind = "NatsConnection",
    namespaced,
    status = "NatsConnectionStatus",
    derive = "PartialEq",
    shortname = "nconn",
    category = "lockstep",
    doc = "A connection to a NATS account with JetStream, in which consumer groups live.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].reason"#
    ),
    printcolumn(
        name = "Version",
        type_ = "string",
        json_path = ".status.serverVersion"
    ),
    printcolumn(name = "Groups", type_ = "integer", json_path = ".status.groups"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "Servers",
        type_ = "string",
        json_path = ".spec.servers",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [rules::DOMAIN_IMMUTABLE, rules::PREFIX_IMMUTABLE]))]
pub struct NatsConnectionSpec {
    /// The addresses of the NATS servers, such as `nats://nats.nats:4222`; one of a cluster is enough.
    #[schemars(
        length(min = 1, max = 16),
        inner(length(min = 1, max = 255), regex(pattern = r"^(nats|tls)://[^\s/@]+$")),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub servers: Vec<String>,
    /// The `JetStream` domain, where `JetStream` is reached over a leafnode. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[^\s.*>]+$"))]
    pub jetstream_domain: Option<String>,
    /// How the connection is encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// The controller's credentials; without it none are sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// Which other namespaces may refer to this connection; without it, none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_namespaces: Option<NamespaceSelector>,
    /// The Secret, in the pods' namespace, with the workers' credentials; a group may name another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_secret_name: Option<ObjectName>,
    /// How groups' buckets are made.
    #[serde(default)]
    pub bucket: Bucket,
    /// How long the controller waits for an answer.
    #[serde(default = "default_timeout")]
    pub request_timeout: DurationText,
}

/// How the connection is encrypted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Tls {
    /// A Secret with the certificate of the authority that signed the servers' (key `ca.crt`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_secret_ref: Option<SecretRef>,
    /// A Secret with the client's certificate (keys `tls.crt` and `tls.key`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_cert_secret_ref: Option<SecretRef>,
    /// Encrypt before the server says anything; the server has to expect it.
    pub handshake_first: bool,
}

/// Credentials: exactly one of `creds`, `nkey`, `userPassword` and `token`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [rules::AUTH_ONE_FORM]))]
pub struct Auth {
    /// A Secret with a credentials file (key `user.creds`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creds: Option<SecretRef>,
    /// A Secret with an nkey seed (key `nkey.seed`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nkey: Option<SecretRef>,
    /// A Secret with the keys `username` and `password`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_password: Option<SecretRef>,
    /// A Secret with a token (key `token`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<SecretRef>,
}

/// A Secret in the connection's namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretRef {
    /// The Secret's name.
    pub name: ObjectName,
    /// Another key than the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[-._a-zA-Z0-9]+$"))]
    pub key: Option<String>,
}

/// Namespaces by their labels. Empty: all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NamespaceSelector {
    /// Labels with these values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "labels")]
    pub match_labels: BTreeMap<String, String>,
    /// Requirements on labels; all of them have to hold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub match_expressions: Vec<LabelRequirement>,
}

/// A requirement on a label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabelRequirement {
    /// The label.
    #[schemars(length(min = 1, max = 317))]
    pub key: String,
    /// In, `NotIn`: its value is or is not one of `values`. Exists, `DoesNotExist`: it is or is not there.
    pub operator: LabelOperator,
    /// The values of In and `NotIn`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        inner(length(max = 63)),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub values: Vec<String>,
}

/// How a label is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LabelOperator {
    /// Its value is one of these.
    In,
    /// Its value is none of these.
    NotIn,
    /// It is there.
    Exists,
    /// It is not there.
    DoesNotExist,
}

/// How groups' buckets are made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Bucket {
    /// What buckets' names begin with: `<prefix>_<namespace>_<group>`. Immutable.
    #[schemars(
        length(min = 1, max = 40),
        regex(pattern = r"^[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?$")
    )]
    pub prefix: String,
    /// How many servers keep a bucket; by default 3, or 1 on a single server.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 5))]
    pub replicas: Option<u32>,
}

/// The connection as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NatsConnectionStatus {
    /// The `metadata.generation` that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What holds and what does not, each with a reason. Ready: a connection was made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend(
        "x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]
    ))]
    pub conditions: Vec<Condition>,
    /// The version of the server that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub server_version: Option<String>,
    /// How many groups refer to this connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub groups: Option<i32>,
}

fn default_timeout() -> DurationText {
    "5s".into()
}

fn labels(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "maxProperties": 16,
        "additionalProperties": { "type": "string", "maxLength": 63 },
    })
}

impl Default for Bucket {
    fn default() -> Self {
        Self {
            prefix: "lockstep".to_owned(),
            replicas: None,
        }
    }
}
