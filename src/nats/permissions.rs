//! What a process has to be allowed on the NATS server, by its role: the least with which all of its
//! work goes well.

use std::collections::BTreeSet;
use std::fmt;

use super::Role;
use crate::group::{GroupRef, Partition, Source};

/// A group, as far as permissions depend on it.
#[derive(Clone, Debug)]
pub struct GroupUse<'a> {
    /// Its name.
    pub group: &'a GroupRef,
    /// Where its messages are.
    pub source: &'a Source,
    /// Whether Lockstep makes its streams.
    pub makes_streams: bool,
    /// Whether its streams and bucket are removed with it.
    pub is_deleted: bool,
}

/// What is to be allowed, each as it would be written into the server's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permissions {
    /// Subjects to publish to, in the order in which they are explained best, none twice.
    pub publish: Vec<String>,
    /// Subjects to subscribe to.
    pub subscribe: Vec<String>,
}

/// What this role needs for these groups, whose buckets' names begin with `prefix`, in a `JetStream`
/// domain or none. A member's groups are the one that it is a member of.
pub fn of(role: &Role, prefix: &str, domain: Option<&str>, groups: &[GroupUse<'_>]) -> Permissions {
    let mut needs = Needs {
        api: domain.map_or_else(|| "$JS.API".to_owned(), |name| format!("$JS.{name}.API")),
        publish: Vec::new(),
    };
    needs.api(&["INFO"]);
    match role {
        Role::Controller => needs.controller(groups.iter().any(|it| it.is_deleted)),
        Role::Coordinator => needs.coordinator(prefix, groups),
        Role::Cli => needs.cli(prefix, groups),
        Role::Member(member) => {
            for it in groups.iter().filter(|it| it.group == member) {
                needs.worker(&it.group.bucket_name(prefix), it.source);
            }
        }
    }
    let mut seen = BTreeSet::new();
    needs.publish.retain(|subject| seen.insert(subject.clone()));
    Permissions {
        publish: needs.publish,
        subscribe: vec![format!("{}.>", role.inbox_prefix())],
    }
}

/// The list while it grows.
struct Needs {
    api: String,
    publish: Vec<String>,
}

// === impl Needs ===

impl Needs {
    fn api(&mut self, calls: &[&str]) {
        let calls = calls.iter().map(|call| format!("{}.{call}", self.api));
        self.publish.extend(calls);
    }

    /// Keys of a bucket, or of all.
    fn keys(&mut self, bucket: &str, keys: &[&str]) {
        let keys = keys.iter().map(|key| format!("$KV.{bucket}.{key}"));
        self.publish.extend(keys);
    }

    fn controller(&mut self, deletes: bool) {
        self.api(&["STREAM.NAMES", "STREAM.INFO.*", "STREAM.MSG.GET.*"]);
        self.api(&["STREAM.CREATE.*", "STREAM.UPDATE.*"]);
        if deletes {
            self.api(&["STREAM.DELETE.*"]);
        }
        self.api(&["CONSUMER.CREATE.>", "CONSUMER.MSG.NEXT.*.*"]);
        self.api(&["CONSUMER.INFO.*.*", "CONSUMER.DELETE.*.*"]);
        self.keys("*", &["meta", "group", "offset.*", "candidate.*"]);
    }

    fn coordinator(&mut self, prefix: &str, groups: &[GroupUse<'_>]) {
        self.api(&["STREAM.NAMES", "STREAM.INFO.*", "STREAM.MSG.GET.*"]);
        self.api(&["STREAM.CREATE.*"]);
        for it in groups {
            let bucket = it.group.bucket_name(prefix);
            self.reads(&format!("KV_{bucket}"), &[">".to_owned()]);
            self.keys(&bucket, &["meta", "group", "offset.*", "candidate.*"]);
            for (stream, forms) in forms(it.source) {
                self.consumers(&stream, &forms);
                self.api(&[&format!("CONSUMER.DELETE.{stream}.*")]);
                if it.makes_streams {
                    self.api(&[&format!("STREAM.UPDATE.{stream}")]);
                }
            }
        }
    }

    fn worker(&mut self, bucket: &str, source: &Source) {
        self.looks(&format!("KV_{bucket}"));
        self.reads(&format!("KV_{bucket}"), &[">".to_owned()]);
        self.keys(bucket, &["member.*", "offset.*"]);
        for (stream, forms) in forms(source) {
            self.looks(&stream);
            self.reads(&stream, &forms);
        }
    }

    fn cli(&mut self, prefix: &str, groups: &[GroupUse<'_>]) {
        self.api(&["STREAM.NAMES"]);
        for it in groups {
            self.looks(&format!("KV_{}", it.group.bucket_name(prefix)));
            for stream in it.source.streams() {
                self.api(&[&format!("STREAM.INFO.{stream}")]);
            }
        }
    }

    fn looks(&mut self, stream: &str) {
        let calls = ["INFO", "MSG.GET"].map(|call| format!("STREAM.{call}.{stream}"));
        self.api(&calls.each_ref().map(String::as_str));
    }

    fn reads(&mut self, stream: &str, forms: &[String]) {
        self.consumers(stream, forms);
        let calls =
            ["MSG.NEXT", "INFO", "DELETE"].map(|call| format!("CONSUMER.{call}.{stream}.*"));
        self.api(&calls.each_ref().map(String::as_str));
    }

    fn consumers(&mut self, stream: &str, forms: &[String]) {
        let calls = forms
            .iter()
            .map(|form| format!("CONSUMER.CREATE.{stream}.{form}"));
        for call in calls {
            self.api(&[&call]);
        }
    }
}

/// The streams that a group reads, each with how its consumers are named when they are made: any
/// name, and the filter if there is one.
fn forms(source: &Source) -> Vec<(String, Vec<String>)> {
    let filters: Vec<(String, Option<String>)> = match source {
        // One filter for all partitions: their token is any.
        Source::Stream { stream, filter, .. } => {
            vec![(stream.clone(), Some(filter.replace("{partition}", "*")))]
        }
        Source::Streams { .. } | Source::List(_) => Partition::all(source.partitions())
            .filter_map(|partition| source.of(partition))
            .map(|it| (it.stream, it.filter))
            .collect(),
    };
    let mut forms: Vec<(String, Vec<String>)> = Vec::new();
    for (stream, filter) in filters {
        let form = filter.map_or_else(|| "*".to_owned(), |filter| format!("*.{filter}"));
        match forms.iter_mut().find(|(name, _)| *name == stream) {
            Some((_, of_stream)) if of_stream.contains(&form) => {}
            Some((_, of_stream)) => of_stream.push(form),
            None => forms.push((stream, vec![form])),
        }
    }
    forms
}

// === impl Permissions ===

/// As the value of `permissions` of a user in the server's configuration.
impl fmt::Display for Permissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "permissions: {{")?;
        for (what, subjects) in [("publish", &self.publish), ("subscribe", &self.subscribe)] {
            writeln!(f, "  {what}: [")?;
            for subject in subjects {
                writeln!(f, "    \"{subject}\"")?;
            }
            writeln!(f, "  ]")?;
        }
        writeln!(f, "}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::PartitionSource;

    fn group() -> GroupRef {
        "shop/orders".parse().unwrap()
    }

    fn of_source(role: &Role, domain: Option<&str>, source: &Source) -> Vec<String> {
        let group = group();
        let it = GroupUse {
            group: &group,
            source,
            makes_streams: false,
            is_deleted: false,
        };
        of(role, "lockstep", domain, &[it]).publish
    }

    fn creates(publish: &[String], stream: &str) -> Vec<String> {
        let of_stream = format!("CONSUMER.CREATE.{stream}.");
        let created = publish.iter().filter_map(|subject| {
            subject
                .split_once(&of_stream)
                .map(|(_, form)| form.to_owned())
        });
        created.collect()
    }

    #[test]
    fn consumers_are_allowed_in_the_form_in_which_a_layout_makes_them() {
        let one = Source::Stream {
            stream: "ORDERS".to_owned(),
            partitions: 3,
            filter: "orders.{partition}.>".to_owned(),
            transform: None,
        };
        let publish = of_source(&Role::Member(group()), None, &one);
        assert_eq!(creates(&publish, "ORDERS"), ["*.orders.*.>"]);
        let many = Source::Streams {
            pattern: "o-{partition}".to_owned(),
            partitions: 2,
            subjects: String::new(),
        };
        let publish = of_source(&Role::Member(group()), None, &many);
        assert_eq!(creates(&publish, "o-0"), ["*"]);
        assert_eq!(creates(&publish, "o-1"), ["*"]);
        let part = |filter: Option<&str>| PartitionSource {
            stream: "S".to_owned(),
            filter: filter.map(str::to_owned),
        };
        let list = Source::List(vec![part(Some("a")), part(Some("b.*")), part(Some("a"))]);
        let publish = of_source(&Role::Member(group()), None, &list);
        assert_eq!(creates(&publish, "S"), ["*.a", "*.b.*"]);
    }

    #[test]
    fn a_domain_stands_in_every_call_and_in_no_key() {
        let source = Source::List(Vec::new());
        for role in [
            Role::Controller,
            Role::Coordinator,
            Role::Member(group()),
            Role::Cli,
        ] {
            let publish = of_source(&role, Some("leaf"), &source);
            assert!(
                publish.iter().all(|it| !it.starts_with("$JS.API")),
                "{publish:?}"
            );
            assert!(publish.contains(&"$JS.leaf.API.INFO".to_owned()));
        }
    }

    #[test]
    fn streams_are_deleted_only_where_a_group_asks_for_it() {
        let source = Source::List(Vec::new());
        let publish = of_source(&Role::Controller, None, &source);
        assert!(
            !publish
                .iter()
                .any(|it| it.contains("DELETE.*") && it.contains("STREAM"))
        );
    }
}
