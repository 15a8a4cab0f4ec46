//! The source in the core's terms: which stream and filter each partition has, and what is to be
//! made. What no expression of the API server checks is checked here.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::group::{PartitionSource, Source, Transform};

use super::consumer_group::ConsumerGroupSpec;
use super::convert::Reading;
use super::source::{self as raw, CreateStream, Storage};
use super::subjects::{self, Misfit, PARTITION, SubjectTransform};
use super::text::{DurationText, QuantityText, Subject};
use super::valid_group::{NewStream, Origin};

/// The longest name that a stream may have.
const LONGEST_STREAM: usize = 128;

/// What a server takes as the shortest age of a message, besides "for ever".
const SHORTEST_AGE: Duration = Duration::from_millis(100);

/// The source of the group of this name, and the streams to be made for it. None with a violation
/// noted, here or as a rule.
pub(super) fn source(
    spec: &ConsumerGroupSpec,
    name: &str,
    reading: &mut Reading,
) -> Option<(Source, Vec<NewStream>)> {
    let count = spec.partitioning.partitions;
    let source = &spec.source;
    let converted = if let Some(stream) = &source.stream {
        match (&stream.create, &stream.subject_pattern) {
            (Some(create), None) => created(stream, create, spec, reading),
            (None, Some(pattern)) => Some(existing(stream, pattern, count, reading)),
            _ => None,
        }
    } else if let Some(streams) = &source.streams {
        one_per_partition(streams, count, reading)
    } else if let Some(of) = &source.derived {
        derived(of, name, spec, reading)
    } else {
        let list = source.partitions.as_ref()?;
        Some((listed(list, reading), Vec::new()))
    };
    dead_letters_outside(spec, converted.as_ref(), reading);
    converted
}

fn created(
    stream: &raw::StreamSource,
    create: &CreateStream,
    spec: &ConsumerGroupSpec,
    reading: &mut Reading,
) -> Option<(Source, Vec<NewStream>)> {
    let path = "spec.source.stream.create";
    let limits = Limits {
        storage: create.storage,
        max_age: create.max_age.as_ref(),
        max_bytes: create.max_bytes.as_ref(),
        replicas: create.replicas,
    };
    let made = limits.stream(path, stream.name.to_string(), reading);
    let keyed = keyed(path, &create.subjects, spec, reading)?;
    let source = keyed.source(stream.name.to_string(), None);
    let made = NewStream {
        subjects: keyed.subjects,
        transform: Some(keyed.transform),
        ..made
    };
    Some((source, vec![made]))
}

/// A stream that takes over another one's messages, each subject by a transform of its own: nothing
/// else of that stream is taken over.
fn derived(
    derived: &raw::DerivedSource,
    name: &str,
    spec: &ConsumerGroupSpec,
    reading: &mut Reading,
) -> Option<(Source, Vec<NewStream>)> {
    let path = "spec.source.derived";
    let limits = Limits {
        storage: derived.storage,
        max_age: derived.max_age.as_ref(),
        max_bytes: derived.max_bytes.as_ref(),
        replicas: derived.replicas,
    };
    let made = limits.stream(path, format!("{}_{name}", derived.stream), reading);
    let keyed = keyed(path, &derived.subjects, spec, reading)?;
    let partitions = spec.partitioning.partitions;
    let transforms = keyed.subjects.iter().map(|subject| {
        let transform = subjects::transform(&[subject], &keyed.key_tokens, partitions).ok()?;
        Some((transform.source, transform.destination))
    });
    let origin = Origin {
        stream: derived.stream.to_string(),
        transforms: transforms.collect::<Option<_>>()?,
    };
    let source = keyed.source(made.name.clone(), Some(derived.stream.to_string()));
    let made = NewStream {
        origin: Some(origin),
        ..made
    };
    Some((source, vec![made]))
}

/// Subjects that the server turns into partitions.
struct Keyed {
    subjects: Vec<String>,
    key_tokens: Vec<u32>,
    partitions: u32,
    transform: SubjectTransform,
}

