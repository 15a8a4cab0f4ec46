//! One logical reader of the application.

use std::fmt;
use std::sync::Arc;

/// A session's name: what was fetched and not acknowledged belongs to the session that has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(Arc<str>);

// === impl SessionId ===

impl SessionId {
    /// A session by its name.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The shared session of an application that names none.
impl Default for SessionId {
    fn default() -> Self {
        Self::new("default")
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
