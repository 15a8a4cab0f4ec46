//! Which faults strike together, on which stage, in which order.

use std::fmt;

use lockstep_e2e::chaos::{Dice, Fault, Servers, Setting};

/// Most faults of a scene.
const MOST: usize = 4;

/// A stage and what happens on it.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) setting: Setting,
    pub(crate) faults: Vec<Fault>,
}

/// All faults that this machine can play, dealt one after the other: each comes once before any
/// comes twice.
#[derive(Debug)]
pub(crate) struct Deck {
    dice: Dice,
    left: Vec<Fault>,
    played: usize,
}

// === impl Scene ===

impl Scene {
    /// A stage with what all of these need.
    pub(crate) fn of(faults: &[Fault], servers: Servers, window: u32) -> Self {
        let mut setting = Setting::new(servers, window);
        for fault in faults {
            let needs = fault.setting(servers, window);
            setting.servers = setting.servers.max(needs.servers);
            setting.small_disks |= needs.small_disks;
            setting.foreign_stream |= needs.foreign_stream;
            setting.partitions = setting.partitions.max(needs.partitions);
        }
        let faults = faults.to_vec();
        Self { setting, faults }
    }

    fn names(&self) -> String {
        let names: Vec<String> = self.faults.iter().map(Fault::to_string).collect();
        names.join(",")
    }

    /// The command that plays just this.
    pub(crate) fn command(&self) -> String {
        format!(
            "target/debug/chaos --servers {} --window {} --faults {} --keep",
            self.setting.servers.count(),
            self.setting.window,
            self.names()
        )
    }
}

impl fmt::Display for Scene {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.setting, self.names())
    }
}

// === impl Deck ===

impl Deck {
    pub(crate) fn new(dice: Dice) -> Self {
        Self {
            dice,
            left: Vec::new(),
            played: 0,
        }
    }

    /// What this machine cannot play, and why.
    pub(crate) fn left_out() -> Vec<(Fault, String)> {
        let judge = |fault: Fault| {
            let setting = fault.setting(Servers::Three, 1);
            Some((fault, fault.fits(&setting).err()?))
        };
        Fault::ALL.into_iter().filter_map(judge).collect()
    }

    /// How many faults were dealt.
    pub(crate) fn played(&self) -> usize {
        self.played
    }

    /// The next scene.
    pub(crate) fn deal(&mut self) -> Scene {
        if self.left.is_empty() {
            let out: Vec<Fault> = Self::left_out()
                .into_iter()
                .map(|(fault, _)| fault)
                .collect();
            let mut all = Fault::ALL.to_vec();
            all.retain(|fault| !out.contains(fault));
            self.left = self.dice.shuffled(all);
        }
        let servers = [Servers::One, Servers::Three];
        let servers = self.dice.pick(&servers).copied().unwrap_or(Servers::One);
        let window = self.dice.pick(&[1, 16]).copied().unwrap_or(1);
        let size = 1 + self.dice.below(MOST);
        let faults = self.take(size, servers, window);
        self.played += faults.len();
        Scene::of(&faults, servers, window)
    }

    /// The next fault, and those after it that can strike on the same stage before it ends.
    fn take(&mut self, size: usize, servers: Servers, window: u32) -> Vec<Fault> {
        let Some(first) = self.left.pop() else {
            return Vec::new();
        };
        let setting = first.setting(servers, window);
        let mut faults = vec![first];
        for fault in std::mem::take(&mut self.left) {
            let fits = faults.len() < size && !fault.is_last() && fault.fits(&setting).is_ok();
            if fits { &mut faults } else { &mut self.left }.push(fault);
        }
        faults.sort_by_key(|fault| fault.is_last());
        faults
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_fault_is_dealt_once_before_any_comes_again() {
        let mut deck = Deck::new(Dice::new(3));
        let possible = Fault::ALL.len() - Deck::left_out().len();
        let mut dealt = Vec::new();
        while dealt.len() < possible {
            let scene = deck.deal();
            assert!(
                scene
                    .faults
                    .iter()
                    .all(|fault| fault.fits(&scene.setting).is_ok())
            );
            let but_the_last = &scene.faults[..scene.faults.len() - 1];
            assert!(!but_the_last.iter().any(|fault| fault.is_last()), "{scene}");
            dealt.extend(scene.faults);
        }
        assert_eq!(dealt.len(), possible);
        assert_eq!(dealt.into_iter().collect::<BTreeSet<_>>().len(), possible);
    }
}
