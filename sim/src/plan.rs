//! What a seed is: a group, its members, and what will happen to them.

use std::collections::BTreeMap;
use std::time::Duration;

use lockstep::group::{
    AssignorSetting, BucketId, Delivery, GroupState, Membership, Meta, MetaGeneration, OnFailure,
    OnGap, OnTruncation, Pause, Retry, Source, StartFrom, Unknown,
};

use crate::chance::Chance;
use crate::net::Weather;
use crate::time::At;

/// When the trouble ends, when nothing may happen any more, and when the world does.
pub const CALM: At = At::secs(120);
/// Whatever stands still is resumed then, and once more half-way to [`QUIET`].
pub const RESUME: At = At::secs(160);
/// From here on a group writes nothing.
pub const QUIET: At = At::secs(320);
/// The end.
pub const END: At = At::secs(350);

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A worker is killed.
    KillMember,
    /// A worker dies after so many more effects: between any two steps.
    KillMemberBetweenSteps,
    /// A coordinator is killed.
    KillCoordinator,
    /// A worker stands still (`SIGSTOP`); its clock goes on.
    StopMember,
    /// A coordinator stands still.
    StopCoordinator,
    /// A worker's machine is suspended, its clock with it.
    SuspendMember,
    /// A coordinator's machine is suspended, its clock with it.
    SuspendCoordinator,
    /// A worker's connection is cut.
    CutMember,
    /// A coordinator's connection is cut.
    CutCoordinator,
    /// The bucket's servers elect a leader.
    Elect,
    /// A worker's watch stands still, with healthy heartbeats.
    StallMember,
    /// A coordinator's watch stands still.
    StallCoordinator,
    /// All watches lose their consumers.
    BreakWatches,
    /// A reader's consumer vanishes.
    BreakConsumer,
    /// The streams do not answer for a while.
    StreamsAway,
    /// An application dies.
    KillApplication,
    /// An application starts anew with other habits.
    ChangeApplication,
    /// A worker leaves in good order, and comes back later.
    Leave,
    /// A second worker starts under an id that is in use.
    Twin,
    /// Retention removes messages, read or not.
    Retain,
    /// The message by which a position is recognised is removed.
    RemoveMark,
    /// A stream loses its end, or is restored from an older copy: it keeps its time of creation.
    Truncate,
    /// A stream is deleted and made anew.
    Recreate,
    /// A single server loses its newest acknowledged writes.
    LoseWrites,
    /// The bucket is deleted, and another one is made in its place.
    ReplaceBucket,
    /// A person pauses or resumes partitions, or changes a setting.
    ChangeMeta,
}

/// Every fault, with how often it comes where it does, and whether it is rarely part of a plan.
const FAULTS: [(Fault, u64, bool); 26] = [
    (Fault::KillMember, 3, false),
    (Fault::KillMemberBetweenSteps, 4, false),
    (Fault::KillCoordinator, 3, false),
    (Fault::StopMember, 4, false),
    (Fault::StopCoordinator, 3, false),
    (Fault::SuspendMember, 2, true),
    (Fault::SuspendCoordinator, 2, true),
    (Fault::CutMember, 4, false),
    (Fault::CutCoordinator, 3, false),
    (Fault::Elect, 4, false),
    (Fault::StallMember, 4, false),
    (Fault::StallCoordinator, 3, false),
    (Fault::BreakWatches, 2, false),
    (Fault::BreakConsumer, 6, false),
    (Fault::StreamsAway, 2, false),
    (Fault::KillApplication, 4, false),
    (Fault::ChangeApplication, 6, false),
    (Fault::Leave, 4, false),
    (Fault::Twin, 2, true),
    (Fault::Retain, 3, true),
    (Fault::RemoveMark, 2, true),
    (Fault::Truncate, 2, true),
    (Fault::Recreate, 1, true),
    (Fault::LoseWrites, 1, true),
    (Fault::ReplaceBucket, 1, true),
    (Fault::ChangeMeta, 3, false),
];

/// A seed's plan.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What the group is.
    pub meta: Meta,
    /// Whether the bucket has three replicas.
    pub replicated: bool,
    /// How many members take part.
    pub members: usize,
    /// How many coordinators.
    pub coordinators: usize,
    /// What goes wrong, in order.
    pub faults: Vec<(At, Fault)>,
    /// How bad the network is until the trouble ends.
    pub weather: Weather,
    /// Whether applications may have bad habits.
    pub bad_habits: bool,
    /// Whether all applications are stubborn: a partition comes back to one that still works on what it
    /// was given before.
    pub stubborn: bool,
    /// Of a thousand starts of a worker so many are of a version that reads no format in use.
    pub outdated: u64,
    /// Mean time between two messages.
    pub pace: Duration,
    /// Messages that are there before the group is.
    pub backlog: u64,
}

// === impl Plan ===

