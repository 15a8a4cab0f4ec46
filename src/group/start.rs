//! `startFrom`: where a group begins that has no history. Resolved once, when it is seeded.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Partition, Sequence, ServerTime, Source, StartFrom};

/// The ends of a stream at the moment of looking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamEnds {
    /// The first message that is still there; the end if there is none.
    pub first: Sequence,
    /// The position after the newest message: 1 in a stream that never had one.
    pub end: Sequence,
}

/// What has to be asked of each stream before its position is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Its ends.
    Ends,
    /// Its ends, and the first message stored at or after this time.
    FirstSince(ServerTime),
}

/// What a stream answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its ends.
    pub ends: StreamEnds,
    /// The first message at or after the time that was asked for; none if there is none.
    pub first_since: Option<Sequence>,
}

/// What to ask. `now` is the time at which the group is made, by the wall clock: `Duration` counts
/// back from it.
pub fn question(start: &StartFrom, now: ServerTime) -> Question {
    match start {
        StartFrom::Earliest | StartFrom::Latest | StartFrom::Sequence { .. } => Question::Ends,
        StartFrom::Time { time } => Question::FirstSince(*time),
        StartFrom::Duration { duration } => Question::FirstSince(earlier(now, *duration)),
    }
}

/// The first sequence to read of a stream that answered this.
///
/// A position outside the stream is moved to its nearer end: below the first message it would
/// look like messages lost to retention, above the end like a stream that was cut.
pub fn position(start: &StartFrom, answer: Answer) -> Sequence {
    let StreamEnds { first, end } = answer.ends;
    let end = end.max(Sequence::FIRST);
    let first = first.clamp(Sequence::FIRST, end);
    match start {
        StartFrom::Earliest => first,
        StartFrom::Latest => end,
        StartFrom::Sequence { sequence } => (*sequence).clamp(first, end),
        StartFrom::Time { .. } | StartFrom::Duration { .. } => answer
            .first_since
            .map_or(end, |found| found.clamp(first, end)),
    }
}

/// The position of every partition. Fails with the name of a stream that has not answered.
pub fn positions(
    start: &StartFrom,
    source: &Source,
    answers: &BTreeMap<String, Answer>,
) -> Result<BTreeMap<Partition, Sequence>, String> {
    Partition::all(source.partitions())
        .filter_map(|p| Some((p, source.of(p)?)))
        .map(|(p, of)| match answers.get(&of.stream) {
            Some(answer) => Ok((p, position(start, *answer))),
            None => Err(of.stream),
        })
        .collect()
}

fn earlier(now: ServerTime, by: Duration) -> ServerTime {
    let by = i64::try_from(by.as_nanos()).unwrap_or(i64::MAX);
    ServerTime(now.0.saturating_sub(by))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ends(first: u64, end: u64) -> Answer {
        let (first, end) = (Sequence(first), Sequence(end));
        Answer {
            ends: StreamEnds { first, end },
            first_since: None,
        }
    }

    const HOUR: StartFrom = StartFrom::Duration {
        duration: Duration::from_secs(3600),
    };

    // P88
    #[test]
    fn earliest_is_the_first_message_and_latest_the_end() {
        assert_eq!(position(&StartFrom::Earliest, ends(40, 100)), Sequence(40));
        assert_eq!(position(&StartFrom::Latest, ends(40, 100)), Sequence(100));
    }

    #[test]
    fn in_an_empty_stream_every_start_is_its_end() {
        for start in [StartFrom::Earliest, StartFrom::Latest, HOUR] {
            assert_eq!(position(&start, ends(0, 0)), Sequence(1));
            assert_eq!(position(&start, ends(1, 1)), Sequence(1));
            // Purged: the numbers go on.
            assert_eq!(position(&start, ends(51, 51)), Sequence(51));
        }
    }

    // P88
    #[test]
    fn a_sequence_outside_the_stream_is_moved_to_the_nearer_end() {
        let from = |sequence| StartFrom::Sequence {
            sequence: Sequence(sequence),
        };
        for (given, expected) in [
            (0, 40),
            (1, 40),
            (40, 40),
            (70, 70),
            (100, 100),
            (5000, 100),
        ] {
            assert_eq!(
                position(&from(given), ends(40, 100)),
                Sequence(expected),
                "{given}"
            );
        }
    }

    // P88
    #[test]
    fn a_time_is_the_first_message_since_then_or_the_end() {
        let time = StartFrom::Time {
            time: ServerTime(7_000),
        };
        assert_eq!(
            question(&time, ServerTime(9_000)),
            Question::FirstSince(ServerTime(7_000))
        );
        let found = Answer {
            first_since: Some(Sequence(61)),
            ..ends(40, 100)
        };
        assert_eq!(position(&time, found), Sequence(61));
        assert_eq!(position(&time, ends(40, 100)), Sequence(100));
    }

    // P88
    #[test]
    fn a_duration_counts_back_from_the_making_of_the_group() {
        let now = ServerTime(3_600_000_000_000 + 5);
        assert_eq!(question(&HOUR, now), Question::FirstSince(ServerTime(5)));
        let for_ever = StartFrom::Duration {
            duration: Duration::MAX,
        };
        assert!(matches!(
            question(&for_ever, now),
            Question::FirstSince(ServerTime(i64::MIN..=0))
        ));
    }

    // P88
    #[test]
    fn each_partition_begins_where_its_own_stream_says() {
        let source = Source::Streams {
            pattern: "s-{partition}".into(),
            partitions: 2,
            subjects: String::new(),
        };
        let mut answers = BTreeMap::from([("s-0".to_owned(), ends(4, 9))]);
        let missing = positions(&StartFrom::Earliest, &source, &answers);
        assert_eq!(missing, Err("s-1".to_owned()));
        answers.insert("s-1".to_owned(), ends(1, 3));
        let all = positions(&StartFrom::Earliest, &source, &answers).unwrap();
        assert_eq!(
            all,
            BTreeMap::from([(Partition(0), Sequence(4)), (Partition(1), Sequence(1))])
        );
    }

    fn starts() -> impl Strategy<Value = StartFrom> {
        prop_oneof![
            Just(StartFrom::Earliest),
            Just(StartFrom::Latest),
            Just(HOUR),
            any::<u64>().prop_map(|s| StartFrom::Sequence {
                sequence: Sequence(s)
            }),
            any::<i64>().prop_map(|t| StartFrom::Time {
                time: ServerTime(t)
            }),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: Some(Box::new(
                proptest::test_runner::FileFailurePersistence::WithSource("regressions"),
            )),
            ..ProptestConfig::default()
        })]

        #[test]
        fn a_position_is_never_outside_the_stream(
            start in starts(),
            (first, end) in (0..u64::MAX, 0..u64::MAX),
            found in prop::option::of(any::<u64>()),
        ) {
            let found = found.map(Sequence);
            let at = position(&start, Answer { first_since: found, ..ends(first.min(end), end) });
            prop_assert!(at >= Sequence::FIRST);
            prop_assert!(at >= Sequence(first.min(end)) && at <= Sequence(end.max(1)));
        }
    }
}
