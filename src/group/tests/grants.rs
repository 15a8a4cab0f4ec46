//! Revoke, release, grant.

use std::time::Duration;

use super::scene::{STEP, Scene};
use crate::group::Epoch;

#[test]
fn a_partition_is_granted_only_after_its_owner_has_released_it() {
    let mut t = Scene::with_partitions(4);
    t.joins("a");
    assert_eq!(t.owned_by("a"), [0, 1, 2, 3]);
    // P72: b is the target of two, but a still owns them, at the same epochs.
    let epochs = [0, 1, 2, 3].map(|p| t.epoch_of(p));
    t.joins("b");
    assert_eq!(t.owned_by("a"), [0, 1, 2, 3]);
    assert_eq!(t.owned_by("b"), [0; 0]);
    assert_eq!([0, 1, 2, 3].map(|p| t.epoch_of(p)), epochs);
    let [first, second] = t.targeted_at("b")[..] else {
        panic!("b is to have two: {:?}", t.targeted_at("b"));
    };
    // P76: a has released one, and one alone.
    t.releases("a", &[second]);
    assert_eq!(t.owned_by("b"), [second]);
    assert!(t.owned_by("a").contains(&first));
    assert_eq!(t.epoch_of(second), epochs[second as usize] + 1);
    assert!(!t.is_unclean(second));
}
