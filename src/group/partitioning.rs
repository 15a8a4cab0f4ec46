//! From a key to its partition and its subject, and back.
//!
//! The partition of a key is what the server's subject transform `{{partition(N,…)}}` computes, so
//! publishers that go through Lockstep and publishers that do not agree.

use std::fmt;

use super::{Partition, PartitionSource, Source, Transform};

/// The longest subject that a key may lead to, in bytes. A server drops the connection of a client
/// that sends a longer control line than it allows (4 KiB by default), headers' lengths included.
pub const MAX_SUBJECT: usize = 1024;

/// A message key: one or more subject tokens, separated by dots.
///
/// Held as proof: no token is empty, and none holds white space, a control character, `*` or `>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(String);

/// Where a key's messages are published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The partition.
    pub partition: Partition,
    /// The stream that stores it as it is published.
    pub stream: String,
    /// The subject to publish to.
    pub subject: String,
}

/// Why a key leads nowhere. Each is a sentence that says what to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// The text cannot be part of a subject.
    Invalid {
        /// What was given.
        key: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The key has another number of tokens than the subject has places for.
    Tokens {
        /// What was given.
        key: String,
        /// The subject that it should have filled.
        pattern: String,
    },
    /// The subject would be longer than [`MAX_SUBJECT`].
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// The group's source does not say which subject a partition has.
    NoSubject {
        /// The partition of the key.
        partition: Partition,
        /// Its stream.
        stream: String,
    },
    /// The group has no partitions.
    NoPartitions,
}

/// FNV-1a, 32 bits, over the tokens put together without a separator.
pub fn hash<'a>(tokens: impl IntoIterator<Item = &'a str>) -> u32 {
    let bytes = tokens.into_iter().flat_map(str::bytes);
    bytes.fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

/// The partition of these tokens among `partitions`; none if there are no partitions.
pub fn partition_of<'a>(
    tokens: impl IntoIterator<Item = &'a str>,
    partitions: u32,
) -> Option<Partition> {
    hash(tokens).checked_rem(partitions).map(Partition)
}

/// The partition of a key, and where its messages go.
pub fn address(source: &Source, key: &Key) -> Result<Address, KeyError> {
    let address = match source {
        Source::Stream {
            stream,
            partitions,
            transform: Some(transform),
            ..
        } => {
            let pattern = transform.pattern_for(key)?;
            let partition = partition_of(transform.chosen(key), *partitions);
            let stream = transform.origin.as_ref().unwrap_or(stream);
            (partition, stream.clone(), fill(pattern, None, key)?)
        }
        Source::Stream {
            stream,
            partitions,
            filter,
            transform: None,
        } => {
            let partition = partition_of(key.tokens(), *partitions);
            (partition, stream.clone(), fill(filter, partition, key)?)
        }
        Source::Streams {
            partitions,
            subjects,
            ..
        } => {
            let partition = partition_of(key.tokens(), *partitions);
            let stream = stream_of(source, partition)?;
            if subjects.is_empty() {
                return Err(no_subject(partition, stream));
            }
            (partition, stream, fill(subjects, partition, key)?)
        }
        Source::List(list) => {
            let partition = partition_of(key.tokens(), source.partitions());
            let entry = partition.and_then(|p| list.get(p.index()));
            let PartitionSource { stream, filter } = entry.ok_or(KeyError::NoPartitions)?;
            let Some(filter) = filter else {
                return Err(no_subject(partition, stream.clone()));
            };
            (partition, stream.clone(), fill(filter, partition, key)?)
        }
    };
    let (partition, stream, subject) = address;
    if subject.len() > MAX_SUBJECT {
        return Err(KeyError::TooLong {
            length: subject.len(),
        });
    }
    let partition = partition.ok_or(KeyError::NoPartitions)?;
    Ok(Address {
        partition,
        stream,
        subject,
    })
}

/// The partition of a key without the subject: also where the source does not say the subject.
pub fn partition_of_key(source: &Source, key: &Key) -> Result<Partition, KeyError> {
    let partition = match source {
        Source::Stream {
            partitions,
            transform: Some(transform),
            ..
        } => {
            transform.pattern_for(key)?;
            partition_of(transform.chosen(key), *partitions)
        }
        Source::Stream {
            transform: None, ..
        }
        | Source::Streams { .. }
        | Source::List(_) => partition_of(key.tokens(), source.partitions()),
    };
    partition.ok_or(KeyError::NoPartitions)
}

