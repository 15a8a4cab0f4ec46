//! What is handed over, acknowledged, paused and resumed: P106, P115 to P118, P127, P128.

use super::answers::*;
use super::scene::*;
use crate::group::ledger::SessionEnd;
use crate::group::member::{Accepted, AckKind, Event};
use crate::group::*;

#[test]
fn nothing_is_handed_over_at_or_below_what_was() {
    // P106
    let mut t = Scene::owning(&[0]);
    t.reads(0, [5, 9]);
    assert_eq!(t.fetches("a", 0), [5, 9]);
    t.acks("a", 0, 9);
    // A reader that began anew too low.
    t.reads(0, [5, 7, 9, 11]);
    assert_eq!(t.fetches("a", 0), [11]);
}

#[test]
fn what_was_not_acknowledged_comes_first_again_and_in_order() {
    // P115, P106
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=5);
    assert_eq!(t.fetch("a", 0, 3).len(), 3);
    t.acks_each("a", 0, 2);
    let again = t.fetch("a", 0, 100);
    let sequences: Vec<u64> = again.iter().map(|(s, _)| *s).collect();
    assert_eq!(sequences, [1, 3, 4, 5]);
    let attempts: Vec<(bool, u32)> = again.iter().map(|(_, h)| (h.again, h.attempt)).collect();
    assert_eq!(attempts, [(true, 1), (true, 1), (false, 1), (false, 1)]);
}

#[test]
fn a_partition_is_in_one_sessions_hands() {
    // P115
    let mut t = Scene::owning(&[0, 1]);
    t.reads(0, 1..=5);
    t.reads(1, 1..=5);
    assert_eq!(t.fetch("a", 0, 2).len(), 2);
    assert_eq!(t.fetches("b", 0), [0; 0]);
    assert_eq!(
        t.fetches("b", 1),
        [1, 2, 3, 4, 5],
        "the other partition is free"
    );
    t.acks("a", 0, 1);
    assert_eq!(t.fetches("b", 0), [0; 0]);
    t.acks("a", 0, 2);
    assert_eq!(t.fetches("b", 0), [3, 4, 5]);
}

#[test]
fn what_an_ended_session_had_goes_to_the_next_one() {
    // P115
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=3);
    t.fetches("a", 0);
    t.member
        .session_ended(&SessionId::new("a"), SessionEnd::Closed, t.now);
    assert_eq!(t.fetches("b", 0), [1, 2, 3]);
    let late = t.ack("a", (0, Epoch(1), 3), AckKind::UpTo);
    assert_eq!(late, Accepted::NotOwned);
}

#[test]
fn an_acknowledgement_counts_in_its_own_epoch_only() {
    // P116
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=3);
    t.fetches("a", 0);
    for epoch in [0, 2] {
        let refused = t.ack("a", (0, Epoch(epoch), 3), AckKind::UpTo);
        assert_eq!(refused, Accepted::NotOwned, "epoch {epoch}");
    }
    let refused = t.ack("a", (7, Epoch(1), 3), AckKind::UpTo);
    assert_eq!(refused, Accepted::NotOwned);
    assert_eq!(t.committed(0), 1);
    assert!(matches!(t.acks("a", 0, 3), Accepted::Yes { .. }));
    assert_eq!(t.committed(0), 4);
}

#[test]
fn a_cumulative_acknowledgement_covers_what_was_handed_over() {
    // P117
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=9);
    assert_eq!(t.fetch("a", 0, 3).len(), 3);
    // The application cannot have processed what it was not given.
    let accepted = t.acks("a", 0, 8);
    let Accepted::Yes { until, .. } = accepted else {
        panic!("{accepted:?}")
    };
    assert_eq!((until, t.committed(0)), (Sequence(4), 4));
    assert_eq!(t.fetches("a", 0), [4, 5, 6, 7, 8, 9]);
}

#[test]
fn a_cumulative_acknowledgement_does_not_cover_what_another_session_has() {
    // P117
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=3);
    t.fetches("a", 0);
    assert_eq!(t.acks("b", 0, 3), Accepted::NotOwned);
    assert_eq!(t.committed(0), 1);
}

#[test]
fn a_single_acknowledgement_covers_its_message_alone_and_no_gap_is_passed() {
    // P117, P118, P134
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=4);
    t.fetches("a", 0);
    t.acks_each("a", 0, 3);
    t.acks_each("a", 0, 2);
    t.passes(SECS(1));
    assert_eq!(t.committed(0), 1);
    t.acks_each("a", 0, 1);
    t.passes(SECS(1));
    assert_eq!(t.committed(0), 4);
}

