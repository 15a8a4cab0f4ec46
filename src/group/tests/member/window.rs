//! In flight, acknowledgement, retry: sentences P106 and P114 to P121.

use std::time::Duration;

use super::scene::*;
use crate::group::member::{Accepted, AckKind, MemberEvent};
use crate::group::*;

#[test]
fn messages_are_handed_over_in_order_and_bounded_in_flight() {
    // P114
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=25);
    assert_eq!(t.fetches("a", 0), (1..=10).collect::<Vec<_>>());
    assert_eq!(t.is_pushed("a", 0), [0; 0]);
    // Three are done: three more may come.
    t.acks("a", 0, 3);
    assert_eq!(t.is_pushed("a", 0), [11, 12, 13]);
}

#[test]
fn with_one_in_flight_the_next_waits_for_the_acknowledgement() {
    // P114, P133
    let mut t = Scene::owning(&[0]);
    t.changes(|meta| meta.delivery.max_in_flight = 1);
    t.reads(0, 1..=3);
    assert_eq!(t.fetches("a", 0), [1]);
    assert_eq!(t.fetches("a", 0), [1]);
    t.acks("a", 0, 1);
    assert_eq!(t.fetches("a", 0), [2]);
}

#[test]
fn a_sequence_is_not_handed_over_again_but_from_the_own_window() {
    // P106
    let mut t = Scene::owning(&[0]);
    t.reads(0, [1, 2, 3]);
    assert_eq!(t.is_pushed("a", 0), [1, 2, 3]);
    // A reader that rewinds brings nothing.
    t.reads(0, [1, 2, 3, 4]);
    assert_eq!(t.is_pushed("a", 0), [4]);
    // The window itself comes again, in order.
    assert_eq!(t.fetches("a", 0), [1, 2, 3, 4]);
}

#[test]
fn what_was_not_acknowledged_comes_again_first_to_the_session_that_has_it() {
    // P115
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=4);
    assert_eq!(t.fetch("a", 0, 2).len(), 2);
    let again = t.fetch("a", 0, 100);
    assert_eq!(
        again.iter().map(|(s, _)| *s).collect::<Vec<_>>(),
        [1, 2, 3, 4]
    );
    assert!(again[0].1.again && !again[2].1.again);
    assert_eq!(again[0].1.attempt, 1, "a fetch is no attempt");
    // Another session gets nothing of the partition.
    assert_eq!(t.fetches("b", 0), [0; 0]);
    t.acks("a", 0, 4);
    t.reads(0, [5]);
    assert_eq!(t.fetches("b", 0), [5]);
}

#[test]
fn another_session_gets_the_messages_of_one_that_has_ended() {
    // P115, P119
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=3);
    t.fetches("a", 0);
    t.loses("a");
    // The oldest is a failed attempt and waits; nothing overtakes it.
    assert_eq!(t.fetches("b", 0), [0; 0]);
    t.passes(Duration::from_millis(200));
    let got = t.fetch("b", 0, 100);
    assert_eq!(got.iter().map(|(s, _)| *s).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(got[0].1.attempt, 2);
    assert_eq!(t.view(0).unwrap().head_attempts, 1);
    // The late answer of the session that lost them is not taken.
    assert_eq!(t.acks("a", 0, 3), Accepted::NotOwned);
}

#[test]
fn a_session_that_closes_on_purpose_fails_nothing() {
    // P115
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=2);
    t.fetches("a", 0);
    t.closes("a");
    let got = t.fetch("b", 0, 100);
    assert_eq!(
        got.iter().map(|(s, h)| (*s, h.attempt)).collect::<Vec<_>>(),
        [(1, 1), (2, 1)]
    );
    assert_eq!(t.view(0).unwrap().head_attempts, 0);
}

#[test]
fn an_acknowledgement_after_the_session_ended_counts_until_somebody_else_was_given_the_message() {
    // P117
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=2);
    t.fetches("a", 0);
    t.loses("a");
    assert!(matches!(t.acks("a", 0, 2), Accepted::Yes { .. }));
    t.passes(Duration::from_millis(100));
    assert_eq!(t.committed(0), 3);
}

#[test]
fn an_acknowledgement_counts_in_its_epoch_only() {
    // P116
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=3);
    t.fetches("a", 0);
    for wrong in [0, 2, 99] {
        let accepted = t.ack("a", (0, Epoch(wrong), 3), AckKind::UpTo);
        assert_eq!(accepted, Accepted::NotOwned);
    }
    assert_eq!(
        t.ack("a", (7, Epoch(1), 3), AckKind::UpTo),
        Accepted::NotOwned
    );
    assert_eq!(t.committed(0), 1);
}

