//! The catalogue.

use std::fmt;
use std::str::FromStr;

use super::stage::{Servers, Setting, Stage};
use super::{cap, clients, coordinators, disk, garbage, loss, servers, storm, streams};
use crate::scene::Outcome;

/// Partitions of a stage for a hundred members.
const MANY: u32 = 100;

/// Something that can happen to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The server that leads the data stream is killed.
    StreamLeaderKilled,
    /// It is parted from the other servers, with a member on its side.
    StreamLeaderIsolated,
    /// The server that leads the group's bucket is killed.
    BucketLeaderKilled,
    /// The server that leads JetStream itself is killed.
    MetaLeaderKilled,
    /// It is parted from the other servers, with a member on its side.
    MetaLeaderIsolated,
    /// A server that leads neither is killed.
    FollowerKilled,
    /// It is parted from the other servers, with a member on its side.
    FollowerIsolated,
    /// Every server in turn is stopped and started again.
    RollingRestart,
    /// All servers are killed at once, and are away for longer than a session.
    AllServersKilled,
    /// All servers stand still for longer than a lease.
    AllServersFrozen,
    /// A member is parted from all servers, both ways.
    MemberCutOff,
    /// What servers say to a member is held back.
    MemberDeaf,
    /// What a member says is held back, and arrives when others own its partitions.
    MemberMute,
    /// A member loses bytes of what it is told.
    BytesLost,
    /// An application acknowledges what it was handed when others own its partitions.
    LateAcknowledgements,
    /// Members come and go every few seconds: 1 more to 8 more, and back.
    Churn,
    /// The coordinator stands still beyond its lease, and wakes when another one leads.
    CoordinatorPaused,
    /// The wall clock of workers and coordinators jumps, far ahead and far back.
    ClockJumps,
    /// Every connection of 100 members is closed at once.
    ReconnectStorm,
    /// Every consumer of the stream and of the bucket is deleted by hand.
    ConsumersDeleted,
    /// Others take every consumer that the server allows on the stream.
    ConsumerCap,
    /// The disk below a server is full, and is freed.
    DiskFull,
    /// The stream is purged while members lag.
    StreamPurged,
    /// The stream is deleted and made anew by hand.
    StreamRecreated,
    /// The stream is deleted and restored from an older snapshot.
    StreamRestored,
    /// The group's bucket is deleted by hand.
    BucketDeleted,
    /// The group's bucket is deleted, and an empty one made in its place, by hand.
    BucketRecreated,
    /// Every key of the bucket is overwritten with what cannot be read, and then put right.
    Garbage,
}

