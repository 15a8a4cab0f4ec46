//! Texts of a manifest that have a form: durations, sizes, names, subjects.
//!
//! The schema states the form and the API server enforces it. What was stored before a form became
//! stricter still has to be readable, so a text is kept as it came and parsed where it is used.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! text {
    ($(#[$doc:meta])* $name:ident, $max:literal, $pattern:literal, $words:literal) => {
        $(#[$doc])*
        #[derive(
            Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
        )]
        #[serde(transparent)]
        pub struct $name(#[schemars(length(min = 1, max = $max), regex(pattern = $pattern))] String);

        impl $name {
            const IN_WORDS: (&str, &str) = ($pattern, $words);

            /// The text as it stands in the manifest.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text! {
    /// A duration, such as 250ms, 5s, 2m or 1h30m. There is no unit for days: a week is 168h.
    DurationText, 24, r"^([0-9]{1,5}(h|m|s|ms)){1,4}$",
    "a duration such as 250ms, 5s, 2m or 1h30m (168h for a week)"
}
text! {
    /// A size in bytes, such as 64Ki, 16Mi or 10Gi.
    QuantityText, 16, r"^[1-9][0-9]{0,9}(Ki|Mi|Gi)?$",
    "a size such as 64Ki, 16Mi or 10Gi (in quotes if it has digits only)"
}
text! {
    /// The name of a Kubernetes object.
    ObjectName, 63, r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
    "a name of a-z, 0-9, '-' and '.'"
}
text! {
    /// The name of a stream.
    StreamName, 128, r"^[^\s.*>/\\]+$",
    "a stream's name (no blanks and none of . * > / \\)"
}
text! {
    /// A subject; it may have wildcards.
    Subject, 255, r"^[^\s.]+(\.[^\s.]+)*$",
    "a subject such as orders.*"
}
text! {
    /// A subject without wildcards.
    PlainSubject, 255, r"^[^\s.*>]+(\.[^\s.*>]+)*$",
    "a subject without wildcards, such as dlq.orders"
}

/// A moment in time, as RFC 3339 writes it: 2026-01-31T12:00:00Z.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct TimeText(#[schemars(length(max = 40), extend("format" = "date-time"))] String);

/// What a pattern of the schema asks for, in words.
pub(super) fn in_words(pattern: &str) -> Option<&'static str> {
    let known = [
        DurationText::IN_WORDS,
        QuantityText::IN_WORDS,
        ObjectName::IN_WORDS,
        StreamName::IN_WORDS,
        Subject::IN_WORDS,
        PlainSubject::IN_WORDS,
    ];
    known
        .into_iter()
        .find(|(known, _)| *known == pattern)
        .map(|(_, words)| words)
}

// === impl DurationText ===

impl DurationText {
    /// What the text means; none if it does not have the form that the schema asks for.
    pub fn parse(&self) -> Option<Duration> {
        let mut rest = self.0.as_str();
        let mut total = Duration::ZERO;
        for _ in 0..4 {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            if !(1..=5).contains(&digits) {
                return None;
            }
            let number: u64 = rest[..digits].parse().ok()?;
            let (millis, unit) = unit_in_millis(&rest[digits..])?;
            total += Duration::from_millis(number * millis);
            rest = &rest[digits + unit..];
            if rest.is_empty() {
                return Some(total);
            }
        }
        None
    }
}

/// Milliseconds in the unit that the text begins with, and the unit's length.
fn unit_in_millis(text: &str) -> Option<(u64, usize)> {
    [("ms", 1), ("h", 3_600_000), ("m", 60_000), ("s", 1000)]
        .into_iter()
        .find(|(unit, _)| text.starts_with(unit))
        .map(|(unit, millis)| (millis, unit.len()))
}

// === impl QuantityText ===

impl QuantityText {
    /// The size in bytes; none if the text does not have the form that the schema asks for.
    pub fn parse(&self) -> Option<u64> {
        let mut unit = [("Ki", 10), ("Mi", 20), ("Gi", 30)].into_iter();
        let (number, shift) = unit
            .find_map(|(unit, shift)| Some((self.0.strip_suffix(unit)?, shift)))
            .unwrap_or((&self.0, 0));
        let plain = (1..=10).contains(&number.len())
            && number.bytes().all(|b| b.is_ascii_digit())
            && !number.starts_with('0');
        if !plain {
            return None;
        }
        // At most ten digits: 2^34 and 30 bits more stay within 64.
        number.parse::<u64>().ok().map(|n| n << shift)
    }
}

// === impl TimeText ===

impl TimeText {
    /// The text as it stands in the manifest.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The moment; none if the text is not RFC 3339.
    pub fn parse(&self) -> Option<jiff::Timestamp> {
        rfc3339(&self.0)
    }
}

impl From<&str> for TimeText {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// Reads RFC 3339 and nothing wider: the `T` and an offset are required.
pub(super) fn rfc3339(text: &str) -> Option<jiff::Timestamp> {
    let shape = text.len() >= 20
        && text.as_bytes()[..19]
            .iter()
            .enumerate()
            .all(|(at, byte)| match at {
                4 | 7 => *byte == b'-',
                10 => matches!(byte, b'T' | b't'),
                13 | 16 => *byte == b':',
                _ => byte.is_ascii_digit(),
            })
        && !text.contains(['[', ' ']);
    shape.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn duration(text: &str) -> Option<Duration> {
        DurationText::from(text).parse()
    }

    fn bytes(text: &str) -> Option<u64> {
        QuantityText::from(text).parse()
    }

    #[test]
    fn durations_are_sums_of_numbers_with_units() {
        assert_eq!(duration("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(
            duration("1h30m5s7ms"),
            Some(Duration::from_millis(5_405_007))
        );
        assert_eq!(duration("168h"), Some(Duration::from_hours(168)));
        assert_eq!(duration("0s"), Some(Duration::ZERO));
    }

    #[test]
    fn other_durations_are_not_guessed_at() {
        for wrong in [
            "",
            "5",
            "s",
            "5d",
            "1.5s",
            "-1s",
            "5 s",
            "123456s",
            "1s1s1s1s1s",
            "1é",
        ] {
            assert_eq!(duration(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn sizes_are_whole_numbers_with_a_binary_unit() {
        assert_eq!(bytes("1"), Some(1));
        assert_eq!(bytes("64Ki"), Some(65_536));
        assert_eq!(bytes("9999999999Gi"), Some(9_999_999_999 << 30));
        for wrong in ["", "0", "01", "Ki", "1k", "1.5Gi", "12345678901", "+1"] {
            assert_eq!(bytes(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn times_are_rfc_3339() {
        for right in [
            "2026-01-31T12:00:00Z",
            "2026-01-31T12:00:00.123456789+02:00",
        ] {
            assert!(TimeText::from(right).parse().is_some(), "{right:?}");
        }
        for wrong in [
            "",
            "2026-01-31",
            "2026-01-31 12:00:00Z",
            "2026-01-31T12:00:00",
            "12:00",
            "2026-13-31T12:00:00Z",
            "2026-01-31T12:00:00+02:00[Europe/Berlin]",
            "2026-01-31T12:00:0é",
        ] {
            assert!(TimeText::from(wrong).parse().is_none(), "{wrong:?}");
        }
    }
}
