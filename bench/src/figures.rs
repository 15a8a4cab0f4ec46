//! Figures and ratios: told as they come, and all of them as one line of JSON at the end.

use std::io::Write;
use std::time::Duration;

use serde_json::{Map, Value, json};

/// Everything that was measured.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    figures: Map<String, Value>,
    ratios: Map<String, Value>,
}

/// What a figure should be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Reach {
    AtLeast(f64),
    AtMost(f64),
    /// For comparison only.
    Whatever,
}

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
        let of_part = self.figures.entry(part).or_insert_with(|| json!({}));
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

    /// Notes something that has a mark to reach, and says whether it did.
    pub(crate) fn ratio(&mut self, name: &str, value: f64, reach: Reach) {
        let value = rounded(value, 3);
        let entry = match reach {
            Reach::AtLeast(least) => {
                json!({"value": value, "at_least": least, "reached": value >= least})
            }
            Reach::AtMost(most) => {
                json!({"value": value, "at_most": most, "reached": value <= most})
            }
            Reach::Whatever => json!({"value": value}),
        };
        say(&format!("  {name}: {entry}"));
        self.ratios.insert(name.to_owned(), entry);
    }

    /// The last line.
    pub(crate) fn json(self) -> String {
        json!({"ratios": self.ratios, "figures": self.figures}).to_string()
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

/// The middle one, or the mean of the two in the middle; none of nothing.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    values
        .get(middle - 1)
        .map(|lower| f64::midpoint(*lower, upper))
}

/// With three decimals.
pub(crate) fn milliseconds(time: Duration) -> f64 {
    rounded(time.as_secs_f64() * 1000.0, 3)
}

/// So many decimals.
pub(crate) fn rounded(value: f64, decimals: i32) -> f64 {
    let scale = 10_f64.powi(decimals);
    (value * scale).round() / scale
}

/// The load average of the last minute, as the kernel writes it.
pub(crate) fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
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
        let all = (1..=200).rev().map(Duration::from_millis);
        let spread = Spread::of(all).unwrap();
        assert_eq!(spread.p50, Duration::from_millis(100));
        assert_eq!(spread.p99, Duration::from_millis(198));
        assert_eq!(spread.longest, Duration::from_millis(200));
    }

    #[test]
    fn a_median_is_not_moved_by_one_bad_round() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[5.0]), Some(5.0));
        assert_eq!(median(&[0.8, 0.1, 0.9]), Some(0.8));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
    }

    #[test]
    fn the_last_line_says_of_each_ratio_whether_it_reached_its_mark() {
        let mut figures = Figures::default();
        figures.note("limit", "per_second", 3);
        figures.ratio("a", 0.85, Reach::AtLeast(0.8));
        figures.ratio("b", 0.25, Reach::AtMost(0.2));
        figures.ratio("c", 2.0, Reach::Whatever);
        let line: Value = serde_json::from_str(&figures.json()).unwrap();
        assert_eq!(line["ratios"]["a"]["reached"], true);
        assert_eq!(line["ratios"]["b"]["reached"], false);
        assert_eq!(line["ratios"]["c"], json!({"value": 2.0}));
        assert_eq!(line["figures"]["limit"]["per_second"], 3);
    }
}
