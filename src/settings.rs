//! Durations and sizes as people write them: `250ms`, `5s`, `2m`, `1h30m`; `64Ki`, `16Mi`, `1Gi`.
//!
//! The same notation in flags and manifests.

use std::fmt;
use std::time::Duration;

/// Why a setting was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidSetting {
    given: String,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Duration,
    Size,
}

/// Most parts of one duration, as in `1h30m15s500ms`.
const DURATION_PARTS: usize = 4;
/// Most digits of one part of a duration.
const DURATION_DIGITS: usize = 5;
/// Most digits of a size: more do not fit the largest unit anyway.
const SIZE_DIGITS: usize = 10;

/// Reads `250ms`, `5s`, `2m`, `1h`, or several of them together.
pub fn parse_duration(given: &str) -> Result<Duration, InvalidSetting> {
    let invalid = || InvalidSetting {
        given: given.to_owned(),
        kind: Kind::Duration,
    };
    let (mut rest, mut sum, mut parts) = (given, Duration::ZERO, 0);
    while !rest.is_empty() {
        let (number, after) = digits(rest, DURATION_DIGITS).ok_or_else(invalid)?;
        let (unit, after) = duration_unit(after).ok_or_else(invalid)?;
        sum += unit * u32::try_from(number).map_err(|_| invalid())?;
        rest = after;
        parts += 1;
    }
    (1..=DURATION_PARTS)
        .contains(&parts)
        .then_some(sum)
        .ok_or_else(invalid)
}

/// Reads a number of bytes: `1000`, `64Ki`, `16Mi`, `1Gi`.
pub fn parse_size(given: &str) -> Result<u64, InvalidSetting> {
    let invalid = || InvalidSetting {
        given: given.to_owned(),
        kind: Kind::Size,
    };
    let (number, unit) = digits(given, SIZE_DIGITS).ok_or_else(invalid)?;
    let shift = match unit {
        "" => 0,
        "Ki" => 10,
        "Mi" => 20,
        "Gi" => 30,
        _ => return Err(invalid()),
    };
    Some(number << shift)
        .filter(|size| *size > 0)
        .ok_or_else(invalid)
}

/// Writes a duration so that it can be read back, to the millisecond.
pub fn duration_text(duration: Duration) -> String {
    let mut left = duration.as_millis();
    let mut text = String::new();
    for (unit, name) in [(3_600_000, "h"), (60_000, "m"), (1_000, "s"), (1, "ms")] {
        if left >= unit {
            text.push_str(&(left / unit).to_string());
            text.push_str(name);
            left %= unit;
        }
    }
    if text.is_empty() {
        text.push_str("0s");
    }
    text
}

/// The number at the start, of at most this many digits, and what comes after it.
fn digits(text: &str, most: usize) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit());
    let (number, rest) = text.split_at(end.unwrap_or(text.len()));
    let number = Some(number).filter(|n| n.len() <= most)?;
    Some((number.parse().ok()?, rest))
}

fn duration_unit(text: &str) -> Option<(Duration, &str)> {
    // "ms" before "m", which is its beginning.
    let units = [
        ("ms", Duration::from_millis(1)),
        ("s", Duration::from_secs(1)),
        ("m", Duration::from_secs(60)),
        ("h", Duration::from_secs(3600)),
    ];
    units
        .into_iter()
        .find_map(|(name, unit)| Some((unit, text.strip_prefix(name)?)))
}

// === impl InvalidSetting ===

impl fmt::Display for InvalidSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let given = &self.given;
        match self.kind {
            Kind::Duration => write!(
                f,
                "{given:?} is not a duration; write it as 250ms, 5s, 2m, 1h or 1h30m \
                 (168h for a week)"
            ),
            Kind::Size => write!(
                f,
                "{given:?} is not a size; write a number of bytes above 0, as 1000, 64Ki, 16Mi or 1Gi"
            ),
        }
    }
}

impl std::error::Error for InvalidSetting {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_read_as_they_are_written() {
        for (text, millis) in [
            ("250ms", 250),
            ("5s", 5_000),
            ("2m", 120_000),
            ("168h", 604_800_000),
            ("1h30m15s500ms", 5_415_500),
            ("0s", 0),
        ] {
            assert_eq!(
                parse_duration(text),
                Ok(Duration::from_millis(millis)),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_duration_or_size_is_refused_with_an_example() {
        for wrong in [
            "",
            "5",
            "s",
            "5 s",
            "-5s",
            "5d",
            "1.5s",
            "123456s",
            "1s1s1s1s1s",
            "5S",
            "５s",
        ] {
            let error = parse_duration(wrong).unwrap_err().to_string();
            assert!(error.contains("250ms"), "{wrong:?}: {error}");
        }
        for wrong in [
            "",
            "Ki",
            "0",
            "0Mi",
            "-1",
            "1K",
            "1k",
            "1.5Mi",
            "12345678901",
            "1 Mi",
        ] {
            let error = parse_size(wrong).unwrap_err().to_string();
            assert!(error.contains("16Mi"), "{wrong:?}: {error}");
        }
    }

    #[test]
    fn sizes_are_powers_of_two() {
        assert_eq!(parse_size("1000"), Ok(1000));
        assert_eq!(parse_size("64Ki"), Ok(65_536));
        assert_eq!(parse_size("16Mi"), Ok(16_777_216));
        assert_eq!(parse_size("9999999999Gi"), Ok(9_999_999_999 << 30));
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: Some(Box::new(
                proptest::test_runner::FileFailurePersistence::WithSource("regressions"),
            )),
            ..ProptestConfig::default()
        })]

        #[test]
        fn a_duration_is_read_back_as_it_was(millis in 0_u64..300_000_000_000) {
            let duration = Duration::from_millis(millis);
            let text = duration_text(duration);
            prop_assert_eq!(parse_duration(&text), Ok(duration), "{}", text);
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,20}") {
            drop((parse_duration(&text), parse_size(&text)));
        }
    }
}
