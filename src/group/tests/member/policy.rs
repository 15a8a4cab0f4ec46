//! Streams that changed, idle partitions, applications that do not answer: P83 to P85, P109 to P113.

use super::answers::*;
use super::scene::*;
use crate::group::member::{Event, Finding, MemberEvent};
use crate::group::*;

fn finding(reason: StopReason, position: u64) -> Finding {
    Finding {
        reason,
        first: Sequence(20),
        last: Sequence(30),
        created: ServerTime(99),
        position: Sequence(position),
        last_mark: Some(Mark {
            seq: Sequence(30),
            ts: ServerTime(300),
        }),
        detail: "found".to_owned(),
    }
}

impl Scene {
    /// The reader says that the position cannot be read.
    fn is_invalid(&mut self, reason: StopReason) {
        let (partition, epoch) = (p(0), self.epoch(0));
        let finding = finding(reason, 5);
        self.happens(Event::Invalid {
            partition,
            epoch,
            finding,
        });
    }
}

/// A member that was given a partition whose record stands at 5.
fn at_five() -> Scene {
    let mut t = Scene::joined(1);
    t.offsets
        .insert(0, (Revision(5), record(3, Some("old"), 5)));
    t.gives(0, 4);
    t.sees_document();
    t.clear();
    t
}

#[test]
fn a_stream_with_another_history_stops_the_partition() {
    // P109
    for reason in [StopReason::StreamRecreated, StopReason::StreamTruncated] {
        let mut t = at_five();
        t.is_invalid(reason);
        t.passes(SECS(1));
        let stopped = t.offsets[&0].1.stopped.clone().unwrap();
        assert_eq!((stopped.reason, stopped.seq), (reason, Sequence(5)));
        assert_eq!((t.state(0), t.committed(0)), (Some(HoldState::Stopped), 5));
        assert_eq!(t.opened(), [], "it is not read again");
    }
}

#[test]
fn another_policy_goes_on_in_the_new_history_by_a_commit_in_its_own_epoch() {
    // P109, P112
    for (policy, next) in [(OnTruncation::Earliest, 20), (OnTruncation::Latest, 31)] {
        let mut t = at_five();
        t.meta.on_truncation = policy;
        t.sees_meta();
        t.records = Answers::No;
        t.is_invalid(StopReason::StreamRecreated);
        let (record, _) = t.last_write(0);
        assert_eq!((record.epoch, record.next_seq), (Epoch(4), Sequence(next)));
        assert_eq!(record.stream_created, ServerTime(99));
        assert_eq!(t.opened(), [], "not before it is on record");
        t.lands(0);
        assert_eq!(t.opened(), [(0, next)]);
        let moved = MemberEvent::PositionMoved {
            partition: p(0),
            from: Sequence(5),
            to: Sequence(next),
            reason: StopReason::StreamRecreated,
        };
        assert!(t.told().contains(&&moved));
    }
}

#[test]
fn where_retention_overtook_the_group_the_loss_is_named() {
    // P110, P112
    let mut t = at_five();
    t.is_invalid(StopReason::MessagesLost);
    t.passes(SECS(1));
    let lost = MemberEvent::MessagesLost {
        partition: p(0),
        from: Sequence(5),
        to: Sequence(20),
    };
    assert!(t.told().contains(&&lost));
    assert_eq!((t.committed(0), t.opened()), (20, vec![(0, 20)]));
    assert_eq!(t.offsets[&0].1.epoch, Epoch(4));
}

#[test]
fn where_nothing_may_be_lost_the_partition_stops() {
    // P110
    let mut t = at_five();
    t.meta.on_gap = OnGap::Stop;
    t.sees_meta();
    t.is_invalid(StopReason::MessagesLost);
    t.passes(SECS(1));
    let stopped = t.offsets[&0].1.stopped.clone().unwrap();
    assert_eq!(
        (stopped.reason, t.committed(0)),
        (StopReason::MessagesLost, 5)
    );
}

#[test]
fn an_error_moves_no_position() {
    // P112
    let mut t = at_five();
    t.meta.on_truncation = OnTruncation::Latest;
    t.sees_meta();
    for _ in 0..5 {
        let (partition, epoch, unreadable) = (p(0), t.epoch(0), None);
        t.happens(Event::ReaderEnded {
            partition,
            epoch,
            unreadable,
        });
        t.passes(SECS(1));
    }
    assert_eq!((t.committed(0), t.writes()), (5, 0));
    assert!(t.opened().iter().all(|o| *o == (0, 5)), "{:?}", t.opened());
}

#[test]
fn a_message_that_cannot_be_read_stops_its_partition_by_name() {
    // P107
    let mut t = at_five();
    let unreadable = Some((Sequence(5), "message 5 has 9 MiB".to_owned()));
    let (partition, epoch) = (p(0), t.epoch(0));
    t.happens(Event::ReaderEnded {
        partition,
        epoch,
        unreadable,
    });
    t.passes(SECS(1));
    let stopped = t.offsets[&0].1.stopped.clone().unwrap();
    assert_eq!(
        (stopped.seq, stopped.reason),
        (Sequence(5), StopReason::MessageStuck)
    );
    assert_eq!(stopped.detail, "message 5 has 9 MiB");
}

