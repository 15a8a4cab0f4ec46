//! The name that somebody probably meant.

/// How alike two names have to be for one to be suggested for the other (0 to 1).
const ALIKE: f64 = 0.75;

/// The name most like the one that was given, if any is like it.
pub(super) fn name<'a>(given: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let given = given.to_lowercase();
    known
        .map(|name| (strsim::jaro_winkler(&given, &name.to_lowercase()), name))
        .filter(|(alike, _)| *alike >= ALIKE)
        .max_by(|(a, x), (b, y)| a.total_cmp(b).then_with(|| y.cmp(x)))
        .map(|(_, name)| name)
}

/// What is said of a field that is not known at `path`.
pub(super) fn unknown<'a>(
    path: &str,
    given: &str,
    known: impl Iterator<Item = &'a str> + Clone,
) -> String {
    let dot = if path.is_empty() { "" } else { "." };
    if let Some(name) = name(given, known.clone()) {
        return format!("is not a known field; did you mean {path}{dot}{name}?");
    }
    let mut names: Vec<_> = known.collect();
    names.sort_unstable();
    let there = if path.is_empty() {
        String::new()
    } else {
        format!(" in {path}")
    };
    format!(
        "is not a known field; known{there} are {}",
        names.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 3] = ["maxInFlight", "batch", "batchWait"];

    #[test]
    fn a_misspelt_name_is_recognised_whatever_its_case() {
        assert_eq!(name("maxInflight", KNOWN.into_iter()), Some("maxInFlight"));
        assert_eq!(
            name("max_in_flight", KNOWN.into_iter()),
            Some("maxInFlight")
        );
        assert_eq!(name("batchwait", KNOWN.into_iter()), Some("batchWait"));
    }

    #[test]
    fn a_name_like_none_gets_the_whole_list() {
        assert_eq!(name("zzz", KNOWN.into_iter()), None);
        assert_eq!(
            unknown("spec.delivery", "zzz", KNOWN.into_iter()),
            "is not a known field; known in spec.delivery are batch, batchWait, maxInFlight"
        );
    }
}