/// The partition of a message published to this subject; none if the group does not read it, or
/// if its source does not tell partitions by subject.
pub fn partition_of_subject(source: &Source, subject: &str) -> Option<Partition> {
    match source {
        Source::Stream {
            partitions,
            transform: Some(transform),
            ..
        } => {
            let published = |pattern: &String| stars(pattern, subject);
            let tokens = transform.subjects.iter().find_map(published)?;
            let chosen = transform.key_tokens.iter();
            let chosen: Option<Vec<&str>> = chosen
                .map(|t| tokens.get((*t as usize).checked_sub(1)?).copied())
                .collect();
            partition_of(chosen?, *partitions)
        }
        Source::Stream {
            partitions,
            filter,
            transform: None,
            ..
        } => partition_token(filter, subject, *partitions),
        Source::Streams {
            partitions,
            subjects,
            ..
        } => partition_token(subjects, subject, *partitions),
        Source::List(list) => {
            let reads = |s: &PartitionSource| {
                s.filter
                    .as_deref()
                    .is_some_and(|f| stars(f, subject).is_some())
            };
            let mut found = Partition::all(u32::MAX).zip(list).filter(|(_, s)| reads(s));
            found.next().map(|(p, _)| p)
        }
    }
}

/// The key of a message as stored in this partition: what fills the places of the wildcards. The
/// whole subject where there are none.
pub fn key_of_stored(source: &Source, partition: Partition, subject: &str) -> String {
    let (pattern, number) = match source {
        Source::Stream { filter, .. } => (filter.as_str(), Some(partition)),
        Source::Streams { subjects, .. } => (subjects.as_str(), Some(partition)),
        Source::List(list) => {
            let entry = list.get(partition.index());
            let filter = entry.and_then(|source| source.filter.as_deref());
            (filter.unwrap_or_default(), None)
        }
    };
    // Done for every message that is handed over: one allocation is enough.
    let (mut key, mut places) = (String::with_capacity(subject.len()), 0);
    let matches = each_star(pattern, number, subject, |token| {
        if places > 0 {
            key.push('.');
        }
        key.push_str(token);
        places += 1;
    });
    if matches && places > 0 {
        return key;
    }
    subject.to_owned()
}

fn stream_of(source: &Source, partition: Option<Partition>) -> Result<String, KeyError> {
    let of = partition.and_then(|p| source.of(p));
    of.map(|s| s.stream).ok_or(KeyError::NoPartitions)
}

fn no_subject(partition: Option<Partition>, stream: String) -> KeyError {
    match partition {
        Some(partition) => KeyError::NoSubject { partition, stream },
        None => KeyError::NoPartitions,
    }
}

/// What stands in the places of a pattern's wildcards, if the subject matches it.
fn stars<'a>(pattern: &str, subject: &'a str) -> Option<Vec<&'a str>> {
    let mut found = Vec::new();
    each_star(pattern, None, subject, |token| found.push(token)).then_some(found)
}

/// Names what stands in the places of a pattern's wildcards; whether the subject matches it.
/// `{partition}` in the pattern is this number, if one is given.
fn each_star<'a>(
    pattern: &str,
    number: Option<Partition>,
    subject: &'a str,
    mut found: impl FnMut(&'a str),
) -> bool {
    let mut tokens = subject.split('.');
    for place in pattern.split('.') {
        let Some(token) = tokens.next() else {
            return false;
        };
        match place {
            ">" => {
                found(token);
                tokens.for_each(found);
                return true;
            }
            "*" => found(token),
            literal if is_literally(literal, number, token) => {}
            _ => return false,
        }
    }
    tokens.next().is_none()
}

fn is_literally(literal: &str, number: Option<Partition>, token: &str) -> bool {
    match number {
        Some(number) if literal == "{partition}" => {
            let plain = token == "0" || !token.starts_with(['0', '+']);
            plain && token.parse() == Ok(number.0)
        }
        Some(number) if literal.contains("{partition}") => {
            literal.replace("{partition}", &number.to_string()) == token
        }
        Some(_) | None => literal == token,
    }
}

