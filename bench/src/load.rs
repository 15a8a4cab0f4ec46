//! A steady load: messages that say when they were published, and what became of them.

use std::time::Duration;

use async_nats::Client;
use bytes::{BufMut, Bytes, BytesMut};
use lockstep_e2e::scene::Outcome;
use tokio::time::MissedTickBehavior;

use crate::clock::monotonic_ns;
use crate::ground::Cell;
use crate::task::Task;

/// The least that a payload has: its number and its moment.
const HEAD: usize = 16;

/// What a payload says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Its number, from 0.
    pub(crate) number: u64,
    /// When it was published, on the monotonic clock.
    pub(crate) at_ns: u64,
}

/// A publisher that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Load(#[expect(dead_code, reason = "held for its end")] Task<()>);

// === impl Stamp ===

impl Stamp {
    /// Reads a payload; none if it is not one of a load.
    pub(crate) fn read(payload: &[u8]) -> Option<Self> {
        let (number, rest) = payload.split_first_chunk()?;
        let (at_ns, _) = rest.split_first_chunk()?;
        Some(Self {
            number: u64::from_be_bytes(*number),
            at_ns: u64::from_be_bytes(*at_ns),
        })
    }

    fn payload(self, size: usize) -> Bytes {
        let mut payload = BytesMut::with_capacity(size.max(HEAD));
        payload.put_u64(self.number);
        payload.put_u64(self.at_ns);
        payload.resize(size.max(HEAD), b'x');
        payload.freeze()
    }
}

// === impl Load ===

impl Load {
    /// Publishes so many messages per second, in turn to all partitions.
    pub(crate) fn start(client: Client, cell: Cell, rate: u32) -> Self {
        Self(Task::start(publish(client, cell, rate)))
    }
}

async fn publish(client: Client, cell: Cell, rate: u32) -> Outcome<()> {
    let mut pace = tokio::time::interval(Duration::from_secs(1) / rate.max(1));
    pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let subjects: Vec<String> = (0..cell.partitions).map(|p| cell.subject(p)).collect();
    for (number, subject) in (0..).zip(subjects.iter().cycle()) {
        pace.tick().await;
        let at_ns = monotonic_ns();
        let payload = Stamp { number, at_ns }.payload(cell.size);
        client.publish(subject.clone(), payload).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_says_what_was_written_into_it() {
        let stamp = Stamp {
            number: 7,
            at_ns: 123_456,
        };
        let payload = stamp.payload(128);
        assert_eq!(payload.len(), 128);
        assert_eq!(Stamp::read(&payload), Some(stamp));
        assert_eq!(Stamp::read(&payload[..15]), None);
    }
}
