//! Manifest files: YAML documents, each an object of a kind that we know.

use std::fmt;
use std::sync::LazyLock;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::consumer_group::ConsumerGroup;
use super::definitions::{self, Definition};
use super::nats_connection::NatsConnection;
use super::nearest;
use super::offset_reset::OffsetReset;
use super::schema::{self, Differences};
use super::valid_group::ValidGroup;
use super::violation::Violation;

/// One object of a manifest file.
#[derive(Clone, Debug, PartialEq)]
pub enum Manifest {
    /// A group.
    ConsumerGroup(Box<ConsumerGroup>),
    /// A connection; it acts in Kubernetes only.
    NatsConnection(Box<NatsConnection>),
    /// An offset reset; it acts in Kubernetes only.
    OffsetReset(Box<OffsetReset>),
}

/// Everything that is wrong with a manifest file. It is the file's author who has to act.
///
/// Each problem is one line: file, number of the document, field, what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ManifestError {
    /// The file as it was named.
    pub file: String,
    /// What is wrong, in the file's order; never empty.
    pub problems: Vec<Problem>,
}

/// One thing that is wrong with a manifest file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The document, counted from 1 without empty ones; none if the file is no YAML.
    pub document: Option<usize>,
    /// What is wrong and what would be right.
    pub violation: Violation,
}

/// Reads the groups of a manifest file and checks them completely.
///
/// A `NatsConnection` in the file is checked and has no effect.
pub fn read_groups(file: &str, text: &str) -> Result<Vec<ValidGroup>, ManifestError> {
    let mut groups: Vec<ValidGroup> = Vec::new();
    let mut problems = Vec::new();
    for (number, document) in numbered(file, text)? {
        match manifest(document).and_then(|manifest| group(&manifest, &groups)) {
            Ok(group) => groups.extend(group),
            Err(violations) => problems.extend(at(number, violations)),
        }
    }
    if problems.is_empty() && groups.is_empty() {
        let sentence = "there is no ConsumerGroup in this file".to_owned();
        let violation = Violation {
            path: String::new(),
            sentence,
        };
        problems.push(Problem {
            document: None,
            violation,
        });
    }
    finish(file, problems, groups)
}

/// Reads the objects of a manifest file against their schemas, each with the number of its document.
///
/// Rules that join fields are not looked at where the schema is kept: that is [`ValidGroup`]'s part.
pub fn read(file: &str, text: &str) -> Result<Vec<(usize, Manifest)>, ManifestError> {
    let mut manifests = Vec::new();
    let mut problems = Vec::new();
    for (number, document) in numbered(file, text)? {
        match manifest(document) {
            Ok(manifest) => manifests.push((number, manifest)),
            Err(violations) => problems.extend(at(number, violations)),
        }
    }
    finish(file, problems, manifests)
}

/// The group of an object, if it is one; it may not be among those that were read before.
fn group(manifest: &Manifest, before: &[ValidGroup]) -> Result<Option<ValidGroup>, Vec<Violation>> {
    match manifest {
        Manifest::ConsumerGroup(group) => {
            let group = ValidGroup::try_from(&**group)?;
            if before.iter().any(|other| other.group == group.group) {
                let words = format!("is {} again; a group is declared once", group.group);
                return Err(vec![Violation::of_field("metadata.name", words)]);
            }
            Ok(Some(group))
        }
        Manifest::NatsConnection(_) => Ok(None),
        Manifest::OffsetReset(_) => {
            let words = "is OffsetReset, which acts in Kubernetes only; take it out of this file";
            Err(vec![Violation::of_field("kind", words)])
        }
    }
}

/// The documents of a file, counted from 1.
fn numbered(file: &str, text: &str) -> Result<impl Iterator<Item = (usize, Value)>, ManifestError> {
    let documents = parse(text).map_err(|violation| ManifestError {
        file: file.to_owned(),
        problems: vec![Problem {
            document: None,
            violation,
        }],
    })?;
    Ok((1..).zip(documents))
}

fn parse(text: &str) -> Result<Vec<Value>, Violation> {
    // Only `true` and `false` are booleans: "no" is a country, too.
    let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
    serde_saphyr::from_multiple_with_options(text, options).map_err(|error| Violation {
        path: String::new(),
        sentence: format!(
            "is not YAML that can be read: {}",
            one_line(&error.to_string())
        ),
    })
}

