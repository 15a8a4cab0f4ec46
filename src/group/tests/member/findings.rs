//! Lost streams, idle partitions, hanging applications: sentences P83 to P85, P109 to P113.

use std::time::Duration;

use super::scene::*;
use crate::group::member::{Event, Finding, MemberEvent};
use crate::group::*;

const PROCESSING: Duration = Duration::from_secs(300);

fn finding(reason: StopReason, position: u64, first: u64, last: u64) -> Finding {
    Finding {
        reason,
        first: Sequence(first),
        last: Sequence(last),
        created: ServerTime(99),
        position: Sequence(position),
        last_mark: Some(Mark {
            seq: Sequence(last),
            ts: ServerTime(5),
        }),
        detail: "look".to_owned(),
    }
}

fn finds(t: &mut Scene, finding: Finding) {
    t.happens(Event::Invalid {
        partition: p(0),
        epoch: t.epoch(0),
        finding,
    });
}

#[test]
fn a_stream_made_anew_stops_its_partition_by_default() {
    // P109, P112
    for reason in [StopReason::StreamRecreated, StopReason::StreamTruncated] {
        let mut t = Scene::owning(&[0, 1]);
        finds(&mut t, finding(reason, 1, 1, 0));
        assert_eq!(
            (t.state(0), t.state(1)),
            (Some(HoldState::Stopped), Some(HoldState::Feeding))
        );
        let stopped = t.offsets[&0].1.stopped.clone().unwrap();
        assert_eq!((stopped.reason, stopped.detail.as_str()), (reason, "look"));
        assert_eq!(t.opened(), []);
    }
}

#[test]
fn a_policy_moves_the_position_by_a_commit_in_the_owners_own_epoch_and_then_reads() {
    // P109, P112
    for (policy, next, mark) in [
        (OnTruncation::Earliest, 3, None),
        (
            OnTruncation::Latest,
            8,
            Some(Mark {
                seq: Sequence(7),
                ts: ServerTime(5),
            }),
        ),
    ] {
        let mut t = Scene::joined(1);
        t.offsets.get_mut(&0).unwrap().1.next_seq = Sequence(50);
        t.gives(0, 1);
        t.sees_document();
        t.changes(|meta| meta.on_truncation = policy);
        t.clear();
        t.records = Answers::No;
        finds(&mut t, finding(StopReason::StreamRecreated, 50, 3, 7));
        let (wrote, _) = t.writes_of(0)[0].clone();
        assert_eq!((wrote.next_seq, wrote.mark), (Sequence(next), mark));
        assert_eq!(
            (wrote.stream_created, wrote.epoch),
            (ServerTime(99), Epoch(1))
        );
        assert_eq!(t.opened(), [], "stored first");
        t.answers_write(0);
        assert_eq!(t.opened(), [(0, next)]);
        assert!(
            t.told()
                .iter()
                .any(|e| matches!(e, MemberEvent::PositionMoved { .. }))
        );
        t.records = Answers::Yes;
        t.reads(0, [next]);
        assert_eq!(t.fetches("a", 0), [next]);
    }
}

#[test]
fn a_history_that_breaks_under_messages_already_read_ends_the_epoch() {
    // P109, P137: the same token would name another message.
    let mut t = Scene::owning(&[0]);
    t.changes(|meta| meta.on_truncation = OnTruncation::Earliest);
    t.reads(0, 1..=3);
    t.fetches("a", 0);
    finds(&mut t, finding(StopReason::StreamTruncated, 4, 1, 2));
    assert_eq!(
        (t.holds(), t.released(), t.committed(0)),
        (vec![], vec![(0, 1, false)], 1)
    );
}

#[test]
fn what_retention_removed_is_passed_over_and_said() {
    // P110
    let mut t = Scene::owning(&[0]);
    finds(&mut t, finding(StopReason::MessagesLost, 1, 11, 20));
    let lost = MemberEvent::MessagesLost {
        partition: p(0),
        from: Sequence(1),
        to: Sequence(11),
    };
    assert!(t.told().contains(&&lost));
    assert_eq!((t.committed(0), t.opened()), (11, vec![(0, 11)]));
}