/// The number in the place of `{partition}`, if the rest of the subject matches.
fn partition_token(pattern: &str, subject: &str, partitions: u32) -> Option<Partition> {
    let at = pattern.split('.').position(|t| t == "{partition}")?;
    let text = subject.split('.').nth(at)?;
    let number: u32 = text.parse().ok().filter(|n| *n < partitions)?;
    // "07" and "+7" name no partition: the filter of partition 7 does not match them.
    let exact = number.to_string() == text;
    let filter = pattern.replace("{partition}", text);
    (exact && stars(&filter, subject).is_some()).then_some(Partition(number))
}

/// The subject that a key makes of a pattern: its tokens take the wildcards' places in order.
fn fill(pattern: &str, partition: Option<Partition>, key: &Key) -> Result<String, KeyError> {
    let number = partition.map(|p| p.to_string());
    let mut tokens = key.tokens();
    let mut subject = Vec::new();
    let mut places = 0;
    let wrong = || KeyError::Tokens {
        key: key.0.clone(),
        pattern: pattern.to_owned(),
    };
    for place in pattern.split('.') {
        match place {
            "{partition}" => subject.push(number.as_deref().ok_or_else(wrong)?),
            "*" => subject.push(tokens.next().ok_or_else(wrong)?),
            ">" => {
                subject.push(tokens.next().ok_or_else(wrong)?);
                subject.extend(tokens.by_ref());
            }
            literal => {
                subject.push(literal);
                continue;
            }
        }
        places += usize::from(place != "{partition}");
    }
    // Without a wildcard the subject is the partition's, and the key only chooses it.
    if places > 0 && tokens.next().is_some() {
        return Err(wrong());
    }
    Ok(subject.join("."))
}

// === impl Key ===

impl Key {
    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its tokens.
    pub fn tokens(&self) -> impl Iterator<Item = &str> {
        self.0.split('.')
    }
}

impl std::str::FromStr for Key {
    type Err = KeyError;
    fn from_str(given: &str) -> Result<Self, KeyError> {
        let invalid = |why| KeyError::Invalid {
            key: given.to_owned(),
            why,
        };
        if given.is_empty() {
            return Err(invalid("it is empty"));
        }
        if given.len() > MAX_SUBJECT {
            return Err(KeyError::TooLong {
                length: given.len(),
            });
        }
        if given.split('.').any(str::is_empty) {
            return Err(invalid(
                "it has an empty token: a dot at an end, or two in a row",
            ));
        }
        if given.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(invalid("it holds white space or a control character"));
        }
        if given.contains(['*', '>']) {
            return Err(invalid("it holds a wildcard (* or >)"));
        }
        Ok(Self(given.to_owned()))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// === impl Transform ===

impl Transform {
    /// The publishers' subject that this key fills exactly.
    fn pattern_for(&self, key: &Key) -> Result<&str, KeyError> {
        let fits = |pattern: &&String| fill(pattern, None, key).is_ok();
        let filled = |pattern: &&String| pattern.contains(['*', '>']);
        let mut subjects = self.subjects.iter().filter(filled);
        let pattern = subjects.find(fits).map(String::as_str);
        pattern.ok_or_else(|| KeyError::Tokens {
            key: key.0.clone(),
            pattern: self.subjects.join(" or "),
        })
    }

    /// The tokens of the key that choose its partition.
    fn chosen<'a>(&'a self, key: &'a Key) -> impl Iterator<Item = &'a str> {
        let tokens: Vec<&str> = key.tokens().collect();
        let places = self.key_tokens.iter();
        places.filter_map(move |t| tokens.get((*t as usize).checked_sub(1)?).copied())
    }
}

// === impl KeyError ===

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid { key, why } => write!(
                f,
                "key {key:?} cannot be part of a subject: {why}; \
                 use tokens without white space, '*' and '>', separated by single dots"
            ),
            Self::Tokens { key, pattern } => write!(
                f,
                "key {key:?} does not fit the subject {pattern}: \
                 give one token, separated by dots, for each wildcard"
            ),
            Self::TooLong { length } => write!(
                f,
                "the key makes a subject of {length} bytes; at most {MAX_SUBJECT} are allowed: \
                 use a shorter key"
            ),
            Self::NoSubject { partition, stream } => write!(
                f,
                "the group does not say which subject partition {partition} (stream {stream}) has: \
                 publish to a subject of that stream instead of by key"
            ),
            Self::NoPartitions => f.write_str("the group has no partitions: nothing to publish to"),
        }
    }
}

impl std::error::Error for KeyError {}

#[cfg(test)]
mod tests;