fn manifest(mut document: Value) -> Result<Manifest, Vec<Violation>> {
    let definition = definition_of(&document).map_err(|violation| vec![violation])?;
    let Differences {
        mut violations,
        unknown_fields,
    } = schema::check(checked_schema(definition), &mut document);
    let manifest = match definition.kind.as_str() {
        "NatsConnection" => typed(document).map(Manifest::NatsConnection),
        "OffsetReset" => typed(document).map(Manifest::OffsetReset),
        _ => typed(document).map(Manifest::ConsumerGroup),
    };
    if violations.is_empty() {
        return manifest;
    }
    // What else is wrong, unless it follows from a name that was misspelt.
    if let (Ok(Manifest::ConsumerGroup(group)), false) = (manifest, unknown_fields) {
        let others = ValidGroup::try_from(&*group).err().unwrap_or_default();
        let said = |path: &str| violations.iter().any(|other| is_within(&other.path, path));
        let others: Vec<_> = others
            .into_iter()
            .filter(|other| !said(&other.path))
            .collect();
        violations.extend(others);
    }
    Err(violations)
}

/// Whether a path is another one, or an item of that list.
fn is_within(path: &str, list: &str) -> bool {
    path.strip_prefix(list)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('['))
}

/// The kind of a document: it has to be one of ours.
fn definition_of(document: &Value) -> Result<&'static Definition, Violation> {
    let all = definitions::all();
    let kinds = || all.iter().map(|definition| definition.kind.as_str());
    let one_of = || kinds().collect::<Vec<_>>().join(", ");
    let text = |name: &str| document.get(name).and_then(Value::as_str);
    let Some(kind) = text("kind") else {
        let words = format!("is missing; it has to be one of {}", one_of());
        return Err(Violation::of_field("kind", words));
    };
    let Some(definition) = all.iter().find(|definition| definition.kind == kind) else {
        let words = match nearest::name(kind, kinds()) {
            Some(name) => format!("is {kind:?}; did you mean {name}?"),
            None => format!("is {kind:?}; it has to be one of {}", one_of()),
        };
        return Err(Violation::of_field("kind", words));
    };
    match text("apiVersion") {
        Some(version) if version == definition.api_version => Ok(definition),
        given => {
            let given = given.map_or("missing".to_owned(), |given| format!("{given:?}"));
            let words = format!("is {given}; it has to be {}", definition.api_version);
            Err(Violation::of_field("apiVersion", words))
        }
    }
}

/// The definition's schema, with what the API server adds for `metadata`.
fn checked_schema(definition: &Definition) -> &'static Value {
    static SCHEMAS: LazyLock<Vec<(String, Value)>> = LazyLock::new(|| {
        let metadata = metadata_schema();
        let with_metadata = |definition: &Definition| {
            let mut schema = definition.schema.clone();
            let constant = |word: &str| json!({ "type": "string", "enum": [word] });
            schema["properties"]["apiVersion"] = constant(&definition.api_version);
            schema["properties"]["kind"] = constant(&definition.kind);
            schema["properties"]["metadata"] = metadata.clone();
            schema["required"] = json!(["apiVersion", "kind", "metadata", "spec"]);
            (definition.kind.clone(), schema)
        };
        definitions::all().iter().map(with_metadata).collect()
    });
    let found = SCHEMAS.iter().find(|(kind, _)| *kind == definition.kind);
    found.map_or(&Value::Null, |(_, schema)| schema)
}

fn metadata_schema() -> Value {
    let settings = schemars::generate::SchemaSettings::openapi3().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let schema = settings
        .into_generator()
        .into_root_schema_for::<ObjectMeta>();
    let mut schema = schema.to_value();
    schema["required"] = json!(["name"]);
    schema
}

fn typed<T: DeserializeOwned>(document: Value) -> Result<Box<T>, Vec<Violation>> {
    // What fits the schema fits the type; should the two ever differ, say so instead of guessing.
    serde_json::from_value(document)
        .map(Box::new)
        .map_err(|error| {
            vec![Violation {
                path: String::new(),
                sentence: one_line(&error.to_string()),
            }]
        })
}

fn at(number: usize, violations: Vec<Violation>) -> impl Iterator<Item = Problem> {
    violations.into_iter().map(move |violation| Problem {
        document: Some(number),
        violation,
    })
}

fn finish<T>(file: &str, problems: Vec<Problem>, value: T) -> Result<T, ManifestError> {
    if problems.is_empty() {
        return Ok(value);
    }
    Err(ManifestError {
        file: file.to_owned(),
        problems,
    })
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

// === impl ManifestError ===

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{}: {problem}", self.file)?;
        }
        Ok(())
    }
}

// === impl Problem ===

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(document) = self.document {
            write!(f, "document {document}: ")?;
        }
        self.violation.fmt(f)
    }
}
