//! Pauses are measured from publication or the predecessor, and belong to their event.

use super::model::TICK;
use crate::checker::{Expectations, judge};
use crate::history::Record;

fn published(sequence: u64, at: u64) -> Record {
    let (stream, key) = ("S".to_owned(), "k".to_owned());
    Record::Published {
        stream,
        sequence,
        partition: 7,
        key,
        n: sequence,
        at: at * TICK,
    }
}

fn seen(sequence: u64, epoch: u64, at: u64) -> Record {
    Record::Seen {
        member: "m".to_owned(),
        session: "s".to_owned(),
        partition: 7,
        epoch,
        sequence,
        key: "k".to_owned(),
        n: sequence,
        attempt: 1,
        at: at * TICK,
    }
}

fn event(name: &str, at: u64) -> Record {
    Record::Event {
        name: name.to_owned(),
        at: at * TICK,
    }
}

#[test]
fn a_pause_counts_from_when_the_message_could_have_come() {
    let records = [
        event("start", 1),
        published(1, 10),
        seen(1, 1, 11),
        // Nobody waited from 11 to 20: nothing was there.
        published(2, 20),
        published(3, 21),
        event("kill", 22),
        seen(2, 2, 27),
        seen(3, 2, 29),
        // Seen again: no news.
        seen(3, 3, 90),
    ];
    let pauses = judge(&records, &Expectations::default()).pauses;
    assert_eq!(pauses.len(), 2);
    assert_eq!(
        (pauses[0].event.as_str(), pauses[0].longest_ms[&7]),
        ("start", 1_000)
    );
    assert_eq!(
        (pauses[1].event.as_str(), pauses[1].longest_ms[&7]),
        ("kill", 7_000)
    );
}
