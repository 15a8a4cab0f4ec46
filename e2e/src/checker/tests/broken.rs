//! One history, and one way of breaking it, per rule.

use super::model::{Model, Op, TICK};
use crate::checker::{Completeness, Expectations, Rule, Verdict, judge};
use crate::history::{Ack, Record};

use Op::{Ack as Acks, Clean, Commit, Nack, Publish, RestartApplication, See, Unclean};

const STORY: [Op; 26] = [
    Publish,
    Publish,
    Publish,
    Publish,
    See,
    Acks,
    Commit,
    See,
    Acks,
    Commit,
    Clean,
    Publish,
    Publish,
    See,
    See,
    Acks,
    Unclean,
    See,
    Nack,
    See,
    RestartApplication,
    See,
    Acks,
    Commit,
    Publish,
    Publish,
];

fn story() -> Vec<Record> {
    Model::history(2, &STORY)
}

fn expect() -> Expectations {
    Expectations {
        in_flight: 2,
        uncommitted: 2,
        ..Expectations::default()
    }
}

fn verdict(records: &[Record]) -> Verdict {
    judge(records, &expect())
}

fn assert_broken(records: &[Record], rule: Rule) {
    let verdict = verdict(records);
    assert!(
        verdict.breaks(rule) && !verdict.passed,
        "{rule:?} was not noticed:\n{verdict}"
    );
}

/// Changes every record that `change` takes.
fn changed(mut change: impl FnMut(&mut Record)) -> Vec<Record> {
    let mut records = story();
    records.iter_mut().for_each(&mut change);
    records
}

fn without(drop: impl Fn(&Record) -> bool) -> Vec<Record> {
    story().into_iter().filter(|record| !drop(record)).collect()
}

/// The index of the `nth` record that fits.
fn find(records: &[Record], nth: usize, fits: impl Fn(&Record) -> bool) -> usize {
    let mut found = records
        .iter()
        .enumerate()
        .filter(|(_, record)| fits(record));
    found.nth(nth).unwrap().0
}

fn is_seen(record: &Record) -> bool {
    matches!(record, Record::Seen { .. })
}

fn saw(number: u64) -> impl Fn(&Record) -> bool {
    move |record| matches!(record, Record::Seen { sequence, .. } if *sequence == number)
}

#[test]
fn the_intact_history_passes() {
    let verdict = verdict(&story());
    assert!(verdict.passed, "{verdict}");
    assert_eq!(
        (verdict.messages, verdict.lost, verdict.order_violations),
        (8, 0, 0)
    );
    assert_eq!((verdict.grants, verdict.unclean_grants), (3, 1));
    assert_eq!((verdict.duplicates, verdict.redeliveries), (2, 2));
}

#[test]
fn an_empty_history_does_not_pass() {
    assert!(!verdict(&[]).passed);
}

#[test]
fn a_message_that_nobody_saw_is_lost() {
    assert_broken(&without(saw(8)), Rule::Lost);
}

#[test]
fn a_message_that_nobody_published_is_made_up() {
    let published = |record: &Record| matches!(record, Record::Published { sequence: 3, .. });
    assert_broken(&without(published), Rule::MadeUp);
}

#[test]
fn another_content_is_altered() {
    let other = changed(|record| {
        if let Record::Seen {
            sequence: 3, key, ..
        } = record
        {
            "other".clone_into(key);
        }
    });
    assert_broken(&other, Rule::Altered);
}

#[test]
fn two_publishers_of_one_place_contradict_each_other() {
    let mut records = story();
    records.push(records[find(&records, 0, |r| matches!(r, Record::Published { .. }))].clone());
    assert_broken(&records, Rule::Altered);
}

#[test]
fn a_skipped_message_is_out_of_order_even_if_it_comes_later() {
    let mut records = story();
    let (two, three) = (find(&records, 0, saw(2)), find(&records, 0, saw(3)));
    let (at_two, at_three) = (records[two].at().unwrap(), records[three].at().unwrap());
    for (index, time) in [(two, at_three), (three, at_two)] {
        let Record::Seen { at, .. } = &mut records[index] else {
            unreachable!()
        };
        *at = time;
    }
    assert_broken(&records, Rule::OutOfOrder);
}

