//! Data goes to standard output, words to standard error.

use std::io::{self, Write};

use super::Failure;

/// Writes to standard output. A reader that has gone away (`| head`) ends the command quietly.
pub(super) fn write(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Failure::NobodyReads;
        }
        Failure::failed(format!("cannot write to standard output: {error}"))
    })
}

/// Writes one line to standard output.
pub(super) fn line(text: impl std::fmt::Display) -> Result<(), Failure> {
    write(&format!("{text}\n"))
}

/// Says something to the person who typed the command. Nothing depends on its being read.
pub(super) fn say(words: impl std::fmt::Display) {
    let mut err = io::stderr().lock();
    drop(writeln!(err, "{words}"));
}