/// What a fault needs of the stage on which it strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// What every stage has.
    Nothing,
    /// Three servers.
    ThreeServers,
    /// Servers on small disks, for which this machine has to let us mount.
    SmallDisks,
    /// A stream without a limit of consumers of its own.
    ForeignStream,
    /// A partition for each of 100 members.
    ManyPartitions,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 28] = [
        Self::StreamLeaderKilled,
        Self::StreamLeaderIsolated,
        Self::BucketLeaderKilled,
        Self::MetaLeaderKilled,
        Self::MetaLeaderIsolated,
        Self::FollowerKilled,
        Self::FollowerIsolated,
        Self::RollingRestart,
        Self::AllServersKilled,
        Self::AllServersFrozen,
        Self::MemberCutOff,
        Self::MemberDeaf,
        Self::MemberMute,
        Self::BytesLost,
        Self::LateAcknowledgements,
        Self::Churn,
        Self::CoordinatorPaused,
        Self::ClockJumps,
        Self::ReconnectStorm,
        Self::ConsumersDeleted,
        Self::ConsumerCap,
        Self::DiskFull,
        Self::StreamPurged,
        Self::StreamRecreated,
        Self::StreamRestored,
        Self::BucketDeleted,
        Self::BucketRecreated,
        Self::Garbage,
    ];

    /// What it needs.
    pub fn needs(self) -> Needs {
        match self {
            Self::MetaLeaderKilled
            | Self::MetaLeaderIsolated
            | Self::FollowerKilled
            | Self::FollowerIsolated
            | Self::BucketLeaderKilled
            | Self::StreamLeaderIsolated
            | Self::RollingRestart => Needs::ThreeServers,
            Self::DiskFull => Needs::SmallDisks,
            Self::ConsumerCap => Needs::ForeignStream,
            Self::ReconnectStorm => Needs::ManyPartitions,
            Self::StreamLeaderKilled
            | Self::AllServersKilled
            | Self::AllServersFrozen
            | Self::MemberCutOff
            | Self::MemberDeaf
            | Self::MemberMute
            | Self::BytesLost
            | Self::LateAcknowledgements
            | Self::Churn
            | Self::CoordinatorPaused
            | Self::ClockJumps
            | Self::ConsumersDeleted
            | Self::StreamPurged
            | Self::StreamRecreated
            | Self::StreamRestored
            | Self::BucketDeleted
            | Self::BucketRecreated
            | Self::Garbage => Needs::Nothing,
        }
    }

    /// Whether it changes what sequences or revisions mean, so that nothing can follow it on the
    /// same stage.
    pub fn is_last(self) -> bool {
        matches!(
            self,
            Self::StreamRecreated
                | Self::StreamRestored
                | Self::BucketDeleted
                | Self::BucketRecreated
                | Self::Garbage
        )
    }

    /// Why it cannot strike on this stage, or on this machine.
    pub fn fits(self, setting: &Setting) -> Result<(), String> {
        let (there, what) = match self.needs() {
            Needs::Nothing => return Ok(()),
            Needs::ThreeServers => (setting.servers == Servers::Three, "three servers"),
            Needs::SmallDisks => {
                disk::possible()?;
                (setting.small_disks, "small disks")
            }
            Needs::ForeignStream => (setting.foreign_stream, "a stream of somebody else's"),
            Needs::ManyPartitions => (setting.partitions >= MANY, "a partition for each of 100"),
        };
        if there {
            Ok(())
        } else {
            Err(format!("it needs {what}"))
        }
    }

    /// A setting that has what the fault needs.
    pub fn setting(self, servers: Servers, window: u32) -> Setting {
        let usual = Setting::new(servers, window);
        match self.needs() {
            Needs::Nothing => usual,
            Needs::ThreeServers => Setting::new(Servers::Three, window),
            Needs::SmallDisks => Setting {
                small_disks: true,
                ..usual
            },
            Needs::ForeignStream => Setting {
                foreign_stream: true,
                ..usual
            },
            Needs::ManyPartitions => Setting {
                partitions: MANY,
                ..usual
            },
        }
    }

    /// Does it, mends it, and waits until the group is itself again. What the judge has to know
    /// is written into the stage's expectations.
    pub async fn strike(self, stage: &mut Stage) -> Outcome<()> {
        self.fits(&stage.setting).map_err(|why| stage.failed(why))?;
        stage.scene.note(&self.to_string())?;
        match self {
            Self::StreamLeaderKilled => servers::stream_leader_killed(stage).await,
            Self::StreamLeaderIsolated => servers::stream_leader_isolated(stage).await,
            Self::BucketLeaderKilled => servers::bucket_leader_killed(stage).await,
            Self::MetaLeaderKilled => servers::meta_leader_killed(stage).await,
            Self::MetaLeaderIsolated => servers::meta_leader_isolated(stage).await,
            Self::FollowerKilled => servers::follower_killed(stage).await,
            Self::FollowerIsolated => servers::follower_isolated(stage).await,
            Self::RollingRestart => servers::rolling_restart(stage).await,
            Self::AllServersKilled => servers::all_killed(stage).await,
            Self::AllServersFrozen => servers::all_frozen(stage).await,
            Self::MemberCutOff => clients::cut_off(stage).await,
            Self::MemberDeaf => clients::deaf(stage).await,
            Self::MemberMute => clients::mute(stage).await,
            Self::BytesLost => clients::bytes_lost(stage).await,
            Self::LateAcknowledgements => clients::late_acknowledgements(stage).await,
            Self::Churn => clients::churn(stage).await,
            Self::CoordinatorPaused => coordinators::paused(stage).await,
            Self::ClockJumps => coordinators::clock_jumps(stage).await,
            Self::ReconnectStorm => storm::reconnect(stage).await,
            Self::ConsumersDeleted => streams::consumers_deleted(stage).await,
            Self::ConsumerCap => cap::consumers(stage).await,
            Self::DiskFull => servers::disk_full(stage).await,
            Self::StreamPurged => streams::purged(stage).await,
            Self::StreamRecreated => streams::recreated(stage).await,
            Self::StreamRestored => streams::restored(stage).await,
            Self::BucketDeleted => loss::deleted(stage).await,
            Self::BucketRecreated => loss::recreated(stage).await,
            Self::Garbage => garbage::everywhere(stage).await,
        }
    }
}

/// As it is called on command lines: `stream-leader-killed`.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut name = String::new();
        for letter in format!("{self:?}").chars() {
            if letter.is_uppercase() && !name.is_empty() {
                name.push('-');
            }
            name.extend(letter.to_lowercase());
        }
        f.write_str(&name)
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        let named = Self::ALL
            .into_iter()
            .find(|fault| fault.to_string() == given);
        named.ok_or_else(|| {
            let all: Vec<String> = Self::ALL.iter().map(Self::to_string).collect();
            format!("no fault is called {given}; there are {}", all.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_fault_is_listed_once_and_known_by_its_name() {
        let names: BTreeSet<String> = Fault::ALL.iter().map(Fault::to_string).collect();
        assert_eq!(names.len(), Fault::ALL.len());
        for fault in Fault::ALL {
            assert_eq!(fault.to_string().parse(), Ok(fault));
        }
        assert_eq!("churn".parse(), Ok(Fault::Churn));
        assert!("chrun".parse::<Fault>().unwrap_err().contains("churn"));
    }

    #[test]
    fn a_fault_fits_the_setting_that_it_asks_for() {
        for fault in Fault::ALL {
            if fault.needs() == Needs::SmallDisks {
                continue; // as this machine allows
            }
            assert_eq!(fault.fits(&fault.setting(Servers::One, 1)), Ok(()));
        }
        let single = Setting::new(Servers::One, 1);
        assert!(Fault::RollingRestart.fits(&single).is_err());
        assert!(Fault::ReconnectStorm.fits(&single).is_err());
    }
}
