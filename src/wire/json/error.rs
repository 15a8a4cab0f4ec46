//! Why a body was refused: always with the field that is to blame.

use std::fmt;

use serde::de::DeserializeOwned;

/// What the field is called when the body as a whole is to blame.
const BODY: &str = "body";

/// A refusal quotes the body, and a body may be large: no more bytes than this of a field's name,
const LONGEST_FIELD: usize = 128;

/// and of the sentence.
const LONGEST_SENTENCE: usize = 512;

/// Why a body was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonError {
    /// The field, as a path: `positions[2].epoch`; `body` if it is not JSON at all.
    pub field: String,
    /// What is wrong with it, and what to change.
    pub sentence: String,
}

/// Reads a body; an empty one is an empty object.
pub(super) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, JsonError> {
    let body = if body.trim_ascii().is_empty() {
        b"{}"
    } else {
        body
    };
    let mut reader = serde_json::Deserializer::from_slice(body);
    let read = serde_path_to_error::deserialize(&mut reader)
        .map_err(|error| JsonError::at(&error.path().to_string(), error.inner()))?;
    reader.end().map_err(|error| JsonError::at(".", &error))?;
    Ok(read)
}

// === impl JsonError ===

impl JsonError {
    /// This field is to blame.
    pub fn new(field: impl Into<String>, sentence: impl Into<String>) -> Self {
        Self {
            field: shortened(field.into(), LONGEST_FIELD),
            sentence: shortened(sentence.into(), LONGEST_SENTENCE),
        }
    }

    fn at(path: &str, error: &serde_json::Error) -> Self {
        // "." is the body as a whole, "?" a place that the reader cannot name.
        let path = path.trim_end_matches('?').trim_end_matches('.');
        if error.is_syntax() || error.is_eof() {
            let field = if path.is_empty() { BODY } else { path };
            return Self::new(field, format!("is not JSON: {error}"));
        }
        let text = without_place(&error.to_string());
        if let Some(name) = quoted_after(&text, "missing field `") {
            return Self::new(below(path, name), "is required and is missing");
        }
        if let Some(name) = quoted_after(&text, "duplicate field `") {
            return Self::new(below(path, name), "is given twice; give it once");
        }
        if let Some(name) = quoted_after(&text, "unknown field `") {
            // The path ends with the unknown field if the reader had come that far.
            let parent = path.strip_suffix(name).unwrap_or(path);
            let known = text.split_once("`, ").map_or("", |(_, known)| known);
            let sentence = format!("is not a field of this request; {known}").replace('`', "");
            return Self::new(below(parent.trim_end_matches('.'), name), sentence);
        }
        let field = if path.is_empty() { BODY } else { path };
        Self::new(field, format!("is not valid: {text}"))
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.field, self.sentence)
    }
}

impl std::error::Error for JsonError {}

fn shortened(mut text: String, longest: usize) -> String {
    if text.len() > longest {
        let end = (0..=longest).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or_default());
        text.push_str("...");
    }
    text
}

fn below(parent: &str, name: &str) -> String {
    if parent.is_empty() {
        name.to_owned()
    } else {
        format!("{parent}.{name}")
    }
}

fn quoted_after<'a>(text: &'a str, start: &str) -> Option<&'a str> {
    text.strip_prefix(start)?.split('`').next()
}

/// The message without its " at line 1 column 7": the field says where.
fn without_place(text: &str) -> String {
    text.rsplit_once(" at line ")
        .map_or(text, |(message, _)| message)
        .to_owned()
}
