//! The guards of the protocol, each of which can be switched off, one at a time, by giving the cores
//! false evidence. The cores themselves are never changed.

use std::fmt;

use clap::ValueEnum;

use crate::checker::Rule;

/// Something that keeps the protocol safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
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

/// As it is called on command lines.
impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.to_possible_value();
        f.write_str(name.as_ref().map_or("", |name| name.get_name()))
    }
}
