//! `lockstep permissions`

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::json;

use super::connection::parse_prefix;
use super::{Failure, output};
use crate::crd::{self, DeletionPolicy, Manifest, ValidGroup};
use crate::nats::Role;
use crate::nats::permissions::{self, Permissions, Subject};

/// Print the NATS permissions that a role needs for the groups of a manifest
#[derive(Args, Debug)]
#[command(
    after_help = "Prints `permissions` of a user as the server's configuration has them, for workers once per group: \
                  each should have a user of its own. Prefix and domain are those of a NatsConnection in the \
                  file, if there is one.\n\
                  Example: lockstep permissions worker orders.yaml"
)]
pub(super) struct Flags {
    /// Who is to be allowed something: a member, who looks, the controller, or a coordinator
    #[arg(value_enum)]
    role: RoleFlag,
    /// The manifest, as it is applied
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// First part of the buckets' names [default: lockstep]
    #[arg(long, env = "LOCKSTEP_BUCKET_PREFIX", value_name = "PREFIX", value_parser = parse_prefix)]
    bucket_prefix: Option<String>,
    /// The domain behind a leaf node
    #[arg(long, env = "LOCKSTEP_JETSTREAM_DOMAIN", value_name = "NAME")]
    jetstream_domain: Option<String>,
    /// Format: the server's configuration, or JSON
    #[arg(
        long,
        short,
        env = "LOCKSTEP_OUTPUT",
        value_enum,
        default_value = "conf"
    )]
    output: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RoleFlag {
    Worker,
    Cli,
    Controller,
    Coordinator,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    Conf,
    Json,
}

/// Where a connection keeps groups.
#[derive(Default)]
struct Place {
    prefix: Option<String>,
    domain: Option<String>,
}

// === impl Flags ===

impl Flags {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let file = self.file.display().to_string();
        let text = std::fs::read_to_string(&self.file)
            .map_err(|e| Failure::usage(format!("{file} cannot be read: {e}")))?;
        let groups = crd::read_groups(&file, &text).map_err(Failure::usage)?;
        if groups.is_empty() {
            return Err(Failure::usage(format!(
                "{file} has no ConsumerGroup; permissions depend on what groups read"
            )));
        }
        let place = place(&file, &text)?;
        let lists: Vec<(String, Permissions)> = match self.role {
            RoleFlag::Worker => {
                let of = |it: &ValidGroup| {
                    let member = Role::Member(it.group.clone());
                    (it.group.to_string(), self.needs(&member, &groups, &place))
                };
                groups.iter().map(of).collect()
            }
            RoleFlag::Cli => vec![self.of_all(&Role::Cli, &groups, &place)],
            RoleFlag::Controller => vec![self.of_all(&Role::Controller, &groups, &place)],
            RoleFlag::Coordinator => vec![self.of_all(&Role::Coordinator, &groups, &place)],
        };
        output::write(&self.shown(&lists))
    }

    fn of_all(&self, role: &Role, groups: &[ValidGroup], place: &Place) -> (String, Permissions) {
        let names: Vec<String> = groups.iter().map(|it| it.group.to_string()).collect();
        (names.join(", "), self.needs(role, groups, place))
    }

    fn needs(&self, role: &Role, groups: &[ValidGroup], place: &Place) -> Permissions {
        let subjects: Vec<Subject<'_>> = groups
            .iter()
            .map(|it| Subject {
                group: &it.group,
                source: &it.source,
                makes_streams: !it.create.is_empty(),
                is_deleted: it.deletion_policy == DeletionPolicy::Delete,
            })
            .collect();
        let prefix = self.bucket_prefix.as_deref().or(place.prefix.as_deref());
        let domain = self.jetstream_domain.as_deref().or(place.domain.as_deref());
        permissions::of(role, prefix.unwrap_or("lockstep"), domain, &subjects)
    }

    fn shown(&self, lists: &[(String, Permissions)]) -> String {
        match self.output {
            Form::Conf => {
                let lists = lists.iter();
                let lists =
                    lists.map(|(of, needs)| format!("# {} of {of}\n{needs}", self.role.word()));
                lists.collect::<Vec<_>>().concat()
            }
            Form::Json => {
                let lists = lists.iter().map(|(of, needs)| {
                    json!({
                        "role": self.role.word(),
                        "groups": of,
                        "publish": needs.publish,
                        "subscribe": needs.subscribe,
                    })
                });
                format!("{:#}\n", json!(lists.collect::<Vec<_>>()))
            }
        }
    }
}

fn place(file: &str, text: &str) -> Result<Place, Failure> {
    let manifests = crd::read(file, text).map_err(Failure::usage)?;
    let mut connections = manifests.into_iter().filter_map(|(_, it)| match it {
        Manifest::NatsConnection(connection) => Some(connection.spec),
        Manifest::ConsumerGroup(_) | Manifest::OffsetReset(_) => None,
    });
    let place = connections.next().map(|spec| Place {
        prefix: Some(spec.bucket.prefix),
        domain: spec.jetstream_domain,
    });
    Ok(place.unwrap_or_default())
}

// === impl RoleFlag ===

impl RoleFlag {
    fn word(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Cli => "cli",
            Self::Controller => "controller",
            Self::Coordinator => "coordinator",
        }
    }
}
