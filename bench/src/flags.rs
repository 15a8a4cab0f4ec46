//! What is measured, as typed.

/// How it is called.
pub(crate) const USAGE: &str = "usage: lockstep-bench [--quick] \
     [--only throughput,strict,latency,moves,rest,crowd,assignors,pulls,smoke]";

/// A part of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// A backlog is read with a wide window.
    Throughput,
    /// The same with one message at a time.
    Strict,
    /// Latency at a low rate.
    Latency,
    /// Members that come and go.
    Moves,
    /// A worker that has nothing to do.
    Rest,
    /// A coordinator with many members.
    Crowd,
    /// The assignors.
    Assignors,
    /// Sizes of pulls.
    Pulls,
    /// A tiny round of the first, for a test.
    Smoke,
}

/// What is measured, and how thoroughly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flags {
    pub(crate) quick: bool,
    pub(crate) parts: Vec<Part>,
}

const PARTS: [(&str, Part); 9] = [
    ("throughput", Part::Throughput),
    ("strict", Part::Strict),
    ("latency", Part::Latency),
    ("moves", Part::Moves),
    ("rest", Part::Rest),
    ("crowd", Part::Crowd),
    ("assignors", Part::Assignors),
    ("pulls", Part::Pulls),
    ("smoke", Part::Smoke),
];

/// What is measured if nothing is said.
const USUAL: usize = 7;

// === impl Flags ===

impl Flags {
    pub(crate) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let usual = PARTS.iter().take(USUAL).map(|(_, part)| *part);
        let mut flags = Self {
            quick: false,
            parts: usual.collect(),
        };
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--quick" => flags.quick = true,
                "--only" => {
                    let names = arguments.next().ok_or(USAGE)?;
                    flags.parts = names.split(',').map(part).collect::<Result<_, _>>()?;
                }
                _ => return Err(format!("{argument} is not known; {USAGE}")),
            }
        }
        Ok(flags)
    }
}

fn part(name: &str) -> Result<Part, String> {
    let found = PARTS.iter().find(|(known, _)| *known == name);
    found
        .map(|(_, part)| *part)
        .ok_or_else(|| format!("{name} is no part; {USAGE}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Flags, String> {
        Flags::parse(words.iter().map(|word| (*word).to_owned()))
    }

    #[test]
    fn parts_are_named_and_the_usual_ones_are_all_but_pulls_and_smoke() {
        assert_eq!(parse(&[]).unwrap().parts.len(), USUAL);
        let flags = parse(&["--quick", "--only", "strict,pulls"]).unwrap();
        assert_eq!(flags.parts, [Part::Strict, Part::Pulls]);
        assert!(flags.quick);
        assert!(parse(&["--only", "speed"]).unwrap_err().contains("speed"));
        assert!(parse(&["--fast"]).is_err());
    }
}
