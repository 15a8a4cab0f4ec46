//! What `/metrics` says, in the text format of Prometheus.

use std::collections::BTreeMap;

/// The labels of a sample.
pub(crate) type Labels = BTreeMap<String, String>;

/// The samples of a name, in the order in which they stand.
pub(crate) fn samples(text: &str, name: &str) -> Vec<(Labels, f64)> {
    let of_name = text.lines().filter_map(|line| line.strip_prefix(name));
    of_name.filter_map(sample).collect()
}

/// What stands behind the name, if the name ends there.
fn sample(rest: &str) -> Option<(Labels, f64)> {
    let (labels, value) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Labels::new(), rest.strip_prefix(' ')?),
    };
    let value = value.split_whitespace().next()?;
    Some((labels, value.parse().ok()?))
}

/// `a="b",c="d"} value`.
fn labels(mut text: &str) -> Option<(Labels, &str)> {
    let mut labels = Labels::new();
    loop {
        text = text.trim_start_matches(',');
        if let Some(value) = text.strip_prefix('}') {
            return Some((labels, value));
        }
        let (name, rest) = text.split_once("=\"")?;
        let (value, rest) = quoted(rest)?;
        labels.insert(name.to_owned(), value);
        text = rest;
    }
}

/// Up to the quote that ends it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match characters.next()? {
                (_, 'n') => value.push('\n'),
                (_, escaped) => value.push(escaped),
            },
            other => value.push(other),
        }
    }
    None
}

/// The sum over all labels; 0 of nothing.
pub(crate) fn sum(text: &str, name: &str) -> f64 {
    samples(text, name).iter().map(|(_, value)| value).sum()
}

/// What of a histogram was observed since an earlier look: (upper bound, how many up to it).
pub(crate) fn since(before: &[(Labels, f64)], after: &[(Labels, f64)]) -> Vec<(f64, f64)> {
    let bounds = after.iter().filter_map(|(labels, count)| {
        let bound = labels.get("le")?.replace("+Inf", "inf").parse().ok()?;
        let earlier = before.iter().find(|(known, _)| known == labels);
        Some((bound, count - earlier.map_or(0.0, |(_, count)| *count)))
    });
    let mut all: Vec<(f64, f64)> = bounds.collect();
    all.sort_by(|one, other| one.0.total_cmp(&other.0));
    all
}

/// The bound that this share of the observations does not pass.
pub(crate) fn at_most(buckets: &[(f64, f64)], share: f64) -> Option<f64> {
    let all = buckets.last().map(|(_, count)| *count)?;
    let reached = buckets.iter().find(|(_, count)| *count >= all * share);
    reached.filter(|_| all > 0.0).map(|(bound, _)| *bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# HELP requests How many.
requests_total{verb=\"GET\",path=\"a\\\"b,c\"} 3
requests_total{verb=\"PUT\",path=\"\"} 4.5 1700000000
requests 7
requests_total_more 9
";

    #[test]
    fn samples_are_found_by_their_whole_name() {
        let found = samples(TEXT, "requests_total");
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].0["path"], "a\"b,c");
        assert_eq!(found[1], (found[1].0.clone(), 4.5));
        assert_eq!(samples(TEXT, "requests"), [(Labels::new(), 7.0)]);
        assert!((sum(TEXT, "requests_total") - 7.5).abs() < f64::EPSILON);
    }

    #[test]
    fn quantiles_of_a_histogram_are_the_bounds_of_its_buckets() {
        let before = "s_bucket{le=\"0.1\"} 10\ns_bucket{le=\"1.0\"} 10\ns_bucket{le=\"+Inf\"} 10\n";
        let after =
            "s_bucket{le=\"0.1\"} 60\ns_bucket{le=\"1.0\"} 109\ns_bucket{le=\"+Inf\"} 110\n";
        let of = |text| samples(text, "s_bucket");
        let buckets = since(&of(before), &of(after));
        assert_eq!(at_most(&buckets, 0.5), Some(0.1));
        assert_eq!(at_most(&buckets, 0.99), Some(1.0));
        assert_eq!(at_most(&buckets, 1.0), Some(f64::INFINITY));
        assert_eq!(at_most(&since(&of(after), &of(after)), 0.5), None);
    }
}
