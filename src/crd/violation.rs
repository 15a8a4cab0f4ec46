//! What is wrong with a manifest: one sentence each, all of them at once.

use std::fmt;

use super::rules::Rule;

/// One thing that is wrong with an object, for its author.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// Which field, such as `spec.partitioning.partitions`; empty for the object as a whole.
    pub path: String,
    /// What is wrong and what would be right; it names the field.
    pub sentence: String,
}

// === impl Violation ===

impl Violation {
    /// A broken rule: the sentence is the one that the API server would say.
    pub fn of_rule(path: &str, rule: &Rule) -> Self {
        Self {
            path: path.to_owned(),
            sentence: format!("{path}: {}", rule.message),
        }
    }

    /// A field and what is to be said of it: "is 0; it has to be ...".
    pub fn of_field(path: impl Into<String>, words: impl fmt::Display) -> Self {
        let path = path.into();
        let sentence = format!("{path} {words}");
        Self { path, sentence }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}