#[test]
fn with_a_window_of_one_the_next_waits_for_the_acknowledgement() {
    let strict = Expectations {
        in_flight: 1,
        uncommitted: 3,
        ..Expectations::default()
    };
    assert!(judge(&story(), &strict).breaks(Rule::OutOfOrder));
    let one_by_one = Model::history(1, &STORY);
    assert!(judge(&one_by_one, &strict).passed);
}

#[test]
fn a_redelivery_must_not_be_overtaken_by_a_later_message() {
    // After the restart of the application, 5 has to come again before 6.
    let mut records = Model::history(2, &[Publish, Publish, See, See, RestartApplication]);
    let first_again = find(&records, 1, saw(1));
    records.remove(first_again);
    assert_broken(&records, Rule::OutOfOrder);
}

#[test]
fn a_message_given_back_must_not_be_overtaken() {
    let mut records = Model::history(2, &[Publish, Publish, See, See, Nack]);
    let first_again = find(&records, 1, saw(1));
    records.remove(first_again);
    assert_broken(&records, Rule::OutOfOrder);
}

#[test]
fn keys_go_up_one_by_one() {
    assert_broken(&without(saw(2)), Rule::KeyOutOfOrder);
}

#[test]
fn an_accepted_acknowledgement_is_not_forgotten_within_the_epoch() {
    let mut records = story();
    let mut again = records[find(&records, 0, saw(1))].clone();
    let accepted = records[find(&records, 0, |r| matches!(r, Record::Acked(_)))]
        .at()
        .unwrap();
    let Record::Seen { at, .. } = &mut again else {
        unreachable!()
    };
    *at = accepted + TICK / 2;
    records.push(again);
    assert_broken(&records, Rule::SeenAfterAck);
}

#[test]
fn what_was_committed_is_not_handed_to_the_next_owner() {
    let mut records = story();
    let mut again = records[find(&records, 0, saw(1))].clone();
    let Record::Seen { epoch, at, .. } = &mut again else {
        unreachable!()
    };
    (*epoch, *at) = (3, 1_000 * TICK);
    records.push(again);
    assert_broken(&records, Rule::SeenAfterCommit);
}

#[test]
fn two_applications_in_one_epoch_are_two_owners() {
    let mut records = story();
    let index = find(&records, 1, is_seen);
    let Record::Seen { member, .. } = &mut records[index] else {
        unreachable!()
    };
    "intruder".clone_into(member);
    assert_broken(&records, Rule::TwoOwners);
}

#[test]
fn the_reader_of_an_epoch_is_the_member_that_was_granted_it() {
    let all = changed(|record| {
        if let Record::Seen {
            member, epoch: 1, ..
        } = record
        {
            "intruder".clone_into(member);
        }
    });
    assert_broken(&all, Rule::ForeignReader);
}

#[test]
fn two_writers_in_one_epoch_are_two_owners() {
    let mut records = story();
    let index = find(&records, 2, |record| {
        matches!(record, Record::Commit { .. })
    });
    let Record::Commit { owner, .. } = &mut records[index] else {
        unreachable!()
    };
    "intruder".clone_into(owner);
    assert_broken(&records, Rule::TwoOwners);
    assert_broken(&records, Rule::NotGranted);
}

#[test]
fn an_epoch_is_not_granted_twice() {
    let same = changed(|record| {
        if let Record::Granted { epoch, .. } = record {
            *epoch = 1;
        }
    });
    assert_broken(&same, Rule::EpochFell);
    assert_broken(&same, Rule::TwoOwners);
}

#[test]
fn a_session_never_goes_back_to_a_lower_epoch() {
    let mut records = story();
    let mut late = records[find(&records, 0, is_seen)].clone();
    let Record::Seen { epoch, at, .. } = &mut late else {
        unreachable!()
    };
    (*epoch, *at) = (9, TICK + 1);
    records.push(late);
    assert_broken(&records, Rule::EpochFell);
}

#[test]
fn a_fenced_writer_commits_no_more() {
    let mut records = story();
    let last = Record::Commit {
        partition: 0,
        epoch: 1,
        owner: "m1-1".to_owned(),
        next_seq: 9,
        revision: 9_999,
        at: 1_000 * TICK,
    };
    records.push(last);
    assert_broken(&records, Rule::EpochFell);
}

