//! Partitions that stand still until somebody acts, and lifting them.

use std::collections::BTreeSet;
use std::str::FromStr;

use super::provision::{self, ProvisionError};
use crate::group::{GroupRef, Meta, Partition};
use crate::nats::{Bucket, EntryValue, KeyFilter, ReadError};
use crate::wire::{self, keys::Key};

/// Which partitions are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// All that the group has.
    All,
    /// Only these.
    These(BTreeSet<Partition>),
}

/// The partitions of a group that stand still and were not lifted since, by their commit records.
pub async fn stopped(bucket: &Bucket, meta: &Meta) -> Result<BTreeSet<Partition>, ReadError> {
    let entries = bucket.list(&KeyFilter::AllOffsets).await?;
    let stopped = entries.into_iter().filter_map(|entry| {
        let (Key::Offset(p), EntryValue::Put(bytes)) = (entry.key, entry.value) else {
            return None;
        };
        // What cannot be read is damage, which nobody lifts.
        let stopped = wire::offset::decode(&bytes).ok()?.stopped?;
        (!meta.has_lifted(p, &stopped)).then_some(p)
    });
    Ok(stopped.collect())
}

/// Lifts those of a group's partitions that are meant and stand still; says which. // P128
pub async fn lift(
    bucket: &Bucket,
    group: &GroupRef,
    which: &Which,
) -> Result<BTreeSet<Partition>, ProvisionError> {
    let Some((meta, revision)) = provision::read_meta(bucket, group).await? else {
        return Ok(BTreeSet::new());
    };
    let lifted = which.of(stopped(bucket, &meta).await?);
    if !lifted.is_empty() {
        provision::store_meta(bucket, group, &meta.lifting(&lifted), revision).await?;
    }
    Ok(lifted)
}

// === impl Which ===

impl Which {
    /// Those of some partitions that are meant.
    pub fn of(&self, mut partitions: BTreeSet<Partition>) -> BTreeSet<Partition> {
        if let Self::These(these) = self {
            partitions.retain(|p| these.contains(p));
        }
        partitions
    }
}

/// `all`, or numbers as in `0,3`.
impl FromStr for Which {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim() == "all" {
            return Ok(Self::All);
        }
        let numbers = text.split(',').map(|number| number.trim().parse());
        let these: Result<BTreeSet<u32>, _> = numbers.collect();
        let these = these.map_err(|_| {
            format!("{text:?} is neither `all` nor numbers of partitions such as `0,3`")
        })?;
        Ok(Self::These(these.into_iter().map(Partition).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_all_or_numbers() {
        let these = |numbers: &[u32]| Which::These(numbers.iter().map(|p| Partition(*p)).collect());
        assert_eq!("all".parse(), Ok(Which::All));
        assert_eq!("3, 0".parse(), Ok(these(&[0, 3])));
        for wrong in ["", "true", "1;2", "-1", "1,"] {
            let refused = wrong.parse::<Which>().unwrap_err();
            assert!(refused.contains("neither `all` nor numbers"), "{refused}");
        }
    }
}
