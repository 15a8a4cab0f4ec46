//! What programs for people print.

use std::io::Write;

/// Prints a line. Whoever reads this may have gone; what is being done goes on.
pub fn say(line: &str) {
    drop(writeln!(std::io::stdout().lock(), "{line}"));
}
