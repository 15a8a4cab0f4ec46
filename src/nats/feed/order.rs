//! The order of deliveries: the only proof that none is missing.

use std::fmt;
use std::time::Duration;

use super::reply::Delivery;
use crate::group::Sequence;

/// Where the deliveries of one consumer stand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    consumer: u64,
    stream: Sequence,
}

/// Why a consumer cannot be trusted, or used, any further. Another one is made in its place,
/// beginning after what was delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// Neither a message nor a heartbeat: the consumer or the path to it is gone.
    Silent(Duration),
    /// A delivery is missing.
    Gap {
        /// The delivery that was due.
        due: u64,
        /// The one that came.
        came: u64,
    },
    /// A message at or below one that was delivered.
    Backwards {
        /// The last one delivered.
        after: Sequence,
        /// The one that came.
        came: Sequence,
    },
    /// A heartbeat counts other deliveries than we have seen: the end of them was lost.
    TailLost {
        /// What we have seen.
        ours: u64,
        /// What the server has sent.
        theirs: u64,
    },
    /// The server says that it is gone, or its leader is.
    Gone(String),
    /// A message without a place among the deliveries.
    Strange(String),
    /// A limit of the server, or of the stream, is in the way.
    Limited(String),
}

// === impl Order ===

impl Order {
    /// No delivery yet; none at or below `delivered` is wanted.
    pub(super) fn after(delivered: Sequence) -> Self {
        Self {
            consumer: 0,
            stream: delivered,
        }
    }

    /// Takes the next delivery, if it is the next.
    pub(super) fn accept(&mut self, delivery: &Delivery) -> Result<(), Broken> {
        let due = self.consumer + 1;
        if delivery.consumer != due {
            let came = delivery.consumer;
            return Err(Broken::Gap { due, came });
        }
        if delivery.stream <= self.stream {
            return Err(Broken::Backwards {
                after: self.stream,
                came: delivery.stream,
            });
        }
        self.consumer = due;
        self.stream = delivery.stream;
        Ok(())
    }

    /// Compares with what the server has sent.
    pub(super) fn compare(&self, last_consumer: u64) -> Result<(), Broken> {
        if last_consumer == self.consumer {
            return Ok(());
        }
        Err(Broken::TailLost {
            ours: self.consumer,
            theirs: last_consumer,
        })
    }
}

// === impl Broken ===

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent(wait) => write!(f, "no message and no heartbeat for {wait:?}"),
            Self::Gap { due, came } => {
                write!(f, "delivery {came} came where {due} was due: some are lost")
            }
            Self::Backwards { after, came } => {
                write!(f, "message {came} came after message {after}")
            }
            Self::TailLost { ours, theirs } => write!(
                f,
                "the server has sent {theirs} messages and {ours} have arrived"
            ),
            Self::Gone(text) => write!(f, "the consumer or its leader is gone: {text}"),
            Self::Strange(text) => write!(f, "a message that is no delivery: {text}"),
            Self::Limited(text) => write!(f, "a limit of the server is in the way: {text}"),
        }
    }
}

impl std::error::Error for Broken {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::ServerTime;

    fn delivery(consumer: u64, stream: u64) -> Delivery {
        Delivery {
            stream: Sequence(stream),
            consumer,
            timestamp: ServerTime(0),
            pending: 0,
        }
    }

    // P103
    #[test]
    fn deliveries_count_by_one_and_their_sequences_rise() {
        let mut order = Order::after(Sequence(10));
        assert_eq!(order.accept(&delivery(1, 11)), Ok(()));
        assert_eq!(order.accept(&delivery(2, 40)), Ok(()));
        let backwards = Broken::Backwards {
            after: Sequence(40),
            came: Sequence(40),
        };
        assert_eq!(order.accept(&delivery(3, 40)), Err(backwards));
    }

    // P103
    #[test]
    fn a_missing_delivery_is_a_gap_even_before_the_first() {
        let mut order = Order::after(Sequence(0));
        let gap = Broken::Gap { due: 1, came: 2 };
        assert_eq!(order.accept(&delivery(2, 2)), Err(gap));
        assert_eq!(order.accept(&delivery(1, 1)), Ok(()));
        let gap = Broken::Gap { due: 2, came: 4 };
        assert_eq!(order.accept(&delivery(4, 9)), Err(gap));
    }

    // P106
    #[test]
    fn nothing_at_or_below_the_last_delivered_message_is_taken() {
        let mut order = Order::after(Sequence(10));
        let backwards = Broken::Backwards {
            after: Sequence(10),
            came: Sequence(10),
        };
        assert_eq!(order.accept(&delivery(1, 10)), Err(backwards));
    }

    // P104
    #[test]
    fn a_heartbeat_that_counts_more_shows_a_lost_tail() {
        let mut order = Order::after(Sequence(0));
        assert_eq!(order.compare(0), Ok(()));
        order.accept(&delivery(1, 1)).unwrap();
        let lost = Broken::TailLost { ours: 1, theirs: 2 };
        assert_eq!(order.compare(2), Err(lost));
        let less = Broken::TailLost { ours: 1, theirs: 0 };
        assert_eq!(order.compare(0), Err(less));
    }
}
