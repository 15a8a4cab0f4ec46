//! What a server says instead of a message: told apart here, and only here.

use async_nats::{HeaderMap, Message};

use crate::group::Sequence;

/// A status that answers a pull.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// The consumer is alive and has nothing at the moment.
    Heartbeat {
        /// How many messages it has delivered.
        last_consumer: u64,
        /// How far it has looked.
        last_stream: Sequence,
    },
    /// The pull is over, as pulls end.
    Ended(Unused),
    /// The pull is over because the next message does not fit into what is left of its bytes.
    TooLarge(Unused),
    /// The consumer is gone, or its leader is.
    Gone(String),
    /// A limit that somebody set: wait, then ask for less or again.
    Limited(String),
    /// The request was wrong: asking again does not help.
    Wrong(String),
}

/// What a pull did not use of what it asked for; nothing where the server does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Unused {
    pub(super) messages: Option<u64>,
    pub(super) bytes: Option<u64>,
}

// === impl Status ===

impl Status {
    /// The table of statuses.
    pub(super) fn of(message: &Message) -> Self {
        let code = message.status.map_or(0, |status| status.as_u16());
        let text = message.description.as_deref().unwrap_or_default();
        Self::classify(code, text, message.headers.as_ref())
    }

    fn classify(code: u16, text: &str, headers: Option<&HeaderMap>) -> Self {
        let number = |name| number(headers, name);
        let unused = Unused {
            messages: number("Nats-Pending-Messages"),
            bytes: number("Nats-Pending-Bytes"),
        };
        let named = || format!("{code} {text}").trim_end().to_owned();
        match code {
            100 => Self::Heartbeat {
                last_consumer: number("Nats-Last-Consumer").unwrap_or_default(),
                last_stream: Sequence(number("Nats-Last-Stream").unwrap_or_default()),
            },
            404 | 408 => Self::Ended(unused),
            409 => {
                let text = text.to_ascii_lowercase();
                if text.starts_with("message size exceeds") {
                    Self::TooLarge(unused)
                } else if text.starts_with("batch completed") {
                    Self::Ended(unused)
                } else if text.starts_with("exceeded") {
                    Self::Limited(named())
                } else {
                    // Consumer Deleted, Server Shutdown, Leadership Change, and what is to come:
                    // making the consumer anew is right for all of them.
                    Self::Gone(named())
                }
            }
            400 | 412 | 423 => Self::Wrong(named()),
            503 => Self::Gone("503 no responders".to_owned()),
            _ => Self::Gone(named()),
        }
    }
}

fn number(headers: Option<&HeaderMap>, name: &'static str) -> Option<u64> {
    headers?.get(name)?.as_str().trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in lines {
            map.insert(*name, *value);
        }
        map
    }

    // P107
    #[test]
    fn every_row_of_the_table_of_statuses() {
        let beat = headers(&[("Nats-Last-Consumer", "6"), ("Nats-Last-Stream", "9")]);
        assert_eq!(
            Status::classify(100, "Idle Heartbeat", Some(&beat)),
            Status::Heartbeat {
                last_consumer: 6,
                last_stream: Sequence(9)
            }
        );
        let rest = headers(&[("Nats-Pending-Messages", "3"), ("Nats-Pending-Bytes", "70")]);
        let unused = Unused {
            messages: Some(3),
            bytes: Some(70),
        };
        for (code, text) in [
            (404, "No Messages"),
            (408, "Request Timeout"),
            (408, "Interest Expired"),
            (408, "Requests Pending"),
            (409, "Batch Completed"),
        ] {
            let status = Status::classify(code, text, Some(&rest));
            assert_eq!(status, Status::Ended(unused), "{code} {text}");
        }
        let status = Status::classify(409, "Message Size Exceeds MaxBytes", Some(&rest));
        assert_eq!(status, Status::TooLarge(unused));
        for (code, text) in [
            (409, "Consumer Deleted"),
            (409, "Server Shutdown"),
            (409, "Leadership Change"),
            (409, "Something New"),
            (503, ""),
            (599, "?"),
        ] {
            let status = Status::classify(code, text, None);
            assert!(matches!(status, Status::Gone(_)), "{code} {text}");
        }
        for text in [
            "Exceeded MaxWaiting",
            "Exceeded MaxRequestBatch of 5",
            "Exceeded MaxRequestExpires of 1s",
            "Exceeded MaxRequestMaxBytes of 5",
        ] {
            let status = Status::classify(409, text, None);
            assert!(matches!(status, Status::Limited(_)), "{text}");
        }
        for code in [400, 412, 423] {
            let status = Status::classify(code, "Bad Request", None);
            assert_eq!(status, Status::Wrong(format!("{code} Bad Request")));
        }
    }
}