#[test]
fn messages_in_hand_stay_when_retention_removes_what_comes_after_them() {
    // P110, P118
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=3);
    t.fetches("a", 0);
    finds(&mut t, finding(StopReason::MessagesLost, 4, 11, 20));
    t.passes(Duration::from_secs(1));
    assert_eq!((t.committed(0), t.opened()), (1, vec![(0, 11)]));
    t.reads(0, [11]);
    t.acks("a", 0, 3);
    assert_eq!(t.fetches("a", 0), [11]);
}

#[test]
fn on_gap_stop_stops() {
    // P110
    let mut t = Scene::owning(&[0]);
    t.changes(|meta| meta.on_gap = OnGap::Stop);
    finds(&mut t, finding(StopReason::MessagesLost, 1, 11, 20));
    assert_eq!((t.state(0), t.committed(0)), (Some(HoldState::Stopped), 1));
}

#[test]
fn a_stop_that_was_resumed_is_found_again_unless_the_policy_has_changed() {
    // P109, P128
    let mut t = Scene::owning(&[0]);
    finds(&mut t, finding(StopReason::StreamRecreated, 1, 1, 0));
    t.clear();
    t.changes(|meta| {
        meta.resumed.insert(p(0), MetaGeneration(2));
    });
    t.passes(Duration::from_millis(100));
    assert_eq!(t.opened(), [(0, 1)], "it looks again");
    finds(&mut t, finding(StopReason::StreamRecreated, 1, 1, 0));
    assert_eq!(t.state(0), Some(HoldState::Stopped));
    t.changes(|meta| {
        meta.on_truncation = OnTruncation::Earliest;
        meta.resumed.insert(p(0), MetaGeneration(3));
    });
    t.passes(Duration::from_millis(100));
    finds(&mut t, finding(StopReason::StreamRecreated, 1, 1, 0));
    assert_eq!(t.state(0), Some(HoldState::Feeding));
}

#[test]
fn a_reader_that_ends_by_itself_is_opened_again_after_the_last_message_read() {
    // P105
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=3);
    let ended = |unreadable| Event::ReaderEnded {
        partition: p(0),
        epoch: Epoch(1),
        unreadable,
    };
    t.happens(ended(None));
    assert_eq!(t.opened(), []);
    t.passes(Duration::from_millis(250));
    assert_eq!(t.opened(), [(0, 4)]);
    // A message that cannot be read stops its partition, by name.
    t.happens(ended(Some((Sequence(4), "too large".to_owned()))));
    t.passes(Duration::from_millis(250));
    let stopped = t.offsets[&0].1.stopped.clone().unwrap();
    assert_eq!(
        (stopped.seq, stopped.detail.as_str()),
        (Sequence(4), "too large")
    );
}

#[test]
fn a_partition_without_traffic_moves_about_once_a_minute_and_only_with_an_empty_window() {
    // P113
    let mut t = Scene::owning(&[0]);
    let idle = |t: &Scene, next| {
        t.member
            .wants_to_move((p(0), Epoch(1)), Sequence(next), t.now)
    };
    assert!(!idle(&t, 9));
    t.passes(Duration::from_secs(60));
    assert!(idle(&t, 9) && !idle(&t, 1));
    let mark = Mark {
        seq: Sequence(8),
        ts: ServerTime(1),
    };
    let scanned = Event::Scanned {
        partition: p(0),
        epoch: Epoch(1),
        next: Sequence(9),
        mark: Some(mark),
    };
    t.happens(scanned.clone());
    assert_eq!((t.committed(0), t.offsets[&0].1.mark), (9, Some(mark)));
    assert!(!idle(&t, 20));
    // Not while something is in hand or in the buffer.
    t.reads(0, [9]);
    t.passes(Duration::from_secs(60));
    assert!(!idle(&t, 20));
    t.fetches("a", 0);
    let Event::Scanned {
        partition, epoch, ..
    } = scanned
    else {
        unreachable!()
    };
    t.happens(Event::Scanned {
        partition,
        epoch,
        next: Sequence(20),
        mark: Some(mark),
    });
    t.passes(Duration::from_secs(1));
    assert_eq!(t.committed(0), 9);
}