impl Plan {
    /// Draws a plan. A seed whose number ends in 0 has no faults at all.
    pub fn draw(chance: &mut Chance, seed: u64) -> Self {
        let calm = seed.is_multiple_of(10);
        let bad = |chance: &mut Chance, most: u64| {
            let part = chance.either(true, false) && !calm;
            if part { chance.between(1, most) } else { 0 }
        };
        let weather = Weather {
            lost: bad(chance, 8),
            unanswered: bad(chance, 15),
            late: bad(chance, 8),
            stale: bad(chance, 60),
            gaps: bad(chance, 20),
        };
        let replicated = chance.either(true, false);
        Self {
            meta: meta(chance),
            replicated,
            members: usize::try_from(chance.between(2, 4)).unwrap_or(2),
            coordinators: usize::try_from(chance.between(1, 3)).unwrap_or(1),
            faults: if calm {
                Vec::new()
            } else {
                faults(chance, replicated)
            },
            weather,
            bad_habits: !calm && chance.per_mille(700),
            stubborn: !calm && chance.per_mille(150),
            outdated: if calm || !chance.per_mille(150) {
                0
            } else {
                300
            },
            pace: chance.millis(80, 1200),
            backlog: chance.below(40),
        }
    }
}

fn faults(chance: &mut Chance, replicated: bool) -> Vec<(At, Fault)> {
    let mut faults = Vec::new();
    let part = chance.between(100, 500);
    for (fault, most, rare) in FAULTS {
        let likely = if rare { part / 4 } else { part };
        let possible = fault != Fault::LoseWrites || !replicated;
        if !chance.per_mille(likely) || !possible {
            continue;
        }
        for _ in 0..chance.between(1, most) {
            let at = At::default().after(chance.millis(3000, 112_000));
            faults.push((at, fault));
        }
    }
    faults.sort();
    faults
}

fn meta(chance: &mut Chance) -> Meta {
    let partitions = u32::try_from(chance.between(1, 5)).unwrap_or(1);
    let one = Source::Stream {
        stream: "S".to_owned(),
        partitions,
        filter: "s.{partition}.*".to_owned(),
        transform: None,
    };
    let many = Source::Streams {
        pattern: "S-{partition}".to_owned(),
        partitions,
        subjects: String::new(),
    };
    Meta {
        bucket: BucketId::new("b0"),
        manager: "standalone".to_owned(),
        generation: MetaGeneration(1),
        group_uid: String::new(),
        state: GroupState::Active,
        source: chance.either(one, many),
        streams: BTreeMap::new(),
        start_from: chance.either(StartFrom::Earliest, StartFrom::Latest),
        delivery: delivery(chance),
        membership: membership(chance),
        on_truncation: chance
            .pick(&[
                OnTruncation::Stop,
                OnTruncation::Earliest,
                OnTruncation::Latest,
            ])
            .unwrap_or(OnTruncation::Stop),
        on_gap: chance.either(OnGap::Earliest, OnGap::Stop),
        pause: Pause::default(),
        resumed: BTreeMap::new(),
        unknown: Unknown::new(),
    }
}

fn delivery(chance: &mut Chance) -> Delivery {
    // So few messages per commit need frequent ones, or what is left never gets done.
    let (millis, max_uncommitted) = chance
        .pick(&[(100, 2), (100, 10), (100, 1000), (1000, 10), (1000, 1000)])
        .unwrap_or((100, 10));
    Delivery {
        max_in_flight: chance.pick(&[1, 1, 3, 10, 10]).unwrap_or(1),
        batch: 10,
        fetch_wait: Duration::from_secs(5),
        batch_wait: Duration::from_millis(5),
        buffer_messages: chance.pick(&[2, 10, 50]).unwrap_or(10),
        buffer_bytes: 1 << 20,
        retry: Retry {
            max_attempts: chance.pick(&[2, 5, 50]).unwrap_or(5),
            initial: Duration::from_millis(200),
            max: Duration::from_secs(5),
            factor: 2.0,
        },
        on_failure: chance.either(OnFailure::Block, OnFailure::Skip),
        commit_interval: Duration::from_millis(millis),
        max_uncommitted,
    }
}

fn membership(chance: &mut Chance) -> Membership {
    Membership {
        assignor: chance
            .pick(&[
                AssignorSetting::Sticky,
                AssignorSetting::Range,
                AssignorSetting::RoundRobin,
                AssignorSetting::Rendezvous,
            ])
            .unwrap_or(AssignorSetting::Sticky),
        heartbeat_interval: Duration::from_secs(3),
        session_timeout: Duration::from_secs(12),
        rebalance_timeout: Duration::from_secs(20),
        processing_timeout: Duration::from_secs(25),
        initial_rebalance_delay: Duration::from_secs(1),
        rebalance_delay: Duration::from_secs(1),
        balance_interval: Duration::from_secs(10),
        max_members: 64,
    }
}
