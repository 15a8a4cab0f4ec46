//! The claim: sentences P13, P96 to P100.

use std::time::Duration;

use super::scene::*;
use crate::group::member::{Effect, Event, Found, MemberEvent, Written};
use crate::group::*;

#[test]
fn a_claim_fences_first_and_keeps_the_position() {
    // P96
    let mut t = Scene::joined(1);
    t.offsets
        .insert(0, (Revision(5), record(3, Some("other"), 42)));
    t.records = Answers::No;
    t.gives(0, 4);
    t.sees_document();
    assert!(matches!(t.log.last(), Some(Effect::ReadOffset { .. })));
    t.answers_read(0);
    let wrote = t.writes_of(0);
    assert_eq!(wrote[0].0, record(4, Some(ME), 42));
    assert_eq!(wrote[0].1, Revision(5));
    // Nothing is read from the stream before it is stored.
    assert_eq!(
        (t.opened(), t.state(0)),
        (vec![], Some(HoldState::Claiming))
    );
    t.answers_write(0);
    assert_eq!(
        (t.opened(), t.state(0)),
        (vec![(0, 42)], Some(HoldState::Feeding))
    );
}

#[test]
fn a_record_of_this_epoch_and_owner_is_adopted() {
    // P97
    let mut t = Scene::joined(1);
    t.offsets.insert(0, (Revision(5), record(4, Some(ME), 42)));
    t.gives(0, 4);
    t.sees_document();
    assert_eq!((t.writes(), t.opened()), (0, vec![(0, 42)]));
}

#[test]
fn a_higher_epoch_or_another_owner_at_this_epoch_is_a_fence() {
    // P97
    for (epoch, owner) in [(5, "other"), (5, ME), (4, "other")] {
        let mut t = Scene::joined(1);
        t.offsets
            .insert(0, (Revision(5), record(epoch, Some(owner), 42)));
        t.gives(0, 4);
        t.sees_document();
        assert_eq!((t.writes(), t.holds()), (0, vec![]), "{epoch} {owner}");
        assert_eq!(t.released(), [(0, 4, false)]);
        assert!(
            t.told()
                .iter()
                .any(|e| matches!(e, MemberEvent::Fenced { .. }))
        );
    }
}

#[test]
fn losing_to_a_committing_owner_costs_a_round_and_the_position_is_the_newest() {
    // P23, P96
    let mut t = Scene::joined(1);
    t.offsets
        .insert(0, (Revision(50), record(3, Some("other"), 42)));
    t.records = Answers::No;
    t.gives(0, 4);
    t.sees_document();
    t.answers_read(0);
    // The old owner commits once more before the claim arrives.
    t.offsets
        .insert(0, (Revision(60), record(3, Some("other"), 43)));
    t.answers_write(0);
    t.records = Answers::Yes;
    t.passes(Duration::from_millis(100));
    assert_eq!(t.opened(), [(0, 43)]);
    assert_eq!(t.offsets[&0].1, record(4, Some(ME), 43));
}

#[test]
fn an_old_read_is_read_again() {
    // P26
    let mut t = Scene::joined(1);
    t.records = Answers::No;
    t.gives(0, 4);
    t.sees_document();
    t.finds(
        0,
        Found::Record(Revision(5), Box::new(record(1, Some("other"), 1))),
    );
    t.writes_end(0, Written::Conflict(Some(Revision(60))));
    t.passes(Duration::from_millis(100));
    t.clear();
    // A replica that has not heard of it yet.
    t.finds(
        0,
        Found::Record(Revision(5), Box::new(record(1, Some("other"), 1))),
    );
    assert_eq!(t.writes(), 0);
    t.passes(Duration::from_millis(500));
    t.finds(
        0,
        Found::Record(Revision(60), Box::new(record(1, Some("other"), 9))),
    );
    assert_eq!(t.writes_of(0).last().unwrap().0, record(4, Some(ME), 9));
}

#[test]
fn an_attempt_that_landed_without_an_answer_is_adopted() {
    // P23, P25
    let mut t = Scene::joined(1);
    t.records = Answers::No;
    t.gives(0, 4);
    t.sees_document();
    t.answers_read(0);
    let (wrote, _) = t.writes_of(0)[0].clone();
    t.writes_end(0, Written::Unknown("no answer".to_owned()));
    let revision = t.next_revision();
    t.offsets.insert(0, (revision, wrote));
    t.records = Answers::Yes;
    t.clear();
    t.passes(Duration::from_millis(500));
    assert_eq!((t.writes(), t.opened()), (0, vec![(0, 1)]));
}

#[test]
fn a_busy_server_is_asked_the_same_again_and_is_no_fence() {
    // P24
    let mut t = Scene::joined(1);
    t.records = Answers::No;
    t.gives(0, 4);
    t.sees_document();
    t.answers_read(0);
    let first = t.writes_of(0);
    t.writes_end(0, Written::Busy);
    t.clear();
    t.passes(Duration::from_millis(9));
    assert_eq!(t.writes(), 0);
    t.passes(Duration::from_millis(41));
    assert_eq!(t.writes_of(0), first);
}

