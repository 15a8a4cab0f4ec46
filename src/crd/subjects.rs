//! Subjects: their form, whether two meet, and where the partition goes when the server computes it.

/// The token that stands for the partition's number.
pub(super) const PARTITION: &str = "{partition}";

/// How a stream that Lockstep makes puts the partition into its stored subjects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubjectTransform {
    /// What published subjects look like: `orders.*`.
    pub source: String,
    /// What they are stored as: `orders.{{partition(8,1)}}.{{wildcard(1)}}`.
    pub destination: String,
    /// The stored subjects of one partition: `orders.{partition}.*`.
    pub filter: String,
}

/// What stands against a transform, in words for the field at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Misfit {
    /// The subjects.
    Subjects(&'static str),
    /// The key's tokens.
    KeyTokens(String),
}

/// Why a subject cannot be used as it is.
pub(super) fn misuse(subject: &str) -> Option<&'static str> {
    let tokens: Vec<_> = subject.split('.').collect();
    let last = tokens.len() - 1;
    tokens
        .iter()
        .enumerate()
        .find_map(|(at, token)| match *token {
            "" => Some("has an empty token"),
            "*" => None,
            ">" if at == last => None,
            ">" => Some("has > before its end; > stands for all remaining tokens"),
            token if token.contains(['*', '>']) => {
                Some("has a wildcard within a token; * and > stand for whole tokens")
            }
            _ => None,
        })
}

/// Whether some message's subject matches both.
pub(super) fn meet(one: &str, other: &str) -> bool {
    let (mut ones, mut others) = (one.split('.'), other.split('.'));
    loop {
        match (ones.next(), others.next()) {
            (None, None) | (Some(">"), Some(_)) | (Some(_), Some(">")) => return true,
            (Some(a), Some(b)) if a == b || a == "*" || b == "*" => {}
            _ => return false,
        }
    }
}

/// The transform for these subjects; or what stands against it.
///
/// A stream has one transform, so several subjects have to be of one shape: where their texts differ
/// the transform has a wildcard, which is not part of the key. The partition goes in front of the
/// first wildcard that all of them have.
pub(super) fn transform(
    subjects: &[&str],
    key_tokens: &[u32],
    partitions: u32,
) -> Result<SubjectTransform, Misfit> {
    let source = merged(subjects)?;
    let key = key_positions(&source, key_tokens)?;
    let (mut from, mut to, mut filter) = (Vec::new(), Vec::new(), Vec::new());
    let numbers: Vec<_> = key.iter().map(ToString::to_string).collect();
    let partition = format!("{{{{partition({partitions},{})}}}}", numbers.join(","));
    let mut wildcards = 0;
    let mut placed = false;
    for token in &source {
        if *token == Token::Wildcard && !placed {
            to.push(partition.clone());
            filter.push(PARTITION);
            placed = true;
        }
        match token {
            Token::Text(text) => {
                from.push(*text);
                to.push((*text).to_owned());
                filter.push(text);
            }
            Token::Wildcard | Token::Differing => {
                wildcards += 1;
                from.push("*");
                to.push(format!("{{{{wildcard({wildcards})}}}}"));
                filter.push("*");
            }
            Token::Rest => {
                from.push(">");
                to.push(">".to_owned());
                filter.push(">");
            }
        }
    }
    Ok(SubjectTransform {
        source: from.join("."),
        destination: to.join("."),
        filter: filter.join("."),
    })
}

/// What the streams of a pattern store, with `{partition}`: `orders-{partition}` has the subjects
/// `orders.{partition}.>`. None if nothing is left to name them by.
pub(super) fn of_streams(pattern: &str) -> Option<String> {
    let pieces = pattern
        .split(PARTITION)
        .map(|piece| piece.trim_matches(['-', '_']));
    let name = pieces
        .filter(|piece| !piece.is_empty())
        .collect::<Vec<_>>()
        .join("-");
    (!name.is_empty()).then(|| format!("{name}.{PARTITION}.>"))
}

/// One place of subjects of one shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Text(&'a str),
    Wildcard,
    Differing,
    Rest,
}

fn merged<'a>(subjects: &[&'a str]) -> Result<Vec<Token<'a>>, Misfit> {
    let token = |text: &'a str| match text {
        "*" => Token::Wildcard,
        ">" => Token::Rest,
        text => Token::Text(text),
    };
    let mut shapes = subjects
        .iter()
        .map(|s| s.split('.').map(token).collect::<Vec<_>>());
    let mut shape = shapes.next().unwrap_or_default();
    for other in shapes {
        let alike = shape.len() == other.len();
        let merged = shape
            .iter()
            .zip(&other)
            .map(|(one, other)| match (one, other) {
                (one, other) if one == other => Some(*one),
                (Token::Text(_) | Token::Differing, Token::Text(_)) => Some(Token::Differing),
                _ => None,
            });
        shape = merged.collect::<Option<_>>().filter(|_| alike).ok_or(Misfit::Subjects(
            "differ in shape; a stream has one transform, so its subjects need the same number of \
             tokens and their wildcards at the same places (or use one stream and group for each)",
        ))?;
    }
    Ok(shape)
}

