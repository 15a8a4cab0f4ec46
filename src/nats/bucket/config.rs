//! The bucket's stream: how it is made, and how one that is there differs from it.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::group::BucketId;

/// The schema of the bucket that this version writes.
const SCHEMA: &str = "1";
pub(super) const KEY_SCHEMA: &str = "lockstep.schema";
pub(super) const KEY_BUCKET_ID: &str = "lockstep.bucket-id";
pub(super) const KEY_GROUP_UID: &str = "lockstep.group-uid";

/// What may differ between buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketSettings {
    /// 3 in production; 1 on a single server.
    pub replicas: u32,
    /// The bucket's random identity.
    pub id: BucketId,
    /// The group object's uid; empty without Kubernetes.
    pub group_uid: String,
    /// Values kept per key: 1. More turns the bucket into an audit log, for tests.
    pub history: u32,
}

/// The stream's configuration, as far as it is ours.
pub(super) fn stream_config(bucket: &str, settings: &BucketSettings) -> Value {
    let mut config = invariant_fields();
    let own = json!({
        "name": stream_name(bucket),
        "subjects": [format!("$KV.{bucket}.>")],
        "num_replicas": settings.replicas,
        "max_msgs_per_subject": settings.history,
        "metadata": {
            KEY_SCHEMA: SCHEMA,
            KEY_BUCKET_ID: settings.id.as_str(),
            KEY_GROUP_UID: settings.group_uid,
        },
    });
    if let Value::Object(own) = own {
        config.extend(own);
    }
    Value::Object(config)
}

/// What is the same in every bucket, and what the protocol depends on.
fn invariant_fields() -> Map<String, Value> {
    // `discard: new`: with a limit, `old` would drop the oldest key, which is somebody's fence.
    // No direct gets: they answer from a follower, old without bound. No marker TTL: given at
    // creation it silently turns `deny_purge` off.
    let fields = json!({
        "retention": "limits",
        "storage": "file",
        "max_msgs": -1,
        "max_bytes": -1,
        "max_age": 0,
        "max_msg_size": 1_048_576,
        "max_consumers": 4096,
        "discard": "new",
        "allow_msg_ttl": true,
        "deny_delete": true,
        "deny_purge": true,
        "allow_rollup_hdrs": false,
        "allow_direct": false,
        "mirror_direct": false,
    });
    match fields {
        Value::Object(fields) => fields,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Map::new()
        }
    }
}

pub(super) fn stream_name(bucket: &str) -> String {
    format!("KV_{bucket}")
}

/// A bucket's stream as the server describes it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Found {
    pub(super) config: Map<String, Value>,
    pub(super) created: String,
    pub(super) state: FoundState,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct FoundState {
    pub(super) last_seq: u64,
}

impl Found {
    pub(super) fn metadata(&self, key: &str) -> Option<&str> {
        self.config.get("metadata")?.get(key)?.as_str()
    }

    pub(super) fn id(&self) -> Option<BucketId> {
        self.metadata(KEY_BUCKET_ID).map(BucketId::new)
    }

    pub(super) fn number(&self, field: &str) -> u32 {
        let number = self.config.get(field).and_then(Value::as_u64);
        number.and_then(|n| u32::try_from(n).ok()).unwrap_or(1)
    }
}

/// A setting of the bucket's stream that is not as it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The stream's field.
    pub field: String,
    /// What the server says.
    pub found: String,
    /// What it should be.
    pub expected: String,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            field,
            found,
            expected,
        } = self;
        write!(f, "{field} is {found}, expected {expected}")
    }
}

/// What the protocol depends on in this bucket.
fn expected_fields(bucket: &str) -> Map<String, Value> {
    let mut expected = invariant_fields();
    expected.insert("subjects".into(), json!([format!("$KV.{bucket}.>")]));
    // Not set by us, and ruinous if set by others.
    for (field, off) in [
        ("subject_delete_marker_ttl", json!(0)),
        ("sealed", json!(false)),
        ("mirror", Value::Null),
        ("subject_transform", Value::Null),
    ] {
        expected.insert(field.into(), off);
    }
    // Raised or lowered by an operator for good reason; too small shows itself as a refusal.
    expected.remove("max_consumers");
    expected.remove("max_msg_size");
    expected.remove("max_bytes");
    expected
}

/// A configuration with our fields as they should be, and everything else as it is.
pub(super) fn repaired(bucket: &str, mut config: Map<String, Value>) -> Value {
    for (field, value) in expected_fields(bucket) {
        if value.is_null() {
            config.remove(&field);
        } else {
            config.insert(field, value);
        }
    }
    Value::Object(config)
}

/// Our fields only: the server adds entries and defaults of its own.
pub(super) fn differences(bucket: &str, config: &Map<String, Value>) -> Vec<Difference> {
    let expected = expected_fields(bucket);
    let mut found: Vec<_> = expected
        .into_iter()
        .filter_map(|(field, expected)| {
            let found = config
                .get(&field)
                .cloned()
                .unwrap_or_else(|| absent(&expected));
            (found != expected).then(|| Difference {
                field,
                found: found.to_string(),
                expected: expected.to_string(),
            })
        })
        .collect();
    found.sort_by(|a, b| a.field.cmp(&b.field));
    found
}

/// What a field means that the server leaves out: it omits zero, false and empty.
fn absent(expected: &Value) -> Value {
    match expected {
        Value::Bool(_) => json!(false),
        Value::Number(_) => json!(0),
        Value::Null | Value::String(_) | Value::Array(_) | Value::Object(_) => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> BucketSettings {
        BucketSettings {
            replicas: 3,
            id: BucketId::new("b1"),
            group_uid: "u1".to_owned(),
            history: 1,
        }
    }

    fn config() -> Map<String, Value> {
        stream_config("lockstep_shop_orders", &settings())
            .as_object()
            .unwrap()
            .clone()
    }

    #[test]
    fn a_bucket_as_we_make_it_has_no_differences() {
        let mut config = config();
        assert_eq!(differences("lockstep_shop_orders", &config), []);
        // The server leaves out what is false or zero and adds entries of its own.
        config.remove("allow_rollup_hdrs");
        config.remove("max_age");
        config.insert("duplicate_window".into(), json!(120_000_000_000_u64));
        assert_eq!(differences("lockstep_shop_orders", &config), []);
    }

    #[test]
    fn a_setting_that_endangers_the_state_is_named() {
        for (field, value) in [
            ("allow_direct", json!(true)),
            ("deny_purge", json!(false)),
            ("discard", json!("old")),
            ("max_age", json!(3_600_000_000_000_u64)),
            ("subject_delete_marker_ttl", json!(60_000_000_000_u64)),
            ("storage", json!("memory")),
            ("sealed", json!(true)),
        ] {
            let mut config = config();
            config.insert(field.into(), value);
            let found = differences("lockstep_shop_orders", &config);
            assert_eq!(found.len(), 1, "{field}");
            assert_eq!(found[0].field, field);
        }
    }
}
