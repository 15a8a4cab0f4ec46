//! In flight, acknowledgement, retry: sentences P106 and P114 to P121.

use super::scene::*;

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
