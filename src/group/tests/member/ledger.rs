//! In flight, acknowledgement, retry: sentences P106 and P114 to P121.

use super::answers::*;
use super::scene::*;
use crate::group::member::MemberEvent;
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
    t.meta.delivery.max_in_flight = 1;
    t.sees_meta();
    t.reads(0, 1..=3);
    assert_eq!(t.fetches("a", 0), [1]);
    assert_eq!(t.fetches("a", 0), [1]);
    t.acks("a", 0, 1);
    assert_eq!(t.fetches("a", 0), [2]);
}

#[test]
fn a_refused_message_is_tried_again_in_its_place() {
    // P119, P133
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=5);
    assert_eq!(t.fetch("a", 0, 2).len(), 2);
    t.nacks("a", 0, 1);
    t.acks_each("a", 0, 2);
    assert_eq!(t.is_pushed("a", 0), [0; 0], "nothing overtakes it");
    t.passes(MILLIS(199));
    assert_eq!(t.fetches("a", 0), [0; 0]);
    t.passes(MILLIS(1));
    let again = t.fetch("a", 0, 2);
    let told: Vec<(u64, u32)> = again.iter().map(|(s, h)| (*s, h.attempt)).collect();
    assert_eq!(told, [(1, 2), (3, 1)]);
}

#[test]
fn the_wait_doubles_up_to_its_limit() {
    // P119
    let mut t = Scene::owning(&[0]);
    t.meta.delivery.retry.max_attempts = 100;
    t.sees_meta();
    t.reads(0, [1]);
    for wait in [
        200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000,
    ] {
        assert_eq!(t.fetches("a", 0), [1]);
        t.nacks("a", 0, 1);
        t.passes(MILLIS(wait - 1));
        assert_eq!(t.fetches("a", 0), [0; 0], "before {wait} ms");
        t.passes(MILLIS(1));
    }
}

#[test]
fn a_refusal_may_say_how_long_to_wait() {
    // P119
    let mut t = Scene::owning(&[0]);
    t.reads(0, [1]);
    t.fetches("a", 0);
    let position = (p(0), Epoch(1), Sequence(1));
    let said = ("later", Some(SECS(7)));
    t.member.nack(&SessionId::new("a"), position, said, t.now);
    t.passes(MILLIS(6999));
    assert_eq!(t.fetches("a", 0), [0; 0]);
    t.passes(MILLIS(1));
    assert_eq!(t.fetches("a", 0), [1]);
}

#[test]
fn a_lost_session_is_a_failed_attempt_of_its_oldest_message() {
    // P119
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=2);
    t.fetches("a", 0);
    t.loses("a");
    assert_eq!(t.fetches("b", 0), [0; 0], "it waits as after a refusal");
    t.passes(MILLIS(200));
    assert_eq!(t.fetches("b", 0), [1, 2]);
    assert_eq!(t.view(0).unwrap().head_attempts, 1);
}

#[test]
fn attempts_of_the_head_are_on_record() {
    // P120
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=2);
    t.fetches("a", 0);
    t.nacks("a", 0, 1);
    t.passes(SECS(1));
    let head = t.offsets[&0].1.head.clone().unwrap();
    assert_eq!(
        (head.seq, head.attempts, head.last_error.as_str()),
        (Sequence(1), 1, "no")
    );
    t.fetches("a", 0);
    t.acks("a", 0, 1);
    t.passes(SECS(1));
    assert_eq!((t.offsets[&0].1.head.clone(), t.committed(0)), (None, 2));
}

#[test]
fn attempts_of_former_owners_count() {
    // P120, P121
    let mut t = Scene::joined(1);
    let mut tried = record(3, Some("old"), 42);
    tried.head = Some(Head {
        seq: Sequence(42),
        attempts: 2,
        last_error: "no".to_owned(),
    });
    t.offsets.insert(0, (Revision(5), tried));
    t.gives(0, 4);
    t.sees_document();
    t.reads(0, [42]);
    assert_eq!(t.fetch("a", 0, 1)[0].1.attempt, 3);
    t.nacks("a", 0, 42);
    assert_eq!(t.state(0), Some(HoldState::Stopped));
}

#[test]
fn after_its_last_attempt_a_message_blocks_its_partition() {
    // P121
    let mut t = Scene::owning(&[0, 1]);
    t.reads(0, 1..=3);
    t.reads(1, 1..=3);
    for attempt in 1..=3 {
        assert_eq!(t.fetch("a", 0, 1)[0].1.attempt, attempt);
        t.nacks("a", 0, 1);
        t.passes(SECS(2));
    }
    let stopped = t.offsets[&0].1.stopped.clone().unwrap();
    assert_eq!(
        (stopped.seq, stopped.reason),
        (Sequence(1), StopReason::MessageStuck)
    );
    t.passes(SECS(60));
    assert_eq!((t.fetches("a", 0), t.committed(0)), (vec![], 1));
    assert_eq!((t.holds(), t.fetches("a", 1)), (vec![0, 1], vec![1, 2, 3]));
}

#[test]
fn after_its_last_attempt_a_message_is_skipped_where_that_is_the_policy() {
    // P121, P134
    let mut t = Scene::owning(&[0]);
    t.meta.delivery.on_failure = OnFailure::Skip;
    t.sees_meta();
    t.reads(0, 1..=3);
    for _ in 1..=3 {
        t.fetch("a", 0, 1);
        t.nacks("a", 0, 1);
        t.passes(SECS(2));
    }
    assert_eq!(t.committed(0), 2);
    let told = t.told();
    let skip = told
        .iter()
        .find(|e| matches!(e, MemberEvent::Skipped { .. }));
    let expected = MemberEvent::Skipped {
        partition: p(0),
        sequence: Sequence(1),
        attempts: 3,
        error: "no".to_owned(),
    };
    assert_eq!(skip, Some(&&expected));
    assert_eq!(t.fetches("a", 0), [2, 3]);
}
