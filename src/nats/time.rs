//! Times as the server writes them.

use serde::{Deserialize, Deserializer};

use crate::group::ServerTime;

/// Reads RFC 3339 with nanoseconds.
pub(crate) fn parse(text: &str) -> Option<ServerTime> {
    let time: jiff::Timestamp = text.parse().ok()?;
    i64::try_from(time.as_nanosecond()).ok().map(ServerTime)
}

/// For fields of the server's answers.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<ServerTime, D::Error> {
    let text = String::deserialize(from)?;
    parse(&text).ok_or_else(|| serde::de::Error::custom(format!("{text:?} is not a time")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_servers_time_keeps_its_nanoseconds() {
        let time = parse("2026-11-30T01:02:03.123456789Z").unwrap();
        assert_eq!(time.0 % 1_000_000_000, 123_456_789);
        assert_eq!(parse("yesterday"), None);
    }
}
