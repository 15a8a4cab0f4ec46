//! What benches measure: figures and ratios, told as they come, and all of them as one line of JSON
//! at the end.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::console::say;

/// Everything that was measured.
#[derive(Debug)]
pub struct Figures {
    /// Decimals of times in milliseconds: more than the measurement is worth would pretend.
    decimals: i32,
    parts: Map<String, Value>,
    ratios: Map<String, Value>,
}

/// What a figure should be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reach {
    /// No less.
    AtLeast(f64),
    /// No more.
    AtMost(f64),
    /// For comparison only.
    Whatever,
}

/// A distribution of times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// How many there are.
    pub count: usize,
    /// Half of them are no longer.
    pub p50: Duration,
    /// 99 of a hundred are no longer.
    pub p99: Duration,
    /// The longest.
    pub longest: Duration,
}

// === impl Figures ===

impl Figures {
    /// None yet; times in milliseconds will have so many decimals.
    pub fn new(decimals: i32) -> Self {
        Self {
            decimals,
            parts: Map::new(),
            ratios: Map::new(),
        }
    }

    /// Notes a figure of a part and tells it.
    pub fn note(&mut self, part: &str, name: &str, value: impl Into<Value>) {
        let value = value.into();
        say(&format!("  {name}: {value}"));
        let of_part = self.parts.entry(part).or_insert_with(|| json!({}));
        of_part[name] = value;
    }

    /// Notes a time in milliseconds.
    pub fn time(&mut self, part: &str, name: &str, time: Duration) {
        self.note(
            part,
            &format!("{name}_ms"),
            milliseconds(time, self.decimals),
        );
    }

    /// Notes a distribution.
    pub fn spread(&mut self, part: &str, name: &str, spread: Spread) {
        let milliseconds = |time| milliseconds(time, self.decimals);
        let value = json!({
            "count": spread.count,
            "p50_ms": milliseconds(spread.p50),
            "p99_ms": milliseconds(spread.p99),
            "max_ms": milliseconds(spread.longest),
        });
        self.note(part, name, value);
    }

    /// Notes something that has a mark to reach, and says whether it did.
    pub fn ratio(&mut self, name: &str, value: f64, reach: Reach) {
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

    /// Adds the figures of what was measured elsewhere.
    pub fn extend(&mut self, other: Self) {
        self.parts.extend(other.parts);
    }

    /// The last line: the figures, by part.
    pub fn json(self) -> String {
        Value::Object(self.parts).to_string()
    }

    /// The last line where there are ratios.
    pub fn json_with_ratios(self) -> String {
        json!({"ratios": self.ratios, "figures": self.parts}).to_string()
    }
}

// === impl Spread ===

impl Spread {
    /// None of nothing.
    pub fn of(times: impl IntoIterator<Item = Duration>) -> Option<Self> {
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
pub fn median(values: &[f64]) -> Option<f64> {
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

/// With so many decimals.
pub fn milliseconds(time: Duration, decimals: i32) -> f64 {
    rounded(time.as_secs_f64() * 1000.0, decimals)
}

/// So many decimals.
pub fn rounded(value: f64, decimals: i32) -> f64 {
    let scale = 10_f64.powi(decimals);
    (value * scale).round() / scale
}

/// The load average of the last minute, as the kernel writes it.
pub fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
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
    fn a_median_is_not_moved_by_one_bad_round() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[5.0]), Some(5.0));
        assert_eq!(median(&[0.8, 0.1, 0.9]), Some(0.8));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
    }

    #[test]
    fn the_last_line_holds_all_figures_by_part() {
        let mut figures = Figures::new(1);
        figures.note("rest", "groups", 3);
        figures.time("rest", "ready", Duration::from_micros(1_250));
        figures.note("node", "passed", true);
        let wanted = r#"{"rest":{"groups":3,"ready_ms":1.3},"node":{"passed":true}}"#;
        assert_eq!(figures.json(), wanted);
    }

    #[test]
    fn the_last_line_says_of_each_ratio_whether_it_reached_its_mark() {
        let mut figures = Figures::new(3);
        figures.note("limit", "per_second", 3);
        figures.ratio("a", 0.85, Reach::AtLeast(0.8));
        figures.ratio("b", 0.25, Reach::AtMost(0.2));
        figures.ratio("c", 2.0, Reach::Whatever);
        let line: Value = serde_json::from_str(&figures.json_with_ratios()).unwrap();
        assert_eq!(line["ratios"]["a"]["reached"], true);
        assert_eq!(line["ratios"]["b"]["reached"], false);
        assert_eq!(line["ratios"]["c"], json!({"value": 2.0}));
        assert_eq!(line["figures"]["limit"]["per_second"], 3);
    }
}