#[test]
fn before_each_attempt_the_document_has_to_give_it_still() {
    // P98
    let mut t = Scene::joined(1);
    t.records = Answers::No;
    t.gives(0, 4);
    t.sees_document();
    t.finds(0, Found::Unanswered("no answer".to_owned()));
    t.assigns(0, Some("other"), 5, Some("other"));
    t.sees_document();
    t.clear();
    t.passes(Duration::from_secs(1));
    assert_eq!((t.holds(), t.reads_of(0)), (vec![], 0));
}

#[test]
fn attempts_are_5_to_100_ms_apart() {
    // P98
    let mut t = Scene::joined(1);
    t.records = Answers::No;
    t.gives(0, 4);
    t.sees_document();
    t.clear();
    t.finds(0, Found::Unanswered("no answer".to_owned()));
    t.passes(Duration::from_millis(4));
    assert_eq!(t.reads_of(0), 0);
    t.passes(Duration::from_millis(96));
    assert_eq!(t.reads_of(0), 1);
}

#[test]
fn at_most_16_claims_run_at_once_and_each_that_ends_lets_the_next_begin() {
    // P98
    let mut t = Scene::joined(40);
    t.records = Answers::No;
    (0..40).for_each(|p| t.gives(p, 1));
    t.sees_document();
    let running = |t: &Scene| (0..40).filter(|p| t.reads_of(*p) > 0).count();
    assert_eq!(running(&t), 16);
    t.answers_read(0);
    assert_eq!(running(&t), 16);
    t.answers_write(0);
    assert_eq!(running(&t), 17);
    // One that is fenced makes room as well.
    t.finds(
        1,
        Found::Record(Revision(9), Box::new(record(9, Some("other"), 1))),
    );
    assert_eq!(running(&t), 18);
    t.records = Answers::Yes;
    for p in 2..18 {
        t.answers_read(p);
    }
    assert_eq!(running(&t), 40);
    assert_eq!(t.holds().len(), 39);
}

#[test]
fn an_unclean_grant_adds_one_attempt_to_the_head_once() {
    // P99
    let mut t = Scene::joined(1);
    t.gives(0, 4);
    t.document.partitions[0].unclean = true;
    t.sees_document();
    let head = t.offsets[&0].1.head.clone().unwrap();
    assert_eq!((head.seq, head.attempts), (Sequence(1), 1));
    // The partition is sparse: the head is the first message that comes.
    t.reads(0, [7, 8]);
    let got = t.fetch("a", 0, 2);
    assert_eq!((got[0].1.attempt, got[1].1.attempt), (2, 1));
    // An adopted claim was counted when it was written.
    t.sees_document();
    assert_eq!(t.offsets[&0].1.head.clone().unwrap().attempts, 1);
}

#[test]
fn attempts_used_up_by_former_owners_stop_the_partition_before_the_message_is_handed_over() {
    // P99, P121
    let mut t = Scene::joined(1);
    t.offsets.get_mut(&0).unwrap().1.head = Some(Head {
        seq: Sequence(7),
        attempts: 2,
        last_error: "crash".to_owned(),
    });
    t.gives(0, 4);
    t.document.partitions[0].unclean = true;
    t.sees_document();
    t.reads(0, [7, 8]);
    assert_eq!(t.fetches("a", 0), [0; 0]);
    assert_eq!(t.view(0).unwrap().stopped.unwrap().seq, Sequence(7));
    t.passes(Duration::from_millis(100));
    assert!(t.offsets[&0].1.stopped.is_some());
}

#[test]
fn a_missing_or_damaged_record_stops_its_partition_and_the_others_go_on() {
    // P13, P14, P100
    for found in [Found::Absent, Found::Damaged("not JSON".to_owned())] {
        let mut t = Scene::joined(2);
        t.records = Answers::No;
        t.gives(0, 1);
        t.gives(1, 1);
        t.sees_document();
        t.finds(0, found);
        t.records = Answers::Yes;
        t.answers_read(1);
        assert_eq!(t.state(0), Some(HoldState::Stopped));
        assert_eq!(t.state(1), Some(HoldState::Feeding));
        assert!(
            t.told()
                .iter()
                .any(|e| matches!(e, MemberEvent::OffsetLost { .. }))
        );
        assert_eq!(t.writes_of(0).len(), 0, "nothing is overwritten");
        // Somebody mends it: it goes on.
        t.passes(Duration::from_secs(5));
        assert_eq!(t.state(0), Some(HoldState::Feeding));
    }
}

#[test]
fn a_claim_that_cannot_be_made_is_given_back_unclean() {
    // P80
    let mut t = Scene::joined(1);
    t.records = Answers::No;
    t.gives(0, 1);
    t.sees_document();
    for _ in 0..200 {
        t.finds(0, Found::Unanswered("no answer".to_owned()));
        t.passes(Duration::from_millis(500));
    }
    assert_eq!((t.holds(), t.released()), (vec![], vec![(0, 1, false)]));
}

#[test]
fn an_answer_to_a_former_epoch_is_nobodys() {
    // P96
    let mut t = Scene::joined(1);
    t.records = Answers::No;
    t.gives(0, 1);
    t.sees_document();
    t.gives(0, 2);
    t.sees_document();
    t.happens(Event::Offset {
        partition: p(0),
        epoch: Epoch(1),
        found: t.found(0),
    });
    assert_eq!(t.writes(), 0);
}