#[test]
fn a_cumulative_acknowledgement_covers_what_this_session_was_given_and_nothing_else() {
    // P117
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=20);
    t.fetch("a", 0, 3);
    // It names a message that was never handed over: it covers those that were.
    assert!(matches!(
        t.acks("a", 0, 20),
        Accepted::Yes {
            until: Sequence(4),
            ..
        }
    ));
    assert_eq!(t.committed(0), 4);
    t.fetch("a", 0, 2);
    assert_eq!(t.acks("b", 0, 5), Accepted::NotOwned);
    // Said twice it is still true.
    assert!(matches!(t.acks("a", 0, 3), Accepted::Yes { .. }));
}

#[test]
fn a_cumulative_acknowledgement_does_not_cover_what_the_application_refused() {
    // P117, P119
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=3);
    t.fetches("a", 0);
    t.nacks("a", 0, 2);
    t.acks("a", 0, 3);
    t.passes(Duration::from_millis(150));
    assert_eq!(t.committed(0), 2);
}

#[test]
fn a_single_acknowledgement_covers_its_message_and_the_commit_passes_none_that_is_missing() {
    // P117, P118, P134
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=4);
    t.fetches("a", 0);
    for sequence in [2, 4] {
        assert!(matches!(
            t.acks_each("a", 0, sequence),
            Accepted::Yes { .. }
        ));
    }
    t.passes(Duration::from_secs(1));
    assert_eq!(t.committed(0), 1);
    t.acks_each("a", 0, 1);
    t.passes(Duration::from_secs(1));
    assert_eq!(t.committed(0), 3);
    t.acks_each("a", 0, 3);
    t.passes(Duration::from_secs(1));
    assert_eq!(t.committed(0), 5);
}

#[test]
fn a_refused_message_is_tried_again_in_its_place_after_a_growing_wait() {
    // P119
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=20);
    t.fetch("a", 0, 3);
    t.nacks("a", 0, 2);
    // 1 and 3 are still in hand; nothing new overtakes 2, and 3 is not given again before it.
    assert_eq!(t.fetches("a", 0), [1]);
    assert_eq!(t.is_pushed("a", 0), [0; 0]);
    t.passes(Duration::from_millis(199));
    assert_eq!(t.is_pushed("a", 0), [0; 0]);
    t.passes(Duration::from_millis(1));
    assert_eq!(t.is_pushed("a", 0)[..2], [2, 4]);
    // The second wait is twice as long.
    t.nacks("a", 0, 2);
    t.passes(Duration::from_millis(399));
    assert_eq!(t.is_pushed("a", 0), [0; 0]);
    t.passes(Duration::from_millis(1));
    assert_eq!(t.is_pushed("a", 0), [2]);
}

#[test]
fn attempts_of_the_head_are_on_record() {
    // P120
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=2);
    t.fetches("a", 0);
    t.nacks("a", 0, 1);
    let head = t.offsets[&0].1.head.clone().expect("a head");
    assert_eq!((head.seq, head.attempts), (Sequence(1), 1));
    assert_eq!(head.last_error, "no");
    // Once it is done they are forgotten.
    t.passes(Duration::from_millis(200));
    t.fetches("a", 0);
    t.acks("a", 0, 2);
    t.passes(Duration::from_millis(100));
    assert_eq!((t.committed(0), &t.offsets[&0].1.head), (3, &None));
}

#[test]
fn attempts_of_a_former_owner_count() {
    // P120, P121
    let mut t = Scene::joined(1);
    t.offsets.get_mut(&0).unwrap().1.head = Some(Head {
        seq: Sequence(5),
        attempts: 2,
        last_error: "hm".to_owned(),
    });
    t.offsets.get_mut(&0).unwrap().1.next_seq = Sequence(4);
    t.gives(0, 1);
    t.sees_document();
    t.reads(0, [5, 6]);
    assert_eq!(t.fetch("a", 0, 1)[0].1.attempt, 3);
    t.nacks("a", 0, 5);
    assert_eq!(t.state(0), Some(HoldState::Stopped));
}

#[test]
fn after_its_last_attempt_a_message_blocks_its_partition_until_it_is_resumed() {
    // P121, P128
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=3);
    fail_for_good(&mut t, 1);
    assert_eq!(t.state(0), Some(HoldState::Stopped));
    let stopped = t.offsets[&0].1.stopped.clone().expect("it is on record");
    assert_eq!(
        (stopped.seq, stopped.reason),
        (Sequence(1), StopReason::MessageStuck)
    );
    assert_eq!(stopped.generation, MetaGeneration(1));
    assert!(
        t.told()
            .iter()
            .any(|e| matches!(e, MemberEvent::Stopped { .. }))
    );
    t.passes(Duration::from_secs(100));
    assert_eq!(t.fetches("a", 0), [0; 0]);
    // A resume of a later generation starts it again at its head, with attempts set back.
    t.changes(|meta| {
        meta.resumed.insert(p(0), MetaGeneration(2));
    });
    let got = t.fetch("a", 0, 100);
    assert_eq!((got[0].0, got[0].1.attempt), (1, 1));
    assert_eq!(
        (&t.offsets[&0].1.stopped, &t.offsets[&0].1.head),
        (&None, &None)
    );
}

