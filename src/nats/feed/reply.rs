//! What a delivery's reply subject says of it.
//!
//! `$JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>` has nine
//! tokens; the newer form has the domain and a hash of the account in front of the stream, which
//! makes eleven, and may have more at its end.

use crate::group::{Sequence, ServerTime};

/// Where a delivered message stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Delivery {
    /// Its sequence in the stream.
    pub(super) stream: Sequence,
    /// Its number among the deliveries of this consumer, from 1.
    pub(super) consumer: u64,
    /// When it was stored.
    pub(super) timestamp: ServerTime,
    /// What the consumer still has after it.
    pub(super) pending: u64,
}

const OLD_FORM: usize = 9;
const NEW_FORM: usize = 11;

// === impl Delivery ===

impl Delivery {
    /// Reads a reply subject; none if it is not one of a delivery.
    pub(super) fn parse(reply: &str) -> Option<Self> {
        let reply = reply.as_bytes();
        if !reply.starts_with(b"$JS.ACK.") {
            return None;
        }
        let dots: usize = reply.iter().map(|b| usize::from(*b == b'.')).sum();
        let mut rest = match dots + 1 {
            OLD_FORM | NEW_FORM => reply,
            more if more > NEW_FORM => without_tokens(reply, more - NEW_FORM)?,
            _ => return None,
        };
        let pending = last_number(&mut rest)?;
        let timestamp = last_number(&mut rest)?;
        let consumer = last_number(&mut rest)?;
        let stream = last_number(&mut rest)?;
        Some(Self {
            stream: Sequence(stream),
            consumer,
            timestamp: ServerTime(i64::try_from(timestamp).ok()?),
            pending,
        })
    }
}

/// Takes the last token off, which has to be a number, and the dot in front of it.
fn last_number(rest: &mut &[u8]) -> Option<u64> {
    let dot = rest.iter().rposition(|b| *b == b'.')?;
    let digits = &rest[dot + 1..];
    *rest = &rest[..dot];
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, digit| {
        let digit = digit.checked_sub(b'0').filter(|d| *d < 10)?;
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

fn without_tokens(mut rest: &[u8], count: usize) -> Option<&[u8]> {
    for _ in 0..count {
        rest = &rest[..rest.iter().rposition(|b| *b == b'.')?];
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn expected() -> Delivery {
        Delivery {
            stream: Sequence(17),
            consumer: 3,
            timestamp: ServerTime(1_700_000_000_000_000_001),
            pending: 5,
        }
    }

    #[test]
    fn both_forms_are_read() {
        for reply in [
            "$JS.ACK.orders.ls-1-0-1.1.17.3.1700000000000000001.5",
            "$JS.ACK._.hash.orders.ls-1-0-1.1.17.3.1700000000000000001.5",
            "$JS.ACK.hub.hash.orders.ls-1-0-1.1.17.3.1700000000000000001.5.random",
            "$JS.ACK.hub.hash.orders.ls-1-0-1.1.17.3.1700000000000000001.5.random.more",
        ] {
            assert_eq!(Delivery::parse(reply), Some(expected()), "{reply}");
        }
    }

    #[test]
    fn what_is_not_a_delivery_is_not_taken_for_one() {
        for reply in [
            "",
            "_INBOX.a.1",
            "$JS.ACK.",
            "$JS.ACK.orders.c.1.17.3.1700000000000000001",
            "$JS.ACK.h.orders.c.1.17.3.1700000000000000001.5",
            "$JS.ACK.orders.c.1.17.3.1700000000000000001.",
            "$JS.ACK.orders.c.1.17.-3.1700000000000000001.5",
            "$JS.ACK.orders.c.1.17.3.99999999999999999999999.5",
        ] {
            assert_eq!(Delivery::parse(reply), None, "{reply}");
        }
    }

    proptest! {
        #[test]
        fn no_reply_subject_makes_it_panic(reply in "(\\$JS\\.ACK\\.)?[ -~é.0-9]{0,200}") {
            let _ = Delivery::parse(&reply);
        }

        #[test]
        fn every_delivery_that_a_server_can_write_is_read(
            stream in any::<u64>(), consumer in any::<u64>(),
            time in 0..i64::MAX, pending in any::<u64>(), domain in any::<bool>(),
        ) {
            let front = if domain { "$JS.ACK.d.h" } else { "$JS.ACK" };
            let reply = format!("{front}.s.c.1.{stream}.{consumer}.{time}.{pending}");
            let delivery = Delivery {
                stream: Sequence(stream), consumer, timestamp: ServerTime(time), pending,
            };
            prop_assert_eq!(Delivery::parse(&reply), Some(delivery));
        }
    }
}