#[test]
fn a_commit_names_the_last_message_by_which_the_stream_is_recognised() {
    // P118, P109
    let mut t = Scene::owning(&[0]);
    t.reads(0, [5, 9, 12]);
    t.fetches("a", 0);
    t.acks("a", 0, 9);
    let (_, record) = &t.offsets[&0];
    assert_eq!(record.next_seq, Sequence(10));
    assert_eq!(
        record.mark,
        Some(Mark {
            seq: Sequence(9),
            ts: ServerTime(90)
        })
    );
}

#[test]
fn a_pause_stops_feeding_and_nothing_else() {
    // P127
    let mut t = Scene::owning(&[0, 1]);
    t.reads(0, 1..=2);
    t.fetches("a", 0);
    t.reads(0, 3..=4);
    t.reads(1, 1..=2);
    t.meta.pause.partitions.insert(p(0));
    t.sees_meta();
    assert_eq!(t.is_pushed("a", 0), [0; 0]);
    assert_eq!(t.fetches("a", 1), [1, 2], "the other goes on");
    t.acks("a", 0, 2);
    t.passes(SECS(5));
    assert_eq!((t.committed(0), t.state(0)), (3, Some(HoldState::Paused)));
    assert_eq!(t.last_beat().held.len(), 2);
    t.meta.pause.partitions.clear();
    t.sees_meta();
    assert_eq!(t.is_pushed("a", 0), [3, 4]);
}

#[test]
fn a_pause_outlives_a_hand_over() {
    // P127
    let mut t = Scene::started(1);
    t.meta.pause.all = true;
    t.sees_meta();
    t.gives(0, 1);
    t.sees_document();
    t.reads(0, 1..=2);
    assert_eq!((t.holds(), t.fetches("a", 0)), (vec![0], vec![]));
}

#[test]
fn the_application_pauses_its_own_member_alone() {
    // P127
    let mut t = Scene::owning(&[0, 1]);
    t.reads(0, 1..=2);
    t.reads(1, 1..=2);
    t.happens(Event::Pause {
        partitions: Some([p(0)].into()),
    });
    assert_eq!((t.fetches("a", 0), t.fetches("a", 1)), (vec![], vec![1, 2]));
    t.happens(Event::Resume { partitions: None });
    assert_eq!(t.fetches("a", 0), [1, 2]);
}

#[test]
fn a_stop_is_lifted_by_a_resume_of_a_later_generation_with_attempts_set_back() {
    // P128, P121
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=2);
    for _ in 0..3 {
        t.fetches("a", 0);
        t.nacks("a", 0, 1);
        t.passes(SECS(2));
    }
    assert_eq!(t.state(0), Some(HoldState::Stopped));
    let stopped = t.offsets[&0].1.stopped.clone().unwrap();
    assert_eq!(
        (stopped.seq, stopped.generation),
        (Sequence(1), MetaGeneration(1))
    );
    // Resumed under the generation in which it stopped: that was before.
    t.meta.resumed.insert(p(0), MetaGeneration(1));
    t.sees_meta();
    assert_eq!(t.state(0), Some(HoldState::Stopped));
    t.meta.generation = MetaGeneration(2);
    t.meta.resumed.insert(p(0), MetaGeneration(2));
    t.sees_meta();
    t.passes(SECS(1));
    assert_eq!(t.offsets[&0].1.stopped, None);
    let again = t.fetch("a", 0, 1);
    assert_eq!((again[0].0, again[0].1.attempt), (1, 1));
}

#[test]
fn a_stop_is_lifted_for_the_next_owner_too() {
    // P128, P121
    let mut stopped = record(3, Some("old"), 42);
    stopped.stopped = Some(Stopped {
        seq: Sequence(42),
        reason: StopReason::MessageStuck,
        detail: String::new(),
        generation: MetaGeneration(1),
    });
    for (resumed, fed) in [(None, vec![]), (Some(MetaGeneration(2)), vec![42])] {
        let mut t = Scene::started(1);
        t.offsets.insert(0, (Revision(5), stopped.clone()));
        t.meta.generation = MetaGeneration(2);
        t.meta.resumed = resumed.map(|at| (p(0), at)).into_iter().collect();
        t.sees_meta();
        t.gives(0, 4);
        t.sees_document();
        t.reads(0, [42]);
        assert_eq!(t.fetches("a", 0), fed);
    }
}
