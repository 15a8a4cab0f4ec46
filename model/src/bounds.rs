//! How much may happen, and what may be broken on purpose.

/// The size of a model.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Coordinator candidates, all there from the beginning.
    pub coordinators: usize,
    /// Members; those beyond `begun` start when they like.
    pub members: usize,
    /// Members that are there, and settled, at the beginning; 0: the bucket is empty.
    pub begun: usize,
    /// Partitions.
    pub partitions: u32,
    /// Messages of each partition.
    pub messages: u64,
    /// What may go wrong.
    pub budget: Budget,
    /// Of so many states one is let come to rest; 0: none.
    pub settle_one_of: u64,
}

/// What may still happen that nobody asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Members that end without a word.
    pub member_crashes: u8,
    /// Coordinators that end without a word; one is always left.
    pub coordinator_crashes: u8,
    /// Members that are asked to end.
    pub drains: u8,
    /// Steps of time in which nobody is cut off.
    pub passes: u8,
    /// Steps of time in which one process is cut off.
    pub cuts: u8,
    /// Writes whose outcome their sender does not learn.
    pub unknowns: u8,
}

/// A part of the surroundings that is broken on purpose, so that a test sees the checker notice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sabotage {
    /// Nothing is.
    #[default]
    None,
    /// Commit records are written whatever their revision is.
    OffsetsWithoutCas,
    /// The group document is written whatever its revision is.
    GroupWithoutCas,
    /// The coordinator grants what it revokes without waiting for the release.
    GrantsWithoutRelease,
    /// The coordinator does not raise a partition's epoch when it grants it.
    EpochsStay,
    /// A member that is cut off does not notice that time passes.
    ClocksStandStill,
    /// A commit goes one message too far.
    CommitsAhead,
    /// The second commit goes back to the first message.
    CommitsBack,
    /// Members see no group document.
    WatchesAreDead,
}

// === impl Budget ===

impl Budget {
    /// Nothing goes wrong.
    pub const NONE: Self = Self {
        member_crashes: 0,
        coordinator_crashes: 0,
        drains: 0,
        passes: 0,
        cuts: 0,
        unknowns: 0,
    };
}

/// Takes one, if there is one.
pub(crate) fn spend(left: &mut u8) -> bool {
    let enough = *left > 0;
    *left = left.saturating_sub(1);
    enough
}