#[test]
fn a_stop_holds_across_owners_until_it_is_resumed() {
    // P121, P128
    let mut t = Scene::joined(1);
    t.offsets.get_mut(&0).unwrap().1.stopped = Some(Stopped {
        seq: Sequence(1),
        reason: StopReason::MessageStuck,
        detail: String::new(),
        generation: MetaGeneration(1),
    });
    t.changes(|meta| {
        meta.resumed.insert(p(0), MetaGeneration(1));
    });
    t.gives(0, 1);
    t.sees_document();
    // That resume was before the stop.
    assert_eq!(
        (t.state(0), t.opened().len()),
        (Some(HoldState::Stopped), 0)
    );
    t.changes(|meta| {
        meta.resumed.insert(p(0), MetaGeneration(3));
    });
    t.passes(Duration::from_millis(100));
    assert_eq!(
        (t.state(0), t.opened()),
        (Some(HoldState::Feeding), vec![(0, 1)])
    );
}

#[test]
fn a_message_that_is_skipped_counts_as_done_and_is_reported() {
    // P121, P134
    let mut t = Scene::owning(&[0]);
    t.changes(|meta| meta.delivery.on_failure = OnFailure::Skip);
    t.reads(0, 1..=3);
    fail_for_good(&mut t, 1);
    t.passes(Duration::from_millis(100));
    assert_eq!(t.committed(0), 2);
    let skipped = MemberEvent::Skipped {
        partition: p(0),
        sequence: Sequence(1),
        attempts: 3,
        error: "no".to_owned(),
    };
    assert!(t.told().contains(&&skipped));
    assert_eq!(t.fetches("a", 0), [2, 3]);
}

#[test]
fn a_message_behind_the_head_that_fails_for_good_stops_the_partition_once_it_is_the_head() {
    // P118, P121
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=3);
    t.fetch("a", 0, 2);
    for _ in 0..3 {
        t.nacks("a", 0, 2);
        t.passes(Duration::from_secs(1));
        t.is_pushed("a", 0);
    }
    // 1 is still with the application: it is not named for what 2 did.
    assert_eq!(t.view(0).unwrap().stopped, None);
    t.acks("a", 0, 1);
    assert_eq!(t.view(0).unwrap().stopped.unwrap().seq, Sequence(2));
}

#[test]
fn a_head_that_takes_its_process_down_again_and_again_goes_alone_so_that_no_neighbour_is_blamed() {
    // P119, P121
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=3);
    for expected in [vec![1, 2, 3], vec![1, 2, 3], vec![1]] {
        assert_eq!(t.fetches("a", 0), expected);
        t.loses("a");
        t.passes(Duration::from_secs(1));
    }
    assert_eq!(t.view(0).unwrap().stopped.unwrap().seq, Sequence(1));
}

#[test]
fn an_innocent_head_is_cleared_by_being_alone() {
    // P119
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=3);
    for _ in 0..2 {
        t.fetches("a", 0);
        t.loses("a");
        t.passes(Duration::from_secs(1));
    }
    assert_eq!(t.fetches("a", 0), [1]);
    t.acks("a", 0, 1);
    assert_eq!(t.fetches("a", 0), [2, 3]);
}

/// Three attempts of this message fail.
pub(super) fn fail_for_good(t: &mut Scene, sequence: u64) {
    for _ in 0..3 {
        t.passes(Duration::from_secs(1));
        let got = t.fetch("a", 0, 1);
        assert_eq!(got.iter().map(|(s, _)| *s).collect::<Vec<_>>(), [sequence]);
        t.nacks("a", 0, sequence);
    }
}

#[test]
fn a_fetch_that_goes_on_is_shown_what_was_skipped_behind_a_failure() {
    // P115: a fetch is filled in several passes; what lies behind a message that is handed over again
    // was not given in this fetch, and nothing newer may overtake it.
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=6);
    assert_eq!(t.fetch("a", 0, 4).len(), 4);
    t.nacks("a", 0, 2);
    t.acks("a", 0, 1);
    t.passes(Duration::from_secs(1));
    assert_eq!(t.fetch("a", 0, 1)[0].0, 2);
    // The fetch has got 2 in an earlier pass: 3 and 4 come next, and then what is new.
    assert_eq!(t.goes_on("a", 0, 2), [3, 4, 5, 6]);
}