/// The key's wildcards, as the merged source counts them.
fn key_positions(source: &[Token<'_>], key_tokens: &[u32]) -> Result<Vec<u32>, Misfit> {
    // For each wildcard of the subjects, its number in the source.
    let numbered = (1u32..).zip(
        source
            .iter()
            .filter(|t| matches!(t, Token::Wildcard | Token::Differing)),
    );
    let own: Vec<u32> = numbered
        .filter(|(_, t)| **t == Token::Wildcard)
        .map(|(number, _)| number)
        .collect();
    if own.is_empty() {
        return Err(Misfit::Subjects(
            "has no wildcard *; the key is a token of the subject, as in orders.*",
        ));
    }
    let place = |token: &u32| {
        let index = usize::try_from(*token).ok()?.checked_sub(1)?;
        own.get(index).copied()
    };
    let places = key_tokens.iter().map(|token| place(token).ok_or(token));
    places.collect::<Result<_, _>>().map_err(|token| {
        let has = if own.len() == 1 {
            "one wildcard".to_owned()
        } else {
            format!("{} wildcards", own.len())
        };
        Misfit::KeyTokens(format!(
            "names wildcard {token}, and the subject has {has} *"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_partition_goes_in_front_of_the_first_wildcard() {
        let transform = transform(&["orders.*"], &[1], 8).unwrap();
        assert_eq!(transform.source, "orders.*");
        assert_eq!(
            transform.destination,
            "orders.{{partition(8,1)}}.{{wildcard(1)}}"
        );
        assert_eq!(transform.filter, "orders.{partition}.*");
    }

    #[test]
    fn the_key_may_be_several_tokens_and_the_subject_open_ended() {
        let transform = transform(&["shop.*.orders.*.>"], &[2, 1], 4).unwrap();
        assert_eq!(
            transform.destination,
            "shop.{{partition(4,2,1)}}.{{wildcard(1)}}.orders.{{wildcard(2)}}.>"
        );
        assert_eq!(transform.filter, "shop.{partition}.*.orders.*.>");
    }

    #[test]
    fn subjects_of_one_shape_share_a_transform() {
        let transform = transform(&["orders.*", "returns.*", "claims.*"], &[1], 4).unwrap();
        assert_eq!(transform.source, "*.*");
        assert_eq!(
            transform.destination,
            "{{wildcard(1)}}.{{partition(4,2)}}.{{wildcard(2)}}"
        );
        assert_eq!(transform.filter, "*.{partition}.*");
    }

    #[test]
    fn subjects_of_different_shapes_are_refused() {
        for subjects in [
            ["a.*", "b.c.*"],
            ["a.*", "*.a"],
            ["a.*", "a.>"],
            ["a.*.b", "a.*.*"],
        ] {
            let Err(Misfit::Subjects(words)) = transform(&subjects, &[1], 4) else {
                panic!()
            };
            assert!(words.starts_with("differ in shape"), "{words}");
        }
    }

    #[test]
    fn a_key_needs_a_wildcard() {
        let Err(Misfit::Subjects(words)) = transform(&["orders.>"], &[1], 4) else {
            panic!()
        };
        assert!(words.starts_with("has no wildcard *"), "{words}");
        assert_eq!(
            transform(&["orders.*"], &[1, 2], 4),
            Err(Misfit::KeyTokens(
                "names wildcard 2, and the subject has one wildcard *".to_owned()
            ))
        );
    }

    #[test]
    fn wildcards_are_whole_tokens() {
        for right in ["a", "a.*", "*.b.>", ">", "orders.{partition}.>"] {
            assert_eq!(misuse(right), None, "{right}");
        }
        for wrong in ["a..b", ".a", "a*", "a.>.b", "a.b>"] {
            assert!(misuse(wrong).is_some(), "{wrong}");
        }
    }

    #[test]
    fn two_subjects_meet_if_a_message_can_match_both() {
        for (one, other) in [("a.b", "a.b"), ("a.*", "*.b"), ("a.>", "a.b.c"), (">", "x")] {
            assert!(meet(one, other) && meet(other, one), "{one} and {other}");
        }
        for (one, other) in [
            ("a.b", "a.c"),
            ("a.*", "a.b.c"),
            ("a.>", "a"),
            ("a.1.>", "a.2.>"),
        ] {
            assert!(!meet(one, other) && !meet(other, one), "{one} and {other}");
        }
    }

    #[test]
    fn streams_are_named_after_the_rest_of_their_pattern() {
        assert_eq!(
            of_streams("orders-{partition}").as_deref(),
            Some("orders.{partition}.>")
        );
        assert_eq!(
            of_streams("{partition}_orders").as_deref(),
            Some("orders.{partition}.>")
        );
        assert_eq!(
            of_streams("a-{partition}-b").as_deref(),
            Some("a-b.{partition}.>")
        );
        assert_eq!(of_streams("{partition}"), None);
    }
}
