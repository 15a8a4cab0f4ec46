//! The envelope that all documents share: a JSON object with a `format` number.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Why bytes are not a document that can be acted on. Damage, never absence.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Not JSON, or not an object, or a field is missing or of another type.
    #[error("the {kind} document is damaged: {problem}")]
    Damaged {
        /// Which document.
        kind: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// A newer version wrote it.
    #[error(
        "the {kind} document has format {found}, this version reads up to {known}; upgrade this \
         process"
    )]
    UnknownFormat {
        /// Which document.
        kind: &'static str,
        /// Its format.
        found: u64,
        /// The highest that is read here.
        known: u32,
    },
}

/// Why a document cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("the {kind} document cannot be written: {problem}")]
pub struct EncodeError {
    /// Which document.
    pub kind: &'static str,
    /// What is wrong with it.
    pub problem: String,
}

pub(super) fn encode<T: Serialize>(
    kind: &'static str,
    format: u32,
    document: &T,
) -> Result<Vec<u8>, EncodeError> {
    let problem = |problem: String| EncodeError { kind, problem };
    let Value::Object(fields) =
        serde_json::to_value(document).map_err(|e| problem(e.to_string()))?
    else {
        return Err(problem("it is not an object".to_owned()));
    };
    let mut object = Map::with_capacity(fields.len() + 1);
    object.insert("format".to_owned(), format.into());
    object.extend(fields);
    serde_json::to_vec(&object).map_err(|e| problem(e.to_string()))
}

pub(super) fn decode<T: DeserializeOwned>(
    kind: &'static str,
    known: u32,
    bytes: &[u8],
) -> Result<T, DecodeError> {
    let damaged = |problem: String| DecodeError::Damaged { kind, problem };
    let mut object: Map<String, Value> =
        serde_json::from_slice(bytes).map_err(|e| damaged(e.to_string()))?;
    let format = object
        .remove("format")
        .and_then(|format| format.as_u64())
        .ok_or_else(|| damaged("it has no format number".to_owned()))?;
    if format == 0 || format > u64::from(known) {
        return Err(DecodeError::UnknownFormat {
            kind,
            found: format,
            known,
        });
    }
    serde_json::from_value(Value::Object(object)).map_err(|e| damaged(e.to_string()))
}

macro_rules! document_codec {
    ($kind:literal, $type:ty, $format:expr) => {
        /// The document as bytes.
        pub fn encode(document: &$type) -> Result<Vec<u8>, super::EncodeError> {
            super::document::encode($kind, $format, document)
        }

        /// The document that these bytes are.
        pub fn decode(bytes: &[u8]) -> Result<$type, super::DecodeError> {
            super::document::decode($kind, $format, bytes)
        }
    };
}
