//! Whatever a group that keeps its promises does, it passes; whatever is broken in it is seen.

use proptest::prelude::*;
use proptest::sample::Index;

use super::model::{Model, Op, TICK};
use crate::checker::{Expectations, Rule, judge};
use crate::history::Record;

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => Just(Op::Publish),
        6 => Just(Op::See),
        4 => Just(Op::Ack),
        2 => Just(Op::Commit),
        1 => Just(Op::Clean),
        1 => Just(Op::Unclean),
        1 => Just(Op::RestartApplication),
        1 => Just(Op::Nack),
    ]
}

fn history() -> impl Strategy<Value = (u64, Vec<Record>)> {
    let ops = prop::collection::vec((0..3_u32, op()), 20..120);
    (1..5_usize, ops).prop_map(|(window, ops)| (window as u64, Model::run(3, window, &ops)))
}

fn expect(in_flight: u64) -> Expectations {
    Expectations {
        in_flight,
        ..Expectations::default()
    }
}

/// The indices of the records that fit.
fn all(records: &[Record], fits: impl Fn(&Record) -> bool) -> Vec<usize> {
    records
        .iter()
        .enumerate()
        .filter(|(_, record)| fits(record))
        .map(|(index, _)| index)
        .collect()
}

/// A way of breaking a history; `None` where it has no place for it.
type Break = fn(Vec<Record>, Index) -> Option<Vec<Record>>;

const BREAKS: [(Break, Rule); 10] = [
    (lose_a_message, Rule::Lost),
    (invent_a_message, Rule::MadeUp),
    (alter_a_message, Rule::Altered),
    (show_an_acknowledged_message, Rule::SeenAfterAck),
    (show_it_to_another_member, Rule::TwoOwners),
    (let_another_commit, Rule::TwoOwners),
    (roll_a_commit_back, Rule::CommitFell),
    (commit_a_fenced_epoch, Rule::EpochFell),
    (forget_an_acknowledgement, Rule::UnsoundCommit),
    (commit_everything_at_once, Rule::UnsoundCommit),
];

fn pick(from: &[usize], index: Index) -> Option<usize> {
    if from.is_empty() {
        None
    } else {
        Some(from[index.index(from.len())])
    }
}

fn is_published(record: &Record) -> bool {
    matches!(record, Record::Published { .. })
}

fn is_seen(record: &Record) -> bool {
    matches!(record, Record::Seen { .. })
}

fn is_commit(record: &Record) -> bool {
    matches!(record, Record::Commit { epoch, .. } if *epoch > 0)
}

fn lose_a_message(mut records: Vec<Record>, index: Index) -> Option<Vec<Record>> {
    let Record::Published { sequence: lost, .. } =
        records[pick(&all(&records, is_published), index)?]
    else {
        return None;
    };
    records.retain(|record| !matches!(record, Record::Seen { sequence, .. } if *sequence == lost));
    Some(records)
}

fn invent_a_message(mut records: Vec<Record>, index: Index) -> Option<Vec<Record>> {
    let place = pick(&all(&records, is_published), index)?;
    records.remove(place);
    Some(records)
}

fn alter_a_message(mut records: Vec<Record>, index: Index) -> Option<Vec<Record>> {
    let place = pick(&all(&records, is_seen), index)?;
    if let Record::Seen { n, .. } = &mut records[place] {
        *n += 1;
    }
    Some(records)
}

fn show_an_acknowledged_message(mut records: Vec<Record>, index: Index) -> Option<Vec<Record>> {
    let acked = all(&records, |record| matches!(record, Record::Acked(_)));
    let Record::Acked(ack) = records[pick(&acked, index)?].clone() else {
        return None;
    };
    let same = all(&records, |record| {
        matches!(record, Record::Seen { partition, epoch, sequence, .. }
            if (*partition, *epoch, *sequence) == (ack.partition, ack.epoch, ack.sequence))
    });
    let mut again = records[*same.first()?].clone();
    if let Record::Seen { at, .. } = &mut again {
        *at = ack.at + TICK / 2;
    }
    records.push(again);
    Some(records)
}

