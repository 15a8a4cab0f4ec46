//! A schema in words: what a field has to be.

use serde_json::Value;

use super::text;

/// The longest piece of a manifest that an error repeats.
const LONGEST_SHOWN: usize = 60;

/// A value as it is repeated in an error.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Object(_) => "a map".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Null => "null".to_owned(),
        Value::String(_) | Value::Number(_) | Value::Bool(_) => {
            let text = value.to_string();
            if text.chars().count() <= LONGEST_SHOWN {
                text
            } else {
                text.chars()
                    .take(LONGEST_SHOWN)
                    .chain("...".chars())
                    .collect()
            }
        }
    }
}

/// What the schema asks for, to follow "it has to be".
pub(super) fn describe(schema: &Value) -> String {
    if let Some(allowed) = schema["enum"].as_array() {
        let words: Vec<_> = allowed.iter().filter_map(Value::as_str).collect();
        return format!("one of {}", words.join(", "));
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return "a whole number or an amount such as 20m or 128Mi".to_owned();
    }
    match schema["type"].as_str() {
        Some("boolean") => "true or false".to_owned(),
        Some("integer") => format!("a whole number{}", range(schema)),
        Some("number") => format!("a number{}", range(schema)),
        Some("string") => text_of(schema),
        Some("array") => list_of(schema),
        Some("object") => map_of(schema),
        _ => "something else".to_owned(),
    }
}

fn range(schema: &Value) -> String {
    let bound = |name: &str| {
        let number = schema[name].as_f64()?;
        // All bounds in a schema are whole.
        Some(format!("{number:.0}"))
    };
    match (bound("minimum"), bound("maximum")) {
        (Some(least), Some(most)) => format!(" from {least} to {most}"),
        (Some(least), None) => format!(" of at least {least}"),
        (None, Some(most)) => format!(" of at most {most}"),
        (None, None) => String::new(),
    }
}

fn text_of(schema: &Value) -> String {
    let most = schema["maxLength"].as_u64();
    let at_most = most
        .map(|most| format!(" of at most {most} characters"))
        .unwrap_or_default();
    if schema["format"] == "date-time" {
        return "a time such as 2026-01-31T12:00:00Z".to_owned();
    }
    match schema["pattern"].as_str() {
        None => format!("a text{at_most}"),
        Some(pattern) => match text::in_words(pattern) {
            Some(words) => format!("{words}{at_most}"),
            None => format!("a text{at_most} that matches {pattern}"),
        },
    }
}

fn list_of(schema: &Value) -> String {
    match (schema["minItems"].as_u64(), schema["maxItems"].as_u64()) {
        (Some(least), Some(most)) => format!("a list of {least} to {most} items"),
        (Some(least), None) => format!("a list of at least {least} items"),
        (None, Some(most)) => format!("a list of at most {most} items"),
        (None, None) => "a list".to_owned(),
    }
}

fn map_of(schema: &Value) -> String {
    let names: Vec<_> = schema["properties"]
        .as_object()
        .into_iter()
        .flat_map(serde_json::Map::keys)
        .map(String::as_str)
        .collect();
    if names.is_empty() {
        "a map".to_owned()
    } else {
        format!("a map of {}", names.join(", "))
    }
}
