//! How much has been asked for, and when to ask for more.
//!
//! The server serves waiting pulls in turn, so that a message cannot be assigned to its pull; only
//! sums are kept. A pull says at its end what it did not use.

use std::collections::VecDeque;

use tokio::time::Instant;

use super::status::Unused;

/// Most messages of one pull.
const BATCH: i64 = 500;
/// Messages on their way below which the next pull is sent. The server serves pulls in turn, which
/// costs it time, so that they overlap as little as the way there and back needs.
const LOW: i64 = 150;
/// Most pulls in flight.
const LIVE: usize = 6;
/// Bytes below which it is not worth being precise.
const SMALL: i64 = 64 * 1024;

/// The pulls in flight.
#[derive(Debug)]
pub(super) struct Pulls {
    live: VecDeque<Pull>,
    messages: i64,
    bytes: i64,
    last: u64,
    /// What a message takes, by the last few; 0 before the first.
    typical: i64,
    /// A pull of fewer bytes was too small for the next message.
    at_least: i64,
    /// The next message alone is larger than a pull may be: it is asked for by itself.
    oversized: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pull {
    number: u64,
    request: Request,
    forgotten_at: Instant,
}

/// What to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) messages: u32,
    /// None: whatever the size.
    pub(super) bytes: Option<u32>,
}

/// Whether a pull is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// It is.
    Now(Request),
    /// There is little room: now, or better a little later, when there may be more.
    Little(Request),
    /// There is no room, or enough is on its way.
    Nothing,
}

/// What may be in our hands, and how much of it is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) messages: i64,
    pub(super) bytes: i64,
    pub(super) window_messages: i64,
    pub(super) window_bytes: i64,
}

// === impl Pulls ===

impl Pulls {
    pub(super) fn new() -> Self {
        Self {
            live: VecDeque::with_capacity(LIVE + 1),
            messages: 0,
            bytes: 0,
            last: 0,
            typical: 0,
            at_least: 0,
            oversized: false,
        }
    }

    /// Whether the server owes us anything: messages, or at least heartbeats.
    pub(super) fn is_waiting(&self) -> bool {
        !self.live.is_empty()
    }

    /// The next pull, if one is due.
    pub(super) fn due(&self, room: Room) -> Due {
        let messages = room.messages - self.messages;
        let bytes = room.bytes - self.bytes;
        let low = (room.window_messages / 4).min(LOW);
        let enough = self.is_waiting() && self.messages > low;
        if messages <= 0 || bytes <= 0 || enough || self.live.len() >= LIVE {
            return Due::Nothing;
        }
        let most = (room.window_bytes / 2).max(1);
        let batch = messages.min(BATCH);
        let wanted = self.bytes_for(batch, most);
        if self.oversized || bytes < self.at_least.min(most) {
            // It may exceed what is free, so it comes when nothing else is on its way.
            if self.is_waiting() {
                return Due::Nothing;
            }
            return Due::Now(Request {
                messages: 1,
                bytes: None,
            });
        }
        let share = wanted.min(bytes).min(i64::from(i32::MAX));
        let request = Request {
            messages: u32::try_from(batch).unwrap_or(1),
            bytes: u32::try_from(share).ok(),
        };
        if batch < (room.window_messages / 4).min(LOW) || bytes < wanted / 2 {
            return Due::Little(request);
        }
        Due::Now(request)
    }

    /// What a pull of this many messages should be allowed: about twice what they will take, so
    /// that pulls do not reserve the window from each other.
    fn bytes_for(&self, messages: i64, most: i64) -> i64 {
        let expected = match self.typical {
            0 => most / 2,
            typical => messages.saturating_mul(typical).saturating_mul(2),
        };
        expected.max(SMALL).max(self.at_least).clamp(1, most)
    }

    /// Notes a pull; returns its number.
    pub(super) fn sent(&mut self, request: Request, forgotten_at: Instant) -> u64 {
        self.last += 1;
        self.live.push_back(Pull {
            number: self.last,
            request,
            forgotten_at,
        });
        self.messages += i64::from(request.messages);
        self.bytes += request.bytes.map_or(0, i64::from);
        self.last
    }