fn show_it_to_another_member(mut records: Vec<Record>, index: Index) -> Option<Vec<Record>> {
    let place = pick(&all(&records, is_seen), index)?;
    let mut copy = records[place].clone();
    if let Record::Seen { member, .. } = &mut copy {
        "intruder".clone_into(member);
    }
    records.push(copy);
    Some(records)
}

fn let_another_commit(mut records: Vec<Record>, index: Index) -> Option<Vec<Record>> {
    let place = pick(&all(&records, is_commit), index)?;
    if let Record::Commit { owner, .. } = &mut records[place] {
        "intruder".clone_into(owner);
    }
    Some(records)
}

/// The last commit of the partition that the index names, again, with something changed.
fn after_all(
    mut records: Vec<Record>,
    index: Index,
    change: impl Fn(&mut u64, &mut u64),
) -> Option<Vec<Record>> {
    let place = pick(&all(&records, is_commit), index)?;
    let Record::Commit {
        partition: chosen, ..
    } = records[place]
    else {
        return None;
    };
    let its = |record: &Record| matches!(record, Record::Commit { partition, .. } if *partition == chosen);
    let mut last = records[*all(&records, its).last()?].clone();
    if let Record::Commit {
        epoch,
        next_seq,
        revision,
        at,
        ..
    } = &mut last
    {
        change(epoch, next_seq);
        *revision += 1_000_000;
        *at += 1_000_000 * TICK;
    }
    records.push(last);
    Some(records)
}

fn roll_a_commit_back(records: Vec<Record>, index: Index) -> Option<Vec<Record>> {
    after_all(records, index, |_, next_seq| *next_seq -= 1)
}

fn commit_a_fenced_epoch(records: Vec<Record>, index: Index) -> Option<Vec<Record>> {
    after_all(records, index, |epoch, _| *epoch -= 1)
}

/// Removes the only reason why some message may be committed.
fn forget_an_acknowledgement(mut records: Vec<Record>, index: Index) -> Option<Vec<Record>> {
    let place = pick(&all(&records, is_published), index)?;
    let Record::Published {
        sequence: kept,
        partition: chosen,
        ..
    } = records[place]
    else {
        return None;
    };
    records.retain(|record| {
        !matches!(record, Record::Acking(ack) if ack.partition == chosen && ack.sequence >= kept)
    });
    Some(records)
}

/// The first claim of a partition already passes everything.
fn commit_everything_at_once(mut records: Vec<Record>, index: Index) -> Option<Vec<Record>> {
    let place = pick(&all(&records, is_published), index)?;
    let Record::Published {
        partition: chosen, ..
    } = records[place]
    else {
        return None;
    };
    for record in &mut records {
        if let Record::Commit {
            partition,
            epoch,
            next_seq,
            at,
            ..
        } = record
            && *partition == chosen
            && *epoch > 0
        {
            (*next_seq, *at) = (1_000_000, 0);
        }
    }
    Some(records)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_group_that_keeps_its_promises_passes((window, records) in history()) {
        let verdict = judge(&records, &expect(window));
        prop_assert!(verdict.violations.is_empty(), "{}", verdict);
    }

    #[test]
    fn whatever_is_broken_is_seen(
        (window, records) in history(),
        which in 0..BREAKS.len(),
        index: Index,
    ) {
        let (broken, rule) = BREAKS[which];
        let Some(records) = broken(records, index) else { return Ok(()) };
        let verdict = judge(&records, &expect(window));
        prop_assert!(verdict.breaks(rule), "{:?} by break {} was not seen\n{}", rule, which, verdict);
    }

    #[test]
    fn the_order_of_the_records_does_not_matter(
        (window, (records, shuffled)) in history().prop_flat_map(|(window, records)| {
            let shuffled = Just(records.clone()).prop_shuffle();
            (Just(window), (Just(records), shuffled))
        }),
    ) {
        prop_assert_eq!(judge(&shuffled, &expect(window)), judge(&records, &expect(window)));
    }
}
