//! Fields of a document that this version does not know, kept as they came.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Fields that a newer version wrote: kept, and written back with the document.
pub type Unknown = BTreeMap<String, Json>;

/// A JSON value, understood no further.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// a number without sign or fraction
    Unsigned(u64),
    /// a negative number without fraction
    Signed(i64),
    /// any other number
    Float(f64),
    /// text
    Text(String),
    /// a list
    List(Vec<Json>),
    /// an object
    Map(BTreeMap<String, Json>),
}
