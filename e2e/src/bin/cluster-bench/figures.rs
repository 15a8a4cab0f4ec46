//! Figures: told as they come, and all of them as one JSON object at the end.

use std::io::Write;
use std::time::Duration;

use serde_json::{Map, Value, json};

/// Everything that was measured.
#[derive(Debug, Default)]
pub(crate) struct Figures(Map<String, Value>);

/// A distribution of times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) count: usize,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    pub(crate) longest: Duration,
}

// === impl Figures ===

impl Figures {
    /// Notes a figure of a part and tells it.
    pub(crate) fn note(&mut self, part: &str, name: &str, value: impl Into<Value>) {
        let value = value.into();
        say(&format!("  {name}: {value}"));
        let of_part = self.0.entry(part).or_insert_with(|| json!({}));
        of_part[name] = value;
    }

    /// Notes a time in milliseconds.
    pub(crate) fn time(&mut self, part: &str, name: &str, time: Duration) {
        self.note(part, &format!("{name}_ms"), milliseconds(time));
    }

    /// Notes a distribution.
    pub(crate) fn spread(&mut self, part: &str, name: &str, spread: Spread) {
        let value = json!({
            "count": spread.count,
            "p50_ms": milliseconds(spread.p50),
            "p99_ms": milliseconds(spread.p99),
            "max_ms": milliseconds(spread.longest),
        });
        self.note(part, name, value);
    }

    /// Adds what was measured elsewhere.
    pub(crate) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// The last line.
    pub(crate) fn json(self) -> String {
        Value::Object(self.0).to_string()
    }
}

// === impl Spread ===

impl Spread {
    /// None of nothing.
    pub(crate) fn of(times: impl IntoIterator<Item = Duration>) -> Option<Self> {
        let mut times: Vec<Duration> = times.into_iter().collect();
        times.sort_unstable();
        // The smallest that so many of a hundred do not pass.
        let at = |percent: usize| times.get((times.len() * percent).div_ceil(100).max(1) - 1);
        Some(Self {
            count: times.len(),
            p50: *at(50)?,
            p99: *at(99)?,
            longest: *times.last()?,
        })
    }
}

/// With one decimal below 100 ms: more would pretend.
pub(crate) fn milliseconds(time: Duration) -> f64 {
    rounded(time.as_secs_f64() * 1000.0, 1)
}

/// So many decimals.
pub(crate) fn rounded(value: f64, decimals: i32) -> f64 {
    let scale = 10_f64.powi(decimals);
    (value * scale).round() / scale
}

pub(crate) fn say(text: &str) {
    // Whoever reads this may have gone; the measurement goes on.
    drop(writeln!(std::io::stdout().lock(), "{text}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_one_of_the_times() {
        assert_eq!(Spread::of([]), None);
        let one = Duration::from_millis(7);
        let spread = Spread::of([one]).unwrap();
        assert_eq!((spread.p50, spread.p99, spread.longest), (one, one, one));
        let all = (1..=200).rev().map(Duration::from_millis);
        let spread = Spread::of(all).unwrap();
        assert_eq!(spread.p50, Duration::from_millis(100));
        assert_eq!(spread.p99, Duration::from_millis(198));
        assert_eq!(spread.longest, Duration::from_millis(200));
    }

    #[test]
    fn the_last_line_holds_all_figures_by_part() {
        let mut figures = Figures::default();
        figures.note("rest", "groups", 3);
        figures.time("rest", "ready", Duration::from_micros(1_250));
        figures.note("node", "passed", true);
        let wanted = r#"{"rest":{"groups":3,"ready_ms":1.3},"node":{"passed":true}}"#;
        assert_eq!(figures.json(), wanted);
    }
}