#[test]
fn an_idle_partition_moves_on_once_a_minute() {
    // P113
    let mut t = at_five();
    let at = (p(0), Epoch(4));
    t.passes(SECS(59));
    assert!(!t.member.wants_to_move(at, Sequence(90), t.now));
    t.passes(SECS(1));
    assert!(t.member.wants_to_move(at, Sequence(90), t.now));
    assert!(
        !t.member.wants_to_move(at, Sequence(5), t.now),
        "it stands there"
    );
    let mark = Some(Mark {
        seq: Sequence(88),
        ts: ServerTime(880),
    });
    let (partition, epoch, next) = (p(0), Epoch(4), Sequence(90));
    t.happens(Event::Scanned {
        partition,
        epoch,
        next,
        mark,
    });
    assert_eq!((t.committed(0), t.offsets[&0].1.mark), (90, mark));
    assert!(!t.member.wants_to_move(at, Sequence(95), t.now));
}

#[test]
fn a_partition_with_messages_does_not_move_by_itself() {
    // P113
    let mut t = at_five();
    t.reads(0, [7]);
    t.fetches("a", 0);
    t.passes(SECS(70));
    assert!(
        !t.member
            .wants_to_move((p(0), Epoch(4)), Sequence(90), t.now)
    );
    let (partition, epoch, next) = (p(0), Epoch(4), Sequence(90));
    t.happens(Event::Scanned {
        partition,
        epoch,
        next,
        mark: None,
    });
    assert_eq!(t.committed(0), 5);
}

#[test]
fn the_processing_timer_runs_from_the_oldest_hand_over_of_each_partition() {
    // P83, P84
    let mut t = Scene::owning(&[0, 1]);
    t.reads(0, 1..=2);
    t.reads(1, 1..=2);
    t.fetch("a", 0, 1);
    t.passes(SECS(200));
    t.fetch("a", 0, 2);
    t.fetches("b", 1);
    t.passes(SECS(99));
    assert_eq!(t.holds(), [0, 1]);
    t.acks("b", 1, 1);
    t.passes(SECS(1));
    let late = MemberEvent::ProcessingTimedOut {
        partition: p(0),
        sequence: Sequence(1),
    };
    assert!(t.told().contains(&&late));
    assert_eq!(t.released(), [(0, 1, false)]);
    assert_eq!(t.holds(), [1], "the other is acknowledged, and stays");
}

#[test]
fn an_application_that_acknowledges_nothing_loses_everything() {
    // P84
    let mut t = Scene::owning(&[0, 1, 2]);
    t.reads(0, [1]);
    t.reads(1, [1]);
    t.fetches("a", 0);
    t.passes(SECS(250));
    t.fetches("b", 1);
    t.passes(SECS(50));
    let mut released: Vec<u32> = t.released().iter().map(|r| r.0).collect();
    released.sort_unstable();
    assert_eq!((released, t.holds()), (vec![0, 1, 2], vec![]));
}

#[test]
fn an_acknowledgement_starts_the_timer_anew() {
    // P83
    let mut t = Scene::owning(&[0]);
    t.reads(0, 1..=9);
    for sequence in 1..=9 {
        t.fetch("a", 0, 1);
        t.passes(SECS(299));
        t.acks("a", 0, sequence);
    }
    assert_eq!((t.holds(), t.committed(0)), (vec![0], 10));
}

#[test]
fn a_timeout_is_a_failed_attempt_and_the_last_one_blocks() {
    // P84, P121
    let mut t = Scene::owning(&[0]);
    t.meta.delivery.retry.max_attempts = 1;
    t.sees_meta();
    t.reads(0, [1]);
    t.fetches("a", 0);
    t.passes(SECS(301));
    let stopped = t.offsets[&0].1.stopped.clone().unwrap();
    assert_eq!(
        (stopped.seq, stopped.reason),
        (Sequence(1), StopReason::MessageStuck)
    );
}

#[test]
fn the_timer_stands_still_while_paused_or_suspended() {
    // P85
    let mut t = Scene::owning(&[0]);
    t.reads(0, [1]);
    t.fetches("a", 0);
    t.passes(SECS(200));
    t.meta.pause.all = true;
    t.sees_meta();
    t.passes(SECS(1000));
    t.meta.pause.all = false;
    t.sees_meta();
    t.heartbeats = Answers::No;
    t.passes(SECS(15)); // the lease ends on the way
    t.passes(SECS(1000));
    assert_eq!(t.holds(), [0]);
    t.heartbeats = Answers::Yes;
    t.passes(SECS(3));
    assert_eq!(t.holds(), [0]);
    t.passes(SECS(80));
    assert_eq!(t.holds(), [0]);
    t.passes(SECS(10));
    assert_eq!(t.holds(), [0; 0]);
}