/// The subjects at this path, with the group's key; none with what is wrong noted.
fn keyed(
    path: &str,
    given: &[Subject],
    spec: &ConsumerGroupSpec,
    reading: &mut Reading,
) -> Option<Keyed> {
    let path = format!("{path}.subjects");
    let subjects = given.iter().map(Subject::as_str).collect::<Vec<_>>();
    if !well_formed(&path, &subjects, reading) {
        return None;
    }
    let key_tokens = spec.partitioning.key_tokens.clone();
    let key_tokens = key_tokens.unwrap_or_else(|| vec![1]);
    let partitions = spec.partitioning.partitions;
    match subjects::transform(&subjects, &key_tokens, partitions) {
        Ok(transform) => Some(Keyed {
            subjects: subjects.into_iter().map(str::to_owned).collect(),
            key_tokens,
            partitions,
            transform,
        }),
        Err(Misfit::Subjects(words)) => {
            reading.refuse(path, words);
            None
        }
        Err(Misfit::KeyTokens(words)) => {
            reading.refuse("spec.partitioning.keyTokens", words);
            None
        }
    }
}

// === impl Keyed ===

impl Keyed {
    fn source(&self, stream: String, origin: Option<String>) -> Source {
        Source::Stream {
            stream,
            partitions: self.partitions,
            filter: self.transform.filter.clone(),
            transform: Some(Transform {
                subjects: self.subjects.clone(),
                key_tokens: self.key_tokens.clone(),
                origin,
            }),
        }
    }
}

fn existing(
    stream: &raw::StreamSource,
    pattern: &Subject,
    partitions: u32,
    reading: &mut Reading,
) -> (Source, Vec<NewStream>) {
    well_formed(
        "spec.source.stream.subjectPattern",
        &[pattern.as_str()],
        reading,
    );
    let source = Source::Stream {
        stream: stream.name.to_string(),
        partitions,
        filter: pattern.to_string(),
        transform: None,
    };
    (source, Vec::new())
}

fn one_per_partition(
    streams: &raw::StreamsSource,
    partitions: u32,
    reading: &mut Reading,
) -> Option<(Source, Vec<NewStream>)> {
    let path = "spec.source.streams";
    let pattern = streams.pattern.as_str();
    let name_of = |number: u32| pattern.replace(PARTITION, &number.to_string());
    let longest = name_of(partitions.saturating_sub(1)).len();
    if longest > LONGEST_STREAM {
        let words =
            format_args!("makes names of {longest} characters; {LONGEST_STREAM} are allowed");
        reading.refuse(format!("{path}.pattern"), words);
    }
    let mut source = Source::Streams {
        pattern: pattern.to_owned(),
        partitions,
        subjects: String::new(),
    };
    let Some(create) = &streams.create else {
        return Some((source, Vec::new()));
    };
    let Some(stored) = subjects::of_streams(pattern) else {
        let words =
            "is only a number; the streams' subjects are named after it: say orders-{partition}";
        reading.refuse(format!("{path}.pattern"), words);
        return None;
    };
    well_formed(&format!("{path}.pattern"), &[&stored], reading);
    let limits = Limits {
        storage: create.storage,
        max_age: create.max_age.as_ref(),
        max_bytes: create.max_bytes.as_ref(),
        replicas: create.replicas,
    };
    let like = limits.stream(&format!("{path}.create"), String::new(), reading);
    let made = (0..partitions).map(|number| NewStream {
        name: name_of(number),
        subjects: vec![stored.replace(PARTITION, &number.to_string())],
        ..like.clone()
    });
    let made = made.collect();
    if let Source::Streams { subjects, .. } = &mut source {
        *subjects = stored;
    }
    Some((source, made))
}

/// The list by partition. That it is complete follows from two rules and from no repetition.
fn listed(list: &[raw::PartitionEntry], reading: &mut Reading) -> Source {
    let mut by_number = BTreeMap::new();
    for (index, entry) in list.iter().enumerate() {
        let path = format!("spec.source.partitions[{index}]");
        if let Some(filter) = &entry.filter_subject {
            well_formed(
                &format!("{path}.filterSubject"),
                &[filter.as_str()],
                reading,
            );
        }
        if by_number.insert(entry.partition, entry).is_some() {
            let words = format_args!(
                "is {} again; each partition is listed once",
                entry.partition
            );
            reading.refuse(format!("{path}.partition"), words);
        }
    }
    no_message_twice(&by_number, reading);
    let entries = by_number.into_values().map(|entry| PartitionSource {
        stream: entry.stream.to_string(),
        filter: entry.filter_subject.as_ref().map(ToString::to_string),
    });
    Source::List(entries.collect())
}

