//! A JetStream stream: messages in one order, numbered without reuse as long as nothing is lost.
//!
//! One model for both kinds of streams that a group lives on: its bucket, with one message per
//! subject and compare-and-set, and the streams of its messages. `tests/model.rs` of the crate
//! `lockstep-e2e` plays the same scripts to it and to real servers.

use std::collections::BTreeMap;

use lockstep::group::ServerTime;

/// A stream with subjects `K` and contents `V`.
#[derive(Clone, Debug)]
pub struct Stream<K, V> {
    created: ServerTime,
    last: u64,
    /// Below it nothing is left, also if the message at it has gone.
    floor: u64,
    messages: BTreeMap<u64, Stored<K, V>>,
    newest: BTreeMap<K, u64>,
    one_per_subject: bool,
}

/// A message of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored<K, V> {
    /// Its subject.
    pub subject: K,
    /// When it was stored.
    pub ts: ServerTime,
    /// Its content.
    pub value: V,
}

/// The subject stands elsewhere: error 10071, "wrong last sequence: N".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongLast(pub u64);

// === impl Stream ===

impl<K: Ord + Clone, V: Clone> Stream<K, V> {
    /// An empty stream; with `one_per_subject` each message takes the place of the one before.
    pub fn new(created: ServerTime, one_per_subject: bool) -> Self {
        Self {
            created,
            last: 0,
            floor: 1,
            messages: BTreeMap::new(),
            newest: BTreeMap::new(),
            one_per_subject,
        }
    }

    /// When it was made.
    pub fn created(&self) -> ServerTime {
        self.created
    }

    /// The newest sequence; 0 if there never was one.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// The first message that is there; `last + 1` if there is none.
    pub fn first(&self) -> u64 {
        self.messages
            .first_key_value()
            .map_or(self.last + 1, |(seq, _)| *seq)
            .max(self.floor.min(self.last + 1))
    }

    /// Stores a message; with `expected`, only if its subject stands there (0: is not there).
    ///
    /// # Errors
    ///
    /// Where the subject stands, if that is elsewhere.
    pub fn publish(
        &mut self,
        (subject, value): (K, V),
        ts: ServerTime,
        expected: Option<u64>,
    ) -> Result<u64, WrongLast> {
        let stands_at = self.stands_at(&subject);
        if expected.is_some_and(|expected| expected != stands_at) {
            return Err(WrongLast(stands_at));
        }
        self.last += 1;
        if self.one_per_subject {
            self.messages.remove(&stands_at);
        }
        self.newest.insert(subject.clone(), self.last);
        self.messages
            .insert(self.last, Stored { subject, ts, value });
        Ok(self.last)
    }

    /// Where a subject stands; 0: nowhere.
    pub fn stands_at(&self, subject: &K) -> u64 {
        self.newest.get(subject).copied().unwrap_or(0)
    }

    /// The newest message of a subject.
    pub fn newest(&self, subject: &K) -> Option<(u64, &Stored<K, V>)> {
        let seq = self.newest.get(subject)?;
        Some((*seq, self.messages.get(seq)?))
    }

    /// The message at a sequence.
    pub fn at(&self, seq: u64) -> Option<&Stored<K, V>> {
        self.messages.get(&seq)
    }

    /// What a consumer that starts here delivers, in order: a start below the first message is moved
    /// up to it, one above the end waits for that very sequence.
    pub fn from(&self, start: u64) -> impl Iterator<Item = (u64, &Stored<K, V>)> {
        self.messages
            .range(start..)
            .map(|(seq, stored)| (*seq, stored))
    }

    /// What a watch delivers first: the newest message of each subject that matches, in order.
    pub fn last_per_subject(&self, matches: impl Fn(&K) -> bool) -> Vec<(u64, Stored<K, V>)> {
        self.messages
            .iter()
            .filter(|(seq, s)| matches(&s.subject) && self.newest.get(&s.subject) == Some(seq))
            .map(|(seq, stored)| (*seq, stored.clone()))
            .collect()
    }

    /// Removes everything below; the numbers go on, also if nothing is left.
    pub fn purge_below(&mut self, first: u64) {
        self.messages = self.messages.split_off(&first);
        self.floor = self.floor.max(first);
        self.find_the_newest();
    }

    /// Removes one message.
    pub fn remove(&mut self, seq: u64) {
        self.messages.remove(&seq);
        self.find_the_newest();
    }

    /// Loses its end: sequences above `last` will be used again.
    pub fn truncate(&mut self, last: u64) {
        let last = last.min(self.last);
        drop(self.messages.split_off(&(last + 1)));
        self.last = last;
        self.find_the_newest();
    }

    /// The next message is given this sequence at least.
    pub fn skip_to(&mut self, next: u64) {
        self.last = self.last.max(next.saturating_sub(1));
    }

    fn find_the_newest(&mut self) {
        self.newest.clear();
        for (seq, stored) in &self.messages {
            self.newest.insert(stored.subject.clone(), *seq);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(one_per_subject: bool) -> Stream<&'static str, u8> {
        Stream::new(ServerTime(1), one_per_subject)
    }

    fn publish(s: &mut Stream<&'static str, u8>, subject: &'static str) -> u64 {
        s.publish((subject, 0), ServerTime(2), None).unwrap()
    }

    #[test]
    fn a_bucket_keeps_the_newest_value_and_judges_by_it() {
        let mut s = stream(true);
        assert_eq!(publish(&mut s, "a"), 1);
        assert_eq!(
            s.publish(("a", 1), ServerTime(3), Some(0)),
            Err(WrongLast(1))
        );
        assert_eq!(s.publish(("b", 1), ServerTime(3), Some(0)), Ok(2));
        assert_eq!(s.publish(("a", 2), ServerTime(4), Some(1)), Ok(3));
        assert_eq!(s.at(1), None);
        let all: Vec<u64> = s
            .last_per_subject(|_| true)
            .iter()
            .map(|(q, _)| *q)
            .collect();
        assert_eq!((all, s.first()), (vec![2, 3], 2));
    }

    #[test]
    fn a_purge_keeps_the_numbers_and_a_lost_end_gives_them_out_again() {
        let mut s = stream(false);
        (1..=5).for_each(|seq| assert_eq!(publish(&mut s, "a"), seq));
        s.purge_below(4);
        assert_eq!((s.first(), s.last()), (4, 5));
        assert_eq!(s.from(1).map(|(seq, _)| seq).collect::<Vec<_>>(), [4, 5]);
        assert_eq!(s.from(9).count(), 0);
        s.truncate(4);
        assert_eq!((s.last(), publish(&mut s, "a")), (4, 5));
        s.purge_below(6);
        assert_eq!((s.first(), s.last(), publish(&mut s, "a")), (6, 5, 6));
    }
}
