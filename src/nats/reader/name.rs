//! The name of a reader's consumer: no two readers can ever mean the same one.

use crate::group::{BucketId, Epoch, Incarnation, Partition};

/// What a partition's consumer is named after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerName {
    /// The group's bucket.
    pub bucket: String,
    /// Its identity.
    pub bucket_id: BucketId,
    /// The partition.
    pub partition: Partition,
    /// The epoch of the claim.
    pub epoch: Epoch,
    /// Who reads.
    pub incarnation: Incarnation,
}

// === impl ConsumerName ===

impl ConsumerName {
    /// The name of one attempt.
    pub(super) fn attempt(&self, attempt: u64) -> String {
        let Self {
            partition,
            epoch,
            incarnation,
            ..
        } = self;
        let bucket = self.bucket_hash();
        format!("ls-{bucket:016x}-{partition}-{epoch}-{incarnation}-{attempt}")
    }

    /// FNV-1a, 64 bits: short, and the same in every build.
    fn bucket_hash(&self) -> u64 {
        let text = self.bucket.bytes().chain([0]);
        let text = text.chain(self.bucket_id.as_str().bytes());
        text.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> ConsumerName {
        ConsumerName {
            bucket: "lockstep_shop_orders".to_owned(),
            bucket_id: BucketId::new("b1"),
            partition: Partition(3),
            epoch: Epoch(17),
            incarnation: "k3v9".parse().unwrap(),
        }
    }

    #[test]
    fn a_name_tells_bucket_partition_epoch_incarnation_and_attempt() {
        let text = name().attempt(2);
        assert!(
            text.starts_with("ls-") && text.ends_with("-3-17-k3v9-2"),
            "{text}"
        );
        assert!(!text.contains(['.', '*', '>', ' ']));
        let other = ConsumerName {
            bucket_id: BucketId::new("b2"),
            ..name()
        };
        assert_ne!(other.attempt(2), text);
    }

    #[test]
    fn the_longest_name_is_one_that_the_server_takes() {
        let name = ConsumerName {
            partition: Partition(u32::MAX),
            epoch: Epoch(u64::MAX),
            incarnation: "x".repeat(64).parse().unwrap(),
            ..name()
        };
        assert!(name.attempt(u64::MAX).len() <= 255);
    }
}
