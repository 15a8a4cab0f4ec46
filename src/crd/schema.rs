//! A value against a schema: the same schema that the API server is given, so that a manifest means
//! the same with and without Kubernetes.
//!
//! In two things this is stricter than the API server: a field that the schema does not know is
//! refused instead of dropped, and everything that is wrong is said at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{LazyLock, Mutex, PoisonError};

use regex::bytes::{Regex, RegexBuilder};
use serde_json::{Map, Value};

use super::nearest;
use super::schema_words::{describe, shown};
use super::text::rfc3339;
use super::violation::Violation;

/// In what a value differs from its schema.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Differences {
    /// All of it.
    pub(super) violations: Vec<Violation>,
    /// Whether a field is not known: what it should have said is then missing elsewhere.
    pub(super) unknown_fields: bool,
}

/// Everything in which the value differs from its schema.
///
/// As in the API server a null is a field that is not given; nulls are taken out of the value.
pub(super) fn check(schema: &Value, value: &mut Value) -> Differences {
    let mut found = Differences::default();
    check_value(schema, value, "", &mut found);
    found
}

fn check_value(schema: &Value, value: &mut Value, path: &str, found: &mut Differences) {
    if !has_right_type(schema, value) {
        let words = format!("is {}; it has to be {}", shown(value), describe(schema));
        return found.violations.push(Violation::of_field(path, words));
    }
    match value {
        Value::Object(fields) => check_object(schema, fields, path, found),
        Value::Array(items) => check_list(schema, items, path, found),
        Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Null => {
            if !has_right_value(schema, value) {
                let words = format!("is {}; it has to be {}", shown(value), describe(schema));
                found.violations.push(Violation::of_field(path, words));
            }
        }
    }
}

fn check_object(
    schema: &Value,
    fields: &mut Map<String, Value>,
    path: &str,
    found: &mut Differences,
) {
    fields.retain(|_, value| !value.is_null());
    let known = schema["properties"].as_object();
    let others = Some(&schema["additionalProperties"]).filter(|s| s.is_object());
    for (name, value) in fields.iter_mut() {
        let field = join(path, name);
        match known.and_then(|known| known.get(name)).or(others) {
            Some(schema) => check_value(schema, value, &field, found),
            None if is_open(schema) => {}
            None => {
                found.unknown_fields = true;
                let names = known.into_iter().flat_map(Map::keys).map(String::as_str);
                found.violations.push(Violation::of_field(
                    &field,
                    nearest::unknown(path, name, names),
                ));
            }
        }
    }
    for name in schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        if !fields.contains_key(name) {
            let wanted = known.and_then(|known| known.get(name)).map(describe);
            let words = format!("is missing; it has to be {}", wanted.unwrap_or_default());
            found
                .violations
                .push(Violation::of_field(join(path, name), words));
        }
    }
    if let Some(most) = schema["maxProperties"]
        .as_u64()
        .filter(|most| fields.len() as u64 > *most)
    {
        let words = format!("has {} entries; {most} are allowed", fields.len());
        found.violations.push(Violation::of_field(path, words));
    }
}

fn check_list(schema: &Value, items: &mut [Value], path: &str, found: &mut Differences) {
    for (index, item) in items.iter_mut().enumerate() {
        check_value(&schema["items"], item, &format!("{path}[{index}]"), found);
    }
    let count = items.len() as u64;
    let too_few = schema["minItems"]
        .as_u64()
        .is_some_and(|least| count < least);
    let too_many = schema["maxItems"].as_u64().is_some_and(|most| count > most);
    if too_few || too_many {
        let words = format!("has {count} items; it has to be {}", describe(schema));
        found.violations.push(Violation::of_field(path, words));
    }
    check_repetition(schema, items, path, found);
}

/// Items of a set, and keys of a list that stands for a map, may be there once.
fn check_repetition(schema: &Value, items: &[Value], path: &str, found: &mut Differences) {
    let key = schema["x-kubernetes-list-map-keys"][0].as_str();
    if key.is_none() && schema["x-kubernetes-list-type"] != "set" {
        return;
    }
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let Some(identity) = key.map_or(Some(item), |key| item.get(key)) else {
            continue;
        };
        if !seen.insert(identity.to_string()) {
            let field = key.map_or(format!("{path}[{index}]"), |key| {
                format!("{path}[{index}].{key}")
            });
            let words = format!("is {} again; it may be listed once", shown(identity));
            found.violations.push(Violation::of_field(field, words));
        }
    }
}

fn has_right_type(schema: &Value, value: &Value) -> bool {
    if schema["x-kubernetes-int-or-string"] == true {
        return value.is_string() || value.is_i64();
    }
    match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        // The API server has no whole numbers beyond 64 bits with a sign.
        Some("integer") => value.is_i64(),
        Some("number") => value.is_number(),
        _ => true,
    }
}

fn has_right_value(schema: &Value, value: &Value) -> bool {
    let among = schema["enum"]
        .as_array()
        .is_none_or(|allowed| allowed.contains(value));
    among
        && match value {
            Value::String(text) => has_right_form(schema, text),
            Value::Number(number) => {
                let number = number.as_f64().unwrap_or(f64::NAN);
                let fits_format =
                    schema["format"] != "int32" || number.abs() <= f64::from(i32::MAX);
                fits_format
                    && schema["minimum"]
                        .as_f64()
                        .is_none_or(|least| number >= least)
                    && schema["maximum"].as_f64().is_none_or(|most| number <= most)
            }
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => true,
        }
}

fn has_right_form(schema: &Value, text: &str) -> bool {
    let length = text.chars().count() as u64;
    schema["minLength"]
        .as_u64()
        .is_none_or(|least| length >= least)
        && schema["maxLength"]
            .as_u64()
            .is_none_or(|most| length <= most)
        && (schema["format"] != "date-time" || rfc3339(text).is_some())
        && schema["pattern"]
            .as_str()
            .is_none_or(|pattern| matches(pattern, text))
}

/// Patterns are read as the API server does: `\s` and the like mean ASCII.
///
/// A pattern that cannot be read matches nothing; a test reads all that we have.
fn matches(pattern: &str, text: &str) -> bool {
    // Reading a pattern costs more than all else here, and a schema has few of them.
    static READ: LazyLock<Mutex<BTreeMap<String, Option<Regex>>>> = LazyLock::new(Mutex::default);
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    if !read.contains_key(pattern) {
        let built = RegexBuilder::new(pattern).unicode(false).build().ok();
        read.insert(pattern.to_owned(), built);
    }
    let pattern = read.get(pattern).and_then(Option::as_ref);
    pattern.is_some_and(|pattern| pattern.is_match(text.as_bytes()))
}

/// Whether the schema lets any field in: one that says nothing about fields.
fn is_open(schema: &Value) -> bool {
    schema["x-kubernetes-preserve-unknown-fields"] == true
        || (schema.get("properties").is_none() && schema.get("additionalProperties").is_none())
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}