    /// Notes a message of this size, by the server's count.
    pub(super) fn delivered(&mut self, size: usize) {
        let size = i64::try_from(size).unwrap_or(i64::MAX);
        self.messages -= 1;
        self.bytes = (self.bytes - size).max(0);
        self.typical = match self.typical {
            0 => size,
            typical => (typical * 7 + size) / 8,
        };
        self.at_least = 0;
        self.oversized = false;
        if self.messages <= 0 {
            self.forget();
        }
    }

    /// Notes the end of a pull.
    pub(super) fn ended(&mut self, number: u64, unused: Unused) {
        let Some(at) = self.live.iter().position(|pull| pull.number == number) else {
            return;
        };
        self.live.remove(at);
        if self.live.is_empty() {
            self.forget();
            return;
        }
        let messages = unused.messages.and_then(|n| i64::try_from(n).ok());
        let bytes = unused.bytes.and_then(|n| i64::try_from(n).ok());
        self.messages = (self.messages - messages.unwrap_or(0)).max(0);
        self.bytes = (self.bytes - bytes.unwrap_or(0)).max(0);
    }

    /// Notes the end of a pull because the next message did not fit.
    pub(super) fn ended_too_large(&mut self, number: u64, unused: Unused, room: Room) {
        let asked = self.live.iter().find(|pull| pull.number == number);
        let asked = asked.and_then(|pull| pull.request.bytes).map(i64::from);
        // Something used: the message may fit into a fresh pull. Nothing: it needs a larger one.
        let used = unused.bytes.and_then(|rest| i64::try_from(rest).ok());
        if let Some(asked) = asked.filter(|asked| used.is_none_or(|rest| rest == *asked)) {
            self.oversized = asked >= (room.window_bytes / 2).max(1);
            self.at_least = asked.saturating_mul(4);
        }
        self.ended(number, unused);
    }

    /// Forgets all pulls: they are over, or the server may have.
    pub(super) fn forget(&mut self) {
        self.live.clear();
        self.messages = 0;
        self.bytes = 0;
    }

    /// Forgets pulls that the server has let expire without our hearing of it.
    pub(super) fn expire(&mut self, now: Instant) {
        while let Some(pull) = self.live.front().filter(|p| p.forgotten_at <= now).copied() {
            self.ended(pull.number, Unused::default());
        }
    }

