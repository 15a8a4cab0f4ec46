//! What was asked for on the command line.

use lockstep_e2e::chaos::{Fault, Servers};

use crate::plan::Scene;

/// How to call it.
pub(crate) const USAGE: &str = "chaos [--minutes N] [--seed N] [--keep]\n\
    chaos --faults NAME[,NAME] [--servers 1|3] [--window N] [--keep]";

/// The command line.
#[derive(Debug)]
pub(crate) struct Flags {
    /// For how long scenes are begun.
    pub(crate) minutes: u64,
    /// What determines their order.
    pub(crate) seed: u64,
    /// Whether folders stay.
    pub(crate) keep: bool,
    faults: Vec<Fault>,
    servers: Servers,
    window: u32,
}

impl Flags {
    pub(crate) fn parse(mut given: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut flags = Self {
            minutes: 10,
            seed: u64::from(std::process::id()),
            keep: false,
            faults: Vec::new(),
            servers: Servers::One,
            window: 1,
        };
        while let Some(name) = given.next() {
            if name == "--keep" {
                flags.keep = true;
                continue;
            }
            let value = given
                .next()
                .ok_or_else(|| format!("{name} wants a value"))?;
            flags.take(&name, &value)?;
        }
        Ok(flags)
    }

    fn take(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "--minutes" => self.minutes = number(value)?,
            "--seed" => self.seed = number(value)?,
            "--window" => self.window = u32::try_from(number(value)?).map_err(|e| e.to_string())?,
            "--servers" => {
                self.servers = match value {
                    "1" => Servers::One,
                    "3" => Servers::Three,
                    _ => return Err(format!("--servers {value}: 1 or 3")),
                }
            }
            "--faults" => {
                let names = value.split(',').map(str::parse);
                self.faults = names.collect::<Result<_, String>>()?;
            }
            _ => return Err(format!("there is no flag {name}")),
        }
        Ok(())
    }

    /// The scene that was asked for, if one was.
    pub(crate) fn scene(&self) -> Option<Scene> {
        (!self.faults.is_empty()).then(|| Scene::of(&self.faults, self.servers, self.window))
    }
}

fn number(value: &str) -> Result<u64, String> {
    value.parse().map_err(|_| format!("{value} is no number"))
}
