//! Pauses, the application, and what a member says of itself: sentences P17, P57, P127, P131.

use std::time::Duration;

use super::scene::*;
use crate::group::member::{Event, MemberEvent};
use crate::group::*;

#[test]
fn a_pause_stops_feeding_and_nothing_else() {
    // P127
    let mut t = Scene::owning(&[0, 1]);
    t.reads(0, 1..=20);
    t.reads(1, [1]);
    t.fetch("a", 0, 3);
    t.changes(|meta| {
        meta.pause.partitions.insert(p(0));
    });
    assert_eq!(
        (t.state(0), t.state(1)),
        (Some(HoldState::Paused), Some(HoldState::Feeding))
    );
    assert_eq!(t.is_pushed("a", 0), [0; 0]);
    assert_eq!(t.fetches("a", 0), [1, 2, 3], "what it has it may see again");
    t.acks("a", 0, 2);
    assert_eq!(t.committed(0), 3);
    t.passes(S * 2);
    assert_eq!(t.holds(), [0, 1]);
    t.changes(|meta| meta.pause.partitions.clear());
    assert_eq!(t.is_pushed("a", 0), (4..=12).collect::<Vec<_>>());
    let told = t.told();
    assert!(told.contains(&&MemberEvent::Paused { partition: p(0) }));
    assert!(told.contains(&&MemberEvent::Unpaused { partition: p(0) }));
}

#[test]
fn a_pause_of_the_application_is_its_members_own() {
    // P127
    let mut t = Scene::owning(&[0, 1]);
    let pause = |which: Option<u32>| which.map(|n| [p(n)].into());
    t.happens(Event::Pause { partitions: None });
    assert_eq!(
        (t.state(0), t.state(1)),
        (Some(HoldState::Paused), Some(HoldState::Paused))
    );
    t.happens(Event::Resume {
        partitions: pause(Some(1)),
    });
    assert_eq!(
        (t.state(0), t.state(1)),
        (Some(HoldState::Paused), Some(HoldState::Feeding))
    );
    // What meta pauses it cannot resume.
    t.changes(|meta| meta.pause.all = true);
    t.happens(Event::Resume { partitions: None });
    assert_eq!(
        (t.state(0), t.state(1)),
        (Some(HoldState::Paused), Some(HoldState::Paused))
    );
    t.changes(|meta| meta.pause.all = false);
    assert_eq!(
        (t.state(0), t.state(1)),
        (Some(HoldState::Feeding), Some(HoldState::Feeding))
    );
}

#[test]
fn a_heartbeat_is_the_full_state_and_its_beat_rises() {
    // P17
    let mut t = Scene::owning(&[0, 1]);
    t.reads(0, [3, 5, 9]);
    t.happens(Event::Pending {
        partition: p(0),
        epoch: Epoch(1),
        pending: 40,
    });
    t.fetch("a", 0, 2);
    t.acks("a", 0, 3);
    t.clear();
    t.passes(Duration::from_secs(6));
    let beats: Vec<_> = t.beats.iter().map(|b| b.beat).collect();
    assert_eq!(beats, [beats[0], beats[0].next()]);
    let held = &t.last_beat().held[0];
    assert_eq!((held.position, held.committed), (Sequence(6), Sequence(4)));
    assert_eq!((held.in_flight, held.pending), (1, Some(41)));
    assert_eq!(held.state, HoldState::Feeding);
    assert_eq!(
        t.last_beat().held[1].pending,
        None,
        "unknown is not nothing"
    );
    assert_eq!(t.last_beat().seen_epoch, t.document.epoch);
}

#[test]
fn each_beat_states_the_formats_that_are_read() {
    // P131
    let t = Scene::joined(1);
    assert_eq!(t.last_beat().formats, Formats::CURRENT);
}

#[test]
fn the_application_is_stated_at_once() {
    // P57
    let mut t = Scene::joined(1);
    assert!(!t.last_beat().app.connected && !t.last_beat().app.seen);
    t.clear();
    t.happens(Event::Application { connected: true });
    assert_eq!(t.beats.len(), 1);
    assert!(t.last_beat().app.connected && t.last_beat().app.seen);
    t.passes(Duration::from_secs(3));
    assert_eq!(t.last_beat().app.since_ms, 3000);
    t.happens(Event::Application { connected: false });
    assert!(!t.last_beat().app.connected && t.last_beat().app.seen);
}