#[test]
fn a_commit_does_not_move_back() {
    let mut records = story();
    let last = Record::Commit {
        partition: 0,
        epoch: 3,
        owner: "m0-3".to_owned(),
        next_seq: 2,
        revision: 9_999,
        at: 1_000 * TICK,
    };
    records.push(last);
    assert_broken(&records, Rule::CommitFell);
}

#[test]
fn nobody_commits_at_an_epoch_before_it_is_granted() {
    let late = changed(|record| {
        if let Record::Granted {
            epoch: 3, revision, ..
        } = record
        {
            *revision = 9_999;
        }
    });
    assert_broken(&late, Rule::NotGranted);
}

#[test]
fn a_commit_does_not_pass_what_was_not_acknowledged() {
    let last = |record: &Record| matches!(record, Record::Acking(Ack { sequence: 8, .. }));
    assert_broken(&without(last), Rule::UnsoundCommit);
}

#[test]
fn a_commit_does_not_pass_what_is_acknowledged_later() {
    let late = changed(|record| {
        if let Record::Acking(ack) = record
            && ack.sequence == 8
        {
            ack.at = 1_000 * TICK;
        }
    });
    assert_broken(&late, Rule::UnsoundCommit);
}

#[test]
fn a_refused_acknowledgement_justifies_no_commit() {
    let refused = changed(|record| {
        if let Record::Acked(ack) = record
            && ack.sequence == 8
        {
            *record = Record::Refused(ack.clone());
        }
    });
    assert_broken(&refused, Rule::UnsoundCommit);
}

#[test]
fn an_acknowledgement_covers_only_what_its_session_was_handed() {
    // 8 is acknowledged by a session that never saw it, nor what lies below.
    let other = changed(|record| {
        if let Record::Acking(ack) = record
            && ack.sequence == 8
        {
            "another".clone_into(&mut ack.session);
        }
    });
    assert_broken(&other, Rule::UnsoundCommit);
}

#[test]
fn the_end_has_to_be_committed() {
    let end = |record: &Record| matches!(record, Record::Commit { next_seq: 9, .. });
    assert_broken(&without(end), Rule::NotCommitted);
    let stopped = Expectations {
        completeness: Completeness::AllBut([0].into()),
        ..expect()
    };
    assert!(judge(&without(end), &stopped).passed);
}

/// The same, but for that every hand-over is said to have been clean.
fn said_to_be_clean(mut records: Vec<Record>) -> Vec<Record> {
    for record in &mut records {
        if let Record::Granted { unclean, .. } = record {
            *unclean = false;
        }
    }
    records
}

#[test]
fn a_clean_hand_over_has_no_duplicates() {
    assert_broken(&said_to_be_clean(story()), Rule::DuplicateAfterClean);
}

#[test]
fn what_was_given_back_is_tried_again_after_a_clean_hand_over() {
    let given_back = [Publish, See, Nack, Unclean, See, Acks, Commit];
    let verdict = verdict(&said_to_be_clean(Model::history(2, &given_back)));
    assert!(verdict.passed && verdict.duplicates == 1, "{verdict}");
    // Handed over again before, it is in somebody's hands.
    let again = [Publish, See, Nack, See, Unclean, See, Acks, Commit];
    let again = said_to_be_clean(Model::history(2, &again));
    assert_broken(&again, Rule::DuplicateAfterClean);
}

#[test]
fn an_unclean_hand_over_has_a_bounded_number_of_duplicates() {
    let tight = Expectations {
        uncommitted: 0,
        in_flight: 1,
        ..expect()
    };
    assert!(judge(&story(), &tight).breaks(Rule::TooManyDuplicates));
}

#[test]
fn a_key_that_a_policy_gave_up_may_be_passed() {
    #[expect(clippy::wildcard_enum_match_arm, reason = "all others stay")]
    let unread = |record: &Record| match record {
        Record::Seen { key, .. } => key == "k0-1",
        Record::Acking(ack) | Record::Acked(ack) => ack.sequence % 2 == 0,
        _ => false,
    };
    let policy = Expectations {
        given_up: ["k0-1".to_owned()].into(),
        completeness: Completeness::Nothing,
        ..expect()
    };
    let verdict = judge(&without(unread), &policy);
    assert!(!verdict.breaks(Rule::OutOfOrder), "{verdict}");
}