    /// When the oldest pull is forgotten.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.live.front().map(|pull| pull.forgotten_at)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn room(messages: i64, bytes: i64) -> Room {
        Room {
            messages,
            bytes,
            window_messages: 1000,
            window_bytes: 1_000_000,
        }
    }

    fn ask(pulls: &mut Pulls, room: Room) -> Option<(u64, Request)> {
        let (Due::Now(request) | Due::Little(request)) = pulls.due(room) else {
            return None;
        };
        let number = pulls.sent(request, Instant::now() + Duration::from_secs(35));
        Some((number, request))
    }

    fn unused(messages: u64, bytes: u64) -> Unused {
        Unused {
            messages: Some(messages),
            bytes: Some(bytes),
        }
    }

    #[test]
    fn the_next_pull_is_sent_before_the_last_message_of_the_one_before() {
        let mut pulls = Pulls::new();
        let (_, request) = ask(&mut pulls, room(1000, 1_000_000)).unwrap();
        assert_eq!((request.messages, request.bytes), (500, Some(250_000)));
        // As they come they are in the owner's hands, who has done with 100 of them.
        let room = room(600, 1_000_000);
        (0..349).for_each(|_| pulls.delivered(100));
        assert_eq!(pulls.due(room), Due::Nothing);
        pulls.delivered(100);
        let (_, request) = ask(&mut pulls, room).unwrap();
        // Twice what they will take, and not a quarter of the window.
        assert_eq!((request.messages, request.bytes), (450, Some(90_000)));
        assert_eq!(pulls.messages, 600);
    }

    #[test]
    fn little_room_is_given_time_to_grow() {
        let pulls = Pulls::new();
        assert!(matches!(pulls.due(room(149, 1_000_000)), Due::Little(_)));
        assert!(matches!(pulls.due(room(150, 1_000_000)), Due::Now(_)));
        assert!(matches!(pulls.due(room(1000, 1000)), Due::Little(_)));
        assert_eq!(pulls.due(room(0, 1_000_000)), Due::Nothing);
        assert_eq!(pulls.due(room(1000, 0)), Due::Nothing);
    }

    // P102, P108
    #[test]
    fn no_more_is_asked_for_than_there_is_room() {
        let mut pulls = Pulls::new();
        let narrow = Room {
            window_messages: 1,
            ..room(1, 1_000_000)
        };
        let (_, request) = ask(&mut pulls, narrow).unwrap();
        assert_eq!(request.messages, 1);
        assert_eq!(pulls.due(narrow), Due::Nothing);
        pulls.delivered(60);
        // It is with the application: no room, no pull.
        let taken = Room {
            messages: 0,
            ..narrow
        };
        assert_eq!(pulls.due(taken), Due::Nothing);
        assert!(matches!(pulls.due(narrow), Due::Now(_)));
    }

    #[test]
    fn what_a_pull_did_not_use_is_free_again() {
        let mut pulls = Pulls::new();
        let (first, _) = ask(&mut pulls, room(1000, 1_000_000)).unwrap();
        (0..400).for_each(|_| pulls.delivered(100));
        let (second, request) = ask(&mut pulls, room(600, 1_000_000)).unwrap();
        assert_eq!((request.messages, pulls.messages), (500, 600));
        pulls.ended(first, unused(100, 200_000));
        assert_eq!(pulls.messages, 500);
        pulls.ended(second, unused(500, 100_000));
        assert_eq!((pulls.messages, pulls.bytes), (0, 0));
    }

    // P107
    #[test]
    fn a_message_larger_than_a_pull_gets_larger_ones_and_at_last_one_of_its_own() {
        let mut pulls = Pulls::new();
        let room = room(1000, 1_000_000);
        let mut asked = Vec::new();
        loop {
            let (number, request) = ask(&mut pulls, room).unwrap();
            asked.push(request.bytes);
            let Some(bytes) = request.bytes.map(u64::from) else {
                assert_eq!(request.messages, 1);
                break;
            };
            pulls.ended_too_large(number, unused(500, bytes), room);
        }
        assert_eq!(asked, [Some(250_000), Some(500_000), None]);
        pulls.delivered(1_100_000);
        let (_, request) = ask(&mut pulls, room).unwrap();
        assert!(request.bytes.is_some());
    }

    #[test]
    fn a_message_larger_than_what_is_free_comes_alone_when_nothing_else_is_on_its_way() {
        let mut pulls = Pulls::new();
        let little = room(1000, 100);
        let (number, request) = ask(&mut pulls, little).unwrap();
        assert_eq!(request.bytes, Some(100));
        pulls.ended_too_large(number, unused(500, 100), little);
        let (_, request) = ask(&mut pulls, little).unwrap();
        assert_eq!((request.messages, request.bytes), (1, None));
        assert_eq!(pulls.due(little), Due::Nothing);
    }

    #[test]
    fn a_message_that_did_not_fit_behind_others_is_no_oversized_one() {
        let mut pulls = Pulls::new();
        let room = room(1000, 1_000_000);
        let (number, _) = ask(&mut pulls, room).unwrap();
        pulls.delivered(100);
        pulls.ended_too_large(number, unused(499, 249_900), room);
        let (_, request) = ask(&mut pulls, room).unwrap();
        assert!(request.bytes.is_some());
    }

    #[test]
    fn a_pull_whose_end_was_never_heard_of_is_forgotten_in_time() {
        let mut pulls = Pulls::new();
        ask(&mut pulls, room(10, 1000)).unwrap();
        assert!(pulls.is_waiting());
        pulls.expire(Instant::now() + Duration::from_secs(60));
        assert!(!pulls.is_waiting());
        assert_ne!(pulls.due(room(10, 1000)), Due::Nothing);
    }
}
