//! What somebody's hand did is excused, and nothing beside it.

use super::model::{Model, Op, TICK};
use crate::checker::{Expectations, Rule, Verdict, judge};
use crate::history::{Record, split};

use Op::{Ack, Clean, Commit, Publish, See};

/// Eight messages of a partition, each acknowledged and committed before the next; the partition
/// is handed over in good order in between.
fn story() -> Vec<Record> {
    let four = [Publish, See, Ack, Commit].repeat(4);
    Model::history(1, &[four.clone(), vec![Clean], four].concat())
}

fn verdict(records: &[Record], expect: &Expectations) -> Verdict {
    judge(records, expect)
}

/// Sequences 3 and 4 are never seen.
fn purged() -> Vec<Record> {
    let gone = |sequence: u64| (3..5).contains(&sequence);
    let mut records = story();
    records.retain(|record| {
        let of_it = if let Record::Seen { sequence, .. } = record {
            Some(*sequence)
        } else if let Record::Acking(ack) | Record::Acked(ack) = record {
            Some(ack.sequence)
        } else {
            None
        };
        !of_it.is_some_and(gone)
    });
    records
}

#[test]
fn what_was_purged_need_not_be_seen_and_what_was_not_must_be() {
    let below = |removed_below| Expectations {
        removed_below,
        ..Expectations::default()
    };
    let excused = verdict(&purged(), &below(5));
    assert!(excused.passed, "{excused}");
    for rule in [
        Rule::Lost,
        Rule::OutOfOrder,
        Rule::KeyOutOfOrder,
        Rule::UnsoundCommit,
    ] {
        let judged = verdict(&purged(), &below(4));
        assert!(judged.breaks(rule), "{rule:?} was excused\n{judged}");
    }
}

/// The commit of 5 is followed by one of 2, once or twice.
fn moved_back(times: usize) -> Vec<Record> {
    let mut records = story();
    for _ in 0..times {
        let five = |record: &Record| matches!(record, Record::Commit { next_seq: 5, .. });
        let from = records.iter().position(five).unwrap();
        let mut back = records[from].clone();
        for record in &mut records {
            if let Record::Commit { revision, .. } | Record::Granted { revision, .. } = record {
                *revision *= 4;
            }
        }
        if let Record::Commit {
            next_seq, revision, ..
        } = &mut back
        {
            (*next_seq, *revision) = (2, *revision * 4 + 1);
        }
        let mut again = records[from].clone();
        if let Record::Commit { revision, .. } = &mut again {
            *revision += 2;
        }
        records.extend([back, again]);
    }
    records
}

#[test]
fn a_policy_moves_a_position_back_as_often_as_it_may() {
    let may = |moves_back| Expectations {
        moves_back,
        ..Expectations::default()
    };
    assert!(verdict(&moved_back(1), &may(0)).breaks(Rule::CommitFell));
    assert!(!verdict(&moved_back(1), &may(1)).breaks(Rule::CommitFell));
    assert!(verdict(&moved_back(2), &may(1)).breaks(Rule::CommitFell));
}

/// Message 4, which was acknowledged before the hand-over, is seen again after it.
fn seen_again() -> Vec<Record> {
    let mut records = story();
    let nth = |records: &[Record], number: u64| {
        let fits = |r: &Record| matches!(r, Record::Seen { sequence, .. } if *sequence == number);
        records.iter().position(fits).unwrap()
    };
    let (fourth, fifth) = (nth(&records, 4), nth(&records, 5));
    let (mut again, mut later) = (records[fourth].clone(), records[fifth].clone());
    if let (
        Record::Seen {
            member,
            session,
            epoch,
            at,
            ..
        },
        Record::Seen {
            member: new_member,
            session: new_session,
            epoch: new_epoch,
            at: then,
            ..
        },
    ) = (&mut again, &mut later)
    {
        (*member, *session) = (new_member.clone(), new_session.clone());
        (*epoch, *at) = (*new_epoch, *then - TICK / 2);
    }
    records.push(again);
    records
}

/// The revision of the first grant, and of the one after the hand-over.
fn grants(records: &[Record]) -> Vec<u64> {
    let mut revisions = Vec::new();
    for record in records {
        if let Record::Granted { revision, .. } = record {
            revisions.push(*revision);
        }
    }
    revisions
}

#[test]
fn a_lost_bucket_excuses_repeats_across_its_loss_and_no_others() {
    let records = seen_again();
    let grants = grants(&records);
    let lost = |state_lost_after| Expectations {
        state_lost_after,
        uncommitted: 5,
        ..Expectations::default()
    };
    let between = verdict(&records, &lost(Some(grants[1] - 1)));
    assert!(!between.breaks(Rule::DuplicateAfterClean), "{between}");
    for elsewhere in [None, Some(grants[1])] {
        let judged = verdict(&records, &lost(elsewhere));
        assert!(judged.breaks(Rule::DuplicateAfterClean), "{judged}");
    }
}

/// Message 2 is seen again, in its epoch, after its acknowledgement was accepted.
fn seen_after_ack() -> Vec<Record> {
    let mut records = story();
    let second = |r: &Record| matches!(r, Record::Seen { sequence: 2, .. });
    let mut again = records[records.iter().position(second).unwrap()].clone();
    if let Record::Seen { at, .. } = &mut again {
        *at += 3 * TICK / 2 + TICK;
    }
    records.push(again);
    records
}

#[test]
fn a_record_that_was_put_back_excuses_its_partition_and_no_other() {
    let put_back = |partition: u32| Expectations {
        put_back: [partition].into(),
        ..Expectations::default()
    };
    assert!(verdict(&seen_after_ack(), &put_back(1)).breaks(Rule::SeenAfterAck));
    assert!(!verdict(&seen_after_ack(), &put_back(0)).breaks(Rule::SeenAfterAck));
}

#[test]
fn a_history_is_parted_where_sequences_begin_to_mean_something_else() {
    let all = story();
    let second: Vec<Record> = all
        .iter()
        .filter(|r| matches!(r, Record::Published { sequence, .. } if *sequence > 4))
        .cloned()
        .collect();
    let ended = second.iter().filter_map(Record::at).min().unwrap() - 1;
    let (before, after) = split(all.clone(), &second, ended);
    let sequences = |records: &[Record]| -> Vec<u64> {
        let mut published = Vec::new();
        for record in records {
            if let Record::Published { sequence, .. } = record {
                published.push(*sequence);
            }
        }
        published
    };
    assert_eq!(sequences(&before), [1, 2, 3, 4]);
    assert_eq!(sequences(&after), [5, 6, 7, 8]);
    assert_eq!(grants(&before), grants(&all));
    assert_eq!(grants(&after), grants(&all));
    assert!(verdict(&before, &Expectations::default()).passed);
}
