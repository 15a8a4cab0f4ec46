//! The guards of the protocol, each of which can be switched off, one at a time, by giving the cores
//! false evidence. The cores themselves are never changed.

use std::fmt;
use std::str::FromStr;

use crate::checker::Rule;

/// Something that keeps the protocol safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Guard {
    /// Compare-and-set. Off: the bucket ignores the expected revision.
    Cas,
    /// The lease. Off: members believe in a session timeout of a year.
    Lease,
    /// The echo. Off: an acknowledged put is taken for one that came back.
    Echo,
    /// Evidence of release. Off: the coordinator takes each revocation for released.
    Release,
    /// The check of a position's validity. Off: every position is valid.
    Validity,
    /// The epoch of an acknowledgement. Off: it counts in whatever epoch is held.
    AckEpoch,
    /// Healthy time. Off: the coordinator's timers count all time.
    HealthyTime,
    /// Seeding. Off: positions are resolved when a partition is first claimed.
    Seeding,
}

// === impl Guard ===

impl Guard {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Cas,
        Self::Lease,
        Self::Echo,
        Self::Release,
        Self::Validity,
        Self::AckEpoch,
        Self::HealthyTime,
        Self::Seeding,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cas => "cas",
            Self::Lease => "lease",
            Self::Echo => "echo",
            Self::Release => "release",
            Self::Validity => "validity",
            Self::AckEpoch => "ack-epoch",
            Self::HealthyTime => "healthy-time",
            Self::Seeding => "seeding",
        }
    }

    /// What breaks without it.
    pub fn protects(self) -> &'static [Rule] {
        match self {
            Self::Cas => &[Rule::Exclusive, Rule::EpochsRise, Rule::NeverBack],
            Self::Lease | Self::Echo => &[Rule::HandedWhileFenced],
            Self::Release => &[Rule::HandedWhileFenced, Rule::CleanHandOver],
            Self::Validity => &[
                Rule::AtLeastOnce,
                Rule::NoGap,
                Rule::Detected,
                Rule::Complete,
            ],
            Self::AckEpoch => &[Rule::AtLeastOnce],
            Self::HealthyTime => &[Rule::NeedlessEviction],
            Self::Seeding => &[Rule::AtLeastOnce, Rule::NoGap, Rule::Complete],
        }
    }
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Guard {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|guard| guard.name() == name);
        found.ok_or_else(|| {
            let all: Vec<&str> = Self::ALL.iter().map(|guard| guard.name()).collect();
            format!("there is no guard {name:?}; there are {}", all.join(", "))
        })
    }
}
