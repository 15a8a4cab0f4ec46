//! A table that stays in place on a terminal, and lines where there is none.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use lockstep_e2e::checker::Verdict;
use lockstep_e2e::scene::Outcome;
use serde_json::json;

use crate::table::{COLUMNS, Table};

/// How often the table is refreshed on a terminal.
const REFRESH: Duration = Duration::from_millis(500);

/// How often a line is printed where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(3);

/// How many of the things said so far stay above the table.
const SAID_SHOWN: usize = 12;

/// Standard output.
#[derive(Debug)]
pub(crate) struct Screen {
    is_terminal: bool,
    said: Vec<String>,
}

impl Screen {
    pub(crate) fn new() -> Self {
        Self {
            is_terminal: io::stdout().is_terminal(),
            said: Vec::new(),
        }
    }

    /// How often [`Self::table`] should be called.
    pub(crate) fn refresh(&self) -> Duration {
        if self.is_terminal {
            REFRESH
        } else {
            LINE_EVERY
        }
    }

    /// A sentence that stays.
    pub(crate) fn say(&mut self, text: &str) -> Outcome<()> {
        self.said.push(text.to_owned());
        if !self.is_terminal {
            writeln!(io::stdout().lock(), "{text}")?;
        }
        Ok(())
    }

    /// The group as it is now.
    pub(crate) fn table(&mut self, table: &Table) -> Outcome<()> {
        let mut out = io::stdout().lock();
        if !self.is_terminal {
            writeln!(out, "  {} | {}", table.headline, table.owners())?;
            return Ok(());
        }
        // Home, and clear to the end of the screen.
        write!(out, "\x1b[H\x1b[2J")?;
        let from = self.said.len().saturating_sub(SAID_SHOWN);
        for said in &self.said[from..] {
            writeln!(out, "{said}")?;
        }
        writeln!(out, "\n{}\n", table.headline)?;
        let row = |cells: [&str; 6]| {
            let [partition, owner, epoch, committed, lag, state] = cells;
            format!("{partition:>9}  {owner:<8} {epoch:>12} {committed:>10} {lag:>7}  {state}")
        };
        writeln!(out, "{}", row(COLUMNS))?;
        for cells in &table.rows {
            writeln!(out, "{}", row(cells.each_ref().map(String::as_str)))?;
        }
        Ok(out.flush()?)
    }
}

/// The verdict: a table for people, and as the last line one JSON object.
pub(crate) fn verdict(verdict: &Verdict, took: Duration) -> Outcome<()> {
    let mut json = serde_json::to_value(verdict)?;
    json["seconds"] = json!(took.as_secs());
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "\nWhat the applications saw, judged ({} s):\n{verdict}\n",
        took.as_secs()
    )?;
    writeln!(out, "{json}")?;
    Ok(out.flush()?)
}

/// Hints: on standard error, because standard output ends with the verdict.
pub(crate) fn hint(text: &str) {
    drop(writeln!(io::stderr().lock(), "\n{text}"));
}

/// For people only: standard output ends with the verdict.
pub(crate) fn complain(text: &str) {
    // There is nowhere left to report a closed standard error to.
    drop(writeln!(io::stderr().lock(), "demo: {text}"));
}
