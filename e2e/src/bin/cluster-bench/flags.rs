//! What is measured, as typed.

use std::path::PathBuf;
use std::time::Duration;

/// How it is called.
pub(crate) const USAGE: &str = "usage: cluster-bench [LOCKSTEP] [--only rest,webhook,node] [--groups N] \
     [--rest SECONDS] [--pods N] [--keep] [-- FLAGS OF THE CONTROLLER]";

/// The program that is measured, unless another one is named.
const LOCKSTEP: &str = "target/release/lockstep";

/// A part of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// A controller with many groups that nobody uses.
    Rest,
    /// Pods through the webhook.
    Webhook,
    /// Groups and members on a node, with the images of `make images`.
    Node,
}

/// What is measured, and with what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flags {
    /// The program whose controller is measured; the node runs its image.
    pub(crate) lockstep: PathBuf,
    pub(crate) parts: Vec<Part>,
    /// Groups at rest.
    pub(crate) groups: usize,
    /// How long they are watched at rest.
    pub(crate) rest: Duration,
    /// Pods of each kind that are made in each way.
    pub(crate) pods: usize,
    /// The node's folder stays, with histories and logs.
    pub(crate) keep: bool,
    /// More flags of the controller that is measured.
    pub(crate) more: Vec<String>,
}

// === impl Flags ===

impl Flags {
    pub(crate) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut flags = Self {
            lockstep: LOCKSTEP.into(),
            parts: vec![Part::Rest, Part::Webhook, Part::Node],
            groups: 1000,
            rest: Duration::from_secs(150),
            pods: 200,
            keep: false,
            more: Vec::new(),
        };
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            if argument == "--" {
                flags.more = arguments.collect();
                break;
            }
            let mut value = || {
                let missing = || format!("{argument} needs a value; {USAGE}");
                arguments.next().ok_or_else(missing)
            };
            match argument.as_str() {
                "--only" => flags.parts = parts(&value()?)?,
                "--groups" => flags.groups = number(&value()?)?,
                "--rest" => {
                    let seconds = number(&value()?)?;
                    flags.rest = Duration::from_secs(seconds as u64);
                }
                "--pods" => flags.pods = number(&value()?)?,
                "--keep" => flags.keep = true,
                unknown if unknown.starts_with('-') => {
                    return Err(format!("{unknown} is unknown; {USAGE}"));
                }
                path => flags.lockstep = path.into(),
            }
        }
        Ok(flags)
    }
}

fn parts(given: &str) -> Result<Vec<Part>, String> {
    let part = |name: &str| match name {
        "rest" => Ok(Part::Rest),
        "webhook" => Ok(Part::Webhook),
        "node" => Ok(Part::Node),
        unknown => Err(format!("there is no part {unknown}; {USAGE}")),
    };
    given.split(',').map(part).collect()
}

fn number(given: &str) -> Result<usize, String> {
    let parsed = given.parse().ok().filter(|number| *number > 0);
    parsed.ok_or_else(|| format!("{given} is no number above 0; {USAGE}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Flags, String> {
        Flags::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn everything_is_measured_unless_it_is_said_otherwise() {
        let flags = parse("").unwrap();
        assert_eq!(flags.parts, [Part::Rest, Part::Webhook, Part::Node]);
        assert_eq!(flags.lockstep, PathBuf::from(LOCKSTEP));
        let flags = parse("bin/l --only node,rest --groups 10 --rest 5 --pods 7 --keep").unwrap();
        assert_eq!(flags.parts, [Part::Node, Part::Rest]);
        assert_eq!((flags.groups, flags.pods, flags.keep), (10, 7, true));
        assert_eq!(flags.rest, Duration::from_secs(5));
        assert_eq!(flags.lockstep, PathBuf::from("bin/l"));
        assert_eq!(
            parse("-- --id x --only").unwrap().more,
            ["--id", "x", "--only"]
        );
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for line in ["--only all", "--groups", "--groups 0", "--rest x", "--what"] {
            assert!(parse(line).unwrap_err().contains("usage: "), "{line}");
        }
    }
}