#[test]
fn the_processing_timer_runs_from_the_hand_over_of_the_oldest_message() {
    // P83, P84
    let mut t = Scene::owning(&[0, 1]);
    t.reads(0, 1..=3);
    t.reads(1, 1..=3);
    t.fetch("a", 0, 1);
    t.passes(PROCESSING / 2);
    t.fetches("a", 0); // handing it over again does not start it anew
    t.fetches("b", 1);
    t.acks("b", 1, 1);
    t.clear();
    t.passes(PROCESSING / 2 - Duration::from_millis(1));
    assert_eq!(t.holds(), [0, 1]);
    t.passes(Duration::from_millis(1));
    let named = MemberEvent::ProcessingTimedOut {
        partition: p(0),
        sequence: Sequence(1),
    };
    assert!(t.told().contains(&&named));
    // Only this one goes: the application is alive in the other.
    assert_eq!((t.holds(), t.released()), (vec![1], vec![(0, 1, false)]));
    let head = t.offsets[&0].1.head.clone().unwrap();
    assert!(head.last_error.contains("processing timeout"));
}

#[test]
fn all_partitions_go_if_none_was_acknowledged_in_that_time() {
    // P84
    let mut t = Scene::owning(&[0, 1, 2]);
    t.reads(0, 1..=3);
    t.reads(1, 1..=3);
    t.fetches("a", 0);
    t.passes(Duration::from_secs(1));
    t.fetches("b", 1);
    t.passes(PROCESSING);
    assert_eq!(t.holds(), [0; 0]);
    // What the application has nothing of is clean.
    assert_eq!(t.released(), [(0, 1, false), (1, 1, false), (2, 1, true)]);
}

#[test]
fn the_last_attempt_may_end_by_the_processing_timer() {
    // P84, P121
    let mut t = Scene::owning(&[0]);
    t.changes(|meta| meta.delivery.retry.max_attempts = 1);
    t.reads(0, 1..=3);
    t.fetches("a", 0);
    t.passes(PROCESSING + Duration::from_secs(1));
    let stopped = t.offsets[&0].1.stopped.clone().unwrap();
    assert_eq!(
        (stopped.seq, stopped.reason),
        (Sequence(1), StopReason::MessageStuck)
    );
    assert_eq!(t.holds(), [0; 0]);
}

#[test]
fn the_processing_timer_stands_still_while_paused_or_suspended() {
    // P85
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=3);
    t.fetches("a", 0);
    t.passes(PROCESSING / 2);
    t.changes(|meta| meta.pause.all = true);
    t.passes(PROCESSING);
    t.changes(|meta| meta.pause.all = false);
    t.passes(PROCESSING / 4);
    t.heartbeats = Answers::No;
    t.passes(S * 3 / 4);
    assert_eq!(t.state(0), Some(HoldState::Suspended));
    t.passes(PROCESSING);
    t.comes_back();
    t.passes(PROCESSING / 4 - S);
    assert_eq!(t.holds(), [0]);
    t.passes(S);
    assert_eq!(t.holds(), [0; 0]);
}

#[test]
fn what_was_looked_through_before_a_finding_moves_nothing_after_it() {
    // P112, P113, P134: the look may be of a history of the stream that is over.
    let mut t = Scene::owning(&[0]);
    finds(&mut t, finding(StopReason::StreamTruncated, 1, 1, 40));
    t.passes(Duration::from_secs(61));
    t.happens(Event::Scanned {
        partition: p(0),
        epoch: t.epoch(0),
        next: Sequence(41),
        mark: Some(Mark {
            seq: Sequence(40),
            ts: ServerTime(5),
        }),
    });
    t.passes(Duration::from_secs(1));
    assert_eq!((t.committed(0), t.state(0)), (1, Some(HoldState::Stopped)));
}
