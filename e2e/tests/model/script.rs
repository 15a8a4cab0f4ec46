//! Scripts, and what is seen while they are played.

/// A step on a bucket. Keys are small numbers; what they are is each side's affair.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// A plain write.
    Put(u8),
    /// A compare-and-set on this revision; 0: only if the key is not there.
    Replace(u8, u64),
    /// The same compare-and-set twice at once.
    Twice(u8, u64),
    /// A read.
    Get(u8),
    /// A new watch of all keys, up to where it is current.
    Watch,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Stored as this revision.
    Stored(u64),
    /// Refused: the key stands here.
    StandsAt(u64),
    /// One of two was stored, as this revision; the other was refused, one way or the other.
    OneOfTwo(u64),
    /// What is there: its revision.
    Value(Option<u64>),
    /// What a watch delivers: keys and revisions, in order.
    Watched(Vec<(u8, u64)>),
    /// No answer came in time.
    Unknown,
}

/// A step on a stream with two partitions.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Deed {
    /// Publishes into a partition.
    Publish(u32),
    /// Reads a partition from a sequence on, until so many messages have come.
    Read(u32, u64, usize),
    /// The stream's first and last sequence.
    Ends,
    /// Removes everything below a sequence.
    Purge(u64),
    /// Removes one message.
    Remove(u64),
    /// Deletes the stream and makes it again.
    Recreate,
}

/// What came of that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Stored at this sequence.
    At(u64),
    /// These sequences were delivered.
    Delivered(Vec<u64>),
    /// First and last; the first of an empty stream is the last + 1.
    Between(u64, u64),
    /// Whether the time of creation is another one.
    Anew(bool),
    /// Done.
    Done,
}

/// A bucket's life: creation, conflicts, reads, watches.
pub(crate) const OF_A_BUCKET: &[Step] = &[
    Step::Get(0),
    Step::Replace(0, 0),
    Step::Replace(0, 0),
    Step::Get(0),
    Step::Put(1),
    Step::Replace(0, 1),
    Step::Replace(0, 1),
    Step::Replace(2, 7),
    Step::Replace(2, 0),
    Step::Put(1),
    Step::Get(1),
    Step::Watch,
    Step::Replace(1, 5),
    Step::Put(0),
    Step::Replace(0, 3),
    Step::Watch,
    Step::Get(2),
];

/// A stream's life: edges, retention, another history.
pub(crate) const OF_A_STREAM: &[Deed] = &[
    Deed::Ends,
    Deed::Publish(0),
    Deed::Publish(1),
    Deed::Publish(0),
    Deed::Publish(0),
    Deed::Publish(1),
    Deed::Ends,
    Deed::Read(0, 1, 3),
    Deed::Read(1, 3, 1),
    Deed::Purge(3),
    Deed::Ends,
    Deed::Read(0, 1, 2),
    Deed::Remove(4),
    Deed::Ends,
    Deed::Read(0, 1, 1),
    Deed::Purge(6),
    Deed::Ends,
    Deed::Publish(0),
    Deed::Read(0, 1, 1),
    Deed::Recreate,
    Deed::Ends,
    Deed::Publish(0),
    Deed::Publish(1),
    Deed::Ends,
    Deed::Read(0, 1, 1),
];
