//! How a command ends: 0 done, 1 failed, 2 used wrongly.

use std::fmt;
use std::process::ExitCode;

/// Why a command did not do what it was asked to: one line, saying what, why and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// What was typed, or a file that was named, cannot be meant: exit code 2, nothing was changed.
    Usage(String),
    /// It was understood and could not be done: exit code 1.
    Failed(String),
    /// Whoever read our output does not want more of it. Not an error: exit code 0.
    NobodyReads,
}

// === impl Failure ===

impl Failure {
    /// What was typed cannot be meant.
    pub fn usage(why: impl fmt::Display) -> Self {
        Self::Usage(why.to_string())
    }

    /// It could not be done.
    pub fn failed(why: impl fmt::Display) -> Self {
        Self::Failed(why.to_string())
    }

    /// It could not be done, for the reasons that this error and its sources give.
    pub fn of(error: &dyn std::error::Error) -> Self {
        let mut sentence = error.to_string();
        let mut source = error.source();
        while let Some(deeper) = source {
            let text = deeper.to_string();
            // Some libraries repeat their source in their own text.
            if !sentence.contains(&text) {
                sentence = format!("{sentence}: {text}");
            }
            source = deeper.source();
        }
        Self::Failed(sentence)
    }

    /// The same failure, with what was being done in front.
    #[must_use]
    pub fn while_doing(self, what: impl fmt::Display) -> Self {
        match self {
            Self::Usage(why) => Self::Usage(format!("{what}: {why}")),
            Self::Failed(why) => Self::Failed(format!("{what}: {why}")),
            Self::NobodyReads => Self::NobodyReads,
        }
    }

    /// The process's exit code.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Failed(_) => ExitCode::FAILURE,
            Self::NobodyReads => ExitCode::SUCCESS,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // One line, whatever a server put into it.
            Self::Failed(why) => f.write_str(&one_line(why)),
            // A manifest can have several problems: each is a line, and complete.
            Self::Usage(why) => {
                let lines: Vec<String> = why.lines().map(one_line).collect();
                f.write_str(&lines.join("\nlockstep: "))
            }
            Self::NobodyReads => f.write_str("nobody reads the output"),
        }
    }
}

impl std::error::Error for Failure {}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot open the door")]
    struct Door(#[source] Key);

    #[derive(Debug, thiserror::Error)]
    #[error("the key\n  does not fit")]
    struct Key;

    #[test]
    fn a_failure_is_one_line_with_its_causes() {
        let failure = Failure::of(&Door(Key)).while_doing("going in");
        assert_eq!(
            failure.to_string(),
            "going in: cannot open the door: the key does not fit"
        );
    }

    #[test]
    fn each_problem_of_a_manifest_is_a_line() {
        let failure = Failure::usage("a.yaml: spec.x is 0\na.yaml:  spec.y is 0");
        let printed = format!("lockstep: {failure}");
        assert_eq!(
            printed,
            "lockstep: a.yaml: spec.x is 0\nlockstep: a.yaml: spec.y is 0"
        );
    }
}
