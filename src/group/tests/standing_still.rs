//! Partitions that stand still until somebody acts, as the coordinator tells of them.

use super::scene::{Scene, held};
use crate::group::decide::{Aspect, OffsetFact, Trouble};
use crate::group::{Epoch, HoldState, Partition, StopReason};

/// One member that owns one partition.
fn one_partition() -> (Scene, Epoch) {
    let mut t = Scene::with_partitions(1);
    t.coordinator("c1", 0);
    t.joins("a");
    t.until(|t| t.owned_by("a") == [0]);
    let epoch = Epoch(t.epoch_of(0));
    t.offsets.insert(Partition(0), claimed(epoch, None));
    (t, epoch)
}

fn claimed(epoch: Epoch, stopped: Option<StopReason>) -> OffsetFact {
    OffsetFact::Present { epoch, stopped }
}

/// The member's next heartbeat says this of its partition.
fn says(t: &mut Scene, epoch: Epoch, state: HoldState) {
    t.says("a", |says| {
        says.held = vec![held(0, epoch)];
        says.held[0].state = state;
    });
    t.settle();
}

fn is_stuck(t: &Scene) -> bool {
    t.trouble(Aspect::PartitionsProgressing) == Some(Trouble::MessageStuck)
}

// P128a
#[test]
fn a_heartbeat_that_is_ahead_of_the_record_is_not_the_last_look() {
    let (mut t, epoch) = one_partition();
    says(&mut t, epoch, HoldState::Stopped);
    assert!(!is_stuck(&t), "the record says nothing yet");
    t.offsets
        .insert(Partition(0), claimed(epoch, Some(StopReason::MessageStuck)));
    says(&mut t, epoch, HoldState::Stopped);
    assert!(is_stuck(&t));

    // Lifted: the member hands over again, and its record follows with the next commit.
    says(&mut t, epoch, HoldState::Feeding);
    assert!(is_stuck(&t), "so says the record still");
    t.offsets.insert(Partition(0), claimed(epoch, None));
    says(&mut t, epoch, HoldState::Feeding);
    assert!(!is_stuck(&t));
}

// P128a
#[test]
fn who_held_it_before_has_no_say() {
    let (mut t, epoch) = one_partition();
    t.offsets
        .insert(Partition(0), claimed(epoch, Some(StopReason::MessageStuck)));
    says(&mut t, epoch, HoldState::Stopped);
    assert!(is_stuck(&t));
    let before = Epoch(epoch.0 - 1);
    t.offsets.insert(Partition(0), claimed(epoch, None));
    says(&mut t, before, HoldState::Feeding);
    assert!(is_stuck(&t), "nobody who knows has said otherwise");
    says(&mut t, epoch, HoldState::Feeding);
    assert!(!is_stuck(&t));
}
