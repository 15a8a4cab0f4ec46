//! The only place that draws random numbers.

use crate::group::{BucketId, Incarnation};

/// Characters of a random name: no vowels, so that none spells a word.
const ALPHABET: &[u8; 31] = b"0123456789bcdfghjklmnpqrstvwxyz";

/// How long a random name is: 16 characters of 31 are 79 bits.
const NAME_LENGTH: usize = 16;

/// A new member's or candidate's incarnation.
pub fn incarnation() -> Incarnation {
    loop {
        if let Ok(incarnation) = name().parse() {
            return incarnation;
        }
    }
}

/// A new bucket's identity.
pub fn bucket_id() -> BucketId {
    BucketId::new(name())
}

/// A random name of 16 characters of `[a-z0-9]`.
pub fn name() -> String {
    bytes::<NAME_LENGTH>()
        .iter()
        .map(|b| char::from(ALPHABET[usize::from(b % 31)]))
        .collect()
}

/// A number of at least 0 and below 1, for spreading retries.
pub fn fraction() -> f64 {
    f64::from(u32::from_le_bytes(bytes())) / (f64::from(u32::MAX) + 1.0)
}

#[expect(
    clippy::expect_used,
    reason = "without the kernel's randomness no name would be unique"
)]
fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the kernel gives no random bytes");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_and_are_valid_incarnations() {
        let names: std::collections::BTreeSet<_> = (0..1000).map(|_| incarnation()).collect();
        assert_eq!(names.len(), 1000);
        assert!((0..1000).all(|_| (0.0..1.0).contains(&fraction())));
    }
}
