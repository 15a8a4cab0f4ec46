//! What is due. Pure: the time comes in.

use super::Lifetimes;
use super::stored::{Signed, Stored};

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// An authority and a certificate: there are none that could be used.
    All,
    /// An authority to be announced.
    Authority,
    /// The announced authority signs from now on.
    Succession,
    /// A certificate.
    Leaf,
    /// Nothing.
    Nothing,
}

/// What the API server has been told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Announced {
    /// All authorities.
    Yes,
    /// Not all of them, or nobody knows.
    NotYet,
}

pub(super) fn due(
    stored: Option<&Stored>,
    hosts: &[String],
    announced: Announced,
    (lifetimes, now): (Lifetimes, i64),
) -> Due {
    let Some(stored) = stored else {
        return Due::All;
    };
    if stored.authority.until <= now {
        return Due::All;
    }
    if let Some(next) = &stored.next {
        let waited = now - next.from >= seconds(lifetimes.announcement);
        if announced == Announced::Yes && waited {
            return Due::Succession;
        }
    } else if is_old(&stored.authority, now) {
        return Due::Authority;
    }
    if stored.hosts != hosts || is_old(&stored.leaf, now) {
        return Due::Leaf;
    }
    Due::Nothing
}

/// Two thirds of its time are over.
fn is_old(signed: &Signed, now: i64) -> bool {
    let life = signed.until - signed.from;
    now - signed.from >= life / 3 * 2
}

pub(super) fn seconds(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 24 * 3600;

    fn signed(from: i64, days: i64) -> Signed {
        Signed {
            certificate: format!("certificate of {from}\n"),
            key: String::new(),
            from,
            until: from + days * DAY,
        }
    }

    fn stored() -> Stored {
        Stored {
            authority: signed(0, 365),
            next: None,
            previous: None,
            leaf: signed(0, 30),
            hosts: hosts(),
        }
    }

    fn hosts() -> Vec<String> {
        vec!["here".to_owned()]
    }

    fn at(stored: Option<&Stored>, announced: Announced, now: i64) -> Due {
        due(stored, &hosts(), announced, (Lifetimes::default(), now))
    }

    #[test]
    fn a_certificate_is_renewed_after_two_thirds_of_its_time() {
        let stored = stored();
        assert_eq!(
            at(Some(&stored), Announced::Yes, 20 * DAY - 1),
            Due::Nothing
        );
        assert_eq!(at(Some(&stored), Announced::Yes, 20 * DAY), Due::Leaf);
        let elsewhere = due(
            Some(&stored),
            &[],
            Announced::Yes,
            (Lifetimes::default(), 0),
        );
        assert_eq!(elsewhere, Due::Leaf, "other names");
    }

    #[test]
    fn an_authority_is_announced_before_it_signs() {
        let mut stored = stored();
        let old = 244 * DAY;
        stored.leaf = signed(old, 30);
        assert_eq!(at(Some(&stored), Announced::Yes, old), Due::Authority);
        stored.next = Some(signed(old, 365));
        assert_eq!(at(Some(&stored), Announced::Yes, old + 299), Due::Nothing);
        assert_eq!(
            at(Some(&stored), Announced::NotYet, old + DAY),
            Due::Nothing
        );
        assert_eq!(
            at(Some(&stored), Announced::Yes, old + 300),
            Due::Succession
        );
        let late = at(Some(&stored), Announced::NotYet, old + 20 * DAY);
        assert_eq!(
            late,
            Due::Leaf,
            "the old authority signs as long as it is the one"
        );
    }

    #[test]
    fn all_is_made_where_nothing_can_be_used() {
        assert_eq!(at(None, Announced::NotYet, 0), Due::All);
        assert_eq!(at(Some(&stored()), Announced::Yes, 365 * DAY), Due::All);
    }

    #[test]
    fn the_bundle_holds_the_old_and_the_new_authority() {
        let mut stored = stored();
        stored.next = Some(signed(1, 365));
        stored.previous = Some("certificate of before\n".to_owned());
        let bundle = stored.bundle();
        let lines: Vec<&str> = bundle.lines().collect();
        assert_eq!(
            lines,
            [
                "certificate of 0",
                "certificate of 1",
                "certificate of before"
            ]
        );
    }
}