/// Two partitions that share messages would have each of them twice, without order.
fn no_message_twice(list: &BTreeMap<u32, &raw::PartitionEntry>, reading: &mut Reading) {
    let mut by_stream: BTreeMap<&str, Vec<(u32, &str)>> = BTreeMap::new();
    for (number, entry) in list {
        let filter = entry.filter_subject.as_ref().map_or(">", Subject::as_str);
        let of_stream = by_stream.entry(entry.stream.as_str()).or_default();
        if let Some((other, _)) = of_stream
            .iter()
            .find(|(_, other)| subjects::meet(filter, other))
        {
            let words = format_args!(
                "has partitions {other} and {number} share messages of stream {}; give them \
                 filterSubjects that no message matches both of",
                entry.stream
            );
            reading.refuse("spec.source.partitions", words);
        }
        of_stream.push((*number, filter));
    }
}

/// Whether each of the subjects can be used, and no message matches two of them.
fn well_formed(path: &str, subjects: &[&str], reading: &mut Reading) -> bool {
    let mut sound = true;
    for (index, subject) in subjects.iter().enumerate() {
        let misuse = subjects::misuse(subject).map(str::to_owned);
        let twice = subjects[..index]
            .iter()
            .find(|other| subjects::meet(subject, other));
        let twice =
            twice.map(|other| format!("overlaps with {other}; a stream takes a message once"));
        if let Some(words) = misuse.or(twice) {
            reading.refuse(path, format_args!("{subject} {words}"));
            sound = false;
        }
    }
    sound
}

/// Dead letters that came back into the group would be retried for ever.
fn dead_letters_outside(
    spec: &ConsumerGroupSpec,
    converted: Option<&(Source, Vec<NewStream>)>,
    reading: &mut Reading,
) {
    let Some(letters) = &spec.delivery.dead_letter else {
        return;
    };
    let path = "spec.delivery.deadLetter";
    let subject = letters.subject.as_str();
    let mut own = Vec::new();
    if let Some((source, create)) = converted {
        own.extend(
            create
                .iter()
                .flat_map(|stream| stream.subjects.iter().cloned()),
        );
        own.extend(
            create
                .iter()
                .filter_map(|s| Some(s.transform.as_ref()?.filter.clone())),
        );
        own.extend(source_filters(source));
        if letters
            .stream
            .as_ref()
            .is_some_and(|s| source.streams().contains(s.name.as_str()))
        {
            let words = "is a stream of the group's own source; dead letters need another";
            reading.refuse(format!("{path}.stream.name"), words);
        }
    }
    own.extend(
        spec.source
            .derived
            .iter()
            .flat_map(|d| d.subjects.iter().map(ToString::to_string)),
    );
    let inside = own
        .iter()
        .find(|own| subjects::meet(&own.replace(PARTITION, "*"), subject));
    if let Some(own) = inside {
        let words = format_args!(
            "is {subject}, which the group itself reads ({own}); dead letters need another subject"
        );
        reading.refuse(format!("{path}.subject"), words);
    }
}

fn source_filters(source: &Source) -> Vec<String> {
    match source {
        Source::Stream { filter, .. } => vec![filter.clone()],
        Source::Streams { .. } => Vec::new(),
        Source::List(list) => list
            .iter()
            .filter_map(|entry| entry.filter.clone())
            .collect(),
    }
}

/// What the manifest says of a stream that is to be made.
struct Limits<'a> {
    storage: Storage,
    max_age: Option<&'a DurationText>,
    max_bytes: Option<&'a QuantityText>,
    replicas: Option<u32>,
}

impl Limits<'_> {
    fn stream(&self, path: &str, name: String, reading: &mut Reading) -> NewStream {
        let max_age = self.max_age.map(|text| {
            let path = format!("{path}.maxAge");
            let age = reading.duration(&path, text);
            if text.parse().is_some_and(|age| age < SHORTEST_AGE) {
                reading.refuse(
                    path,
                    format_args!("is {text}; the servers take 100ms and more"),
                );
            }
            age
        });
        let max_bytes = self.max_bytes.map(|text| {
            let path = format!("{path}.maxBytes");
            let bytes = reading.size(&path, text);
            if i64::try_from(bytes).is_err() {
                reading.refuse(path, format_args!("is {text}, more than a stream can have"));
            }
            bytes
        });
        NewStream {
            name,
            subjects: Vec::new(),
            transform: None,
            origin: None,
            storage: self.storage,
            max_age,
            max_bytes,
            replicas: self.replicas,
        }
    }
}
