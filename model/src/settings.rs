//! The group of the model: its settings are such that nothing waits for time unless somebody is silent.

use std::collections::BTreeMap;
use std::time::Duration;

use lockstep::group::{
    AssignorSetting, BucketId, Delivery, GroupState, Membership, Meta, MetaGeneration, OnFailure,
    OnGap, OnTruncation, Pause, Retry, Revision, Source, StartFrom, Timestamp, Unknown,
};

/// Silence after which a member is given up.
pub(crate) const SESSION: Duration = Duration::from_secs(20);

/// Between two beats, of members and coordinators.
pub(crate) const BEAT: Duration = Duration::from_secs(5);

/// Silence after which a coordinator is given up.
pub(crate) const OFFICE: Duration = Duration::from_secs(15);

/// A step of time, in beats: longer than any timeout, shorter than twice [`OFFICE`], so that a
/// coordinator that was cut off for one step still believes that it coordinates.
pub(crate) const BEATS_PER_STEP: u32 = 5;

/// Waits up to this long are over at once.
pub(crate) const SHORT: Duration = Duration::from_secs(2);

/// When every history begins.
pub(crate) const BEGINNING: Timestamp = Timestamp(Duration::from_secs(1000));

/// The revision of `meta`, below all others of a member's watch.
pub(crate) const META_REVISION: Revision = Revision(1);

pub(crate) fn meta(partitions: u32) -> Meta {
    Meta {
        bucket: BucketId::new("b"),
        manager: "standalone".to_owned(),
        generation: MetaGeneration(1),
        group_uid: String::new(),
        state: GroupState::Active,
        source: Source::Streams {
            pattern: "S-{partition}".to_owned(),
            partitions,
            subjects: String::new(),
        },
        streams: BTreeMap::new(),
        start_from: StartFrom::Earliest,
        delivery: delivery(),
        membership: membership(),
        on_truncation: OnTruncation::Stop,
        on_gap: OnGap::Earliest,
        pause: Pause::default(),
        resumed: BTreeMap::new(),
        unknown: Unknown::new(),
    }
}

fn delivery() -> Delivery {
    Delivery {
        max_in_flight: 1,
        batch: 10,
        fetch_wait: Duration::ZERO,
        batch_wait: Duration::ZERO,
        buffer_messages: 10,
        buffer_bytes: 1000,
        retry: Retry {
            max_attempts: 100,
            initial: Duration::ZERO,
            max: Duration::ZERO,
            factor: 1.0,
        },
        on_failure: OnFailure::Block,
        commit_interval: Duration::ZERO,
        max_uncommitted: 10,
    }
}

fn membership() -> Membership {
    Membership {
        assignor: AssignorSetting::Sticky,
        heartbeat_interval: BEAT,
        session_timeout: SESSION,
        rebalance_timeout: BEAT * 3,
        processing_timeout: Duration::from_secs(3600),
        initial_rebalance_delay: Duration::ZERO,
        rebalance_delay: Duration::ZERO,
        balance_interval: Duration::ZERO,
        max_members: 64,
    }
}
