//! Durations, times and payloads as text.

use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::JsonError;
use crate::wire::proto::PayloadEncoding;

/// Why a text is no duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidDuration(String);

/// Reads `250ms`, `5s`, `1.5s`, `2m`, `1h30m`.
pub fn parse_duration(text: &str) -> Result<Duration, InvalidDuration> {
    let wrong = || InvalidDuration(text.to_owned());
    let mut rest = text;
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or_else(wrong)?;
        let (number, after) = rest.split_at(digits);
        let end = after
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let nanos: u128 = match unit {
            "ns" => 1,
            "us" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return Err(wrong()),
        };
        let part = decimal(number, nanos).ok_or_else(wrong)?;
        total = total.checked_add(part).ok_or_else(wrong)?;
        rest = after;
    }
    Ok(total)
}

/// `number` (digits, perhaps with a fraction) times so many nanoseconds.
fn decimal(number: &str, nanos: u128) -> Option<Duration> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let fits = |digits: &str| {
        (1..=12).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit())
    };
    if !fits(whole) || !fits(fraction) {
        return None;
    }
    let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let whole: u128 = whole.parse().ok()?;
    let fraction: u128 = fraction.parse().ok()?;
    let all = whole * nanos + fraction * nanos / scale;
    let seconds = u64::try_from(all / 1_000_000_000).ok()?;
    let nanos = u32::try_from(all % 1_000_000_000).ok()?;
    Some(Duration::new(seconds, nanos))
}

/// A duration in seconds with as many decimals as it needs: `0.25s`.
pub(super) fn duration_text(duration: &prost_types::Duration) -> String {
    let text = format!("{}.{:09}", duration.seconds, duration.nanos.max(0));
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}s")
}

/// A time as RFC 3339 in UTC with nanoseconds; a time that no calendar has is the epoch.
pub fn time_text(time: &prost_types::Timestamp) -> String {
    let time = jiff::Timestamp::new(time.seconds, time.nanos).unwrap_or_default();
    format!("{time:.9}")
}

/// A payload as it is written in JSON: the text, and whether it is that or base64.
pub(super) fn payload_text(payload: &[u8], asked: PayloadEncoding) -> (String, PayloadEncoding) {
    match (asked, std::str::from_utf8(payload)) {
        (PayloadEncoding::Text, Ok(text)) => (text.to_owned(), PayloadEncoding::Text),
        (PayloadEncoding::Text, Err(_)) | (PayloadEncoding::Base64, _) => {
            (STANDARD.encode(payload), PayloadEncoding::Base64)
        }
    }
}

/// The payload that this text stands for.
pub(super) fn payload_of(text: String, encoding: PayloadEncoding) -> Result<Vec<u8>, JsonError> {
    match encoding {
        PayloadEncoding::Text => Ok(text.into_bytes()),
        PayloadEncoding::Base64 => STANDARD.decode(&text).map_err(|error| {
            JsonError::new(
                "payload",
                format!(
                    "is not base64 ({error}); encode it, or send text and \
                     \"payload_encoding\": \"TEXT\""
                ),
            )
        }),
    }
}

// === impl InvalidDuration ===

impl fmt::Display for InvalidDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: String = self.0.chars().take(40).collect();
        write!(
            f,
            "{shown:?} is not a duration; write numbers with h, m, s or ms, as in \"250ms\" or \"5s\""
        )
    }
}

impl std::error::Error for InvalidDuration {}
