//! What happened, one line each.

use std::fmt;

use crate::time::At;

/// The event log of one seed.
#[derive(Clone, Debug, Default)]
pub struct Log {
    lines: Option<Vec<String>>,
}

// === impl Log ===

impl Log {
    /// A log that keeps every line, or, since a seed can be run again, none.
    pub fn new(keep: bool) -> Self {
        Self {
            lines: keep.then(Vec::new),
        }
    }

    /// Writes a line, which is made only if somebody reads it.
    pub fn say<T: fmt::Display>(&mut self, now: At, line: impl FnOnce() -> T) {
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{now}  {}", line()));
        }
    }

    /// Every line.
    pub fn into_lines(self) -> Vec<String> {
        self.lines.unwrap_or_default()
    }
}
